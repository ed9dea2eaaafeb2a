//! Stacks by the names of their functions, and which of these the program's own.

use super::profile::{Amount, Measure, Profile, Site};
use std::collections::HashMap;

/// A function in a stack, as it is shown.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Call {
    pub function: String,
    /// `file:line`, or the module; empty: not known.
    pub place: String,
    /// No allocator's, and no part of a language's library.
    pub is_own: bool,
}

/// One chain of calls, and the amount that came from it.
#[derive(Clone, PartialEq, Debug)]
pub struct Chain {
    /// Innermost first.
    pub calls: Vec<Call>,
    pub amount: Amount,
}

impl Chain {
    /// The call by which the program itself wanted memory; the innermost one where none is its own.
    pub fn own(&self) -> Option<&Call> {
        self.calls.iter().find(|call| call.is_own).or_else(|| self.calls.first())
    }
}

/// The chains of a profile, each once.
pub fn chains(profile: &Profile, measure: Measure) -> Vec<Chain> {
    let mut found: HashMap<Vec<Call>, Amount> = HashMap::new();
    let mut known = HashMap::new();
    for site in &profile.sites {
        let amount = site.amount(measure);
        if amount.bytes != 0.0 || amount.objects != 0.0 {
            found.entry(calls(profile, site, &mut known)).or_default().add(amount);
        }
    }
    let mut chains: Vec<Chain> = found.into_iter().map(|(calls, amount)| Chain { calls, amount }).collect();
    let names = |chain: &Chain| chain.calls.iter().map(|call| call.function.clone()).collect::<Vec<String>>();
    chains.sort_by(|left, right| {
        right.amount.bytes.total_cmp(&left.amount.bytes).then_with(|| names(left).cmp(&names(right)))
    });
    chains
}

fn calls(profile: &Profile, site: &Site, known: &mut HashMap<u64, Vec<Call>>) -> Vec<Call> {
    let mut calls = Vec::new();
    for address in &site.frames {
        let of = known.entry(*address).or_insert_with(|| at(profile, *address));
        calls.extend(of.iter().cloned());
    }
    calls
}

fn at(profile: &Profile, address: u64) -> Vec<Call> {
    let mapping = profile.mapping(address);
    let module = mapping.map_or("[unknown]", |mapping| mapping.module());
    if let Some(frames) = profile.frames.get(&address) {
        let call = |frame: &super::profile::Frame| Call {
            function: frame.function.clone(),
            place: match frame.line {
                0 => module.to_string(),
                line => format!("{}:{line}", frame.file.rsplit('/').next().unwrap_or_default()),
            },
            is_own: !is_library(module) && !is_language(&frame.function),
        };
        return frames.iter().map(call).collect();
    }
    let function = match mapping {
        Some(mapping) => format!("{module}+{:#x}", address.wrapping_add(mapping.to_file)),
        None => format!("{address:#x}"),
    };
    let is_own = mapping.is_some() && !is_library(module);
    vec![Call { function, place: String::new(), is_own }]
}

/// The libraries of the languages themselves.
fn is_library(module: &str) -> bool {
    const LIBRARIES: [&str; 12] = [
        "libc.so",
        "libc-",
        "libstdc++",
        "libc++",
        "libgcc_s",
        "libpthread",
        "ld-linux",
        "ld-musl",
        "libm.so",
        "libvcmalloc",
        "libtcmalloc",
        "[vdso]",
    ];
    LIBRARIES.iter().any(|name| module.starts_with(name))
}

