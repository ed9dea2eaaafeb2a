//! Names looked up in the loaded objects' own tables: for lack of dlsym, since before glibc 2.34 a program may have
//! loaded libpthread and not libdl, and for callers that want the table's entry and not the function.
//!
//! Walks the loaded objects and reads the hash table that each carries for the dynamic linker (DT_GNU_HASH).
//! Versions are not compared: the functions looked for have one. Slow, and asked for a few names when the
//! library is loaded, or a plugin is.

use super::c::{Pointer, pointer};
use core::ffi::{CStr, c_char, c_int};
use core::ptr;

/// A search through the dynamic linker's list, object by object, until it says that its object was found.
struct Search<'a> {
    is_found: &'a mut dyn FnMut(Object) -> bool,
}

/// The first object that `is_found` says yes to ends the search.
fn search(is_found: &mut dyn FnMut(Object) -> bool) {
    let mut search = Search { is_found };
    // SAFETY: the callback gets a pointer to `search`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look_at), (&raw mut search).cast()) };
}

unsafe extern "C" fn look_at(info: *mut libc::dl_phdr_info, _: usize, found: Pointer) -> c_int {
    // SAFETY: the dynamic linker passes an object of its list, and `found` is what `search` passed.
    unsafe {
        let (info, search) = (&*info, &mut *found.cast::<Search<'_>>());
        let headers = core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        let base = info.dlpi_addr as usize;
        let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC);
        let tables = dynamic.map(|dynamic| Tables::of(base, base + dynamic.p_vaddr as usize));
        c_int::from((search.is_found)(Object { headers, tables: tables.unwrap_or_default(), base }))
    }
}

/// The first object that defines a function of this name, but for the one that holds `not_in`; null where
/// none does.
pub fn function(name: &CStr, not_in: usize) -> Pointer {
    pointer(defining(name, not_in).map_or(0, |object| object.function(name)))
}

/// The function of this name that the object with this address defines; null where it defines none. A function that it
/// only refers to does not count.
#[allow(dead_code)] // the test of this module looks in all
pub fn function_beside(address: usize, name: &CStr) -> Pointer {
    pointer(holding(address).map_or(0, |object| object.function(name)))
}

/// The object itself.
pub fn defining(name: &CStr, not_in: usize) -> Option<Object> {
    let mut found = None;
    search(&mut |object| {
        let is_it = object.flags_at(not_in).is_none() && object.function(name) != 0;
        if is_it {
            found = Some(object);
        }
        is_it
    });
    found
}

/// Whether an object binds its own names first and defines one of these functions, but for the one that holds `not_in`.
#[cfg(any(hardened, test))]
#[allow(dead_code)] // the test of this module asks for names only
pub fn any_symbolic(names: &[&CStr], not_in: usize) -> bool {
    let mut is_found = false;
    search(&mut |object| {
        is_found = object.tables.binds_own
            && object.flags_at(not_in).is_none()
            && names.iter().any(|name| object.function(name) != 0);
        is_found
    });
    is_found
}

/// The object that holds an address.
#[allow(dead_code)] // the test of this module asks for names only
pub fn holding(address: usize) -> Option<Object> {
    let mut found = None;
    search(&mut |object| {
        let is_it = object.flags_at(address).is_some();
        if is_it {
            found = Some(object);
        }
        is_it
    });
    found
}

/// An object that is loaded. Objects that the program was started with stay so.
#[derive(Clone, Copy)]
pub struct Object {
    headers: &'static [libc::Elf64_Phdr],
    tables: Tables,
    pub base: usize,
}

impl Object {
    /// How the part of the object that holds an address is mapped: PF_R and its like.
    pub fn flags_at(&self, address: usize) -> Option<u32> {
        let holds = |header: &&libc::Elf64_Phdr| {
            header.p_type == libc::PT_LOAD
                && address.wrapping_sub(self.base + header.p_vaddr as usize) < header.p_memsz as usize
        };
        self.headers.iter().find(holds).map(|header| header.p_flags)
    }

    /// The address of a function that the object defines, or 0.
    pub fn function(&self, name: &CStr) -> usize {
        // SAFETY: the entry of a loaded object.
        self.symbol(name).map_or(0, |symbol| unsafe { self.base + (*symbol).value })
    }

