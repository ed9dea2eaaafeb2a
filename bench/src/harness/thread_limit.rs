//! The kernel's bound on the numbers of threads: raised for processes that have more, and put back afterwards.

use std::fs;
use std::path::{Path, PathBuf};

const PID_MAX: &str = "/proc/sys/kernel/pid_max";
/// Numbers for what else the machine runs.
const OTHERS: usize = 8192;

/// Puts the bound back when it goes.
pub struct Raised {
    bound: PathBuf,
    before: Option<String>,
}

impl Raised {
    /// Nothing changes if this may not be written: then processes of that size say how many threads they got.
    pub fn for_threads(threads: usize) -> Raised {
        let raised = Raised::at(Path::new(PID_MAX), threads);
        if let Some(before) = &raised.before {
            eprintln!(
                "{PID_MAX} has room for {threads} threads during this run; before and afterwards it is {before}"
            );
        }
        raised
    }

    fn at(bound: &Path, threads: usize) -> Raised {
        let needed = threads + OTHERS;
        let now = fs::read_to_string(bound).unwrap_or_default();
        let is_low = now.trim().parse::<usize>().is_ok_and(|now| now < needed);
        let is_raised = is_low && fs::write(bound, needed.to_string()).is_ok();
        Raised { bound: bound.to_owned(), before: is_raised.then(|| now.trim().to_owned()) }
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        let Some(before) = &self.before else { return };
        if let Err(error) = fs::write(&self.bound, before) {
            eprintln!("{} could not be put back to {before}: {error}", self.bound.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_bound_is_raised_and_put_back() {
        let bound = tempfile::NamedTempFile::new().unwrap();
        fs::write(&bound, "32768\n").unwrap();
        let raised = Raised::at(bound.path(), 60_000);
        assert_eq!(fs::read_to_string(&bound).unwrap(), "68192");
        drop(raised);
        assert_eq!(fs::read_to_string(&bound).unwrap(), "32768");
    }

    #[test]
    fn a_bound_that_suffices_stays() {
        let bound = tempfile::NamedTempFile::new().unwrap();
        fs::write(&bound, "4194304\n").unwrap();
        drop(Raised::at(bound.path(), 60_000));
        assert_eq!(fs::read_to_string(&bound).unwrap(), "4194304\n");
    }
}
