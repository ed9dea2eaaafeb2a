//! The resources that the processes of a unit use: looked at now, and between two moments.
//!
//! Owns the sums over processes and threads. A control group counts those too that ended in between.

use super::daemons::{self, Counted};
use super::manager::Shown;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;
use vcm_inspect::ceph::counters::cpu_seconds;
use vcm_inspect::daemon::Role;
use vcm_inspect::process::{self, Process};
use vcm_inspect::root::Root;
use vcm_inspect::window::Seen;
use vcm_measure::spoken::{Better, Reading};

/// Of /proc/PID/stat behind the name.
const MINOR_FAULTS: usize = 7;
const MAJOR_FAULTS: usize = 9;

/// The processes of a unit: of its control group, or else the main one and what it started.
pub fn processes(root: &Root, shown: &Shown) -> Vec<i32> {
    let group = shown.group.trim_start_matches('/');
    let folders = ["", "unified", "systemd"]
        .map(|folder| Path::new("/sys/fs/cgroup").join(folder).join(group).join("cgroup.procs"));
    let listed = folders.iter().filter(|_| !group.is_empty()).find_map(|file| root.text(file));
    let ids: Vec<i32> =
        listed.unwrap_or_default().split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect();
    if ids.contains(&shown.main) {
        return ids;
    }
    std::iter::once(shown.main).chain(process::descendants(shown.main)).collect()
}

/// One look at the memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    pub rss: f64,
    pub pss: f64,
    pub heap: Option<[f64; 3]>,
}

pub const HEAP: [&str; 3] = ["heap live", "heap in caches", "heap free and kept"];

pub fn memory(ids: &[i32]) -> Memory {
    let sum = vcm_measure::tree::memory(ids);
    let heaps: Vec<[f64; 3]> = ids.iter().filter_map(|id| heap(*id)).collect();
    let heap = (!heaps.is_empty())
        .then(|| heaps.iter().fold([0.0; 3], |sum, heap| std::array::from_fn(|at| sum[at] + heap[at])));
    Memory { rss: sum.rss_bytes, pss: sum.pss_bytes, heap }
}

/// As `vcm stat` sees it; none on another allocator.
fn heap(id: i32) -> Option<[f64; 3]> {
    let stats = Seen::open(Process::new(id)).ok()?.snapshot().ok()?.stats;
    let sums =
        [stats.live_requested, stats.vcpu_caches + stats.transfer, stats.free_in_spans + stats.dirty_free];
    Some(sums.map(|bytes| bytes as f64))
}

/// The counts up to a moment.
pub struct Moment {
    at: Instant,
    group_cpu: Option<f64>,
    each: BTreeMap<i32, OfProcess>,
    counted: Option<Counted>,
}

#[derive(Default)]
struct OfProcess {
    cpu: f64,
    minor: f64,
    major: f64,
    /// By thread.
    switches: BTreeMap<i32, (f64, f64)>,
}

impl Moment {
    pub fn of(root: &Root, shown: &Shown, role: Role) -> Moment {
        let ids = processes(root, shown);
        let each = ids.iter().filter_map(|id| Some((*id, OfProcess::of(*id)?))).collect();
        Moment {
            at: Instant::now(),
            group_cpu: group_cpu(root, shown),
            each,
            counted: daemons::counted(role, shown.main),
        }
    }

    /// The rates between.
    pub fn until(&self, later: &Moment) -> Vec<Reading> {
        let seconds = later.at.duration_since(self.at).as_secs_f64().max(1e-3);
        let since = |part: fn(&OfProcess) -> f64| -> f64 {
            later
                .each
                .iter()
                .map(|(id, now)| (part(now) - self.each.get(id).map_or(0.0, part)).max(0.0))
                .sum()
        };
        let of_group = later.group_cpu.zip(self.group_cpu).map(|(now, before)| now - before);
        let cpu = of_group.unwrap_or_else(|| since(|process| process.cpu));
        let rate = |name: &str, unit, value: f64| Reading::new(name, unit, Better::Less, value / seconds);
        let mut readings = vec![
            rate("CPU time", "ms/s", 1e3 * cpu),
            rate("minor faults", "a second", since(|process| process.minor)),
            rate("major faults", "a second", since(|process| process.major)),
        ];
        let (mut voluntary, mut involuntary) = (0.0, 0.0);
        for (id, now) in &later.each {
            for (thread, (by_itself, by_others)) in &now.switches {
                let before = self
                    .each
                    .get(id)
                    .and_then(|before| before.switches.get(thread))
                    .copied()
                    .unwrap_or_default();
                voluntary += (by_itself - before.0).max(0.0);
                involuntary += (by_others - before.1).max(0.0);
            }
        }
        readings.push(rate("voluntary switches", "a second", voluntary));
        readings.push(rate("involuntary switches", "a second", involuntary));
        if let (Some(before), Some(now)) = (&self.counted, &later.counted) {
            readings.extend(before.until(now, seconds, cpu));
        }
        readings
    }
}

impl OfProcess {
    fn of(id: i32) -> Option<OfProcess> {
        let process = Process::new(id);
        let field = |field| process.status_field(field).map(|number| number as f64);
        let threads = fs::read_dir(format!("/proc/{id}/task")).ok()?.flatten();
        let switches = threads.filter_map(|entry| {
            let thread: i32 = entry.file_name().to_str()?.parse().ok()?;
            let text = fs::read_to_string(entry.path().join("status")).ok()?;
            let number = |name: &str| {
                text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok())
            };
            Some((thread, (number("voluntary_ctxt_switches:")?, number("nonvoluntary_ctxt_switches:")?)))
        });
        Some(OfProcess {
            cpu: cpu_seconds(id).ok()?,
            minor: field(MINOR_FAULTS)?,
            major: field(MAJOR_FAULTS)?,
            switches: switches.collect(),
        })
    }
}

/// Seconds of the unit's control group; none where it has no account of its own.
fn group_cpu(root: &Root, shown: &Shown) -> Option<f64> {
    let group = shown.group.strip_prefix('/').filter(|group| !group.is_empty())?;
    let below = |folder: &str| PathBuf::from("/sys/fs/cgroup").join(folder).join(group);
    let unified = ["", "unified"].iter().find_map(|folder| root.text(below(folder).join("cpu.stat")));
    if let Some(text) = unified {
        let used = text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse::<f64>().ok());
        return used.map(|used| used / 1e6);
    }
    let former =
        ["cpu,cpuacct", "cpuacct"].iter().find_map(|folder| root.number(below(folder).join("cpuacct.usage")));
    former.map(|used| used as f64 / 1e9)
}