    /// The address of the entry that says where a function of this name is.
    #[allow(dead_code)] // the test of this module asks for names only
    pub fn value_of(&self, name: &CStr) -> Option<usize> {
        // SAFETY: makes an address, and reads nothing.
        self.symbol(name).map(|symbol| unsafe { (&raw const (*symbol).value).expose_provenance() })
    }

    fn symbol(&self, name: &CStr) -> Option<*const Symbol> {
        // SAFETY: the tables are those of a loaded object.
        unsafe { self.tables.symbol(name) }
    }
}

/// The addresses of an object's tables; 0 where it has none.
#[derive(Clone, Copy, Default)]
struct Tables {
    symbols: usize,
    strings: usize,
    hashes: usize,
    /// The linker was told so: -Bsymbolic.
    #[allow(dead_code)] // the hardened library asks
    binds_own: bool,
}

#[repr(C)]
struct Symbol {
    name: u32,
    kind: u8,
    other: u8,
    section: u16,
    value: usize,
    size: usize,
}

const FUNCTION: u8 = 2;
/// The area of another library's registration is one.
const THREAD_LOCAL: u8 = 6;

impl Tables {
    /// # Safety
    /// `dynamic` is the dynamic section of the loaded object at `base`.
    unsafe fn of(base: usize, dynamic: usize) -> Tables {
        // DT_STRTAB, DT_SYMTAB, DT_GNU_HASH.
        const STRINGS: usize = 5;
        const SYMBOLS: usize = 6;
        const HASHES: usize = 0x6fff_fef5;
        // DT_SYMBOLIC, DT_FLAGS and its DF_SYMBOLIC.
        const SYMBOLIC: usize = 16;
        const FLAGS: usize = 30;
        const FLAG_SYMBOLIC: usize = 2;
        let mut tables = Tables::default();
        let mut entry = ptr::with_exposed_provenance::<[usize; 2]>(dynamic);
        // SAFETY: an entry with tag 0 ends the section.
        unsafe {
            loop {
                let [tag, value] = *entry;
                if tag == 0 {
                    break;
                }
                // The kernel's own object is not relocated: its tables are offsets.
                let address = if value < base { base + value } else { value };
                match tag {
                    STRINGS => tables.strings = address,
                    SYMBOLS => tables.symbols = address,
                    HASHES => tables.hashes = address,
                    SYMBOLIC => tables.binds_own = true,
                    FLAGS => tables.binds_own |= value & FLAG_SYMBOLIC != 0,
                    _ => {}
                }
                entry = entry.add(1);
            }
        }
        tables
    }

    /// The entry of a function that the object defines.
    ///
    /// # Safety
    /// The tables are those of a loaded object.
    unsafe fn symbol(&self, name: &CStr) -> Option<*const Symbol> {
        if self.hashes == 0 || self.symbols == 0 || self.strings == 0 {
            return None;
        }
        // The table: number of buckets, first symbol, words of the filter, shift; filter; buckets; chains.
        let head = ptr::with_exposed_provenance::<u32>(self.hashes);
        let symbols = ptr::with_exposed_provenance::<Symbol>(self.symbols);
        let hash = name
            .to_bytes()
            .iter()
            .fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        // SAFETY: by the caller's promise; a chain ends with an odd hash.
        unsafe {
            let (buckets, first, filter) = (*head, *head.add(1), *head.add(2));
            let table = head.add(4 + 2 * filter as usize);
            let mut index = match hash.checked_rem(buckets) {
                Some(bucket) => *table.add(bucket as usize),
                None => 0,
            };
            if index < first {
                return None;
            }
            let chains = table.add(buckets as usize);
            loop {
                let (place, chained) = (symbols.add(index as usize), *chains.add((index - first) as usize));
                let symbol = &*place;
                let text = ptr::with_exposed_provenance::<c_char>(self.strings + symbol.name as usize);
                let is_function =
                    symbol.section != 0 && [FUNCTION, THREAD_LOCAL].contains(&(symbol.kind & 15));
                if chained | 1 == hash | 1 && is_function && CStr::from_ptr(text) == name {
                    return Some(place);
                }
                if chained & 1 == 1 {
                    return None;
                }
                index += 1;
            }
        }
    }
}
