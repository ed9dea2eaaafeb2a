//! A service of systemd, judged by its main process; a service that does not run is told of with the way back. Of a name
//! that no service has here, the processes of that name are judged.
//!
//! Owns what is asked of systemctl. A process that has just been started may end a moment later, as under a filter of system
//! calls that it meets with its first thread, so it is judged when it has run for a while.

use super::{Verdict, process};
use crate::drop_in::{Found, Place};
use crate::restart;
use crate::unit_plan::no_unit;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};
use vcm_inspect::process::Process;
use vcm_inspect::root::Root;
use vcm_inspect::systemd::{self, NoUnit, Unit};
use vcm_inspect::window;

/// So long it must have run, or so long nobody waits for it.
const AGE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Shown {
    active: String,
    detail: String,
    result: String,
    main: i32,
    restarts: u64,
}

pub fn judge(asked: &str) -> Vec<Verdict> {
    let root = Root::real();
    let unit = systemd::find(&root, asked);
    let runs = systemd::is_running(&root);
    let named = if runs && unit.is_ok() { Vec::new() } else { window::named(&root, asked) };
    if !named.is_empty() {
        return named.into_iter().map(process::judge).collect();
    }
    vec![match unit {
        Err(why @ NoUnit::Unknown { .. }) => {
            Verdict::NotKnown(format!("{}; no process is called so", no_unit(&root, asked, "check", &why)))
        }
        Err(why) => Verdict::NotKnown(no_unit(&root, asked, "check", &why)),
        Ok(_) if !runs => Verdict::NotKnown(format!(
            "{asked}: no process is called so, and systemd does not run here, so its service has none"
        )),
        Ok(unit) => match settled(&unit) {
            Ok(shown) => of_state(&root, &unit, &shown),
            Err(why) => Verdict::NotKnown(format!("{}: {why}", unit.name)),
        },
    }]
}

/// The unit's state once it neither starts nor stops any more, and its process has run for a while.
fn settled(unit: &Unit) -> Result<Shown, String> {
    let begin = Instant::now();
    loop {
        let shown = show(&unit.name)?;
        let is_old = || {
            let age = Process::new(shown.main)
                .started()
                .and_then(|start| SystemTime::now().duration_since(start).ok());
            shown.main == 0 || age.is_none_or(|age| age >= AGE)
        };
        let is_moving = ["activating", "deactivating", "reloading"].contains(&shown.active.as_str());
        let is_again = shown.detail == "auto-restart" && shown.restarts > 0;
        if begin.elapsed() > PATIENCE || is_again || (!is_moving && is_old()) {
            return Ok(shown);
        }
        sleep(LOOK_EVERY);
    }
}

fn of_state(root: &Root, unit: &Unit, shown: &Shown) -> Verdict {
    if shown.main > 0 && shown.active == "active" {
        return match process::judge(shown.main) {
            Verdict::Elsewhere(text) => Verdict::Elsewhere(text + &not_restarted(root, unit, shown.main)),
            other => other,
        };
    }
    let (name, stem) = (&unit.name, unit.stem());
    let state = match (shown.active.as_str(), shown.detail.as_str()) {
        (active, detail) if active == detail || detail.is_empty() => active.to_string(),
        (active, detail) => format!("{active}, {detail}"),
    };
    let result = if shown.result == "success" { String::new() } else { format!(", result {}", shown.result) };
    let back = match Place::of(root, name).look() {
        Ok(Found::Ours(_)) => format!("; {}", restart::way_back(stem)),
        _ => String::new(),
    };
    Verdict::NotKnown(format!(
        "{name} does not run: it is {state}{result}; 'journalctl -u {stem}' shows why{back}"
    ))
}

/// The drop-in is there, and the process older.
fn not_restarted(root: &Root, unit: &Unit, id: i32) -> String {
    let written = Place::of(root, &unit.name).file().metadata().and_then(|file| file.modified()).ok();
    let started = Process::new(id).started();
    match (written, started) {
        // The kernel tells when it was started to the second.
        (Some(written), Some(started)) if started + Duration::from_secs(2) < written => {
            format!(
                ". It was started before 'vcm enable': sudo systemctl daemon-reload && sudo systemctl restart {}",
                unit.stem()
            )
        }
        _ => String::new(),
    }
}

fn show(unit: &str) -> Result<Shown, String> {
    const WANTED: &str = "ActiveState,SubState,Result,MainPID,NRestarts";
    let mut systemctl = Command::new("systemctl");
    systemctl.args(["show", "--property", WANTED, "--", unit]).env("LC_ALL", "C").stdin(Stdio::null());
    let output = systemctl.output().map_err(|error| format!("systemctl: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().replace(char::is_control, " ");
        return Err(format!("systemctl show: {said}"));
    }
    let mut shown = Shown::default();
    for (name, value) in
        String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| line.split_once('='))
    {
        match name {
            "ActiveState" => shown.active = value.to_owned(),
            "SubState" => shown.detail = value.to_owned(),
            "Result" => shown.result = value.to_owned(),
            "MainPID" => shown.main = value.parse().unwrap_or(0),
            "NRestarts" => shown.restarts = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(active: &str, detail: &str, result: &str) -> Shown {
        Shown { active: active.into(), detail: detail.into(), result: result.into(), ..Shown::default() }
    }

    #[test]
    fn a_unit_that_does_not_come_up_is_told_with_the_line_that_leads_back() {
        let unit = "[Service]\nExecStart=/usr/bin/redis-server\n";
        let (_folder, root) = Root::with_files(&[("/etc/systemd/system/redis-server.service", unit)]);
        let unit = systemd::find(&root, "redis-server").unwrap();
        let text = |shown: &Shown| match of_state(&root, &unit, shown) {
            Verdict::NotKnown(text) => text,
            _ => String::new(),
        };
        let failed = shown("failed", "failed", "signal");
        assert!(!text(&failed).contains("vcm disable"), "{}", text(&failed));
        let place = Place::of(&root, &unit.name);
        let files = crate::drop_in::files(&place, "redis-server", &[], false);
        place.write(&files).unwrap();
        let told = text(&failed);
        assert!(
            told.contains("is failed, result signal") && told.contains(&restart::way_back("redis-server")),
            "{told}"
        );
        assert!(text(&shown("activating", "auto-restart", "signal")).contains("activating, auto-restart"));
    }
}
