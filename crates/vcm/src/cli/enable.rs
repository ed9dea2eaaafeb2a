//! The arguments of `vcm enable` and `vcm disable`.

use clap::Args;
use std::path::PathBuf;

const ENABLE_EXAMPLES: &str = "\
Examples:
  sudo vcm enable ceph-osd@3
  sudo vcm enable ceph-osd@ --option cache_limit=128M    all OSDs of this machine
  vcm enable glusterd --dry-run                          show what would be written

It writes /etc/systemd/system/UNIT.service.d/vcmalloc.conf, restarts nothing, and says what to do next.

A program that is linked with libtcmalloc gets vcmalloc's stand-in for it, or nothing.

Exit status:
  0  written, or already there
  1  refused, or it could not be written: nothing was changed
  2  wrong arguments";

const DISABLE_EXAMPLES: &str = "\
Example:
  sudo vcm disable ceph-osd@3

Exit status:
  0  removed, or there was nothing to remove
  1  refused, or it could not be removed
  2  wrong arguments";

/// Make a systemd service start on vcmalloc, by a drop-in file.
#[derive(Args)]
#[command(after_help = ENABLE_EXAMPLES)]
pub struct Enable {
    /// The service: ceph-osd@3, glusterd, ...; 'ceph-osd@' for all instances
    #[arg(value_name = "UNIT")]
    pub unit: String,
    /// Set an allocator option for it; may be repeated ('vcm config' lists them)
    #[arg(short = 'o', long = "option", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// The library to preload, instead of the one that is found by itself
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,
    /// Use the hardened library, which finds misuse at the bad call
    #[arg(long, conflicts_with = "library")]
    pub hardened: bool,
    /// Show what would be written, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Write to the machine whose files are in this folder, which must have the library too
    #[arg(long, value_name = "FOLDER")]
    pub root: Option<PathBuf>,
}

/// Take the drop-in of 'vcm enable' away.
#[derive(Args)]
#[command(after_help = DISABLE_EXAMPLES)]
pub struct Disable {
    /// The service, named as for 'vcm enable'
    #[arg(value_name = "UNIT")]
    pub unit: String,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Work on the machine whose files are in this folder
    #[arg(long, value_name = "FOLDER")]
    pub root: Option<PathBuf>,
}