/// Allocators, and what C++ and Rust programs are built of.
fn is_language(function: &str) -> bool {
    const NAMES: [&str; 23] = [
        "malloc",
        "calloc",
        "realloc",
        "reallocarray",
        "memalign",
        "aligned_alloc",
        "posix_memalign",
        "valloc",
        "pvalloc",
        "strdup",
        "strndup",
        "__strdup",
        "asprintf",
        "vasprintf",
        "xmalloc",
        "xcalloc",
        "xrealloc",
        "g_malloc",
        "g_malloc0",
        "g_realloc",
        "_start",
        "__libc_start_main",
        // The function that `posix_memalign` of our archive calls.
        "aligned_quietly",
    ];
    const SPACES: [&str; 18] = [
        "operator new",
        "std::",
        "__gnu_cxx::",
        "void std::",
        "void* std::",
        "alloc::",
        "core::",
        "<alloc::",
        "<core::",
        "<std::",
        "hashbrown::",
        "<hashbrown::",
        "__rust_",
        "__rdl_",
        "__rg_",
        "boost::container::",
        "vcm_",
        "_rust_",
    ];
    if NAMES.contains(&function)
        || function.starts_with("_Zn")
        || SPACES.iter().any(|space| function.starts_with(space))
    {
        return true;
    }
    // `std::vector<Request>& std::...`, `<T as core::...>::f`: what counts stands before the arguments, behind the type.
    let head = function.split('(').next().unwrap_or(function);
    let last = last_word(head);
    last.starts_with("std::")
        || last.starts_with("__gnu_cxx::")
        || function.contains(" as alloc::")
        || function.contains(" as core::")
}

/// The text behind the last blank that lies in no pair of angle brackets.
fn last_word(text: &str) -> &str {
    let mut depth = 0;
    let mut begin = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            ' ' if depth == 0 => begin = at + 1,
            _ => {}
        }
    }
    text.get(begin..).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Frame, Mapping};

    #[test]
    fn parts_of_the_languages_are_not_the_programs_own() {
        for function in [
            "malloc",
            "_Znwm",
            "operator new(unsigned long)",
            "std::vector<Request, std::allocator<Request> >::_M_realloc_insert<>(int)",
            "void std::vector<Request>::emplace_back<Request>(Request&&)",
            "std::__cxx11::basic_string<char>::_M_assign(std::string const&)",
            "std::pair<A, B>* std::__uninitialized_copy<false>::f(int)",
            "__gnu_cxx::new_allocator<char>::allocate(unsigned long, void const*)",
            "alloc::raw_vec::finish_grow",
            "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
            "hashbrown::raw::RawTable<T,A>::reserve_rehash",
        ] {
            assert!(is_language(function), "{function}");
        }
        for function in [
            "main",
            "mallocate",
            "OSD::handle(std::vector<int>)",
            "std_like()",
            "BlueStore::_write(std::shared_ptr<Onode>)",
            "stdx::make()",
            "my_alloc::pool",
            "server::cache::Cache::insert",
        ] {
            assert!(!is_language(function), "{function}");
        }
        assert!(
            is_library("libc.so.6")
                && is_library("libstdc++.so.6.0.30")
                && !is_library("libceph-common.so.2")
        );
    }

    #[test]
    fn stacks_of_the_same_names_are_one_chain_and_addresses_without_names_are_of_their_module() {
        let site = |frames: &[u64], bytes| Site {
            frames: frames.to_vec(),
            live: Amount { objects: 1.0, bytes, variance: 4.0 },
            ..Site::default()
        };
        let frame = |name: &str| vec![Frame { function: name.into(), file: "/src/a.c".into(), line: 3 }];
        let profile = Profile {
            sites: vec![site(&[0x10, 0x30], 5.0), site(&[0x11, 0x30], 7.0), site(&[0x40, 0x30], 20.0)],
            mappings: vec![Mapping {
                start: 0x40,
                end: 0x50,
                file: "/opt/plug in.so (deleted)".into(),
                to_file: 0x1000,
                ..Mapping::default()
            }],
            frames: [(0x10, frame("take")), (0x11, frame("take")), (0x30, frame("main"))].into(),
            ..Profile::default()
        };
        let chains = chains(&profile, Measure::Live);
        let shown: Vec<(String, f64, f64)> = chains
            .iter()
            .map(|chain| {
                let names: Vec<&str> = chain.calls.iter().map(|call| call.function.as_str()).collect();
                (names.join(" < "), chain.amount.bytes, chain.amount.variance)
            })
            .collect();
        assert_eq!(
            shown,
            [("plug in.so+0x1040 < main".to_string(), 20.0, 4.0), ("take < main".to_string(), 12.0, 8.0)]
        );
        assert_eq!(chains[1].calls[0].place, "a.c:3");
    }
}
