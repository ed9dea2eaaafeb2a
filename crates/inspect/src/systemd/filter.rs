//! The action of a unit's `SystemCallFilter=` (systemd.exec(5)) for a call.
//!
//! Owns the groups, for the calls that are asked about alone: `systemd-analyze syscall-filter` lists them, and a test compares.

use super::Unit;
use crate::root::Root;
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Passes,
    /// With an error.
    Fails,
    /// The process is ended.
    Ends,
}

/// The calls, by the group that names each itself; `@system-service` has the members of all groups here but the last.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "@default",
        &[
            "mmap",
            "munmap",
            "mprotect",
            "futex",
            "membarrier",
            "clock_gettime",
            "sched_getaffinity",
            "getrandom",
            "gettid",
            "getpid",
            "geteuid",
            "rseq",
            "prlimit64",
        ],
    ),
    ("@system-service", &["madvise", "mremap", "sysinfo", "uname"]),
    ("@file-system", &["openat", "newfstatat", "renameat2", "fstat", "ftruncate", "close"]),
    ("@basic-io", &["read", "write", "close", "close_range", "pread64"]),
    ("@process", &["prctl", "clone3"]),
    ("@signal", &["rt_sigaction", "rt_sigprocmask"]),
];
const DEFAULT: &str = "@default";
const SERVICE: &str = "@system-service";
const EVERYTHING: &str = "@known";

pub struct Filter {
    lists_what_passes: bool,
    /// The calls on the list, and the action for them.
    listed: BTreeMap<&'static str, Answer>,
    otherwise: Answer,
}

impl Filter {
    /// None where the unit has none.
    pub fn of(root: &Root, unit: &Unit) -> Option<Filter> {
        let number = unit.service_setting(root, "SystemCallErrorNumber");
        let refusal = match number.as_deref() {
            None | Some("kill") => Answer::Ends,
            Some(_) => Answer::Fails,
        };
        Self::read(&unit.service_settings(root, "SystemCallFilter"), refusal)
    }

    /// The first value decides what the list is; those of the other kind take from it.
    fn read(values: &[String], refusal: Answer) -> Option<Filter> {
        let lists_what_passes = !values.first()?.starts_with('~');
        let mut filter = Filter { lists_what_passes, listed: BTreeMap::new(), otherwise: refusal };
        if lists_what_passes {
            filter.add(DEFAULT, Answer::Passes);
        }
        for value in values {
            let (words, adds) = match value.strip_prefix('~') {
                Some(words) => (words, !lists_what_passes),
                None => (value.as_str(), lists_what_passes),
            };
            for word in words.split_ascii_whitespace() {
                let (name, number) =
                    word.split_once(':').map_or((word, None), |(name, number)| (name, Some(number)));
                match number {
                    _ if lists_what_passes && adds => filter.add(name, Answer::Passes),
                    Some(number) if number != "kill" => filter.add(name, Answer::Fails),
                    Some(_) => filter.add(name, Answer::Ends),
                    None if adds => filter.add(name, refusal),
                    None => filter.listed.retain(|call, _| members(name).all(|member| member != *call)),
                }
            }
        }
        Some(filter)
    }

    fn add(&mut self, name: &str, answer: Answer) {
        self.listed.extend(members(name).map(|call| (call, answer)));
    }

    pub fn answer(&self, call: &str) -> Answer {
        match (self.listed.get(call), self.lists_what_passes) {
            (Some(answer), _) => *answer,
            (None, true) => self.otherwise,
            (None, false) => Answer::Passes,
        }
    }

    /// Those of the calls for which the process would be ended.
    pub fn ending<'a>(&self, calls: &[&'a str]) -> Vec<&'a str> {
        calls.iter().copied().filter(|call| self.answer(call) == Answer::Ends).collect()
    }
}

/// The calls that a word of the setting means, as far as they are known here.
fn members(name: &str) -> impl Iterator<Item = &'static str> + use<> {
    let name = name.to_owned();
    GROUPS.into_iter().flat_map(move |(group, calls)| {
        let is_whole = name == group || name == SERVICE || name == EVERYTHING;
        let name = name.clone();
        calls.iter().copied().filter(move |call| is_whole || name == *call)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn filter(values: &[&str], refusal: Answer) -> Filter {
        let values: Vec<String> = values.iter().map(|value| (*value).to_string()).collect();
        Filter::read(&values, refusal).unwrap()
    }

    #[test]
    fn the_first_value_says_what_the_list_is() {
        // redis, haveged, pdns of Debian 12.
        let redis = filter(&["@system-service", "~ @privileged @resources"], Answer::Ends);
        assert!(redis.ending(&["mmap", "madvise", "openat", "prctl", "close_range"]).is_empty());
        assert_eq!(redis.answer("mincore"), Answer::Ends);
        let haveged = filter(
            &[
                "@basic-io @file-system @io-event @network-io @signal",
                "arch_prctl brk ioctl mprotect sysinfo",
            ],
            Answer::Ends,
        );
        assert_eq!(
            haveged.ending(&["mmap", "madvise", "mremap", "sysinfo", "prctl"]),
            ["madvise", "mremap", "prctl"]
        );
        let pdns = filter(&["~ @clock @debug @module"], Answer::Ends);
        assert!(pdns.ending(&["mmap", "madvise", "sched_setscheduler"]).is_empty());
    }

    #[test]
    fn values_of_the_other_kind_take_from_the_list_and_errors_do_not_end() {
        let some = filter(&["~@process @basic-io", "prctl", "~madvise:EPERM"], Answer::Ends);
        assert_eq!(some.answer("prctl"), Answer::Passes);
        assert_eq!(some.answer("madvise"), Answer::Fails);
        assert_eq!(some.answer("write"), Answer::Ends);
        let refusing = filter(&["@default"], Answer::Fails);
        assert_eq!((refusing.answer("openat"), refusing.answer("mmap")), (Answer::Fails, Answer::Passes));
        assert_eq!(filter(&["@system-service", "~madvise"], Answer::Ends).answer("madvise"), Answer::Ends);
    }

    /// systemd's own list, where it is there.
    #[test]
    fn the_groups_are_those_of_this_machines_systemd() {
        for (group, calls) in GROUPS {
            let Ok(output) = Command::new("systemd-analyze").args(["syscall-filter", group]).output() else {
                return;
            };
            if !output.status.success() {
                return;
            }
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let theirs: Vec<&str> = text.lines().skip(1).map(str::trim).collect();
            for call in calls {
                assert!(theirs.contains(call), "{group} has no {call}");
            }
            assert!(!theirs.contains(&"mincore"), "{group}");
        }
    }
}
