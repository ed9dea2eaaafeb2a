//! Limits of the control groups that this process is in, version 1 and 2.
//!
//! A limit may stand at the group itself or at any of its ancestors; the one that leaves the least room
//! holds.

use super::super::MemoryGroup;
use super::files;
use core::ffi::CStr;

const MOUNT_V2: &[u8] = b"/sys/fs/cgroup";
/// Of a group's file, with its end.
const LONGEST_PATH: usize = 1024;
/// The mount point of version 2 beside version 1.
const MOUNT_HYBRID: &[u8] = b"/sys/fs/cgroup/unified";

/// Calls `take` with the directory and version of each group of this process that `controller` may limit.
fn each_group(controller: &[u8], take: impl FnMut(Group<'_>)) {
    each_group_of(c"/proc/self/cgroup", controller, take);
}

/// A line for each hierarchy: thirteen in a container with version 1, whose paths have 200 bytes and more. They are read one
/// by one, with room for a path that files can be asked for; of a longer one the groups above.
fn each_group_of(list: &CStr, controller: &[u8], mut take: impl FnMut(Group<'_>)) {
    const LONGEST_LINE: usize = LONGEST_PATH + 256;
    files::each_line_in(list, &mut [0; LONGEST_LINE], &mut |line| {
        let mut fields = line.splitn(3, |byte| *byte == b':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { return false };
        if controllers.is_empty() {
            each_ancestor(path, |path| take(Group { parts: [MOUNT_V2, b"", path], version: 2 }));
            each_ancestor(path, |path| take(Group { parts: [MOUNT_HYBRID, b"", path], version: 2 }));
        } else if controllers.split(|byte| *byte == b',').any(|name| name == controller) {
            let mount: &[u8] = match controller {
                b"cpu" => b"/sys/fs/cgroup/cpu",
                b"cpuset" => b"/sys/fs/cgroup/cpuset",
                _ => b"/sys/fs/cgroup/memory",
            };
            each_ancestor(path, |path| take(Group { parts: [mount, b"", path], version: 1 }));
        }
        false
    });
}

/// The group and everything above it, down to the mount itself.
fn each_ancestor(path: &[u8], mut take: impl FnMut(&[u8])) {
    let mut rest = if path == b"/" { b"" } else { path };
    loop {
        take(rest);
        match rest.iter().rposition(|byte| *byte == b'/') {
            Some(parent) if !rest.is_empty() => rest = rest.get(..parent).unwrap_or(&[]),
            _ => return,
        }
    }
}

struct Group<'a> {
    parts: [&'a [u8]; 3],
    version: u8,
}

impl Group<'_> {
    /// Calls `take` with the path of a file of the group.
    fn with_path<T>(&self, file: &[u8], take: impl FnOnce(&CStr) -> Option<T>) -> Option<T> {
        let mut path = [0u8; LONGEST_PATH];
        let mut used = 0;
        for part in self.parts.iter().chain(&[file]) {
            path.get_mut(used..used + part.len())?.copy_from_slice(part);
            used += part.len();
        }
        take(CStr::from_bytes_until_nul(path.get(..used + 1)?).ok()?)
    }

    /// The content of a small file of the group.
    fn read<'b>(&self, file: &[u8], content: &'b mut [u8]) -> Option<&'b [u8]> {
        let length = self.with_path(file, |path| files::read_once(path, content).ok())?;
        content.get(..length)
    }

    /// A file that holds one number; none for `max`, `-1` and the like.
    fn number(&self, file: &[u8]) -> Option<usize> {
        number(self.read(file, &mut [0; 64])?)
    }
}

fn number(text: &[u8]) -> Option<usize> {
    core::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}

fn smaller(left: Option<usize>, right: Option<usize>) -> Option<usize> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.min(right)),
        _ => left.or(right),
    }
}

/// CPUs that the bandwidth limit is worth, rounded up: `cpu.max` in version 2, a pair of files in version 1.
pub(super) fn cpus() -> Option<usize> {
    let mut least = None;
    each_group(b"cpu", |group| least = smaller(least, cpus_of(&group)));
    least
}

fn cpus_of(group: &Group<'_>) -> Option<usize> {
    let (quota, period) = if group.version == 2 {
        let mut text = [0u8; 64];
        let mut words = group.read(b"/cpu.max", &mut text)?.split(|byte| byte.is_ascii_whitespace());
        (number(words.next()?)?, number(words.next()?)?)
    } else {
        (group.number(b"/cpu.cfs_quota_us")?, group.number(b"/cpu.cfs_period_us")?)
    };
    if quota == 0 {
        None
    } else {
        Some(quota.checked_div(period)? + usize::from(!quota.is_multiple_of(period)))
    }
}

