//! The arguments of `vcm set` and `vcm release`.

use clap::Args;
use vcmalloc_core::options;

const SET_EXAMPLES: &str = "\
Examples:
  vcm set ceph-osd release_delay=200ms     set an option of the only ceph-osd process
  vcm set 4711 cache_limit=8M retain=0     set two options, in this order
  vcm set 4711 profile=on                  start the live heap profile
  vcm set 4711 last_words=/var/log/%e.%p   write a memory report there before an out-of-memory kill

Only live options can be set ('vcm config' lists them); they last until the process ends.
Requires the permissions of a debugger: root, or the same user with kernel.yama.ptrace_scope 0.

Exit status:
  0  applied by the process
  1  refused: no such process, no permission, not on vcmalloc, no such option, invalid value; or
     not sent: another order is pending (there is place for one; an option pending is replaced)
  2  wrong arguments
  3  pending: the process is stopped, or has no janitor (one thread, or janitor=off) and applies
     the order at its next cache miss
  128+N  ended by signal N: the order was not sent, or is still applied";

const RELEASE_EXAMPLES: &str = "\
Examples:
  vcm release ceph-osd                     release everything free: caches, free spans, free pages
  vcm release 4711 512M                    release at most 512 MiB, of free pages only

Requires the permissions of a debugger: root, or the same user with kernel.yama.ptrace_scope 0.

Exit status:
  0  applied by the process
  1  refused: no such process, no permission, not on vcmalloc; or not sent: another order is
     pending (there is place for one)
  2  wrong arguments
  3  pending: the process is stopped, or has no janitor (one thread, or janitor=off) and applies
     the order at its next cache miss
  128+N  ended by signal N: the order was not sent, or is still applied";

/// Set options of a running process.
#[derive(Args)]
#[command(after_help = SET_EXAMPLES)]
pub struct Set {
    /// Process on vcmalloc: its id, or its name if unique
    #[arg(value_name = "PID|NAME")]
    pub target: String,
    /// Options and values
    #[arg(required = true, value_name = "OPTION=VALUE", value_parser = assignment)]
    pub settings: Vec<String>,
}

/// Release free memory of a running process to the system.
#[derive(Args)]
#[command(after_help = RELEASE_EXAMPLES)]
pub struct Release {
    /// Process on vcmalloc: its id, or its name if unique
    #[arg(value_name = "PID|NAME")]
    pub target: String,
    /// Maximum number of bytes: 4096, 64K, 512M, 2G [default: all free memory]
    #[arg(value_parser = bytes)]
    pub bytes: Option<u64>,
}

fn assignment(text: &str) -> Result<String, &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok(text.into()),
        _ => Err("give OPTION=VALUE"),
    }
}

fn bytes(text: &str) -> Result<u64, &'static str> {
    options::bytes(text.as_bytes()).filter(|bytes| *bytes > 0).ok_or("give bytes: 4096, 64K, 512M, 2G")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units_and_assignments_both_sides() {
        assert_eq!([bytes("4096"), bytes("64K"), bytes("2G")], [Ok(4096), Ok(64 << 10), Ok(2 << 30)]);
        assert!(["", "0", "K", "-1", "1.5M", "99999999999T"].into_iter().all(|text| bytes(text).is_err()));
        assert!(
            assignment("a=b=c").is_ok()
                && ["a", "=b", "a="].into_iter().all(|text| assignment(text).is_err())
        );
    }
}
