//! The options of the jemalloc in a process: the texts in force, and what each would do on our libjemalloc.so.2.

use std::ffi::OsString;
use std::path::Path;
use vcm_foreign::Shown;
use vcm_inspect::allocator::{Answer, Kind};
use vcm_inspect::elf::Among;
use vcm_inspect::loaded::BroughtBy;
use vcm_inspect::process::Process;
use vcmalloc_core::options::jemalloc::{Meaning, meaning};

/// Before the names of a copy: none, jemalloc's own word for it (redis), that of Rust's crate.
const PREFIXES: [&str; 3] = ["", "je_", "_rjem_"];

/// A text of options, weaker than those behind it.
pub struct Source {
    /// `malloc_conf` (in the program), `malloc.conf` (a link in /etc) or `MALLOC_CONF`, with the copy's prefix.
    pub name: String,
    pub text: String,
    /// None: an environment variable.
    pub origin: Option<String>,
}

/// The prefixes of the names by which the process's jemalloc, or ours in its place, is known. A copy without symbols may have any.
fn prefixes(answer: &Answer) -> &'static [&'static str] {
    match (&answer.serving, answer.private_copy) {
        (_, Some("je_malloc")) => &["je_"],
        (_, Some("_rjem_malloc")) => &["_rjem_"],
        (Some(serving), _) if serving.kind == Kind::JemallocStandIn => &[""],
        (Some(serving), _) if serving.kind == Kind::Jemalloc => match serving.brought_by {
            BroughtBy::Program => &PREFIXES,
            _ => &[""],
        },
        _ => &[],
    }
}

/// Whether it is in the program, where a preload does not replace it.
pub fn is_built_in(answer: &Answer) -> bool {
    let is_program = |found: &vcm_inspect::allocator::Allocator| {
        found.kind == Kind::Jemalloc && found.brought_by == BroughtBy::Program
    };
    answer.private_copy.is_some() || answer.serving.as_ref().is_some_and(is_program)
}

/// In the order in which jemalloc reads them.
pub fn sources(
    process: &Process,
    answer: &Answer,
    environment: Option<&[(OsString, OsString)]>,
) -> Vec<Source> {
    let mut sources = Vec::new();
    for prefix in prefixes(answer) {
        let symbol = format!("{prefix}malloc_conf");
        if let Some(text) = in_program(process, answer, &symbol) {
            let origin = Some("the program's variable".into());
            sources.push(Source { name: symbol, text: text.shown().printed(), origin });
        }
        let link = format!("/etc/{prefix}malloc.conf");
        if let Ok(target) = std::fs::read_link(process.as_seen_by_it(Path::new(&link))) {
            let name = format!("{prefix}malloc.conf");
            sources.push(Source { name, text: target.shown().printed(), origin: Some(link) });
        }
        let variable = format!("{prefix}malloc_conf").to_uppercase();
        let set = environment.unwrap_or_default().iter().find(|(name, _)| *name == *variable);
        // Programs that gained rights ignore it.
        if let Some((_, text)) = set.filter(|_| !process.was_privileged()) {
            sources.push(Source { name: variable, text: text.shown().printed(), origin: None });
        }
    }
    sources
}

/// The program's own definition comes before the library's, if it is exported.
fn in_program(process: &Process, answer: &Answer, symbol: &str) -> Option<Vec<u8>> {
    let program = process.program().ok()?;
    if is_built_in(answer) {
        return process.text_behind(&program, &[symbol], Among::All);
    }
    let library = answer.serving.as_ref().map(|serving| serving.object.clone());
    [Some(program), library]
        .into_iter()
        .flatten()
        .find_map(|object| process.text_behind(&object, &[symbol], Among::Exported))
}

pub fn is_source(name: &str) -> bool {
    let forms = ["malloc_conf", "malloc.conf"];
    let is_own = |prefix: &&str| {
        let rest = |name: &str| forms.iter().any(|form| name.strip_prefix(prefix) == Some(form));
        rest(name) || name == format!("{prefix}malloc_conf").to_uppercase()
    };
    PREFIXES.iter().any(is_own)
}

/// Each option in force, with the source that won.
fn in_force<'a>(sources: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut options: Vec<(&str, &str)> = Vec::new();
    for (source, text) in sources {
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let name = |part: &'a str| part.split(':').next().unwrap_or(part);
            options.retain(|(known, _)| name(known) != name(part));
            options.push((part, source));
        }
    }
    options
}

/// A line for each option that our library does not take as jemalloc does: its effect there. `is_ours`: it serves the process, and what
/// it obeys is no change.
pub fn changes(sources: &[(&str, &str)], is_ours: bool) -> Vec<String> {
    let change = |(part, source): (&str, &str)| {
        let no_effect = |why: &str| Some(format!("{part} ({source}) has no effect: {why}"));
        let Some((name, value)) = part.split_once(':') else {
            return no_effect("options are NAME:VALUE, separated by commas");
        };
        match meaning(name) {
            None => no_effect("jemalloc 5.3 has no option of this name"),
            Some(Meaning::Same) => None,
            Some(Meaning::Becomes(words)) => (!is_ours).then(|| format!("{part} ({source}) becomes {words}")),
            Some(Meaning::Only(only, _)) if only == value || (name, value) == ("narenas", "default") => None,
            Some(Meaning::Kept(why) | Meaning::Only(_, why) | Meaning::Absent(why)) => no_effect(why),
        }
    };
    in_force(sources).into_iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_an_option_is_in_force() {
        let sources = [("malloc_conf", "narenas:1,thp:never"), ("MALLOC_CONF", "narenas:2,,prof:true")];
        let expected =
            [("thp:never", "malloc_conf"), ("narenas:2", "MALLOC_CONF"), ("prof:true", "MALLOC_CONF")];
        assert_eq!(in_force(&sources), expected);
    }

    #[test]
    fn only_what_would_change_is_told() {
        let told = |text: &str, is_ours| changes(&[("MALLOC_CONF", text)], is_ours);
        assert_eq!(told("prof:true,narenas:1,retain:true,narenas:default", false), Vec::<String>::new());
        let decay = told("dirty_decay_ms:1000", false);
        assert!(decay[0].starts_with("dirty_decay_ms:1000 (MALLOC_CONF) becomes release_delay"), "{decay:?}");
        assert_eq!(told("dirty_decay_ms:1000", true), Vec::<String>::new());
        for text in ["narenas:4", "lg_tcache_max:12", "muzzy_decay_ms:0", "no_such:1", "word"] {
            for is_ours in [false, true] {
                assert!(told(text, is_ours)[0].contains("has no effect: "), "{text}");
            }
        }
    }

    #[test]
    fn sources_of_every_copy_are_known_by_name() {
        for name in ["MALLOC_CONF", "_RJEM_MALLOC_CONF", "je_malloc_conf", "malloc.conf", "JE_MALLOC_CONF"] {
            assert!(is_source(name), "{name}");
        }
        assert!(!is_source("MALLOC_ARENA_MAX") && !is_source("cache_limit"));
    }
}
