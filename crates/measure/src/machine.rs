//! The machine that something was measured on, and the packages that took part.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::process::Command;
use vcm_inspect::machine;
use vcm_inspect::root::Root;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    pub processor: String,
    pub cpus: usize,
    pub memory_gib: f64,
    pub kernel: String,
    pub system: String,
}

impl Machine {
    pub fn this() -> Machine {
        let root = Root::real();
        let field = |path: &str, name: &str| {
            let text = root.text(path)?;
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once([':', '='])?.1.trim().trim_matches('"').to_owned())
        };
        let gib = machine::memory(&root).unwrap_or_default() as f64 / f64::from(1 << 30);
        Machine {
            processor: field("/proc/cpuinfo", "model name").unwrap_or_default(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: (gib * 10.0).round() / 10.0,
            kernel: root.text("/proc/sys/kernel/osrelease").unwrap_or_default(),
            system: field("/etc/os-release", "PRETTY_NAME").unwrap_or_default(),
        }
    }
}

/// In half a line, for the reader of a table.
impl fmt::Display for Machine {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let processor = if self.processor.is_empty() { std::env::consts::ARCH } else { &self.processor };
        write!(formatter, "{} x {processor}, Linux {}", self.cpus, self.kernel)
    }
}

/// The version of an installed Debian package, on this system or in the one below `root`.
pub fn package_version(package: &str, root: Option<&Path>) -> Option<String> {
    let mut command = Command::new("dpkg-query");
    if let Some(root) = root {
        command.arg(format!("--admindir={}", root.join("var/lib/dpkg").display()));
    }
    let output =
        command.args(["--show", "--showformat=${db:Status-Status} ${Version}", package]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.strip_prefix("installed ").map(str::to_owned)
}
