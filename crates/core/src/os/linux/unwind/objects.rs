//! Which loaded object an address of code belongs to, and where its tables are.

use core::ffi::{c_int, c_void};
use core::ops::Range;

/// glibc's `struct dl_find_object` (`<dlfcn.h>`) of this machine.
#[repr(C)]
struct Found {
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
        type Find = unsafe extern "C" fn(usize, *mut Found) -> c_int;
        // SAFETY: by the promise of `new`.
        let find = unsafe { core::mem::transmute::<*const c_void, Find>(self.0) };
        // SAFETY: numbers alone.
        let mut found: Found = unsafe { core::mem::zeroed() };
        // SAFETY: a place for the answer.
        let is_found = unsafe { find(address, &mut found) } == 0;
        let object = Object { range: found.start..found.end, tables: found.tables };
        (is_found && found.tables != 0).then_some(object)
    }
}

/// A loaded object.
#[derive(Clone)]
pub struct Object {
    /// Where it lies, or its part that holds the code asked for.
    pub range: Range<usize>,
    /// The address of its `.eh_frame_hdr`.
    pub tables: usize,
}

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
    search.found = tables.map(|tables| Object { range, tables: place(tables) });
    1
}
