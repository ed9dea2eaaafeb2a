//! Debian packages that an experiment needs: found missing, told with their number and size, asked for, installed.
//!
//! Promises that nothing is installed without a line that says what, that a terminal is asked first, and that nothing
//! at all is installed with `--no-install`, or beside a cluster that lives here already unless `--yes` was typed.

use super::session::Session;
use anyhow::{Result, bail};
use std::io::{BufRead, IsTerminal};
use std::process::{Command, Stdio};
use std::time::Duration;
use vcm_measure::machine::package_version;
use vcm_measure::tell::{self, counted};

impl Session {
    /// Makes sure of packages (name, why) and puts their versions among the results.
    pub fn packages(&self, packages: &[(String, String)]) -> Result<()> {
        ensure(self, packages)?;
        for (name, _) in packages {
            if let Some(version) = package_version(name, None) {
                self.version(name, version);
            }
        }
        Ok(())
    }
}

/// Makes sure that they are on the machine.
fn ensure(session: &Session, packages: &[(String, String)]) -> Result<()> {
    let missing: Vec<_> = packages.iter().filter(|(name, _)| package_version(name, None).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| name.as_str()).collect();
    let command = installing(&names);
    refuse(session, &command)?;
    session.step("checking packages")?;
    let plan = plan(session, &names, &command)?;
    let from_here = counted(names.len() as u64, "package");
    session.say(&format!(
        "missing: {from_here}; with what they need {plan}. They stay installed after the lab."
    ));
    for (name, why) in &missing {
        session.say(&format!("    {name}: {why}"));
    }
    if !agreed(session) {
        bail!("nothing was installed. Install manually, then repeat the command:\n    {command}");
    }
    session.step(&format!("installing {plan}"))?;
    // A package must not start its daemon here: the lab starts its own.
    install(session, &names)
        .env("RUNLEVEL", "1")
        .arg("--yes")
        .run()
        .map_err(|error| shortened(error, &command))?;
    Ok(())
}

/// The command that installs them.
pub fn installing(names: &[&str]) -> String {
    format!("apt-get update && apt-get install --no-install-recommends {}", names.join(" "))
}

/// apt's plan in words by the lists that are there; none if it cannot install them. Takes no lock and writes nothing.
pub fn planned(names: &[&str]) -> Option<String> {
    let mut apt = Command::new("apt-get");
    apt.args(["--quiet", "--assume-no", "-o", "Debug::NoLocking=1", "-o", "Dir::Cache::pkgcache="]);
    apt.args(["-o", "Dir::Cache::srcpkgcache=", "install", "--no-install-recommends"]).args(names);
    let asked = apt.env("LC_ALL", "C").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    said.contains("newly installed").then(|| summary(&said))
}

/// Fails if nothing is to be installed, and says what to type.
fn refuse(session: &Session, command: &str) -> Result<()> {
    let request = session.request();
    if request.no_install {
        bail!("missing packages, and --no-install was given. Run this first:\n    {command}");
    }
    if !nix::unistd::geteuid().is_root() {
        bail!("missing packages. Run this as root, then repeat the command:\n    {command}");
    }
    if let Some(own) = session.lives_here().filter(|_| !request.yes) {
        bail!(
            "missing packages on a host with a cluster ({own}), where nothing is installed automatically. Run \
             this, or repeat the command with --yes:\n    {command}"
        );
    }
    Ok(())
}

fn install<'a>(session: &'a Session, names: &[&str]) -> super::process::Program<'a> {
    let program =
        session.command("apt-get").args(["--quiet", "install", "--no-install-recommends"]).args(names);
    program.outside().env("DEBIAN_FRONTEND", "noninteractive").limit(Duration::from_secs(1800))
}

/// apt's plan in words; its lists are renewed first, as an old one names files that are gone.
fn plan(session: &Session, names: &[&str], command: &str) -> Result<String> {
    let update =
        session.command("apt-get").args(["--quiet", "update"]).outside().limit(Duration::from_secs(1800));
    update.run().map_err(|error| shortened(error, command))?;
    let asked = install(session, names).arg("--assume-no").output()?;
    if asked.stdout.contains("newly installed") {
        return Ok(summary(&asked.stdout));
    }
    let said = if asked.stderr.is_empty() { asked.stdout } else { asked.stderr };
    let said: Vec<&str> = said.lines().filter(|line| line.starts_with("E:")).collect();
    bail!("apt-get cannot install them: {}; manually: {command}", said.join(" "))
}

/// `27 packages, 21.3 MB to fetch, 96.1 MB on the disk`, of what apt says before it asks.
fn summary(said: &str) -> String {
    let after = |begin: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(begin))?;
        Some(
            line.split(" of ")
                .next()?
                .split("/")
                .next()?
                .trim_end_matches(" additional disk space will be used.")
                .to_owned(),
        )
    };
    let count = said.lines().find(|line| line.contains(" newly installed"));
    let count = count.and_then(|line| line.split(", ").nth(1)?.split(' ').next()?.parse().ok()).unwrap_or(0);
    let fetched = after("Need to get ").map(|size| format!(", {size} to fetch"));
    let used = after("After this operation, ").map(|size| format!(", {size} on the disk"));
    format!("{}{}{}", counted(count, "package"), fetched.unwrap_or_default(), used.unwrap_or_default())
}

/// A terminal is asked, unless it said `--yes`; a script has been told.
pub fn agreed(session: &Session) -> bool {
    let stdin = std::io::stdin();
    if session.request().yes || !stdin.is_terminal() || !std::io::stderr().is_terminal() {
        return true;
    }
    session.progress().suspended(|| {
        tell::line("Install? [y/N] (--yes answers yes)");
        let mut answer = String::new();
        stdin.lock().read_line(&mut answer).is_ok_and(|_| answer.trim().eq_ignore_ascii_case("y"))
    })
}

/// The first thing that went wrong: without a network apt says it once for each file.
fn shortened(error: anyhow::Error, command: &str) -> anyhow::Error {
    if vcm_measure::stop::is_stopped(&error) {
        return error;
    }
    let said = format!("{error:#}");
    let first = said.lines().find(|line| line.starts_with("E:") || line.starts_with("Err:"));
    let first = first.unwrap_or(said.as_str()).trim();
    anyhow::anyhow!("apt-get failed: {first}\nmanually: {command}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "Reading package lists...\nThe following NEW packages will be installed:\n  a b c\n\
        0 upgraded, 27 newly installed, 0 to remove and 3 not upgraded.\nNeed to get 21.3 MB/40.1 MB of archives.\n\
        After this operation, 96.1 MB of additional disk space will be used.\nDo you want to continue? [Y/n] N\n";

    #[test]
    fn what_apt_would_do_is_told_in_a_line() {
        assert_eq!(summary(SAID), "27 packages, 21.3 MB to fetch, 96.1 MB on the disk");
        assert_eq!(summary("0 upgraded, 1 newly installed, 0 to remove"), "1 package");
    }

    #[test]
    fn of_twenty_lines_without_a_network_the_first_that_matters_is_shown() {
        let lines: String = (0..20).map(|n| format!("W: Failed to fetch http://mirror/{n}\n")).collect();
        let error = anyhow::anyhow!(
            "`apt-get` failed: Err:1 http://mirror bookworm\nErr:2 x\n{lines}E: Some failed\n"
        );
        let said = shortened(error, "apt-get install x").to_string();
        assert!(said.lines().count() == 2 && said.ends_with("manually: apt-get install x"), "{said}");
    }
}