/// CPUs that the process's groups may run on.
pub(super) fn cpus_of_set() -> Option<usize> {
    let mut least = None;
    each_group(b"cpuset", |group| least = smaller(least, set_of(&group)));
    least
}

fn set_of(group: &Group<'_>) -> Option<usize> {
    const V2: &[&[u8]] = &[b"/cpuset.cpus.effective"];
    const V1: &[&[u8]] = &[b"/cpuset.effective_cpus", b"/cpuset.cpus"];
    let mut text = [0u8; 4096];
    let files = if group.version == 2 { V2 } else { V1 };
    files.iter().find_map(|file| count_of(group.read(file, &mut text)?))
}

/// How many there are in a list such as `0-3,8`; none where it is empty or cut off.
fn count_of(list: &[u8]) -> Option<usize> {
    let mut count = 0;
    each_range(list, &mut |first, last| count += last - first + 1)?;
    Some(count)
}

/// Calls `take` with the first and the last number of each part of such a list.
pub(super) fn each_range(list: &[u8], take: &mut dyn FnMut(usize, usize)) -> Option<()> {
    for range in list.strip_suffix(b"\n")?.split(|byte| *byte == b',') {
        let mut ends = range.splitn(2, |byte| *byte == b'-');
        let first = number(ends.next()?)?;
        let last = match ends.next() {
            Some(last) => number(last)?,
            None => first,
        };
        if last < first {
            return None;
        }
        take(first, last);
    }
    Some(())
}

/// The memory group that leaves the least room.
pub(super) fn memory(exact: bool) -> Option<MemoryGroup> {
    let mut tightest: Option<MemoryGroup> = None;
    each_group(b"memory", |group| {
        if let Some(found) = memory_of(&group, exact) {
            let room = |group: &MemoryGroup| group.limit.saturating_sub(group.in_use);
            if tightest.as_ref().is_none_or(|least| room(&found) < room(least)) {
                tightest = Some(found);
            }
        }
    });
    tightest
}

fn memory_of(group: &Group<'_>, exact: bool) -> Option<MemoryGroup> {
    /// Version 1 says "no limit" by a number near the end of the range.
    const NO_LIMIT_V1: usize = 1 << 60;
    let (limit, in_use) = if group.version == 2 {
        let limit = smaller(group.number(b"/memory.max"), group.number(b"/memory.high"))?;
        (limit, group.number(b"/memory.current")?)
    } else {
        let limit = group.number(b"/memory.limit_in_bytes").filter(|limit| *limit < NO_LIMIT_V1)?;
        (limit, group.number(b"/memory.usage_in_bytes")?)
    };
    let cache = if exact { cache_of(group) } else { 0 };
    Some(MemoryGroup { limit, in_use: in_use.saturating_sub(cache) })
}

/// Bytes that the group gives up before anybody is ended: pages of files, and what the kernel remembers of them.
fn cache_of(group: &Group<'_>) -> usize {
    const V2: &[&[u8]] = &[b"inactive_file", b"active_file", b"slab_reclaimable"];
    const V1: &[&[u8]] = &[b"total_inactive_file", b"total_active_file"];
    let wanted = if group.version == 2 { V2 } else { V1 };
    let (mut sum, mut found) = (0, 0);
    group.with_path(b"/memory.stat", |path| {
        files::each_line(path, &mut |line| {
            let mut words = line.split(|byte| *byte == b' ');
            if words.next().is_some_and(|name| wanted.contains(&name)) {
                sum += words.next().and_then(number).unwrap_or(0);
                found += 1;
            }
            found == wanted.len()
        });
        Some(())
    });
    sum
}

/// Stalls for want of memory in more than so many hundredths of a percent of the last ten seconds are
/// pressure.
const PRESSURE: usize = 500;

/// The group's own file counts its own stalls, whoever is the cause. That of the system counts those of neighbours too:
/// it is read only where there is no other.
pub(super) fn is_under_pressure() -> bool {
    let mut own = None;
    each_group(b"memory", |group| {
        let mut text = [0u8; 64];
        let stalls = || group.read(b"/memory.pressure", &mut text).map(stalled);
        own = own.or_else(stalls);
    });
    let of_system = || {
        let mut text = [0u8; 64];
        let length = files::read_once(c"/proc/pressure/memory", &mut text).ok()?;
        text.get(..length).map(stalled)
    };
    own.or_else(of_system).is_some_and(|stalls| stalls > PRESSURE)
}

