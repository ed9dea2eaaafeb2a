//! An allocator whose file was replaced under the running process.

use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_foreign::Shown;

pub const CHECK: Check = Check {
    id: "library-replaced",
    severity: Severity::Note,
    looks_for: "an allocator upgraded on disk while the process runs on the old one",
    test: Test::Each(every, test),
    why: "The process keeps the file that it loaded. Fixes and new defaults come with its next, perhaps \
     unplanned, start.",
    source: Source {
        name: "proc_pid_maps(5), '(deleted)'",
        url: "https://man7.org/linux/man-pages/man5/proc_pid_maps.5.html",
    },
};

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    match daemon.allocator.all().find(|allocator| allocator.is_replaced) {
        Some(old) => Verdict::found(
            format!("{} was replaced since the start; the process runs on the old one", old.object.shown()),
            &daemon.restarting(),
        ),
        None => Verdict::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::{Fake, OURS};

    #[test]
    fn a_replaced_library_is_noted() {
        let fake = Fake::new();
        let osd = fake.plain_osd();
        osd.load(&format!("{OURS} (deleted)"), "ours").environment(&[("LD_PRELOAD", OURS)]);
        // The kernel shows the old file under the range of its mapping.
        fake.link(fake.root.path(OURS).to_str().unwrap(), "/proc/103/map_files/3000-4000");
        assert!(fake.finding(&CHECK).contains(OURS));
    }

    #[test]
    fn a_present_one_is_fine() {
        let fake = Fake::new();
        fake.plain_osd().load(OURS, "ours").environment(&[("LD_PRELOAD", OURS)]);
        fake.assert_fine(&CHECK);
    }
}
