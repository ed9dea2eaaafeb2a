//! Freed runs whose guards the system does not open: kept until it does, and used again as they are meanwhile.

use crate::base::ceilings::MAPPED_FENCES;
use crate::base::sync::{AtomicUsize, Ordering};

/// In a place that somebody is writing.
const BUSY: usize = 1;

/// The runs: no more than can have guards that are mappings. Zeroed there are none.
pub struct Stuck {
    runs: [AtomicUsize; MAPPED_FENCES],
    /// The place of the guards in each, in the caller's words; 0 if the whole run is closed.
    guards: [AtomicUsize; MAPPED_FENCES],
    /// At least as many as there are, and places from the start that were ever used.
    count: AtomicUsize,
    used: AtomicUsize,
}

impl Stuck {
    pub const fn new() -> Self {
        Stuck {
            runs: [const { AtomicUsize::new(0) }; MAPPED_FENCES],
            guards: [const { AtomicUsize::new(0) }; MAPPED_FENCES],
            count: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
        }
    }

    pub fn put(&self, run: usize, guard: usize) {
        let free = |place: &AtomicUsize| {
            place.load(Ordering::Relaxed) == 0
                && place.compare_exchange(0, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut places = self.runs.iter().zip(&self.guards).enumerate();
        if let Some((index, (place, its_guard))) = places.find(|(_, (place, _))| free(place)) {
            its_guard.store(guard, Ordering::Relaxed);
            self.used.fetch_max(index + 1, Ordering::Relaxed);
            // Release pairs with the Acquire in `take`: a thread that finds the run sees its guard.
            place.store(run, Ordering::Release);
        } else {
            // Marks that a filter of the program's keeps from being taken away, thousands of them: the run stays closed.
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes out a run that `suits`, which is asked with its start and where its guards are.
    pub fn take(&self, suits: impl Fn(usize, usize) -> bool) -> Option<usize> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let places = self.runs.iter().zip(&self.guards).take(self.used.load(Ordering::Relaxed));
        places.map(|(place, guard)| take_from(place, guard, &suits)).find_map(|run| {
            if run.is_some() {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
            run
        })
    }
}

fn take_from(
    place: &AtomicUsize,
    guard: &AtomicUsize,
    suits: impl Fn(usize, usize) -> bool,
) -> Option<usize> {
    let run = place.load(Ordering::Relaxed);
    if run <= BUSY || place.compare_exchange(run, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return None;
    }
    let suits = suits(run, guard.load(Ordering::Relaxed));
    place.store(if suits { 0 } else { run }, Ordering::Release);
    suits.then_some(run)
}
