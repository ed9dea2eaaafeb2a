//! Messages, failures and exit codes.
//!
//! Owns the way text leaves the tool: results on stdout, everything else on stderr, and a closed pipe is not
//! an error. Anything may call it.

use std::io;
use vcm_measure::tell;

pub use vcm_measure::tell::line;

/// The tool itself failed; what `env`, `nice` and `timeout` use too.
pub const OWN_FAILURE: u8 = 125;
/// The command was found but cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// The command was not found.
pub const NOT_FOUND: u8 = 127;
/// Any verb but `run` failed.
pub const FAILURE: u8 = 1;

/// Wrong arguments, to any verb but `run`.
pub const NOT_UNDERSTOOD: u8 = 2;

/// The code by which a shell tells that SIGINT ended a program.
pub const INTERRUPTED: u8 = 130;

/// Why a verb stopped, and the code to stop with.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub message: String,
}

impl Failure {
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Failure { code, message: message.into() }
    }
}

/// Advice of the crate that looks at processes names `vcm stat`, its first user: in the words of this verb.
pub fn for_verb(line: &str, verb: &str) -> String {
    line.replace("vcm stat", &format!("vcm {verb}"))
}

/// The result of a verb: the exit code.
pub type Outcome = Result<u8, Failure>;

/// A verb's result, on stdout. A reader that went away (`| head`) is no failure.
pub fn result(text: &str) -> Outcome {
    outcome(tell::result(text))
}

/// Words as they are typed at a shell, on one line: they may be another user's, and root pastes them.
pub fn typed(words: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let quoted = words.into_iter().map(|word| {
        let word = word.as_ref().replace(vcm_foreign::is_hidden, "?");
        // Refuses null bytes only.
        shlex::try_quote(&word).unwrap_or_default().into_owned()
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// The outcome of having written a result.
pub fn written(result: io::Result<()>) -> Outcome {
    outcome(tell::written(result))
}

fn outcome<E: std::fmt::Display>(told: Result<(), E>) -> Outcome {
    told.map(|()| 0).map_err(|error| Failure::new(FAILURE, format!("{error:#}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_words_are_what_they_were_to_a_shell() {
        let words = ["ceph-osd", "-i", "3", "a b", "$(reboot)", "it's", ";", ""];
        let line = typed(words.iter());
        assert!(line.starts_with("ceph-osd -i 3 "), "{line}");
        let script = format!("printf '%s\\n' {line}");
        let shell = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&shell.stdout), words.join("\n") + "\n");
        assert_eq!(typed(["a\nb\u{1b}[2J"].iter()), "'a?b?[2J'");
    }
}