/// The `some avg10=` of a pressure file, in hundredths of a percent.
fn stalled(text: &[u8]) -> usize {
    let Some(rest) = text.strip_prefix(b"some avg10=") else { return 0 };
    let digits = rest.iter().take_while(|byte| **byte != b' ').filter(|byte| byte.is_ascii_digit());
    digits.fold(0, |value, digit| value * 10 + usize::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_of_a_list_are_counted_and_what_is_no_list_is_not() {
        for (list, count) in [("0\n", 1), ("0-3\n", 4), ("0-3,8\n", 5), ("1,3,5-6\n", 4), ("0-255\n", 256)] {
            assert_eq!(count_of(list.as_bytes()), Some(count), "{list}");
        }
        for other in ["", "\n", "0-3", "3-0\n", "0-\n", "all\n", "0-3,\n"] {
            assert_eq!(count_of(other.as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn a_group_is_limited_by_itself_and_by_all_above() {
        let mut seen = Vec::new();
        each_ancestor(b"/a/b", |path| seen.push(path.to_vec()));
        assert_eq!(seen, [b"/a/b".to_vec(), b"/a".to_vec(), b"".to_vec()]);
        let mut seen = Vec::new();
        each_ancestor(b"/", |path| seen.push(path.to_vec()));
        assert_eq!(seen, [b"".to_vec()]);
    }

    /// The paths of the groups that a list names for this controller, without what is above them.
    fn named(list: &str, controller: &[u8]) -> Vec<(String, u8)> {
        let file = std::env::temp_dir().join(format!("vcm-groups-{}-{:p}", std::process::id(), list));
        std::fs::write(&file, list).unwrap();
        let path = std::ffi::CString::new(file.to_str().unwrap()).unwrap();
        let mut groups: Vec<(String, u8)> = Vec::new();
        each_group_of(&path, controller, |group| {
            let [mount, _, path] = group.parts.map(|part| String::from_utf8_lossy(part).into_owned());
            if !groups.last().is_some_and(|(last, _)| last.starts_with(&format!("{mount}{path}"))) {
                groups.push((mount + &path, group.version));
            }
        });
        std::fs::remove_file(&file).unwrap();
        groups
    }

    #[test]
    fn a_pods_list_of_thirteen_hierarchies_is_read_to_its_end() {
        let path = format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{}.scope",
            "0a1b2c3d_4e5f_6071_8293_a4b5c6d7e8f9",
            "9".repeat(64),
        );
        let controllers = "rdma hugetlb pids cpuset freezer devices blkio net_cls,net_prio perf_event misc name=systemd \
                           cpu,cpuacct memory";
        let lines = controllers.split_whitespace().rev().enumerate();
        let line = |(number, names)| format!("{number}:{names}:{path}\n");
        let list: String = lines.map(line).collect::<Vec<_>>().into_iter().rev().collect();
        assert!(
            list.len() > 2500
                && list.lines().count() == 13
                && list.lines().last().unwrap().contains("memory")
        );
        assert_eq!(named(&list, b"memory"), [(format!("/sys/fs/cgroup/memory{path}"), 1)]);
        assert_eq!(named(&list, b"cpu"), [(format!("/sys/fs/cgroup/cpu{path}"), 1)]);
        assert_eq!(named(list.trim_end(), b"memory").len(), 1, "without an end of its last line");
    }

    #[test]
    fn of_a_path_that_is_too_long_the_groups_above_are_known_and_the_next_line_is_another() {
        let long = format!("/above/{}", "x".repeat(5000));
        let list = format!("3:pids:{long}\n2:memory:{long}\n1:memory:/next\n");
        let groups = named(&list, b"memory");
        assert!(
            groups[0].0.starts_with("/sys/fs/cgroup/memory/above/xxx")
                && groups[0].0.len() < LONGEST_PATH + 300
        );
        assert_eq!(groups[1..], [("/sys/fs/cgroup/memory/next".to_string(), 1)]);
    }

    #[test]
    fn stalls_are_read_in_hundredths_of_a_percent() {
        assert_eq!(stalled(b"some avg10=12.34 avg60=0.00 avg300=0.00 total=5\n"), 1234);
        assert_eq!(stalled(b"nonsense"), 0);
    }

    #[test]
    fn no_limit_is_no_number() {
        assert_eq!((number(b"max\n"), number(b"-1\n"), number(b"42\n")), (None, None, Some(42)));
    }
}
