//! The resources that a process uses and may use: memory, threads, files, mappings, its control group.
//!
//! Owns those formats of procfs and cgroupfs. Every answer may be missing: another user's process, an old
//! kernel.

use super::process::Process;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use vcm_foreign::file;

/// A limit of the kernel: soft and hard, none where it is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub soft: Option<u64>,
    pub hard: Option<u64>,
}

/// A file of procfs that has a name and a value on each line.
pub struct Lines(String);

impl Lines {
    /// Without its name and unit.
    fn text(&self, name: &str) -> Option<&str> {
        let line = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.trim().trim_end_matches(" kB"))
    }

    /// A figure in bytes that the kernel gives in kilobytes.
    pub fn bytes(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
    }
}

/// Any user with a control group may name those below it freely; a unit has no other letters (systemd.unit(5)).
fn is_unit(name: &str) -> bool {
    name.chars().all(|letter| letter.is_ascii_alphanumeric() || ":-_.\\@".contains(letter))
}

/// The bytes in memory by /proc/PID/statm; none of a process without memory.
pub(super) fn pages_in_memory(statm: &[u8]) -> Option<u64> {
    let pages: u64 = str::from_utf8(statm).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()?;
    // SAFETY: asks for a number.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    (pages > 0).then(|| pages * page)
}

impl Process {
    pub(super) fn status_lines(&self) -> io::Result<Lines> {
        file::text_of_kernel(&self.file("status")).map(Lines)
    }

    /// A line of /proc/PID/status, without its name and unit.
    pub fn status(&self, name: &str) -> Option<String> {
        self.status_lines().ok()?.text(name).map(str::to_string)
    }

    /// A line of /proc/PID/status that the kernel gives in kilobytes, in bytes.
    pub fn status_bytes(&self, name: &str) -> Option<u64> {
        self.status_lines().ok()?.bytes(name)
    }

    /// The sums over all mappings.
    pub fn rollup(&self) -> io::Result<Lines> {
        file::text_of_kernel(&self.file("smaps_rollup")).map(Lines)
    }

    /// False when the process, or who started it, has forbidden it huge pages; none on kernels before 5.0.
    pub fn may_use_huge_pages(&self) -> Option<bool> {
        self.status("THP_enabled").map(|value| value == "1")
    }

