//! The machine a run was made on, and the versions that took part.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::process::Command;

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
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once([':', '='])?.1.trim().trim_matches('"').to_owned())
        };
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let memory_kib = field(&read("/proc/meminfo"), "MemTotal")
            .and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        Machine {
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory_kib.map_or(0.0, |kib| (kib / 1048576.0 * 10.0).round() / 10.0),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            system: field(&read("/etc/os-release"), "PRETTY_NAME").unwrap_or_default(),
        }
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
