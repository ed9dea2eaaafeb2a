//! Whether another unit may be restarted now.
//!
//! Owns the questions: the user's line, or those of Ceph and GlusterFS. Only programs that read are called.

use super::manager::{self, last_line};
use super::units::Service;
use crate::restart;
use serde_json::Value;
use std::time::Duration;
use vcm_inspect::daemon::Role;

/// A cluster that cannot be reached takes long to say so.
const PATIENCE: Duration = Duration::from_secs(60);

/// The complaints that a restart brings for a while: never taken for known, even if there when a run begins.
const OF_RESTARTS: [&str; 7] = [
    "OSD_DOWN",
    "OSD_HOST_DOWN",
    "OSD_ROOT_DOWN",
    "PG_AVAILABILITY",
    "PG_DEGRADED",
    "MON_DOWN",
    "MDS_ALL_DOWN",
];

pub struct Health<'a> {
    /// The user's line for the shell.
    pub line: Option<&'a str>,
    /// Ceph's complaints when the run began: they are none of ours.
    pub known: &'a [String],
}

impl Health<'_> {
    /// In words, for the plan.
    pub fn words(&self, services: &[Service]) -> String {
        let has = |fits: fn(Role) -> bool| services.iter().any(|service| fits(service.role));
        match self.line {
            Some(line) => format!("'{line}' succeeds"),
            None if has(Role::is_ceph) => {
                "'ceph ... ok-to-stop' allows it and 'ceph health' has no new check".to_owned()
            }
            None if has(Role::is_gluster) => "no volume has an entry to heal".to_owned(),
            None => "it is active and runs on its arm; --health LINE adds a check".to_owned(),
        }
    }

    /// Why this unit may not be stopped now, or must be waited for; none where all is well.
    pub fn complaint(&self, service: &Service) -> Option<String> {
        if let Some(line) = self.line {
            let variables = [("UNIT", service.name()), ("INSTANCE", service.instance())];
            return answer(manager::shell(line, &variables, PATIENCE), line);
        }
        if service.role.is_ceph() {
            return self.ceph(service);
        }
        if service.role.is_gluster() { heals() } else { None }
    }

    fn ceph(&self, service: &Service) -> Option<String> {
        if let Some(question) = restart::question(service.role, service.instance())
            && let Some(no) = answer(manager::shell(&question, &[], PATIENCE), &question)
        {
            return Some(no);
        }
        match checks() {
            Ok(checks) => {
                let new = new(checks, self.known);
                (!new.is_empty()).then(|| format!("'ceph health' has {}", new.join(", ")))
            }
            Err(why) => Some(why),
        }
    }
}

/// The checks that must go before another daemon may be restarted.
fn new(checks: Vec<String>, known: &[String]) -> Vec<String> {
    let is_known = |check: &String| known.contains(check) && !OF_RESTARTS.contains(&check.as_str());
    checks.into_iter().filter(|check| !is_known(check)).collect()
}

fn answer(ended: Result<manager::Ended, String>, line: &str) -> Option<String> {
    match ended {
        Ok(ended) if ended.is_well => None,
        Ok(ended) => Some(format!("'{line}' failed: {}", last_line(&ended.errors, &ended.output))),
        Err(why) => Some(why),
    }
}

/// The names of the checks that Ceph fails now. A monitor that is busy refuses now and then what it answers a moment later, or
/// answers late.
pub fn checks() -> Result<Vec<String>, String> {
    const LINE: &str = "ceph health --format json";
    const TRIES: usize = 5;
    let mut why = String::new();
    for at in 0..TRIES {
        if at > 0 {
            std::thread::sleep(Duration::from_secs(2));
        }
        // On a machine that is short of processors the client alone may take longer than that.
        let ended = match manager::shell(LINE, &[], PATIENCE) {
            Ok(ended) => ended,
            Err(late) => {
                why = late;
                continue;
            }
        };
        match of_ceph(&ended.output).filter(|_| ended.is_well) {
            Some(checks) => return Ok(checks),
            None => why = format!("'{LINE}' failed: {}", last_line(&ended.errors, &ended.output)),
        }
    }
    Err(why)
}

fn of_ceph(text: &str) -> Option<Vec<String>> {
    let whole: Value = serde_json::from_str(text.trim()).ok()?;
    whole.get("status")?;
    Some(whole["checks"].as_object().map(|checks| checks.keys().cloned().collect()).unwrap_or_default())
}

/// Entries that a volume has still to heal. A volume that is not replicated has none, and says so with a failure.
fn heals() -> Option<String> {
    let volumes = match manager::shell("gluster volume list", &[], PATIENCE) {
        Ok(ended) if ended.is_well => ended.output,
        Ok(ended) => {
            return Some(format!(
                "'gluster volume list' failed: {}",
                last_line(&ended.errors, &ended.output)
            ));
        }
        Err(why) => return Some(why),
    };
    volumes.lines().filter(|line| is_volume(line)).find_map(|volume| {
        let healed =
            manager::shell("gluster volume heal \"$VOLUME\" info", &[("VOLUME", volume)], PATIENCE).ok()?;
        let left = entries(&healed.output);
        (left > 0).then(|| format!("volume {volume} has {left} entries to heal"))
    })
}

pub fn is_volume(line: &str) -> bool {
    !line.is_empty() && line.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
}

fn entries(text: &str) -> u64 {
    text.lines().filter_map(|line| line.strip_prefix("Number of entries:")?.trim().parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ceph_fails_is_told_by_name() {
        assert_eq!(of_ceph("{\"status\":\"HEALTH_OK\",\"checks\":{}}"), Some(Vec::new()));
        let warned = "{\"status\":\"HEALTH_WARN\",\"checks\":{\"OSD_DOWN\":{\"severity\":\"HEALTH_WARN\"}}}";
        assert_eq!(of_ceph(warned), Some(vec!["OSD_DOWN".to_owned()]));
        assert_eq!(of_ceph("Error connecting"), None);
    }

    #[test]
    fn what_was_there_before_is_none_of_ours_but_for_what_a_restart_brings() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let known = names(&["MON_DISK_LOW", "OSD_DOWN"]);
        assert_eq!(new(names(&["MON_DISK_LOW"]), &known), names(&[]));
        assert_eq!(
            new(names(&["MON_DISK_LOW", "OSD_DOWN", "SLOW_OPS"]), &known),
            names(&["OSD_DOWN", "SLOW_OPS"])
        );
    }

    #[test]
    fn entries_to_heal_are_added_up_over_bricks() {
        let text = "Brick a:/b\nStatus: Connected\nNumber of entries: 2\n\nBrick c:/d\nNumber of entries: 1\nBrick e\nNumber of entries: -\n";
        assert_eq!(entries(text), 3);
        assert!(is_volume("gv-0") && !is_volume("No volumes present in cluster"));
    }
}
