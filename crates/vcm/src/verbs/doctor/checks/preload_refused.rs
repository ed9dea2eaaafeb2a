//! A preload that was asked for and is not in the process.

use crate::verbs::doctor::check::{Check, Seen, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::survey::{Daemon, Survey};

pub const CHECK: Check = Check {
    id: "preload-refused",
    severity: Severity::Problem,
    looks_for: "an LD_PRELOAD in a process's environment that the loader did not load",
    test: Test::Each(every, test),
    why: "The loader says one line on stderr and goes on without the library: a wrong path, a path that \
          the unit's sandbox hides (ProtectHome, PrivateTmp), another architecture, or a program that \
          gains privileges.",
    source: Source {
        name: "ld.so(8), LD_PRELOAD",
        url: "https://man7.org/linux/man-pages/man8/ld.so.8.html",
    },
};

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    if daemon.allocator.serving.is_none() {
        return Verdict::Fine;
    }
    let seen = daemon.refused_preloads.iter().map(|entry| {
        let path = daemon.process.as_seen_by_it(std::path::Path::new(entry));
        let why = match (entry.contains('/'), path.exists()) {
            (true, false) => ", which does not exist for it",
            (true, true) => ", which exists: put there after the start, or refused",
            _ => "",
        };
        let mend = [format!(
            "journalctl -u {} | grep 'from LD_PRELOAD'    # the loader's own reason",
            daemon.service()
        )];
        Seen::new(format!("LD_PRELOAD names {entry}{why}; it is not in the process"), &mend)
    });
    Verdict::of(seen.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::{Fake, OURS};

    #[test]
    fn a_preload_that_is_not_mapped_is_found() {
        let fake = Fake::new();
        fake.plain_osd().environment(&[("LD_PRELOAD", "/opt/none.so")]);
        assert!(fake.finding(&CHECK).contains("/opt/none.so, which does not exist"));
    }

    #[test]
    fn a_preload_that_is_there_is_fine_by_path_and_by_name() {
        for name in [OURS, "libvcmalloc.so"] {
            let fake = Fake::new();
            fake.plain_osd().load(OURS, "ours").environment(&[("LD_PRELOAD", name)]);
            fake.assert_fine(&CHECK);
        }
    }
}
