//! The objects of a process in the order in which its dynamic loader took them.
//!
//! Owns the way to the loader's own list, which debuggers read too (`_r_debug`, <link.h>): the program, its preloads,
//! the libraries it is linked with, then those opened while it runs. The process can write there, as it can write over
//! its environment.

use super::elf::Among;
use super::process::Process;
use super::variables::word;
use std::path::PathBuf;
use vcm_foreign::file;

/// No process has more; the list may be damaged, and lead round.
const MOST_OBJECTS: usize = 1 << 14;
/// Offsets: of the beginning of the list in `struct r_debug`, and of the parts of `struct link_map`.
const MAP: u64 = 8;
const DYNAMIC: u64 = 16;
const NEXT: u64 = 24;

impl Process {
    /// The files, the program's first; none where the list cannot be read.
    pub fn order_of_loading(&self) -> Option<Vec<PathBuf>> {
        let is_loader = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            ["ld-linux", "ld64.so", "ld-2."].iter().any(|begin| name.starts_with(begin))
        };
        let loader = self.mapped_files().ok()?.into_iter().find(is_loader)?;
        let list = self.address_of(&loader, &["_r_debug"], Among::All)?;
        let memory = self.memory().ok()?;
        let maps = file::text_of_kernel(&self.file("maps")).ok()?;
        let mut order = Vec::new();
        let mut at = word(&memory, list.checked_add(MAP)?)?;
        while at != 0 {
            let dynamic = word(&memory, at.checked_add(DYNAMIC)?)?;
            // The kernel's own object has no file.
            order.extend(file_at(&maps, dynamic));
            if order.len() > MOST_OBJECTS {
                return None;
            }
            at = word(&memory, at.checked_add(NEXT)?)?;
        }
        Some(order)
    }
}

/// The file that is mapped at an address.
fn file_at(maps: &str, address: u64) -> Option<PathBuf> {
    maps.lines().find_map(|line| {
        let (begin, rest) = line.split_once('-')?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        let end = number(rest.split(' ').next()?)?;
        let is_there = (number(begin)?..end).contains(&address);
        line.get(line.find('/')?..).filter(|_| is_there).map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_own_process_was_loaded_from_its_program_to_its_libc() {
        let own = Process::new(std::process::id() as i32);
        let order = own.order_of_loading().unwrap();
        assert_eq!(order.first(), own.program().ok().as_ref());
        assert!(order.iter().any(|path| path.ends_with("libc.so.6")), "{order:?}");
    }
}
