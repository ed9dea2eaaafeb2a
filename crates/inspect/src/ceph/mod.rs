//! The settings of a Ceph daemon: what it has in effect, and where each value comes from.
//!
//! ```text
//! socket   the daemon's own answer, over its admin socket
//! conf     ceph.conf, when the socket cannot be reached
//! counters the work of an OSD between two moments, and its cost;  latency  its histograms
//! ```
//!
//! Owns the order of the two and the defaults that hold where neither says anything.

pub mod conf;
pub mod counters;
pub mod latency;
pub mod socket;

use std::collections::BTreeMap;
use std::path::PathBuf;

/// A value and who set it: `default`, `file`, `mon`, `override`, ..., or the config file's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub value: String,
    pub origin: String,
}

/// The place where the settings were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Socket(PathBuf),
    /// The file, which may say less than the daemon knows (the monitors' database).
    File(PathBuf),
    /// Neither could be read.
    Nothing,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub source: Source,
    values: BTreeMap<String, Setting>,
    /// Why the better source did not answer.
    pub not_seen: Option<String>,
}

/// Defaults of the settings that the checks ask for, as of Ceph 14 to 19.
const DEFAULTS: [(&str, &str); 9] = [
    ("osd_memory_target", "4294967296"),
    ("osd_memory_target_autotune", "false"),
    ("bluestore_cache_autotune", "true"),
    ("osd_enable_op_tracker", "true"),
    ("osd_journal_size", "5120"),
    ("filestore_max_sync_interval", "5"),
    ("osd_objectstore", "bluestore"),
    ("ms_type", "async+posix"),
    ("osd_memory_target_cgroup_limit_ratio", "0.8"),
];

impl Settings {
    pub fn new(source: Source, values: BTreeMap<String, Setting>) -> Self {
        Settings { source, values, not_seen: None }
    }

    /// The value in effect as far as it can be known.
    pub fn get(&self, name: &str) -> Option<Setting> {
        self.values.get(name).cloned().or_else(|| {
            let (_, value) = DEFAULTS.into_iter().find(|(known, _)| *known == name)?;
            Some(Setting { value: value.into(), origin: "default".into() })
        })
    }

    pub fn number(&self, name: &str) -> Option<f64> {
        number(&self.get(name)?.value)
    }

    pub fn is_on(&self, name: &str) -> Option<bool> {
        Some(matches!(self.get(name)?.value.as_str(), "true" | "1" | "yes" | "on"))
    }

    /// All settings that were read and whose names begin so.
    pub fn beginning<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Setting)> {
        self.values
            .iter()
            .filter(move |(name, _)| name.starts_with(prefix))
            .map(|(name, set)| (name.as_str(), set))
    }

    /// Settings that somebody changed, without those that say where things are.
    pub fn changed(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.values.iter().filter(|(_, set)| set.origin != "default").map(|(name, set)| (name.as_str(), set))
    }
}

/// A number as Ceph reads it: `4294967296`, `4G`, `0.8`.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let shift = match text.get(digits.len()..)?.trim().chars().next().map(|c| c.to_ascii_lowercase()) {
        None | Some('b') => 0,
        Some('k') => 10,
        Some('m') => 20,
        Some('g') => 30,
        Some('t') => 40,
        Some(_) => return None,
    };
    Some(digits.parse::<f64>().ok()? * f64::from(2).powi(shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_ceph_reads_them() {
        assert_eq!(number("4294967296"), Some(4294967296.0));
        assert_eq!(number("4G"), Some(4294967296.0));
        assert_eq!(number("1 KiB"), Some(1024.0));
        assert_eq!(number("0.8"), Some(0.8));
        assert_eq!(number("lots"), None);
    }

    #[test]
    fn what_nobody_set_has_cephs_default() {
        let settings = Settings::new(Source::Nothing, BTreeMap::new());
        assert_eq!(settings.number("osd_memory_target"), Some(4294967296.0));
        assert_eq!(settings.is_on("osd_enable_op_tracker"), Some(true));
        assert_eq!(settings.get("something_else"), None);
    }
}
