//! The peers of these measurements: those whose memory issue people ask about, and settings that change what
//! comes back.

use crate::harness::allocators::{self, Allocator, Library, Places, Ready};
use anyhow::{Result, ensure};

/// Settings that only matter for memory. Names are as in the tables.
static VARIANTS: [Allocator; 2] = [
    Allocator {
        name: "jemalloc-background",
        library: Library::Debian { file: "libjemalloc.so.2", package: "libjemalloc2" },
        environment: &[("MALLOC_CONF", "background_thread:true")],
        is_default: false,
    },
    JANITOR_OFF,
];

/// Without the thread slow paths would do its work: so long a delay and so much to retain leave nothing to
/// do.
const JANITOR_OFF: Allocator = Allocator {
    name: "vcmalloc-no-janitor",
    library: Library::Ours,
    environment: &[("VCM_JANITOR", "off"), ("VCM_RELEASE_DELAY", "1h"), ("VCM_RETAIN", "1T")],
    is_default: false,
};

/// What `default` means here.
const DEFAULT: [&str; 7] =
    ["vcmalloc", "glibc", "jemalloc", "jemalloc-background", "tcmalloc", "mimalloc2", "mimalloc3-new"];

/// Those of the named that are there, in the order of the names; the rest is said on stderr.
pub fn ready(names: &[String], places: &Places) -> Result<Vec<Ready>> {
    let mut chosen: Vec<&'static Allocator> = Vec::new();
    for name in names.iter().flat_map(|name| expand(name)) {
        let variant = VARIANTS.iter().find(|variant| variant.name == name);
        let found = match variant {
            Some(variant) => vec![variant],
            None => allocators::named(&[name])?,
        };
        for allocator in found {
            if !chosen.iter().any(|other| other.name == allocator.name) {
                chosen.push(allocator);
            }
        }
    }
    let ready = allocators::ready(&chosen, places);
    ensure!(!ready.is_empty(), "none of the chosen allocators is there");
    Ok(ready)
}

fn expand(name: &str) -> Vec<String> {
    match name {
        "default" => DEFAULT.map(str::to_owned).to_vec(),
        name => vec![name.to_owned()],
    }
}

/// Ours with and without its janitor.
pub fn with_and_without_janitor(places: &Places) -> Result<[Ready; 2]> {
    let library = places.library_of(&VARIANTS[1])?;
    let with = allocators::named(&["vcmalloc".to_owned()])?[0];
    Ok([with, &VARIANTS[1]].map(|allocator| Ready { allocator, library: library.clone() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_name_is_an_allocator() {
        for name in DEFAULT {
            let is_variant = VARIANTS.iter().any(|variant| variant.name == name);
            assert!(is_variant || allocators::named(&[name.to_owned()]).is_ok(), "{name}");
        }
    }
}
