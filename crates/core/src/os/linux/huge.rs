//! Transparent huge pages.

use super::super::HugePages;
use super::files;
use core::ptr;

/// Since Linux 6.1.
pub(super) const MADV_COLLAPSE: libc::c_int = 25;

pub(super) fn collapse(address: usize, bytes: usize) -> bool {
    // SAFETY: moves the range's pages; their contents stay.
    unsafe { libc::madvise(ptr::without_provenance_mut(address), bytes, MADV_COLLAPSE) == 0 }
}

/// The fault of one page brings the whole block in. Collapsing takes as long, but waits for every CPU of the machine
/// first, some 30 ms where all are busy. The advice is taken back: the kernel's own thread would fill the block again
/// after parts of it were given back. True where the kernel took the advice; whether it had a huge page shows in memory.
pub(super) fn take(address: usize, bytes: usize) -> bool {
    let block = ptr::without_provenance_mut(address);
    // SAFETY: the advice changes how memory is backed, nothing else.
    if unsafe { libc::madvise(block, bytes, libc::MADV_HUGEPAGE) } != 0 {
        return false;
    }
    let page = super::memory::page_bytes();
    super::memory::populate(address, page);
    forbid(address, bytes);
    true
}

/// The kernel splits a huge page of which only a part is cold. Giving a part back does not: it counts as gone from the
/// process, but stays in memory, and on the cgroup's account, until that is short.
pub(super) fn split(address: usize) {
    // SAFETY: the advice changes in which order pages would be swapped out, nothing else.
    unsafe {
        libc::madvise(ptr::without_provenance_mut(address), super::memory::page_bytes(), libc::MADV_COLD)
    };
}

pub(super) fn forbid(address: usize, bytes: usize) {
    // SAFETY: the advice changes how memory is backed, nothing else. A kernel without huge pages refuses it.
    unsafe { libc::madvise(ptr::without_provenance_mut(address), bytes, libc::MADV_NOHUGEPAGE) };
}

/// The process's own switch comes before the system's setting.
pub(super) fn rule() -> HugePages {
    // SAFETY: asks for a number.
    if unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) } != 0 {
        return HugePages::Never;
    }
    let mut text = [0u8; 64];
    let Ok(length) = files::read(c"/sys/kernel/mm/transparent_hugepage/enabled", &mut text) else {
        return HugePages::Never;
    };
    match text.get(..length).and_then(chosen) {
        Some(b"always") => HugePages::Always,
        Some(b"madvise") => HugePages::OnRequest,
        _ => HugePages::Never,
    }
}

/// The word in brackets.
fn chosen(text: &[u8]) -> Option<&[u8]> {
    let start = text.iter().position(|byte| *byte == b'[')? + 1;
    let length = text.get(start..)?.iter().position(|byte| *byte == b']')?;
    text.get(start..start + length)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_rule_is_the_word_in_brackets() {
        assert_eq!(super::chosen(b"always [madvise] never\n"), Some(&b"madvise"[..]));
        assert_eq!(super::chosen(b"nonsense"), None);
    }
}
