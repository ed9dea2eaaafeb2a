//! The arms under a program that is linked with TCMalloc or jemalloc: ours is the stand-in, so that the program's own calls reach
//! it, and MALLOC_CONF holds for jemalloc and for ours.

use crate::cli::compare::Compare;
use crate::findings::{self, Start};
use std::env;
use std::path::Path;
use vcm_foreign::Shown;
use vcm_front::library;
use vcm_front::say;
use vcm_inspect::command;
use vcm_inspect::privileges::Starter;
use vcm_inspect::root::Root;
use vcm_measure::arm::{Arm, Expected};

const CONF: &str = "MALLOC_CONF";

/// A library that was chosen by its path stays; so does the hardened one, which has no stand-in.
pub fn fitted(mut arms: Vec<Arm>, arguments: &Compare) -> Vec<Arm> {
    let mut told = None;
    for arm in &mut arms {
        let Some(own) = arm.library.clone().filter(|_| arm.is_ours && arm.name.starts_with("vcmalloc"))
        else {
            continue;
        };
        if arguments.library.is_some() || arm.name.starts_with("vcmalloc-hardened") {
            continue;
        }
        if let Some(stand_in) = stand_in(&own, arguments).filter(|found| found.behind.is_empty()) {
            told = Some(stand_in.path);
            arm.expected = Expected::File(stand_in.real_path.clone());
            arm.library = Some(stand_in.real_path);
        }
    }
    let conf = env::var(CONF).ok().filter(|conf| !conf.is_empty());
    if let Some(path) = told {
        say::line(&format!(
            "vcm: note: the program is linked with another allocator, so vcmalloc is {}",
            path.shown()
        ));
    }
    let Some(conf) = conf else { return arms };
    let mut names = Vec::new();
    for arm in arms.iter_mut().filter(|arm| reads_conf(arm)) {
        arm.settings.push((CONF.into(), conf.clone()));
        names.push(arm.name.clone());
    }
    if !names.is_empty() {
        let shown = say::typed([format!("{CONF}={conf}")]);
        say::line(&format!("vcm: note: {shown} is set for {}", names.join(", ")));
    }
    arms
}

/// jemalloc, ours in its place, and the program as it is; not with a setting of its own.
fn reads_conf(arm: &Arm) -> bool {
    let is_set = arm.settings.iter().any(|(name, _)| name == CONF);
    let is_jemalloc = |path: &Path| path.file_name().is_some_and(|name| name == library::JEMALLOC_STAND_IN);
    let is_plain = arm.library.is_none() && arm.expected == Expected::Anything;
    !is_set && (is_plain || arm.library.as_deref().is_some_and(is_jemalloc))
}

fn stand_in(own: &Path, arguments: &Compare) -> Option<library::Library> {
    let [name, rest @ ..] = arguments.command.as_slice() else { return None };
    let search_path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let target =
        command::follow(&Root::real(), command::resolve(name, &search_path).ok()?, rest, &search_path);
    let library_path = env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let root = Root::real();
    let start = Start { root: &root, starter: Starter::this_process(), library_path: &library_path };
    let library = library::open(own, "found by vcm").ok()?;
    findings::stand_in(&library, &findings::of(&target, &library, &start), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jemallocs_variable_is_for_jemalloc_ours_in_its_place_and_the_program_as_it_is() {
        let preloading =
            |path: &str| Arm { library: Some(path.into()), expected: Expected::Glibc, ..Arm::plain() };
        assert!(reads_conf(&Arm::plain()) && reads_conf(&preloading("/usr/lib/libjemalloc.so.2")));
        assert!(reads_conf(&preloading("/usr/lib/vcmalloc/jemalloc/libjemalloc.so.2")));
        let own = preloading("/usr/lib/libjemalloc.so.2").with("", CONF, "background_thread:true");
        assert!(!reads_conf(&own) && !reads_conf(&preloading("/usr/lib/libvcmalloc.so")));
        let glibc = Arm { expected: Expected::Glibc, ..Arm::plain() };
        assert!(!reads_conf(&glibc));
    }
}
