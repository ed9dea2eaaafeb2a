//! The loaded object that an address of code belongs to, the place of its tables, and its readable parts.

use super::super::stack::is_readable;
use super::bytes::Bytes;
use core::ffi::{c_int, c_void};
use core::ops::Range;

/// glibc's `struct dl_find_object` (`<dlfcn.h>`) of this machine.
#[repr(C)]
struct PendingFault {
    flags: u64,
    start: usize,
    end: usize,
    link_map: usize,
    tables: usize,
    reserved: [u64; 7],
}

/// glibc's `_dl_find_object` (2.35 and later), which takes no lock. A parameter, because a library that is linked
/// with this name could not be loaded by an older glibc, not even if the name is weak: it comes with a version.
#[derive(Clone, Copy)]
pub struct FindObject(*const c_void);

// SAFETY: it is the address of a function, which any thread may have.
unsafe impl Send for FindObject {}
// SAFETY: it is the address of a function, which any thread may have.
unsafe impl Sync for FindObject {}

impl FindObject {
    /// # Safety
    /// `function` is what the name stands for, or null.
    pub const unsafe fn new(function: *const c_void) -> Option<FindObject> {
        if function.is_null() { None } else { Some(FindObject(function)) }
    }

    fn object_of(self, address: usize) -> Option<Object> {
        type Find = unsafe extern "C" fn(usize, *mut PendingFault) -> c_int;
        // SAFETY: by the promise of `new`.
        let find = unsafe { core::mem::transmute::<*const c_void, Find>(self.0) };
        // SAFETY: numbers alone.
        let mut found: PendingFault = unsafe { core::mem::zeroed() };
        // SAFETY: a place for the answer.
        let is_found = unsafe { find(address, &mut found) } == 0;
        if !is_found || found.tables == 0 {
            return None;
        }
        // A static program does not say where it begins.
        let Some(segments) = Segments::at(found.start) else { return by_program_headers(address) };
        Some(Object { range: found.start..found.end, tables: found.tables, segments })
    }
}

/// A loaded object.
#[derive(Clone)]
pub struct Object {
    /// Its addresses, or those of its part that holds the code asked for.
    pub range: Range<usize>,
    /// The address of its `.eh_frame_hdr`.
    pub tables: usize,
    pub segments: Segments,
}

/// Readable segments of an object; any further ones are left out.
const MOST_SEGMENTS: usize = 8;

/// The mapped, readable parts of an object. Tables may say anything, also of objects whose sections were removed.
#[derive(Clone, Default)]
pub struct Segments([Range<usize>; MOST_SEGMENTS]);

impl Segments {
    /// The bytes that can be read from this address on.
    pub fn bytes_from(&self, address: usize) -> Option<Bytes> {
        let Segments(ranges) = self;
        let range = ranges.iter().find(|range| range.contains(&address))?;
        // SAFETY: a readable segment of an object that stays loaded while its code is among our callers.
        Some(unsafe { Bytes::new(address, range.end) })
    }

    /// Those of an object that is loaded at this difference to what its headers say.
    fn of(headers: &[libc::Elf64_Phdr], difference: usize) -> Segments {
        let mut segments = Segments::default();
        let readable = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_R != 0);
        for (place, header) in segments.0.iter_mut().zip(readable) {
            let start = difference.wrapping_add(header.p_vaddr as usize);
            *place = start..start.saturating_add(header.p_memsz as usize);
        }
        segments
    }

    /// Those of the object that begins here, if it does so with its headers.
    fn at(start: usize) -> Option<Segments> {
        if start == 0 || !start.is_multiple_of(PAGE) || !is_readable(start) {
            return None;
        }
        let place = core::ptr::with_exposed_provenance::<libc::Elf64_Ehdr>(start);
        // SAFETY: on one page, which is readable; whatever is there is only numbers.
        let head = unsafe { &*place };
        let count = usize::from(head.e_phnum);
        let is_elf = head.e_ident.starts_with(b"\x7fELF")
            && usize::from(head.e_phentsize) == size_of::<libc::Elf64_Phdr>();
        let first = head.e_phoff as usize;
        let bytes = count * size_of::<libc::Elf64_Phdr>();
        if !is_elf || !first.is_multiple_of(8) || first.checked_add(bytes).is_none_or(|end| end > PAGE) {
            return None;
        }
        let headers = core::ptr::with_exposed_provenance::<libc::Elf64_Phdr>(start + first);
        // SAFETY: on the same page.
        let headers = unsafe { core::slice::from_raw_parts(headers, count) };
        let lowest = headers.iter().find(|header| header.p_type == libc::PT_LOAD)?;
        Some(Segments::of(headers, start.wrapping_sub(lowest.p_vaddr as usize & !(PAGE - 1))))
    }

    #[cfg(test)]
    pub fn of_memory(memory: Range<usize>) -> Segments {
        let mut segments = Segments::default();
        segments.0[0] = memory;
        segments
    }
}

const PAGE: usize = 4096;

/// The object that has code at `address`, if it has tables.
pub fn object_of(address: usize, find: Option<FindObject>) -> Option<Object> {
    match find {
        Some(find) => find.object_of(address),
        None => by_program_headers(address),
    }
}

struct Search {
    address: usize,
    found: Option<Object>,
}

/// On older glibc, as the unwinder for exceptions does it: under the dynamic linker's lock, which is recursive.
fn by_program_headers(address: usize) -> Option<Object> {
    let mut search = Search { address, found: None };
    // SAFETY: the callback takes what is handed over here.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: by the promise of `dl_iterate_phdr`.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    // SAFETY: the headers lie there as long as `dl_iterate_phdr` calls.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
    let place = |header: &libc::Elf64_Phdr| info.dlpi_addr as usize + header.p_vaddr as usize;
    let holds = |header: &&libc::Elf64_Phdr| {
        header.p_type == libc::PT_LOAD && search.address.wrapping_sub(place(header)) < header.p_memsz as usize
    };
    let Some(part) = headers.iter().find(holds) else { return 0 };
    let tables = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME);
    let range = place(part)..place(part) + part.p_memsz as usize;
    let segments = Segments::of(headers, info.dlpi_addr as usize);
    search.found = tables.map(|tables| Object { range, tables: place(tables), segments });
    1
}
