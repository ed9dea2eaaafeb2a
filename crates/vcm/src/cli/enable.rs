//! The arguments of `vcm enable` and `vcm disable`.

use clap::Args;
use std::path::PathBuf;

const ENABLE_EXAMPLES: &str = "\
Examples:
  sudo vcm enable ceph-osd@3
  sudo vcm enable ceph-osd@ --option cache_limit=128M    all OSDs of this machine
  vcm enable glusterd --dry-run                          print the drop-in only

It writes /etc/systemd/system/UNIT.service.d/vcmalloc.conf, restarts nothing, and prints the next commands.

A program linked with libtcmalloc gets vcmalloc's replacement for that library, or vcm refuses. One linked with
libjemalloc.so.2, or with a preload of it, gets vcmalloc's if that is installed.

Exit status:
  0  written, or already present
  1  refused or not writable; nothing was changed
  2  wrong arguments";

const DISABLE_EXAMPLES: &str = "\
Example:
  sudo vcm disable ceph-osd@3

Exit status:
  0  removed, or not present
  1  refused, or not removable
  2  wrong arguments";

/// Make a systemd service start on vcmalloc, with a drop-in file.
#[derive(Args)]
#[command(after_help = ENABLE_EXAMPLES)]
pub struct Enable {
    /// Service: ceph-osd@3, glusterd, ...; 'ceph-osd@' for all instances
    #[arg(value_name = "UNIT")]
    pub unit: String,
    /// Set an allocator option of the service; may be repeated ('vcm config' lists them)
    #[arg(short = 'o', long = "option", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// Library to preload [default: the one that vcm finds]
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,
    /// Use the hardened library, which detects misuse at the faulty call
    #[arg(long, conflicts_with = "library")]
    pub hardened: bool,
    /// Print the drop-in without writing it
    #[arg(long)]
    pub dry_run: bool,
    /// Root folder of the machine to change; must contain the library
    #[arg(long, value_name = "FOLDER")]
    pub root: Option<PathBuf>,
}

/// Remove the drop-in of 'vcm enable'.
#[derive(Args)]
#[command(after_help = DISABLE_EXAMPLES)]
pub struct Disable {
    /// Service, named as for 'vcm enable'
    #[arg(value_name = "UNIT")]
    pub unit: String,
    /// Print the drop-in without removing it
    #[arg(long)]
    pub dry_run: bool,
    /// Root folder of the machine to change
    #[arg(long, value_name = "FOLDER")]
    pub root: Option<PathBuf>,
}
