//! Open files: a process near its limit, and bricks that do not fit one process.

use crate::verbs::doctor::check::{Check, Seen, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_inspect::daemon::Role;

pub const CHECK: Check = Check {
    id: "file-limit",
    severity: Severity::Problem,
    looks_for: "a process with four fifths of its open files used, or a brick process with room for less \
                than half as many bricks again (256 directories each)",
    test: Test::Each(every, test),
    why: "At the limit a process can open no file and accept no connection: 'Too many open files'.",
    source: Source {
        name: "getrlimit(2), RLIMIT_NOFILE; GlusterFS issue 4134 for bricks",
        url: "https://man7.org/linux/man-pages/man2/getrlimit.2.html",
    },
};

pub const FILES_OF_A_BRICK: u64 = 256;

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    let Some(limit) = daemon.process.file_limit() else { return Verdict::NotSeen("its limits".into()) };
    let Some(soft) = limit.soft else { return Verdict::Fine };
    let mend = mend(daemon);
    let mut seen = Vec::new();
    if let Some(bricks) = daemon.bricks.filter(|bricks| *bricks > 1) {
        let fits = soft / FILES_OF_A_BRICK;
        if fits < bricks + bricks / 2 {
            let what = format!(
                "{bricks} bricks in one process whose limit of {soft} open files is enough for {fits}: each \
                 keeps the 256 folders of .glusterfs open"
            );
            seen.push(Seen::new(what, &mend));
        }
    }
    match daemon.process.open_files() {
        Some(open) if seen.is_empty() && open > soft / 5 * 4 => {
            seen.push(Seen::new(format!("{open} open files of {soft}"), &mend));
        }
        None if daemon.bricks.is_none() => return Verdict::NotSeen("its open files".into()),
        _ => {}
    }
    Verdict::of(seen)
}

fn mend(daemon: &Daemon) -> Vec<String> {
    let mut mend = vec![match daemon.service() {
        _ if daemon.is_contained => "# podman and docker: --ulimit nofile=1048576:1048576, then:".into(),
        Some(service) => format!("sudo systemctl edit {service}    # [Service] LimitNOFILE=1048576"),
        None => "# ulimit -n 1048576 where it is started, then:".into(),
    }];
    mend.extend(daemon.restarting());
    if daemon.role == Role::Glusterfsd {
        mend.push(
            "sudo gluster volume set all cluster.max-bricks-per-process 100    # several processes instead"
                .into(),
        );
    }
    mend
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::Fake;

    #[test]
    fn bricks_that_outgrow_the_limit_are_found() {
        let fake = Fake::new();
        let brick = fake.brick();
        brick.bricks(60).file_limit("20000", "20000");
        assert_eq!(
            fake.finding(&CHECK),
            "60 bricks in one process whose limit of 20000 open files is enough for 78: each keeps the 256 \
             folders of .glusterfs open"
        );
        assert!(fake.mend(&CHECK).contains(&"sudo pkill -x glusterfsd    # bricks outlive their glusterd, on the allocator that they have".into()));
        brick.file_limit("1048576", "1048576");
        fake.assert_fine(&CHECK);
    }

    #[test]
    fn a_process_near_its_limit_is_found() {
        let fake = Fake::new();
        let osd = fake.osd();
        for file in 0..9 {
            fake.link("/x", &format!("/proc/103/fd/{file}"));
        }
        osd.file_limit("10", "10");
        assert_eq!(fake.finding(&CHECK), "9 open files of 10");
        assert!(!CHECK.why.contains("brick"), "an OSD has none");
        osd.file_limit("unlimited", "unlimited");
        fake.assert_fine(&CHECK);
    }
}
