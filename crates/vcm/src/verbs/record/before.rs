//! The hindrances to recording a command, as far as its file shows them.

use vcm_foreign::Shown;
use vcm_inspect::command::Command;
use vcm_inspect::elf::Look;
use vcm_inspect::privileges::{Starter, gained_by};

/// Why nothing would be recorded, and what to do.
pub fn hindrance(command: &Command) -> Option<String> {
    let shown = command.program.shown();
    if let Some(by) = &command.clears_environment {
        return Some(format!(
            "{} clears the environment (env -i), and the preload with it; put 'vcm record' behind it",
            by.shown()
        ));
    }
    if gained_by(&command.program, Starter::this_process()).is_some() {
        return Some(format!(
            "{shown} gains privileges when it starts (setuid, setgid or capabilities), and the loader ignores preloads \
             there; start it as the target user"
        ));
    }
    match &command.look {
        Look::Foreign { machine } => {
            Some(format!("{shown} is built for {machine}; use a build for this machine"))
        }
        Look::Elf(elf) if elf.interpreter.is_none() => {
            Some(format!("{shown} is linked statically, so nothing can be preloaded; link it dynamically"))
        }
        Look::Elf(elf)
            if elf.interpreter.as_ref().is_some_and(|path| path.shown().printed().contains("ld-musl")) =>
        {
            Some(format!("{shown} is a musl program; use a build for glibc"))
        }
        Look::Elf(elf) if elf.exports("malloc") => Some(format!(
            "{shown} has its own malloc built in, which precedes any preload; use a build without it"
        )),
        _ => None,
    }
}
