//! Names looked up where there is no dlsym, before glibc 2.34 a program may have loaded libpthread and not
//! libdl, and names of one object alone, which dlsym does not look up.
//!
//! Walks the loaded objects and reads the hash table that each carries for the dynamic linker (DT_GNU_HASH).
//! Versions are not compared: the functions looked for have one. Slow, and asked for a few names when the
//! library is loaded.

use super::malloc::{Pointer, pointer};
use core::ffi::{CStr, c_char, c_int};
use core::ptr;

struct Wanted<'a> {
    name: &'a CStr,
    where_to_look: Where,
    found: usize,
}

/// Objects, by an address in one of them.
#[derive(Clone, Copy)]
enum Where {
    NotIn(usize),
    In(usize),
}

/// The first object that defines a function of this name, but for the one that holds `not_in`; null where
/// none does.
pub fn function(name: &CStr, not_in: usize) -> Pointer {
    look(name, Where::NotIn(not_in))
}

/// The function of this name that the object with this address defines; null where it defines none. What it
/// only refers to does not count.
pub fn function_beside(address: usize, name: &CStr) -> Pointer {
    look(name, Where::In(address))
}

fn look(name: &CStr, where_to_look: Where) -> Pointer {
    let mut wanted = Wanted { name, where_to_look, found: 0 };
    // SAFETY: the callback gets a pointer to `wanted`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look_at), (&raw mut wanted).cast()) };
    pointer(wanted.found)
}

unsafe extern "C" fn look_at(info: *mut libc::dl_phdr_info, _: usize, wanted: Pointer) -> c_int {
    // SAFETY: the dynamic linker passes an object of its list, and `wanted` is what `function` passed.
    unsafe {
        let (info, wanted) = (&*info, &mut *wanted.cast::<Wanted<'_>>());
        let headers = core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        let base = info.dlpi_addr as usize;
        let holds = |address: usize| {
            headers.iter().any(|header| {
                header.p_type == libc::PT_LOAD
                    && address.wrapping_sub(base + header.p_vaddr as usize) < header.p_memsz as usize
            })
        };
        let is_looked_at = match wanted.where_to_look {
            Where::NotIn(address) => !holds(address),
            Where::In(address) => holds(address),
        };
        if is_looked_at && let Some(dynamic) = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)
        {
            wanted.found = Tables::of(base, base + dynamic.p_vaddr as usize).function(wanted.name);
        }
        c_int::from(wanted.found != 0)
    }
}

/// The addresses of an object's tables; 0 where it has none.
#[derive(Default)]
struct Tables {
    base: usize,
    symbols: usize,
    strings: usize,
    hashes: usize,
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

impl Tables {
    /// # Safety
    /// `dynamic` is the dynamic section of the loaded object at `base`.
    unsafe fn of(base: usize, dynamic: usize) -> Tables {
        // DT_STRTAB, DT_SYMTAB, DT_GNU_HASH.
        const STRINGS: usize = 5;
        const SYMBOLS: usize = 6;
        const HASHES: usize = 0x6fff_fef5;
        let mut tables = Tables { base, ..Tables::default() };
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
                    _ => {}
                }
                entry = entry.add(1);
            }
        }
        tables
    }

    /// The address of a function that the object defines, or 0.
    ///
    /// # Safety
    /// The tables are those of a loaded object.
    unsafe fn function(&self, name: &CStr) -> usize {
        if self.hashes == 0 || self.symbols == 0 || self.strings == 0 {
            return 0;
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
                return 0;
            }
            let chains = table.add(buckets as usize);
            loop {
                let (symbol, chained) =
                    (&*symbols.add(index as usize), *chains.add((index - first) as usize));
                let text = ptr::with_exposed_provenance::<c_char>(self.strings + symbol.name as usize);
                let is_function = symbol.section != 0 && symbol.kind & 15 == FUNCTION;
                if chained | 1 == hash | 1 && is_function && CStr::from_ptr(text) == name {
                    return self.base + symbol.value;
                }
                if chained & 1 == 1 {
                    return 0;
                }
                index += 1;
            }
        }
    }
}
