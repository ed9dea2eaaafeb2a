//! Debian packages that an experiment needs: found missing, told, installed.
//!
//! Promises that nothing is installed without a line that says so, and nothing at all with `--no-install`.

use super::machine::package_version;
use super::session::Session;
use anyhow::{Context, Result, bail};
use std::time::Duration;

/// Makes sure that these packages (name, why) are on the machine.
pub fn ensure(session: &Session, packages: &[(String, String)]) -> Result<()> {
    let missing: Vec<_> = packages.iter().filter(|(name, _)| package_version(name, None).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| name.as_str()).collect();
    let command = format!("apt-get update && apt-get install --no-install-recommends {}", names.join(" "));
    if session.request().no_install {
        bail!("missing packages, and --no-install was given. Run this first:\n    {command}");
    }
    if !nix::unistd::geteuid().is_root() {
        bail!("missing packages. Run this as root, then the same command again:\n    {command}");
    }
    session.say("installing what is missing:");
    for (name, why) in &missing {
        session.say(&format!("    {name}: {why}"));
    }
    let apt = |words: &[&str]| {
        let program = session.command("apt-get").args(["--quiet", "--yes"]).args(words);
        // A package must not start its daemon here: the lab starts its own.
        let program = program.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        program.limit(Duration::from_secs(1800)).run().context(format!("by hand: {command}"))
    };
    apt(&["update"])?;
    apt(&[&["install", "--no-install-recommends"], names.as_slice()].concat())?;
    Ok(())
}
