//! The arms that take part: the allocators that were typed, or those that are found, and swept options.

use crate::arms::{BY_THEMSELVES, OWN, add, arm, found_by_themselves};
use crate::cli::compare::Compare;
use crate::settings;
use vcm_front::say::{Failure, NOT_UNDERSTOOD};
use vcm_measure::arm::Arm;

/// The arms in their order. Of those that were not asked for the missing are named on stderr.
pub fn chosen(arguments: &Compare) -> Result<Vec<Arm>, Failure> {
    let mut arms: Vec<Arm> = Vec::new();
    for name in &arguments.allocators {
        add(&mut arms, arm(name, arguments.library.as_deref())?);
    }
    if arguments.allocators.is_empty() && arguments.sweep.is_empty() {
        arms = found_by_themselves(&BY_THEMSELVES, arguments.library.as_deref());
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

/// Those of all sweeps.
pub fn swept_all(sweeps: &[String]) -> Result<Vec<(String, String, String)>, Failure> {
    let mut all = Vec::new();
    for sweep in sweeps {
        all.extend(swept(sweep)?);
    }
    Ok(all)
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
}
