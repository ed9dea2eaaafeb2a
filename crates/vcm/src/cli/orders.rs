//! The arguments of `vcm set` and `vcm release`.

use clap::Args;
use vcmalloc_core::options;

const SET_EXAMPLES: &str = "\
Examples:
  vcm set ceph-osd release_delay=200ms     of the only ceph-osd
  vcm set 4711 cache_limit=8M retain=0     two options, one after the other
  vcm set 4711 profile=on                  start the live heap profile
  vcm set 4711 last_words=/var/log/%e.%p   leave what it holds there before the kernel ends it

Only live options can be set ('vcm config' lists them); they hold until the process ends.
It takes the rights of a debugger: root, or the same user where kernel.yama.ptrace_scope is 0.

Exit status:
  0  done by the process
  1  refused: no such process, no right, not on vcmalloc, no such option, a value that it cannot have
  2  wrong arguments
  3  written, and not done yet: the process is stopped, or has no janitor (one thread, or janitor=off)
     and does it with its next malloc or free that its cache cannot serve: not before it allocates
  128+N  ended by signal N: nothing was asked for yet, or it will be done all the same";

const RELEASE_EXAMPLES: &str = "\
Examples:
  vcm release ceph-osd                     all that can go: caches, free spans, free pages
  vcm release 4711 512M                    512 MiB of free pages, at most, and nothing else

It takes the rights of a debugger: root, or the same user where kernel.yama.ptrace_scope is 0.

Exit status:
  0  done by the process
  1  refused: no such process, no right, not on vcmalloc
  2  wrong arguments
  3  written, and not done yet: the process is stopped, or has no janitor (one thread, or janitor=off)
     and does it with its next malloc or free that its cache cannot serve: not before it allocates
  128+N  ended by signal N: nothing was asked for yet, or it will be done all the same";

/// Set options of a running process.
#[derive(Args)]
#[command(after_help = SET_EXAMPLES)]
pub struct Set {
    /// A process on vcmalloc, by its number or by a name that only one has
    #[arg(value_name = "PID|NAME")]
    pub target: String,
    /// Options and values
    #[arg(required = true, value_name = "OPTION=VALUE", value_parser = assignment)]
    pub settings: Vec<String>,
}

/// Have a running process give free memory back to the system.
#[derive(Args)]
#[command(after_help = RELEASE_EXAMPLES)]
pub struct Release {
    /// A process on vcmalloc, by its number or by a name that only one has
    #[arg(value_name = "PID|NAME")]
    pub target: String,
    /// At most so many bytes: 4096, 64K, 512M, 2G; without it, all that can go
    #[arg(value_parser = bytes)]
    pub bytes: Option<u64>,
}

fn assignment(text: &str) -> Result<String, &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok(text.into()),
        _ => Err("write OPTION=VALUE"),
    }
}

fn bytes(text: &str) -> Result<u64, &'static str> {
    options::bytes(text.as_bytes()).filter(|bytes| *bytes > 0).ok_or("write bytes: 4096, 64K, 512M, 2G")
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
