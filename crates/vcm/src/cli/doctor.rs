//! The arguments of `vcm doctor`.

use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;

const DOCTOR_EXAMPLES: &str = "\
Examples:
  vcm doctor                               every Ceph and GlusterFS daemon on this machine
  vcm doctor ceph
  vcm doctor redis-server                  the processes of any name, or by process id
  vcm doctor --severity problem --json     for a monitoring system

vcm doctor only reads. Run it as root to see everything.

Exit status:
  0  nothing to report, or no storage daemon runs
  1  findings are shown
  2  not possible: no such process or daemon, the allocator of a named one cannot be determined,
     wrong arguments";

/// Report the allocator of each storage daemon, its settings and problems.
#[derive(Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub struct Doctor {
    /// 'ceph', 'gluster', process ids or names [default: all recognized daemons]
    #[arg(value_name = "ceph|gluster|PID|NAME")]
    pub targets: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show only findings of this severity or worse
    #[arg(long, value_name = "SEVERITY")]
    pub severity: Option<Severity>,
    /// List the checks
    #[arg(long, conflicts_with_all = ["targets", "json", "severity"])]
    pub list: bool,
    /// Root folder of the machine to inspect
    #[arg(long, hide = true, value_name = "FOLDER")]
    pub root: Option<PathBuf>,
    /// Print the reference page
    #[arg(long, hide = true, conflicts_with_all = ["targets", "json", "severity", "list"])]
    pub markdown: bool,
}

/// How bad a finding is, mildest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; may be intended.
    Note,
    /// Costs speed or memory, or is set without effect.
    Problem,
    /// Risks memory or data.
    Danger,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Problem => "problem",
            Severity::Danger => "danger",
        }
    }
}