    /// How many files it may have open.
    pub fn file_limit(&self) -> Option<Limit> {
        let text = file::text_of_kernel(&self.file("limits")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        let mut words = line.split_ascii_whitespace();
        let mut next = || words.next().map(|word| word.parse().ok());
        Some(Limit { soft: next()?, hard: next()? })
    }

    pub fn open_files(&self) -> Option<u64> {
        Some(fs::read_dir(self.file("fd")).ok()?.count() as u64)
    }

    /// The paths of its open files; sockets and the like are left out.
    pub fn open_paths(&self) -> Option<Vec<PathBuf>> {
        let entries = fs::read_dir(self.file("fd")).ok()?.flatten();
        let paths = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
        Some(paths.filter(|path| path.is_absolute()).collect())
    }

    /// Mappings, of which a process may have `vm.max_map_count`.
    pub fn mappings(&self) -> Option<u64> {
        let text = file::of_kernel(&self.file("maps")).ok()?;
        (!text.is_empty()).then(|| text.iter().filter(|byte| **byte == b'\n').count() as u64)
    }

    /// The path of its control group: the unified one, or that of the memory controller.
    pub fn control_group(&self) -> Option<PathBuf> {
        self.control_group_of("memory")
    }

    fn control_group_of(&self, controller: &str) -> Option<PathBuf> {
        let text = file::text_of_kernel(&self.file("cgroup")).ok()?;
        let by = |wanted: &str| {
            text.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                controllers.split(',').any(|name| name == wanted).then(|| PathBuf::from(path))
            })
        };
        by(controller).or_else(|| by("")).or_else(|| by("name=systemd"))
    }

    /// The systemd unit that it belongs to: by systemd's own hierarchy and the unified one, and then by any, since the memory
    /// controller may have no group for each unit.
    pub fn unit(&self) -> Option<String> {
        let text = file::text_of_kernel(&self.file("cgroup")).ok()?;
        let service = |line: &str| {
            let group = line.splitn(3, ':').nth(2)?;
            let names = group.rsplit('/');
            names.filter(|name| name.ends_with(".service") && is_unit(name)).map(str::to_string).next()
        };
        let is_systemds = |line: &&str| line.contains(":name=systemd:") || line.starts_with("0::");
        text.lines().filter(is_systemds).find_map(service).or_else(|| text.lines().find_map(service))
    }

    /// The CPUs that affinity and the bandwidth of its control group let it use, rounded up, as the library
    /// counts them.
    pub fn usable_cpus(&self) -> Option<u64> {
        let mask = self.status("Cpus_allowed")?;
        let allowed: u32 = mask.chars().filter_map(|digit| Some(digit.to_digit(16)?.count_ones())).sum();
        let allowed = u64::from(allowed.max(1));
        let group = self.control_group_of("cpu");
        let quotas =
            group.iter().flat_map(|group| group.ancestors()).filter_map(|group| self.cpu_quota(group));
        Some(quotas.min().map_or(allowed, |quota| allowed.min(quota)))
    }

    /// The CPUs that the bandwidth limit of one group is worth.
    fn cpu_quota(&self, group: &Path) -> Option<u64> {
        let group = group.strip_prefix("/").ok()?;
        let unified = self.root().text(Path::new("/sys/fs/cgroup").join(group).join("cpu.max"));
        let (quota, period) = match unified {
            Some(line) => {
                let (quota, period) = line.split_once(' ')?;
                (quota.parse().ok()?, period.parse::<u64>().ok()?)
            }
            None => {
                let former = Path::new("/sys/fs/cgroup/cpu").join(group);
                // No limit is -1 there.
                let quota = self.root().number(former.join("cpu.cfs_quota_us"))?;
                (quota, self.root().number(former.join("cpu.cfs_period_us"))?)
            }
        };
        (quota > 0 && period > 0).then(|| quota.div_ceil(period))
    }

    /// The least memory limit among its control group and those above it, in bytes.
    pub fn memory_limit(&self) -> Option<u64> {
        let group = self.control_group()?;
        let limit = |folder: &Path| {
            let unified = Path::new("/sys/fs/cgroup").join(folder.strip_prefix("/").ok()?).join("memory.max");
            let former = Path::new("/sys/fs/cgroup/memory")
                .join(folder.strip_prefix("/").ok()?)
                .join("memory.limit_in_bytes");
            self.root().number(unified).or_else(|| self.root().number(former))
        };
        // The first version of control groups says "no limit" with a number close to 2^63.
        let is_limit = |bytes: &u64| *bytes < 1 << 60;
        group.ancestors().filter_map(limit).filter(is_limit).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Root;

    fn process(files: &[(&str, &str)]) -> (tempfile::TempDir, Process) {
        let (folder, root) = Root::with_files(files);
        let process = Process::in_root(&root, 7);
        (folder, process)
    }

    #[test]
    fn lines_of_status_and_limits_are_read() {
        let limits = "Limit      Soft Limit  Hard Limit  Units\nMax open files  1024  unlimited  files\n";
        let (_folder, process) =
            process(&[("/proc/7/status", "Name:\tx\nVmSwap:\t  12 kB\n"), ("/proc/7/limits", limits)]);
        assert_eq!(process.status_bytes("VmSwap"), Some(12 << 10));
        assert_eq!(process.file_limit(), Some(Limit { soft: Some(1024), hard: None }));
        assert_eq!(process.may_use_huge_pages(), None);
    }

    #[test]
    fn the_least_limit_above_a_group_counts() {
        let group = "/sys/fs/cgroup/system.slice";
        let (_folder, process) = process(&[
            ("/proc/7/cgroup", "0::/system.slice/system-ceph\\x2dosd.slice/ceph-osd@3.service\n"),
            (&format!("{group}/system-ceph\\x2dosd.slice/ceph-osd@3.service/memory.max"), "max\n"),
            (&format!("{group}/system-ceph\\x2dosd.slice/memory.max"), "8192\n"),
            (&format!("{group}/memory.max"), "9000\n"),
        ]);
        assert_eq!(process.memory_limit(), Some(8192));
        assert_eq!(process.unit().as_deref(), Some("ceph-osd@3.service"));
    }

    #[test]
    fn a_unit_is_found_where_the_memory_controller_has_no_group_for_it() {
        let (_folder, process) = process(&[(
            "/proc/7/cgroup",
            "9:memory:/system.slice\n4:cpu,cpuacct:/\n1:name=systemd:/system.slice/redis-server.service\n0::/\n",
        )]);
        assert_eq!(process.unit().as_deref(), Some("redis-server.service"));
        process.root().write("/proc/7/cgroup", "9:memory:/system.slice/a.service\n1:name=systemd:/\n0::/\n");
        assert_eq!(process.unit().as_deref(), Some("a.service"));
    }

    #[test]
    fn usable_cpus_are_those_of_the_mask_and_of_the_tightest_group() {
        let (_folder, process) = process(&[
            ("/proc/7/status", "Cpus_allowed:\tf,0000000f\nCpus_allowed_list:\t0-3,32-35\n"),
            ("/proc/7/cgroup", "0::/a.slice/b.service\n"),
        ]);
        assert_eq!(process.usable_cpus(), Some(8));
        process.root().write("/sys/fs/cgroup/a.slice/b.service/cpu.max", "max 100000\n");
        process.root().write("/sys/fs/cgroup/a.slice/cpu.max", "250000 100000\n");
        assert_eq!(process.usable_cpus(), Some(3));
        process.root().write("/proc/7/cgroup", "4:cpu,cpuacct:/x\n1:name=systemd:/y\n");
        process.root().write("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "100000\n");
        process.root().write("/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "50000\n");
        process.root().write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
        assert_eq!(process.usable_cpus(), Some(2));
    }

    #[test]
    fn the_former_version_of_control_groups_says_no_limit_with_a_number() {
        let (_folder, process) = process(&[
            ("/proc/7/cgroup", "9:memory:/osd\n1:name=systemd:/osd\n"),
            ("/sys/fs/cgroup/memory/osd/memory.limit_in_bytes", "4096\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        assert_eq!(process.memory_limit(), Some(4096));
    }
}
