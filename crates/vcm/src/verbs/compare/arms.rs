//! What takes part: the allocators that were typed, or those that are found, and swept options.

use crate::cli::compare::Compare;
use crate::library;
use crate::say::{self, FAILURE, Failure, NOT_UNDERSTOOD};
use crate::settings;
use std::path::Path;
use vcm_measure::allocators::{self, Places};
use vcm_measure::arm::Arm;

const HARDENED: &str = "vcmalloc-hardened";
const PLAIN: &str = "plain";
const OWN: &str = "vcmalloc";
const BY_THEMSELVES: [&str; 6] = ["glibc", "jemalloc", "tcmalloc", "mimalloc", OWN, HARDENED];

/// The arms in their order. Of those that were not asked for the missing are named on stderr.
pub fn chosen(arguments: &Compare) -> Result<Vec<Arm>, Failure> {
    let mut arms: Vec<Arm> = Vec::new();
    for name in &arguments.allocators {
        add(&mut arms, arm(name, arguments.library.as_deref())?);
    }
    if arguments.allocators.is_empty() && arguments.sweep.is_empty() {
        for name in BY_THEMSELVES {
            match arm(name, arguments.library.as_deref()) {
                Ok(found) => add(&mut arms, found),
                Err(missing) => say::line(&format!("without {name}: {}", missing.message)),
            }
        }
    }
    for sweep in &arguments.sweep {
        let values = swept(sweep)?;
        let own = arm(OWN, arguments.library.as_deref())?;
        if arms.is_empty() {
            arms.push(own.clone());
        }
        for (text, variable, value) in values {
            add(&mut arms, own.with(&text, &variable, &value));
        }
    }
    match arms.len() {
        0 | 1 => {
            Err(Failure::new(NOT_UNDERSTOOD, "name at least two allocators; 'glibc,glibc' shows the noise"))
        }
        _ => Ok(arms),
    }
}

/// An allocator that takes part twice shows the noise, so it has two names.
fn add(arms: &mut Vec<Arm>, mut arm: Arm) {
    let twins = arms
        .iter()
        .filter(|other| other.name == arm.name || other.name.starts_with(&format!("{} (", arm.name)));
    let number = twins.count() + 1;
    if number > 1 {
        arm.name = format!("{} ({number})", arm.name);
    }
    arms.push(arm);
}

fn arm(name: &str, library: Option<&Path>) -> Result<Arm, Failure> {
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
    let allocator = allocators::named(name).map_err(|wrong| {
        let more = format!("{wrong}, {HARDENED}, {PLAIN}; or a path with a slash");
        Failure::new(NOT_UNDERSTOOD, more)
    })?;
    let ours = allocator.is_ours().then(|| library::find(library, false)).transpose().map_err(failed)?;
    let places = Places::beside_this_program(ours.map(|library| library.real_path));
    let ready = places.and_then(|places| places.find(allocator));
    ready.map(|ready| Arm::of(&ready)).map_err(|missing| Failure::new(FAILURE, format!("{missing:#}")))
}

/// The codes of `run` are not those of this verb.
fn failed(failure: Failure) -> Failure {
    Failure { code: FAILURE, ..failure }
}

/// `option=a,b` as text, variable and value of each.
fn swept(sweep: &str) -> Result<Vec<(String, String, String)>, Failure> {
    let wrong = |reason: String| Failure::new(NOT_UNDERSTOOD, format!("--sweep {sweep}: {reason}"));
    let (name, values) = sweep.split_once('=').ok_or_else(|| wrong("write OPTION=A,B,C".to_owned()))?;
    let settings: Vec<String> =
        values.split(',').map(|value| format!("{}={}", name.trim(), value.trim())).collect();
    let variables = settings::variables_of(&settings).map_err(|words| wrong(words.join("; ")))?;
    let with_text = settings.into_iter().zip(variables);
    Ok(with_text.map(|(text, (variable, value))| (text, variable, value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swept_option_is_checked_as_the_library_would() {
        let arms = swept("cache_limit=1M, 32M").unwrap();
        let expected =
            |value: &str| (format!("cache_limit={value}"), "VCM_CACHE_LIMIT".to_owned(), value.to_owned());
        assert_eq!(arms, [expected("1M"), expected("32M")]);
        for wrong in ["cache_limit", "cache_limit=1M,much", "no_such_option=1"] {
            assert_eq!(swept(wrong).unwrap_err().code, NOT_UNDERSTOOD, "{wrong}");
        }
    }

    #[test]
    fn one_allocator_three_times_has_three_names() {
        let mut arms = Vec::new();
        (0..3).for_each(|_| add(&mut arms, Arm::plain()));
        let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names, ["plain", "plain (2)", "plain (3)"]);
    }
}
