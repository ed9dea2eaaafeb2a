//! The counts of storage daemons themselves: the OSD's perf counters over its admin socket, a node's bricks by
//! `gluster volume profile`.

use super::health::is_volume;
use super::manager;
use crate::verbs::compare::verdict::EACH;
use std::time::Duration;
use vcm_inspect::ceph::counters;
use vcm_inspect::ceph::socket::{self, LONG, Question, ask};
use vcm_inspect::daemon::Role;
use vcm_inspect::process::Process;
use vcm_measure::spoken::{Better, Reading};

const PATIENCE: Duration = Duration::from_secs(60);

pub enum Counted {
    Osd { moment: Box<counters::Moment>, mempools: Option<f64> },
    Bricks(Bricks),
}

/// Of all volumes of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bricks {
    read: f64,
    written: f64,
    calls: f64,
    /// Calls times their mean latency.
    microseconds: f64,
}

/// None for other programs, and where the daemon does not tell.
pub fn counted(role: Role, main: i32) -> Option<Counted> {
    match role {
        Role::CephOsd => {
            let process = Process::new(main);
            let path = socket::of(&process).into_iter().next()?;
            let path = process.as_seen_by_it(&path);
            let moment = Box::new(counters::Moment::of(&path, main).ok()?);
            let pools = ask(&path, Question::Mempools, LONG).ok();
            let mempools = pools.and_then(|pools| pools["mempool"]["total"]["bytes"].as_f64());
            Some(Counted::Osd { moment, mempools })
        }
        role if role.is_gluster() => bricks().map(Counted::Bricks),
        _ => None,
    }
}

impl Counted {
    /// The work in between, with the processor time that it took.
    pub fn until(&self, later: &Counted, seconds: f64, cpu: f64) -> Vec<Reading> {
        let less = |name: &str, unit, value| Reading::new(name, unit, Better::Less, value);
        let more = |name: &str, unit, value| Reading::new(name, unit, Better::More, value);
        let mut readings = Vec::new();
        match (self, later) {
            (Counted::Osd { moment, .. }, Counted::Osd { moment: now, mempools }) => {
                let work = moment.until(now);
                if work.operations > 0.0 {
                    readings.push(less(EACH, "us", 1e6 * cpu / work.operations));
                    readings.push(more("operations", "ops/s", work.operations / seconds));
                }
                for (name, counter) in [("write latency", "op_w_latency"), ("read latency", "op_r_latency")] {
                    readings.extend(work.latency_ms("osd", counter).map(|ms| less(name, "us", 1e3 * ms)));
                }
                for (name, counter) in [("bytes written", "op_in_bytes"), ("bytes read", "op_out_bytes")] {
                    let bytes = work.counter("osd", counter).filter(|bytes| *bytes > 0.0);
                    readings.extend(bytes.map(|bytes| more(name, "MB/s", bytes / 1e6 / seconds)));
                }
                readings.extend(mempools.map(|bytes| less("mempools", "B", bytes)));
            }
            (Counted::Bricks(before), Counted::Bricks(now)) => {
                let (calls, time) = (now.calls - before.calls, now.microseconds - before.microseconds);
                if calls > 0.0 && time >= 0.0 {
                    readings.push(less(EACH, "us", 1e6 * cpu / calls));
                    readings.push(more("operations", "ops/s", calls / seconds));
                    readings.push(less("mean latency", "us", time / calls));
                }
                for (name, bytes) in
                    [("bytes written", now.written - before.written), ("bytes read", now.read - before.read)]
                {
                    if bytes > 0.0 {
                        readings.push(more(name, "MB/s", bytes / 1e6 / seconds));
                    }
                }
            }
            _ => {}
        }
        readings
    }
}

/// None where no volume is profiled ('gluster volume profile VOLUME start').
fn bricks() -> Option<Bricks> {
    let volumes = manager::shell("gluster volume list", &[], PATIENCE).ok().filter(|ended| ended.is_well)?;
    let mut all: Option<Bricks> = None;
    for volume in volumes.output.lines().filter(|line| is_volume(line)) {
        const LINE: &str = "gluster volume profile \"$VOLUME\" info cumulative";
        let Ok(ended) = manager::shell(LINE, &[("VOLUME", volume)], PATIENCE) else { continue };
        let Some(found) =
            Some(ended).filter(|ended| ended.is_well).and_then(|ended| of_profile(&ended.output))
        else {
            continue;
        };
        let sum = all.get_or_insert_default();
        sum.read += found.read;
        sum.written += found.written;
        sum.calls += found.calls;
        sum.microseconds += found.microseconds;
    }
    all
}

/// `%-latency  Avg-latency us  Min-Latency us  Max-Latency us  No. of calls  Fop`, and the bytes below it, of each brick.
fn of_profile(text: &str) -> Option<Bricks> {
    let mut bricks = Bricks::default();
    let mut is_any = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<f64>().ok());
        match words.as_slice() {
            ["Data", "Read:", bytes, ..] => bricks.read += bytes.parse::<f64>().unwrap_or(0.0),
            ["Data", "Written:", bytes, ..] => bricks.written += bytes.parse::<f64>().unwrap_or(0.0),
            [_, _, "us", _, "us", _, "us", ..] => {
                if let (Some(mean), Some(calls)) = (number(1), number(7)) {
                    bricks.calls += calls;
                    bricks.microseconds += calls * mean;
                }
            }
            _ => continue,
        }
        is_any = true;
    }
    is_any.then_some(bricks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volumes_profile_is_added_up_over_its_bricks() {
        let brick = "Brick: h:/b/1\n-------------\nCumulative Stats:\n   Block Size:               4096b+ \n No. of Reads:                    0 \n\
            No. of Writes:                   25 \n %-latency   Avg-latency   Min-Latency   Max-Latency   No. of calls         Fop\n \
            ---------   -----------   -----------   -----------   ------------        ----\n      0.00       0.00 us       0.00 us       0.00 us              1      FORGET\n    \
            50.00     100.00 us      10.00 us     400.00 us             25       WRITE\n \n    Duration: 36 seconds\n   Data Read: 12 bytes\nData Written: 102400 bytes\n";
        let found = of_profile(&format!("{brick}\n{brick}")).unwrap();
        assert_eq!(found, Bricks { read: 24.0, written: 204_800.0, calls: 52.0, microseconds: 5000.0 });
        assert_eq!(of_profile("Profile on Volume gv is not started\n"), None);
        let readings = Counted::Bricks(Bricks::default()).until(&Counted::Bricks(found), 2.0, 0.052);
        let value = |name: &str| readings.iter().find(|reading| reading.name == name).unwrap().value;
        assert_eq!((value(EACH), value("operations")), (1000.0, 26.0));
    }
}
