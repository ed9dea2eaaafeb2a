//! One unit put on an arm, and the proof that it runs there.

use super::arms::Fitted;
use super::look;
use super::manager::{Manager, Shown, last_line, shell};
use super::units::Service;
use crate::drop_in::File;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::{Duration, Instant};
use vcm_inspect::daemon::Role;
use vcm_inspect::process::Process;
use vcm_inspect::root::Root;
use vcm_measure::arm::Arm;
use vcm_measure::witness::{Verdict, Witness};

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Bricks that do not end when they are asked to.
const PATIENCE: Duration = Duration::from_secs(30);

/// A unit as it was started, by which it is known again.
#[derive(Clone)]
pub struct Running {
    pub shown: Shown,
    ticks: u64,
}

pub struct Machine<'a> {
    pub root: &'a Root,
    pub manager: &'a Manager,
}

impl Machine<'_> {
    /// Writes these files, or takes ours away.
    pub fn write(&self, service: &Service, files: &[File]) -> Result<(), String> {
        let shown = service.place.file();
        let written =
            if files.is_empty() { service.place.remove().map(drop) } else { service.place.write(files) };
        written.map_err(|error| format!("{}: {error}", shown.display()))?;
        self.manager.reload()
    }

    /// Restarts the unit and waits until it is active.
    pub fn restart(&self, service: &Service) -> Result<Running, String> {
        let name = service.name();
        if service.role == Role::Glusterd {
            let before = self.manager.show(name)?;
            self.manager.stop(name)?;
            self.end_bricks(&before)?;
            self.manager.start(name).map_err(|why| self.why(name, why))?;
        } else {
            self.manager.restart(name).map_err(|why| self.why(name, why))?;
        }
        let begin = Instant::now();
        loop {
            let shown = self.manager.show(name)?;
            let ticks = Process::new(shown.main).start_ticks();
            match (shown.active.as_str(), ticks) {
                // Until it is past exec it is systemd, setting up the unit's sandbox.
                ("active", Some(ticks)) if shown.main > 0 && !Process::new(shown.main).is_before_exec() => {
                    return Ok(Running { shown, ticks });
                }
                ("failed" | "inactive", _) => {
                    return Err(self.why(
                        name,
                        format!("{name} does not stay active: it is {} ({})", shown.active, shown.result),
                    ));
                }
                _ if begin.elapsed() > self.manager.limit => {
                    let limit = humantime::format_duration(self.manager.limit);
                    return Err(self.why(
                        name,
                        format!(
                            "{name} is not active after {limit}; its state is \
                         {}",
                            shown.active
                        ),
                    ));
                }
                _ => std::thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// With what the journal says last, where there is one.
    fn why(&self, name: &str, why: String) -> String {
        let line = "journalctl --unit \"$UNIT\" --lines 1 --no-pager --output cat";
        let said = shell(line, &[("UNIT", name)], Duration::from_secs(10)).ok().filter(|ended| ended.is_well);
        let said = said
            .map(|ended| last_line("", &ended.output))
            .filter(|said| !said.contains("no output") && !said.starts_with("-- "));
        let said = said.map_or(String::new(), |said| format!("; its journal ends with: {said}"));
        format!("{why}{said}")
    }

    /// They outlive their glusterd, on the allocator that they have.
    fn end_bricks(&self, before: &Shown) -> Result<(), String> {
        let bricks = |_: ()| -> Vec<i32> {
            let ids = look::processes(self.root, before);
            ids.into_iter()
                .filter(|id| *id != before.main && Role::of_process(&Process::new(*id)).is_gluster())
                .collect()
        };
        let begin = Instant::now();
        let mut left = bricks(());
        while !left.is_empty() {
            let signal = if begin.elapsed() > PATIENCE { Signal::SIGKILL } else { Signal::SIGTERM };
            if begin.elapsed() > 2 * PATIENCE {
                return Err(format!("bricks do not end: {left:?}"));
            }
            for id in &left {
                let _ = kill(Pid::from_raw(*id), signal);
            }
            std::thread::sleep(LOOK_EVERY * 5);
            left.retain(|id| Process::new(*id).is_alive());
        }
        Ok(())
    }

    /// Looks until the processes are on their arm, or tells what they are on.
    pub fn proved(&self, service: &Service, arm: &Arm, running: &Running) -> Result<Verdict, String> {
        let mut witness = Witness::default();
        let begin = Instant::now();
        loop {
            self.is_the_same(service, running).map_err(|why| format!("{why}, on {}", arm.name))?;
            witness.look(arm, &look::processes(self.root, &running.shown));
            match witness.judge(arm, running.shown.main) {
                Ok(verdict) => return Ok(verdict),
                Err(unproved) if unproved.is_unseen && begin.elapsed() < self.manager.limit => {
                    std::thread::sleep(LOOK_EVERY)
                }
                Err(unproved) => {
                    return Err(format!("{} is not on {}: {}", service.name(), arm.name, unproved.reason));
                }
            }
        }
    }

    /// Nobody restarted it since, and it did not end.
    pub fn is_the_same(&self, service: &Service, running: &Running) -> Result<(), String> {
        if Process::new(running.shown.main).start_ticks() == Some(running.ticks)
            && Process::new(running.shown.main).is_alive()
        {
            return Ok(());
        }
        let name = service.name();
        let how = match self.manager.show(name) {
            Ok(shown) if shown.active == "active" => "was restarted from outside this run".to_owned(),
            Ok(shown) => format!("ended: it is {} ({})", shown.active, shown.result),
            Err(why) => format!("ended ({why})"),
        };
        Err(self.why(name, format!("{name} {how}")))
    }

    /// The whole change.
    pub fn put(&self, service: &Service, fitted: &Fitted) -> Result<Running, String> {
        let arm = &fitted.arm.name;
        let on_arm = |why: String| format!("{} under {arm}: {why}", service.name());
        self.write(service, &fitted.files).map_err(on_arm)?;
        let running = self.restart(service).map_err(on_arm)?;
        self.proved(service, &fitted.arm, &running)?;
        Ok(running)
    }
}
