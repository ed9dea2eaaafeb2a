//! Rings that lie in the memory of the process itself: a mirror of them here, which is made like them before each round.
//!
//! The process has no descriptor and opens nothing: it may run in a container, in a chroot, behind a filter. Events
//! that it writes after the last round before its end are lost with its rings.

use crate::clock;
use crate::layout::{self, Header, PAGE, Ring, Slot};
use crate::rings::Rings;
use std::cell::{Cell, RefCell};
use std::io;
use std::mem::{offset_of, size_of};
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::atomic::fence;
use std::time::{Duration, Instant};

/// The memory of a process, at the addresses that it has there.
pub trait Remote {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
}

/// The place of the rings, and their shape.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub at: u64,
    pub rings: u32,
    pub slots: u32,
}

/// How long a process goes on without a word from us.
pub const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct Mirrored {
    remote: Box<dyn Remote>,
    at: u64,
    /// In stamps.
    patience: u64,
    rounds: Cell<u64>,
    /// How far each ring was read, as the process knows it; and where it was in the beginning.
    told: RefCell<Vec<u64>>,
    first: Vec<u64>,
    head: RefCell<Vec<u8>>,
    gone: Cell<bool>,
    /// Another recording may have begun since.
    ended: Cell<bool>,
}

/// `PATIENCE` in stamps of this clock.
pub fn patience(kind: u32) -> u64 {
    let (began, first) = (Instant::now(), clock::stamp(kind));
    std::thread::sleep(Duration::from_millis(20));
    let ticks = clock::stamp(kind).saturating_sub(first);
    let rate = u128::from(ticks) * PATIENCE.as_nanos() / began.elapsed().as_nanos().max(1);
    rate.min(u64::MAX.into()) as u64
}

impl Mirrored {
    pub fn new(remote: Box<dyn Remote>, place: &Place, patience: u64) -> io::Result<Mirrored> {
        let mut head = vec![0; layout::slots_at(place.rings)];
        remote.read(place.at, &mut head)?;
        let first = (0..place.rings as usize).map(|ring| word(&head, ring_at(ring) + offset_of!(Ring, tail)));
        let first: Vec<u64> = first.collect();
        Ok(Mirrored {
            remote,
            at: place.at,
            patience,
            rounds: Cell::new(0),
            told: RefCell::new(first.clone()),
            first,
            head: RefCell::new(head),
            gone: Cell::new(false),
            ended: Cell::new(false),
        })
    }

    /// The place where reading begins, of each ring.
    pub fn first(&self) -> &[u64] {
        &self.first
    }

    pub fn is_gone(&self) -> bool {
        self.gone.get()
    }

    /// Bytes of the process's memory that the rings have taken since the beginning.
    pub fn touched(&self) -> u64 {
        let slot = size_of::<Slot>() as u64;
        let told = self.told.borrow();
        let used = told.iter().zip(&self.first).map(|(told, first)| told.wrapping_sub(*first));
        used.map(|slots| (slots * slot).next_multiple_of(PAGE as u64)).sum::<u64>()
    }

    pub fn fetch(&self, rings: &Rings) {
        if let Err(_error) = self.bring(rings) {
            self.gone.set(true);
        }
    }

    fn bring(&self, rings: &Rings) -> io::Result<()> {
        let head = &mut *self.head.borrow_mut();
        self.remote.read(self.at, head)?;
        // The slots are read after the heads of their rings.
        fence(SeqCst);
        let header = rings.header();
        header.waits.store(word(head, offset_of!(Header, waits)), Relaxed);
        header.waited_nanoseconds.store(word(head, offset_of!(Header, waited_nanoseconds)), Relaxed);
        let slots = u64::from(header.slots);
        for index in 0..header.rings {
            let at = ring_at(index as usize);
            let ring = rings.ring(index);
            let (tail, until) = (ring.tail.load(Relaxed), word(head, at + offset_of!(Ring, head)));
            let mut place = tail;
            while place < until && until - tail <= slots {
                let length = (slots - place % slots).min(until - place);
                let here = rings.slots_of(index, place, length as usize);
                let there = (u64::from(index) * slots + place % slots) * size_of::<Slot>() as u64;
                let first = layout::slots_at(header.rings) as u64;
                self.remote.read(self.at + first + there, here)?;
                place += length;
            }
            ring.lost.store(word(head, at + offset_of!(Ring, lost)), Relaxed);
            ring.head.store(place, Release);
        }
        Ok(())
    }

    /// Tells the process how far its rings were read, and that we are here.
    pub fn tell(&self, rings: &Rings) {
        if let Err(_error) = self.write(rings) {
            self.gone.set(true);
        }
    }

    fn write(&self, rings: &Rings) -> io::Result<()> {
        for (index, told) in self.told.borrow_mut().iter_mut().enumerate() {
            let tail = rings.ring(index as u32).tail.load(Relaxed);
            if tail != *told {
                let at = ring_at(index) + offset_of!(Ring, tail);
                self.remote.write(self.at + at as u64, &tail.to_le_bytes())?;
                *told = tail;
            }
        }
        self.rounds.set(self.rounds.get() + 1);
        let rounds = self.at + offset_of!(Header, rounds) as u64;
        self.remote.write(rounds, &self.rounds.get().to_le_bytes())?;
        self.until(clock::stamp(rings.header().clock).saturating_add(self.patience))
    }

    fn until(&self, stamp: u64) -> io::Result<()> {
        self.remote.write(self.at + offset_of!(Header, until) as u64, &stamp.to_le_bytes())
    }

    /// The next event ends it.
    pub fn end(&self) {
        if !self.ended.replace(true) && self.until(1).is_err() {
            self.gone.set(true);
        }
    }
}

fn ring_at(index: usize) -> usize {
    PAGE + index * size_of::<Ring>()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}
