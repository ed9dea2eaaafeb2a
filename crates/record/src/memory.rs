//! The memory that is shared: made here, mapped by the process through /proc, so that it gets no descriptor.

use crate::clock;
use crate::layout::{self, Header, NAME_BYTES, Ring, Slot};
use crate::remote::{Mirrored, Place, Remote};
use crate::rings::Rings;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// All rings together; a ring is never shorter than `LEAST_SLOTS`.
const BYTES: usize = 64 << 20;
const MOST_SLOTS: usize = 1 << 16;
const LEAST_SLOTS: usize = 1 << 12;
const MOST_RINGS: usize = 256;

pub struct Memory {
    rings: Rings,
    bytes: usize,
    /// None: a mirror of what lies elsewhere.
    file: Option<File>,
    mirrored: Option<Mirrored>,
}

impl Memory {
    /// `name` is that of the program to be recorded, where it is not the first process.
    pub fn new(sample: u32, name: Option<&str>) -> io::Result<Memory> {
        // SAFETY: only asks.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.clamp(1, MOST_RINGS as i64) as usize;
        // The last is for threads without restartable sequences.
        let rings = cpus + 1;
        let slots = (BYTES / rings / size_of::<Slot>()).clamp(LEAST_SLOTS, MOST_SLOTS);
        let slots = 1 << slots.ilog2();
        let bytes = layout::bytes(rings as u32, slots);
        // SAFETY: the name ends with a zero.
        let number = unsafe { libc::memfd_create(c"vcm-record".as_ptr(), libc::MFD_CLOEXEC) };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just made and is nobody else's.
        let file = unsafe { File::from_raw_fd(number) };
        file.set_len(bytes as u64)?;
        let how = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping harms nobody.
        let at = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, how, number, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = at.cast::<Header>();
        let mut padded = [0; NAME_BYTES];
        let name = name.unwrap_or_default().bytes().take(NAME_BYTES - 1);
        padded.iter_mut().zip(name).for_each(|(place, byte)| *place = byte);
        // SAFETY: the mapping is long enough, zeroed, and nobody else has it yet.
        unsafe {
            (*at).rings = rings as u32;
            (*at).cpus = cpus as u32;
            (*at).slots = slots;
            (*at).clock = clock::best();
            (*at).sample = sample;
            (*at).name = padded;
        }
        let memory = Memory { rings: Rings(at), bytes, file: Some(file), mirrored: None };
        memory.header().magic.store(layout::MAGIC, Release);
        Ok(memory)
    }

    /// The mirror of rings that a process has in its own memory.
    pub fn remote(
        process: u32,
        sample: u32,
        place: &Place,
        patience: u64,
        remote: Box<dyn Remote>,
    ) -> io::Result<Memory> {
        let is_sound = (1..=MOST_RINGS as u32).contains(&place.rings)
            && place.slots.is_power_of_two()
            && place.slots as usize <= MOST_SLOTS;
        if !is_sound {
            return Err(io::Error::other("its rings are damaged"));
        }
        let mirrored = Mirrored::new(remote, place, patience)?;
        let bytes = layout::bytes(place.rings, place.slots);
        let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping harms nobody.
        let at = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, how, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = at.cast::<Header>();
        // SAFETY: the mapping is long enough, zeroed, and nobody else has it.
        unsafe {
            (*at).rings = place.rings;
            (*at).cpus = place.rings;
            (*at).slots = place.slots;
            (*at).clock = clock::best();
            (*at).sample = sample;
        }
        let memory = Memory { rings: Rings(at), bytes, file: None, mirrored: Some(mirrored) };
        memory.header().process.store(process, Release);
        memory.header().images.store(1, Release);
        let first = memory.mirrored.iter().flat_map(Mirrored::first);
        for (index, tail) in first.enumerate() {
            memory.ring(index as u32).tail.store(*tail, Release);
            memory.ring(index as u32).head.store(*tail, Release);
        }
        Ok(memory)
    }

    pub(crate) fn header(&self) -> &Header {
        self.rings.header()
    }

    pub(crate) fn ring(&self, index: u32) -> &Ring {
        self.rings.ring(index)
    }

    pub(crate) fn slot(&self, ring: u32, place: u64) -> &Slot {
        self.rings.slot(ring, place)
    }

    /// The value of [`crate::VARIABLE`] for the process.
    pub fn variable(&self) -> io::Result<String> {
        let file = self.file.as_ref().ok_or_else(|| io::Error::other("no memory of ours"))?;
        Ok(format!("{}/{}/{}", std::process::id(), file.as_raw_fd(), file.metadata()?.ino()))
    }

    /// For between fork and exec: this process is the one that is recorded.
    pub fn claim(&self) -> impl Fn() + Send + Sync + use<> {
        let at = self.rings.0 as usize;
        // SAFETY: the child of fork has the mapping, at the same place.
        move || unsafe { (*(at as *const Header)).process.store(libc::getpid() as u32, Release) }
    }

    /// Of a process that has rings of its own: false ends it with the next event.
    pub fn record(&self, on: bool) {
        if let Some(mirrored) = self.mirrored.as_ref().filter(|_| !on) {
            mirrored.end();
        }
        self.header().recording.store(on.into(), Release);
    }

    /// The process that is recorded, once it has begun.
    pub fn process(&self) -> Option<u32> {
        (self.images() > 0).then(|| self.header().process.load(Acquire))
    }

    pub fn images(&self) -> u32 {
        self.header().images.load(Acquire)
    }

    /// Bytes of what the process has in memory that are this: of those that it shares, and of all.
    pub fn resident(&self, shared: u64) -> u64 {
        match &self.mirrored {
            Some(mirrored) => mirrored.touched().min(self.bytes as u64),
            // They are mapped whole.
            None => shared.min(self.bytes as u64),
        }
    }

    pub fn is_remote(&self) -> bool {
        self.mirrored.is_some()
    }

    /// The process has ended, or became another program: its events since the last round went with its memory.
    pub fn is_gone(&self) -> bool {
        self.mirrored.as_ref().is_some_and(Mirrored::is_gone)
    }

    /// Makes a mirror what is mirrored.
    pub(crate) fn fetch(&self) {
        if let Some(mirrored) = self.mirrored.as_ref().filter(|mirrored| !mirrored.is_gone()) {
            mirrored.fetch(&self.rings);
        }
    }

    /// Tells the other side how far its rings were read.
    pub(crate) fn tell(&self) {
        if let Some(mirrored) = self.mirrored.as_ref().filter(|mirrored| !mirrored.is_gone()) {
            mirrored.tell(&self.rings);
        }
    }

    /// How often a thread waited for room, and for how many nanoseconds together.
    pub fn waits(&self) -> (u64, u64) {
        (self.header().waits.load(Relaxed), self.header().waited_nanoseconds.load(Relaxed))
    }

    pub(crate) fn tick(&self) {
        self.header().rounds.fetch_add(1, AcqRel);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.record(false);
        // SAFETY: our own mapping, and nothing borrows from it any more.
        unsafe { libc::munmap(self.rings.0.cast(), self.bytes) };
    }
}
