//! Multiplexed bricks on an allocator that keeps what a detached brick leaves.

use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, bricks};
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_foreign::Shown;
use vcm_inspect::allocator::Kind;

pub const CHECK: Check = Check {
    id: "memory-stays",
    severity: Severity::Note,
    looks_for: "multiplexed bricks on an allocator that does not give memory back while the process is \
                idle",
    test: Test::Each(bricks, test),
    why: "When volumes are stopped or deleted their bricks leave the shared process, but most allocators \
          keep the memory: ten seconds after 116 of 120 bricks had left, glibc held 250 to 290 MiB, TCMalloc \
          270 to 320, jemalloc 190 to 360, vcmalloc 40 to 55. It releases memory within seconds, without another \
          call of malloc.",
    source: Source {
        name: "results/gluster-detach.md (vcm lab gluster detach)",
        url: "results/gluster-detach.md",
    },
};

/// From here on it is worth a restart.
const MANY: u64 = 20;

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    let Some(count) = daemon.bricks.filter(|count| *count >= MANY) else { return Verdict::Fine };
    let Some(kind) = daemon.allocator.kind() else { return Verdict::Fine };
    let conf = daemon.variable("MALLOC_CONF").map(|conf| conf.shown().printed()).unwrap_or_default();
    if kind.is_ours() || (kind == Kind::Jemalloc && conf.contains("background_thread:true")) {
        return Verdict::Fine;
    }
    Verdict::found(format!("{count} bricks in one process on {}", kind.name()), &daemon.enabling())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::{Fake, JEMALLOC, OURS};

    #[test]
    fn many_bricks_on_glibc_are_noted() {
        let fake = Fake::new();
        let brick = fake.brick();
        brick.bricks(30);
        assert_eq!(fake.finding(&CHECK), "30 bricks in one process on glibc malloc");
    }

    #[test]
    fn ours_a_background_thread_and_few_bricks_are_fine() {
        for (library, kit, conf) in [(OURS, "ours", ""), (JEMALLOC, "jemalloc", "background_thread:true")] {
            let fake = Fake::new();
            let pairs = [("LD_PRELOAD", library), ("MALLOC_CONF", conf)];
            fake.brick().load(library, kit).environment(&pairs).bricks(30);
            fake.assert_fine(&CHECK);
        }
        let fake = Fake::new();
        fake.brick().bricks(5);
        fake.assert_fine(&CHECK);
    }

    /// The ranges are those of several runs; a page that has left them makes them untrue.
    #[test]
    fn the_ranges_hold_what_the_results_say() {
        let page = include_str!("../../../../../../results/daemons.md");
        let row = page.lines().find(|line| line.starts_with("| GlusterFS, 120 bricks")).unwrap();
        let held: Vec<f64> =
            row.split('|').filter_map(|cell| cell.trim_matches([' ', '*']).parse().ok()).collect();
        let range = |words: &str| {
            let from = CHECK.why.find(words).unwrap() + words.len();
            let text = CHECK.why.get(from..).unwrap();
            let numbers = text.split([' ', ',', '.']).filter_map(|word| word.parse::<f64>().ok());
            let ends: Vec<f64> = numbers.take(2).collect();
            ends[0]..=ends[1]
        };
        // In the order of the page's columns.
        for (held, words) in held.iter().zip(["vcmalloc ", "glibc held ", "jemalloc ", "TCMalloc "]) {
            assert!(range(words).contains(held), "{words}{held}: {:?}", range(words));
        }
        assert!(held.len() >= 4, "{row}");
    }
}
