//! The value that `auto` comes to.
//!
//! Owns the library's rule for `cache_limit`, applied from outside to a process and the machine it runs on.

use crate::settings::{self, Effective};
use vcm_inspect::process::Process;
use vcm_inspect::window::Seen;
use vcmalloc_core::options::{AUTO, CACHE_BYTES_PER_CPU, Kind, OptionId};

/// The figures that decide what `auto` means for one process.
pub struct Automatic {
    usable_cpus: Option<u64>,
    /// The bound in effect now, of a process that shows it.
    now: Option<u64>,
}

impl Automatic {
    pub fn of(process: &Process) -> Self {
        Automatic { usable_cpus: process.usable_cpus(), now: None }
    }

    /// Of a process whose options in effect are read.
    pub fn in_effect(process: &Process) -> Self {
        let seen = Seen::open(process.clone()).ok();
        Automatic { now: seen.and_then(|seen| seen.cache_limit()), ..Self::of(process) }
    }

    /// For what is started from here.
    pub fn here() -> Self {
        Self::of(&Process::new(std::process::id() as i32))
    }

    /// The value that `auto` stands for, with its reason; none where another value is set or it is not known.
    pub fn of_option(&self, effective: &Effective, id: OptionId) -> Option<String> {
        let cpus = self.usable_cpus.filter(|_| id == OptionId::cache_limit)?;
        let amount = |bytes| settings::value(Kind::Bytes, bytes);
        (effective.options.get(id) == AUTO).then(|| words(self.now, cpus, amount))
    }
}

/// The bound of the caches that `auto` comes to, and why. A process begins with that for one CPU; the library asks for
/// the CPUs once half of it is taken or a second one is used.
pub fn words(now: Option<u64>, cpus: u64, amount: impl Fn(u64) -> String) -> String {
    let for_one = CACHE_BYTES_PER_CPU as u64;
    let bytes = cpus * for_one;
    let all = format!("{} for {cpus} CPU{}", amount(bytes), if cpus == 1 { "" } else { "s" });
    match now {
        Some(now) if now == for_one && cpus > 1 => {
            format!("{} for the CPU in use; {all} once needed", amount(now))
        }
        Some(now) if now != bytes => format!("{} now; {all}", amount(now)),
        _ => all,
    }
}

/// A value with what it comes to: `auto (32M for 2 CPUs)`.
pub fn shown(value: &str, comes_to: Option<&str>) -> String {
    comes_to.map_or(value.to_string(), |comes_to| format!("{value} ({comes_to})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_file::ConfigFile;

    #[test]
    fn only_an_automatic_cache_limit_is_computed() {
        let mut effective = Effective::read(&[], ConfigFile::found("/nonexistent"), b"x");
        let two = Automatic { usable_cpus: Some(2), now: None };
        assert_eq!(two.of_option(&effective, OptionId::cache_limit).as_deref(), Some("32M for 2 CPUs"));
        assert_eq!(two.of_option(&effective, OptionId::hard_limit), None);
        let one = Automatic { usable_cpus: Some(1), now: None };
        assert_eq!(one.of_option(&effective, OptionId::cache_limit).as_deref(), Some("16M for 1 CPU"));
        let begun = Automatic { now: Some(16 << 20), ..two };
        let said = begun.of_option(&effective, OptionId::cache_limit);
        assert_eq!(said.as_deref(), Some("16M for the CPU in use; 32M for 2 CPUs once needed"));
        let set = [("VCM_CACHE_LIMIT".into(), "1M".into())];
        effective = Effective::read(&set, ConfigFile::found("/nonexistent"), b"x");
        assert_eq!(begun.of_option(&effective, OptionId::cache_limit), None);
    }
}
