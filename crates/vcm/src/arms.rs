//! Allocators as they are typed: by name, by path, or those that are found.

use std::path::Path;
use vcm_front::library;
use vcm_front::say::{self, FAILURE, Failure, NOT_UNDERSTOOD};
use vcm_measure::allocators::{self, Places};
use vcm_measure::arm::{Arm, Expected};
use vcm_measure::nearest;

const HARDENED: &str = "vcmalloc-hardened";
const PLAIN: &str = "plain";
pub const OWN: &str = "vcmalloc";
pub const BY_THEMSELVES: [&str; 6] = ["glibc", "jemalloc", "tcmalloc", "mimalloc", OWN, HARDENED];

/// The C library's.
pub fn glibc() -> Arm {
    Arm { name: "glibc".to_owned(), expected: Expected::Glibc, ..Arm::plain() }
}

/// Those of the names that are found; the missing are named on stderr.
pub fn found_by_themselves(names: &[&str], library: Option<&Path>) -> Vec<Arm> {
    let mut arms = Vec::new();
    for name in names {
        match arm(name, library) {
            Ok(found) => add(&mut arms, found),
            Err(missing) => say::line(&format!("without {name}: {}", missing.message)),
        }
    }
    arms
}

/// An allocator that takes part twice shows the noise, so it has two names.
pub fn add(arms: &mut Vec<Arm>, mut arm: Arm) {
    let twins = arms
        .iter()
        .filter(|other| other.name == arm.name || other.name.starts_with(&format!("{} (", arm.name)));
    let number = twins.count() + 1;
    if number > 1 {
        arm.name = format!("{} ({number})", arm.name);
    }
    arms.push(arm);
}

pub fn arm(name: &str, library: Option<&Path>) -> Result<Arm, Failure> {
    if name.contains('/') {
        return Arm::preloading(Path::new(name)).map_err(|reason| Failure::new(FAILURE, reason));
    }
    if name == PLAIN {
        return Ok(Arm::plain());
    }
    if name == HARDENED {
        let beside = library.map(|library| library.with_file_name("libvcmalloc-hardened.so"));
        let found = library::find(beside.as_deref(), true).map_err(failed)?;
        let arm = Arm::preloading(&found.real_path).map_err(|reason| Failure::new(FAILURE, reason))?;
        return Ok(Arm { name: HARDENED.to_owned(), ..arm });
    }
    let allocator = allocators::known(name).ok_or_else(|| unknown(name, library))?;
    let ours = allocator.is_ours().then(|| library::find(library, false)).transpose().map_err(failed)?;
    let places = Places::beside_this_program(ours.map(|library| library.real_path));
    let ready = places.and_then(|places| places.find(allocator));
    ready.map(|ready| Arm::of(&ready)).map_err(|missing| Failure::new(FAILURE, format!("{missing:#}")))
}

/// Names those that are found on this machine.
fn unknown(name: &str, library: Option<&Path>) -> Failure {
    let found = allocators::ALLOCATORS.iter().map(|allocator| allocator.name);
    let found = found.filter(|name| arm(name, library).is_ok()).chain([PLAIN]);
    let suggestion = nearest::suggestion(name, found);
    Failure::new(
        NOT_UNDERSTOOD,
        format!("there is no allocator '{name}'{suggestion}; or a path with a slash"),
    )
}

/// The codes of `run` are not those of this verb.
fn failed(failure: Failure) -> Failure {
    Failure { code: FAILURE, ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_allocator_three_times_has_three_names() {
        let mut arms = Vec::new();
        (0..3).for_each(|_| add(&mut arms, Arm::plain()));
        let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names, ["plain", "plain (2)", "plain (3)"]);
    }
}
