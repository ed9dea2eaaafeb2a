//! The operational laws on what was counted (P. Denning and J. Buzen, "The Operational Analysis of Queueing
//! Network Models", 1978): a centre that one holds at a time and that a call wants for `D` nanoseconds serves
//! at most 1/D calls, so that all together do at most 1/D_max, however many CPUs there are; and N CPUs on
//! which a call takes T do at most N/T.

use crate::drive::Ran;
use crate::seen::Seen;

/// Nanoseconds until a line that another CPU has changed is here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HandOver {
    /// A line that the next step waits for: that of a lock.
    pub alone: f64,
    /// A line of several whose addresses are known beforehand: they come together.
    pub among_many: f64,
}

impl HandOver {
    pub const NONE: HandOver = HandOver { alone: 0.0, among_many: 0.0 };
}

/// The demand of one call, on average, on one kind of centre.
#[derive(Clone, Debug, PartialEq)]
pub struct Centre {
    pub name: String,
    /// How many there are that were used, and the block of the busiest.
    pub instances: usize,
    pub bytes: u64,
    /// Acquisitions of all, and of the busiest, a call.
    pub taken: f64,
    pub taken_busiest: f64,
    /// One hold, in nanoseconds, without lines that come from elsewhere; of that, in requests of the system.
    pub hold: f64,
    pub asking: f64,
    /// Lines that come from another CPU while it is held, and around.
    pub lines: f64,
    /// Nanoseconds a call of the busiest one.
    pub demand: f64,
}

/// One pattern on so many CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// CPU time of a call, with all that other CPUs have to hand over.
    pub call: f64,
    pub faults: f64,
    /// Lines that another CPU wrote to, a call, outside of all holds.
    pub lines_outside: f64,
    pub centres: Vec<Centre>,
}

/// The counts of one pattern: a run with counts, one without, one with no heap at all, and what
/// stepping saw.
pub struct Counted<'a> {
    pub counted: &'a Ran,
    pub timed: &'a Ran,
    pub nothing: &'a Ran,
    pub seen: Option<&'a Seen>,
}

/// The lock of the kernel, which every change of the address space takes alone.
pub const ADDRESS_SPACE: &str = "mmap_lock (kernel)";

impl Model {
    pub fn of(of: &Counted<'_>, hand_over: HandOver) -> Model {
        let calls = of.counted.calls.max(1) as f64;
        let mut centres: Vec<Centre> = Vec::new();
        for lock in of.counted.locks.iter().filter(|lock| lock.taken > 0) {
            let lines = of.lines_of(&lock.name);
            let taken = lock.taken as f64;
            let demand =
                (lock.nanoseconds + taken * (hand_over.alone + hand_over.among_many * lines)) / calls;
            let centre = match centres.iter_mut().find(|centre| centre.name == lock.name) {
                Some(centre) => centre,
                None => {
                    let name = lock.name.clone();
                    centres.push(Centre {
                        name,
                        instances: 0,
                        bytes: 0,
                        taken: 0.0,
                        taken_busiest: 0.0,
                        hold: 0.0,
                        asking: 0.0,
                        lines,
                        demand: -1.0,
                    });
                    centres.last_mut().expect("just put there")
                }
            };
            centre.instances += 1;
            centre.taken += taken / calls;
            if demand > centre.demand {
                (centre.demand, centre.bytes, centre.taken_busiest) = (demand, lock.bytes, taken / calls);
                (centre.hold, centre.asking) = (lock.nanoseconds / taken, lock.asked_nanoseconds / taken);
            }
        }
        centres.extend(of.address_space(hand_over));
        let locks = centres.iter().map(|centre| centre.taken).sum::<f64>();
        let lines_inside = centres.iter().map(|centre| centre.taken * centre.lines).sum::<f64>();
        let lines_outside = of.seen.map_or(0.0, |seen| seen.moved_outside as f64 / seen.calls.max(1) as f64);
        let alone = (of.timed.nanoseconds / of.timed.calls.max(1) as f64
            - of.nothing.nanoseconds / of.nothing.calls.max(1) as f64)
            .max(1.0);
        centres.sort_by(|one, other| other.demand.total_cmp(&one.demand));
        Model {
            call: alone + hand_over.alone * locks + hand_over.among_many * (lines_inside + lines_outside),
            faults: of.timed.faults as f64 / of.timed.calls.max(1) as f64,
            lines_outside,
            centres,
        }
    }

    /// From so many CPUs on this centre is what all wait for.
    pub fn saturates_at(&self, centre: &Centre) -> f64 {
        self.call / centre.demand.max(f64::MIN_POSITIVE)
    }

