//! Settings of the machine that a daemon's memory and speed depend on.
//!
//! Owns those paths of procfs and sysfs. Every answer may be missing.

use super::root::Root;
use std::collections::BTreeMap;
use std::fs;

/// Bytes of memory, from /proc/meminfo.
pub fn memory(root: &Root) -> Option<u64> {
    meminfo(root, "MemTotal")
}

/// Of it what programs could still take, as the kernel estimates.
pub fn available(root: &Root) -> Option<u64> {
    meminfo(root, "MemAvailable")
}

pub fn swap(root: &Root) -> Option<u64> {
    meminfo(root, "SwapTotal")
}

fn meminfo(root: &Root, name: &str) -> Option<u64> {
    let text = root.text("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

pub fn swappiness(root: &Root) -> Option<u64> {
    root.number("/proc/sys/vm/swappiness")
}

pub fn most_mappings(root: &Root) -> Option<u64> {
    root.number("/proc/sys/vm/max_map_count")
}

/// The most files that any process can be allowed to have open.
pub fn most_open_files(root: &Root) -> Option<u64> {
    root.number("/proc/sys/fs/nr_open")
}

/// `always`, `madvise` or `never`.
pub fn huge_pages(root: &Root) -> Option<String> {
    let text = root.text("/sys/kernel/mm/transparent_hugepage/enabled")?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_string())
}

pub fn cpus(root: &Root) -> Option<u64> {
    let text = root.text("/proc/stat")?;
    let of_one = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    Some(text.lines().filter(of_one).count() as u64).filter(|count| *count > 0)
}

/// How many CPUs follow which frequency governor; empty where the kernel does not steer the frequency.
pub fn governors(root: &Root) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    let entries = fs::read_dir(root.path("/sys/devices/system/cpu")).into_iter().flatten().flatten();
    for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
        if let Some(governor) = root.text(format!("/sys/devices/system/cpu/{name}/cpufreq/scaling_governor"))
        {
            *count.entry(governor).or_insert(0) += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_in_brackets_is_in_force() {
        let files = [("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")];
        let (_folder, root) = Root::with_files(&files);
        assert_eq!(huge_pages(&root).as_deref(), Some("madvise"));
        assert_eq!(memory(&root), None);
    }

    #[test]
    fn this_machine_has_memory_and_cpus() {
        assert!(memory(&Root::real()).unwrap() > 1 << 20);
        assert!(cpus(&Root::real()).unwrap() >= 1);
    }
}
