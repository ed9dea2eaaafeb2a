//! Names for addresses, from the files that are mapped; never in the process itself.

use super::profile::{Frame, Mapping, Profile};
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolizer};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use vcm_foreign::Shown;
use vcm_inspect::process::Process;

/// The folders of files with the debugging information of stripped ones: by build-id and by link.
const DEBUG_FOLDERS: [&str; 2] = ["/usr/lib/debug", "/usr/local/lib/debug"];

impl Profile {
    /// Names what can be named, while the process that was read is there. The rest stays an address.
    pub fn name(&mut self, process: &Process) {
        let addresses: BTreeSet<u64> =
            self.sites.iter().flat_map(|site| site.frames.iter().copied()).collect();
        let folders = debug_folders(process);
        let symbolizer = Symbolizer::builder().set_debug_dirs(Some(&folders)).build();
        for mapping in &mut self.mappings {
            let inside = addresses.range(mapping.start..mapping.end);
            for path in sources(mapping, &folders) {
                let left = inside.clone().filter(|address| !self.frames.contains_key(address));
                let left: Vec<u64> = left.copied().collect();
                if left.is_empty() {
                    break;
                }
                let found = named(&symbolizer, &path, &left, mapping.to_file);
                mapping.named |= !found.is_empty();
                self.frames.extend(found);
            }
        }
        self.drop_allocator();
    }

    /// The shared library leaves its own calls out of stacks. If it is a part of the program, it cannot tell them from
    /// the program's, and we can.
    fn drop_allocator(&mut self) {
        let is_ours = |address: &u64| {
            let frames = self.frames.get(address).map(Vec::as_slice).unwrap_or_default();
            frames.iter().any(|frame| is_allocators(&frame.function))
        };
        for site in &mut self.sites {
            let last = site.frames.iter().take(MOST_OF_OURS).rposition(is_ours);
            // A stack of nothing else would be nobody's.
            if let Some(last) = last.filter(|last| last + 1 < site.frames.len()) {
                site.frames.drain(..=last);
            }
        }
    }
}

/// More calls than the library makes for an allocation; calls beyond are the program's, whatever their name.
const MOST_OF_OURS: usize = 12;

fn is_allocators(function: &str) -> bool {
    function.contains("vcmalloc_core::")
        || function.starts_with("vcmalloc::")
        || function.starts_with("<vcmalloc::")
}

/// Those of the host and, in a container, its own.
fn debug_folders(process: &Process) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = DEBUG_FOLDERS.iter().map(PathBuf::from).collect();
    if !process.shares_our_files() {
        let view = process.view();
        folders.extend(DEBUG_FOLDERS.iter().map(|folder| view.path(folder)));
    }
    folders.retain(|folder| folder.is_dir());
    folders
}

/// Files with names for what is mapped, the best first: the names stripped off a file have its build-id.
fn sources(mapping: &Mapping, folders: &[PathBuf]) -> Vec<PathBuf> {
    let id = mapping.build_id.split_at_checked(2).filter(|(_, rest)| !rest.is_empty());
    let stripped = id.into_iter().flat_map(|(first, rest)| {
        folders.iter().map(move |folder| folder.join(format!(".build-id/{first}/{rest}.debug")))
    });
    stripped.filter(|path| path.is_file()).chain(mapping.readable.clone()).collect()
}

/// A file that was damaged or went away meanwhile has no names.
fn named(symbolizer: &Symbolizer, path: &Path, addresses: &[u64], to_file: u64) -> Vec<(u64, Vec<Frame>)> {
    let in_file: Vec<u64> = addresses.iter().map(|address| address.wrapping_add(to_file)).collect();
    let source = Source::Elf(Elf::new(path));
    let found = symbolizer.symbolize(&source, Input::VirtOffset(&in_file)).unwrap_or_default();
    let pairs = addresses.iter().zip(&found);
    pairs.filter_map(|(address, found)| Some((*address, frames(found.as_sym()?)))).collect()
}

/// The function at an address and those that the compiler put into it, innermost first.
fn frames(symbol: &Sym) -> Vec<Frame> {
    let outer = frame(&symbol.name, symbol.code_info.as_deref());
    let inlined = symbol.inlined.iter().map(|inlined| frame(&inlined.name, inlined.code_info.as_ref()));
    let mut frames: Vec<Frame> = std::iter::once(outer).chain(inlined).collect();
    frames.reverse();
    frames
}

fn frame(name: &str, code: Option<&CodeInfo>) -> Frame {
    let file = code.map(|code| code.to_path().shown().printed());
    Frame {
        function: name.shown().printed(),
        file: file.unwrap_or_default(),
        line: code.and_then(|code| code.line).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Site;
    use std::fs;

    #[test]
    fn what_was_stripped_off_is_found_by_build_id_and_comes_first() {
        let folder = std::env::temp_dir().join(format!("vcm-symbols-{}", std::process::id()));
        let debug = folder.join(".build-id/ab/cdef.debug");
        fs::create_dir_all(debug.parent().unwrap()).unwrap();
        fs::write(&debug, "").unwrap();
        let mapping =
            |id: &str| Mapping { build_id: id.into(), readable: Some("/bin/a".into()), ..Mapping::default() };
        let found =
            ["abcdef", "abcd", "ab", ""].map(|id| sources(&mapping(id), std::slice::from_ref(&folder)));
        fs::remove_dir_all(&folder).unwrap();
        let itself = vec![PathBuf::from("/bin/a")];
        assert_eq!(found, [vec![debug, "/bin/a".into()], itself.clone(), itself.clone(), itself]);
    }

    #[test]
    fn calls_of_a_linked_allocator_are_left_out_and_those_of_the_program_stay() {
        let named = |name: &str| vec![Frame { function: name.into(), file: String::new(), line: 0 }];
        let names = [
            "stack",
            "here<vcmalloc_core::os::linux::Linux>",
            "vcmalloc::malloc::malloc_slow",
            "_Znwm",
            "main",
        ];
        let site = |frames: &[u64]| Site { frames: frames.to_vec(), ..Site::default() };
        let mut profile = Profile {
            sites: vec![site(&[0, 1, 2, 3, 4]), site(&[3, 4]), site(&[0, 1])],
            frames: names.iter().zip(0..).map(|(name, address)| (address, named(name))).collect(),
            ..Profile::default()
        };
        profile.drop_allocator();
        let left: Vec<&[u64]> = profile.sites.iter().map(|site| site.frames.as_slice()).collect();
        assert_eq!(left, [&[3, 4][..], &[3, 4], &[0, 1]]);
    }
}