    /// Calls a second that so many CPUs do at most, where nothing but these is done.
    pub fn bound(&self, cpus: usize) -> f64 {
        self.bound_beside(cpus, 0.0)
    }

    /// The same where a program works so many nanoseconds beside each call.
    pub fn bound_beside(&self, cpus: usize, work: f64) -> f64 {
        let most = self.centres.iter().map(|centre| centre.demand).fold(0.0, f64::max);
        (cpus as f64 / (self.call + work)).min(1.0 / most.max(f64::MIN_POSITIVE)) * 1e9
    }
}

impl Counted<'_> {
    /// Lines that one hold of such a lock waits for.
    fn lines_of(&self, name: &str) -> f64 {
        let of = |seen: &Seen| {
            let lock = seen.locks.iter().find(|lock| lock.name == name)?;
            (lock.taken > 0).then(|| lock.moved as f64 / lock.taken as f64)
        };
        self.seen.and_then(of).unwrap_or(0.0)
    }

    fn address_space(&self, hand_over: HandOver) -> Option<Centre> {
        let calls = self.counted.calls.max(1) as f64;
        let alone = self.counted.requests.iter().filter(|request| request.is_alone);
        let (count, nanoseconds) =
            alone.fold((0, 0.0), |(count, all), request| (count + request.count, all + request.nanoseconds));
        let taken = count as f64;
        (count > 0).then(|| Centre {
            name: ADDRESS_SPACE.to_owned(),
            instances: 1,
            bytes: 0,
            taken: taken / calls,
            taken_busiest: taken / calls,
            hold: nanoseconds / taken,
            asking: nanoseconds / taken,
            lines: 0.0,
            demand: (nanoseconds + taken * hand_over.alone) / calls,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{Lock, Request};

    fn lock(name: &str, bytes: u64, taken: u64, nanoseconds: f64) -> Lock {
        let (name, address) = (name.to_owned(), bytes);
        Lock {
            name,
            bytes,
            address,
            taken,
            nanoseconds,
            asked: 0.0,
            asked_nanoseconds: 0.0,
            aside: 0,
            aside_nanoseconds: 0.0,
        }
    }

    fn ran(nanoseconds: f64) -> Ran {
        Ran { calls: 1000, nanoseconds, ..Ran::default() }
    }

    #[test]
    fn the_busiest_instance_bounds_all_and_a_line_counts_in_the_hold_and_in_the_call() {
        let locks = vec![
            lock("spans", 64, 100, 6_000.0),
            lock("spans", 128, 300, 4_000.0),
            lock("state", 0, 10, 500.0),
        ];
        let request =
            Request { name: "mmap".into(), is_alone: true, is_beside: false, count: 1, nanoseconds: 960.0 };
        let counted = Ran { locks, requests: vec![request], ..ran(0.0) };
        let of = Counted { counted: &counted, timed: &ran(60_000.0), nothing: &ran(10_000.0), seen: None };
        let model = Model::of(&of, HandOver { alone: 40.0, among_many: 7.0 });
        let [spans, space, state] = &model.centres[..] else { panic!("{:?}", model.centres) };
        assert_eq!((spans.bytes, spans.instances, spans.demand), (128, 2, 16.0));
        assert_eq!((space.name.as_str(), space.demand, state.demand), (ADDRESS_SPACE, 1.0, 0.9));
        assert_eq!(model.call, 50.0 + 0.411 * 40.0);
        assert_eq!(model.saturates_at(spans), model.call / 16.0);
        assert_eq!(model.bound(1), 1e9 / model.call);
        assert_eq!((model.bound(64), model.bound(256)), (1e9 / 16.0, 1e9 / 16.0));
        assert_eq!(model.bound_beside(2, 1000.0), 2e9 / (model.call + 1000.0));
    }

    #[test]
    fn lines_that_stepping_saw_make_holds_longer() {
        let counted = Ran { locks: vec![lock("state", 0, 1000, 10_000.0)], ..ran(0.0) };
        let of_lock = crate::seen::OfLock { name: "state".into(), taken: 10, moved: 30 };
        let seen = Seen { calls: 100, moved_outside: 50, locks: vec![of_lock], ..Seen::default() };
        let of = Counted { counted: &counted, timed: &ran(50_000.0), nothing: &ran(0.0), seen: Some(&seen) };
        let model = Model::of(&of, HandOver { alone: 100.0, among_many: 10.0 });
        assert_eq!(model.centres[0].demand, 10.0 + 100.0 + 30.0);
        assert_eq!(model.call, 50.0 + 100.0 + 10.0 * 3.5);
    }
}
