//! A process on vcmalloc that holds much more than its program uses.

use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::survey::{Daemon, Survey};
use std::time::Duration;
use vcm_inspect::window::{self, Giver, Seen, Snapshot};
use vcm_report::unit::amount;
use vcmalloc_core::heap::Stats;

pub const CHECK: Check = Check {
    id: "memory-held",
    severity: Severity::Note,
    looks_for: "a heap of vcmalloc that holds more than twice what the program uses, and 64 MiB more, at two looks three seconds \
                apart",
    test: Test::Each(every, test),
    why: "Idle memory is released within about two seconds. Reasons for more: caches within their limit, a few \
     blocks that pin their spans, or a process without a janitor, which releases only while it allocates.",
    source: Source {
        name: "docs/design/memory-comes-back.md",
        url: "docs/design/memory-comes-back.md#without-a-janitor",
    },
};

const WORTH_SAYING: u64 = 64 << 20;
/// Longer than memory takes to go back.
const SECOND_LOOK: Duration = Duration::from_secs(3);

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    if !daemon.allocator.kind().is_some_and(|kind| kind.is_ours()) {
        return Verdict::Fine;
    }
    // A build from before there were statistics is no fault of today's.
    if matches!(window::ours(&daemon.process), Ok(None)) {
        return Verdict::Fine;
    }
    let look = || Seen::open(daemon.process.clone())?.snapshot();
    let found = look().and_then(|first| {
        if held(&first).is_none() {
            return Ok(None);
        }
        std::thread::sleep(SECOND_LOOK);
        look().map(|second| held(&second))
    });
    match found {
        Ok(None) => Verdict::Fine,
        Ok(Some(held)) => {
            let release = format!("vcm release {}", daemon.process.id);
            let mend = match held.reason {
                Reason::Waits => [vec![release], daemon.setting("janitor", "always")].concat(),
                Reason::Free => vec![format!(
                    "{release}    # once; retain and release_delay say how much stays, and how long"
                )],
                Reason::Caches => vec![format!("{release}    # once; cache_limit bounds them")],
                Reason::Spans => {
                    vec![format!(
                        "vcm profile {} --pinned    # call sites that hold the spans",
                        daemon.process.id
                    )]
                }
                Reason::Quarantine => {
                    vec!["# the hardened library keeps freed blocks back for a while, by design".into()]
                }
            };
            Verdict::found(held.what, &mend)
        }
        Err(why) => Verdict::NotSeen(format!("its statistics: it {why}")),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reason {
    /// Free, and nobody gives it back before the process allocates.
    Waits,
    Free,
    Caches,
    Spans,
    Quarantine,
}

struct Held {
    what: String,
    reason: Reason,
}

fn held(snapshot: &Snapshot) -> Option<Held> {
    judged(&snapshot.stats, snapshot.giver)
}

fn judged(stats: &Stats, giver: Giver) -> Option<Held> {
    let used = stats.live.min(stats.resident);
    let more = stats.resident - used;
    if more <= used || more <= WORTH_SAYING {
        return None;
    }
    let free = if giver == Giver::Janitor { Reason::Free } else { Reason::Waits };
    let in_spans = (stats.free_in_spans + stats.span_tails).saturating_sub(stats.not_in_memory);
    let parts = [
        (stats.dirty_free, free, "free and not given back"),
        (stats.vcpu_caches + stats.transfer, Reason::Caches, "in caches"),
        (in_spans, Reason::Spans, "free beside blocks in use"),
        (stats.quarantined, Reason::Quarantine, "in quarantine"),
    ];
    let (bytes, reason, words) = parts.into_iter().max_by_key(|part| part.0)?;
    let alone = if reason == Reason::Waits { "; it has no janitor" } else { "" };
    let what = format!(
        "the heap holds {} for {} in use: {} {words}{alone}",
        amount(stats.resident),
        amount(used),
        amount(bytes)
    );
    Some(Held { what, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Giver = Giver::Itself { waits: false };

    fn of(live: u64, dirty_free: u64, vcpu_caches: u64, free_in_spans: u64) -> Stats {
        let mib = |count: u64| count << 20;
        let resident = mib(live + dirty_free + vcpu_caches + free_in_spans);
        Stats {
            live: mib(live),
            dirty_free: mib(dirty_free),
            vcpu_caches: mib(vcpu_caches),
            free_in_spans: mib(free_in_spans),
            resident,
            ..Stats::default()
        }
    }

    #[test]
    fn the_largest_part_is_the_reason() {
        let reason = |stats: Stats, giver| judged(&stats, giver).map(|held| held.reason);
        assert_eq!(reason(of(100, 150, 20, 10), Giver::Janitor), Some(Reason::Free));
        assert_eq!(reason(of(100, 150, 20, 10), ALONE), Some(Reason::Waits));
        assert_eq!(reason(of(10, 1, 80, 10), Giver::Janitor), Some(Reason::Caches));
        assert_eq!(reason(of(10, 1, 30, 80), ALONE), Some(Reason::Spans));
        let words = judged(&of(100, 150, 0, 0), ALONE).unwrap().what;
        assert_eq!(
            words,
            "the heap holds 250 MiB for 100 MiB in use: 150 MiB free and not given back; it has no janitor"
        );
    }

    #[test]
    fn little_more_and_less_than_twice_are_fine() {
        assert!(judged(&of(1, 20, 30, 10), Giver::Janitor).is_none());
        assert!(judged(&of(1000, 300, 300, 300), Giver::Janitor).is_none());
        assert!(judged(&Stats::default(), ALONE).is_none());
    }
}
