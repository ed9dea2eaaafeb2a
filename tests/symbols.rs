//! The library's imports, exports and promises to the loader. Changes are reviewed in `golden/`; renew
//! the lists with `make golden`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use object::elf;
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{Object, ObjectSymbol};
use vcmalloc_tests::library::{hardened, jemalloc, our_shared, repository, stand_in};

type Elf<'data> = ElfFile64<'data, object::Endianness>;

fn with_library<T>(look: impl FnOnce(&Elf) -> T) -> T {
    with(our_shared(), look)
}

/// For what holds for the hardened library as well.
fn with_both<T: Default + Extend<U> + IntoIterator<Item = U>, U>(look: impl Fn(&Elf) -> T) -> T {
    let mut found = T::default();
    found.extend(with(our_shared(), &look));
    found.extend(with(hardened(), &look));
    found
}

/// For what holds for every library that a program's start may need.
fn with_each<T: Default + Extend<U> + IntoIterator<Item = U>, U>(look: impl Fn(&Elf) -> T) -> T {
    let mut found = with_both(&look);
    found.extend(with(stand_in(), &look));
    found.extend(with(jemalloc(), &look));
    found
}

fn with<T>(library: Result<PathBuf, String>, look: impl FnOnce(&Elf) -> T) -> T {
    let path = library.unwrap_or_else(|error| panic!("{error}"));
    let data = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    look(&Elf::parse(&*data).expect("an ELF file"))
}

/// Compares with the reviewed list, or writes it when RENEW_GOLDEN is set.
fn expect_golden(file: &str, found: BTreeSet<String>) {
    let path: PathBuf = repository().join("tests/golden").join(file);
    if std::env::var_os("RENEW_GOLDEN").is_some() {
        let text = format!(
            "# Reviewed; `make golden` writes it.\n{}\n",
            found.into_iter().collect::<Vec<_>>().join("\n")
        );
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let text = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; run `make golden`", path.display()));
    let known: BTreeSet<String> =
        text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(String::from).collect();
    let added: Vec<_> = found.difference(&known).collect();
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(
        added.is_empty() && gone.is_empty(),
        "{file} differs: new {added:?}, gone {gone:?}.\nIf that is meant, run `make golden` and review the difference."
    );
}

#[test]
fn imports_are_those_reviewed() {
    // A weak import may stay unresolved; a strong one must come from the C library, the only one that is
    // needed.
    let found = with_library(|elf| {
        let undefined = elf.dynamic_symbols().filter(|symbol| symbol.is_undefined());
        let line = |symbol: object::read::elf::ElfSymbol64<'_, '_>| {
            // GNU's linker adds the C library's other name for a variable that is asked for by its weak one.
            let name = symbol.name().ok().filter(|name| !["", "__environ"].contains(name))?;
            Some(if symbol.is_weak() { format!("{name} (weak)") } else { name.to_string() })
        };
        undefined.filter_map(line).collect()
    });
    expect_golden("imports.txt", found);
}

#[test]
fn strong_imports_come_from_the_c_library() {
    let strangers: Vec<String> = with_each(|elf| {
        let (endian, data) = (elf.endian(), elf.data());
        let sections = elf.elf_header().sections(endian, data).expect("sections");
        let versions = sections.versions(endian, data).expect("readable").expect("symbol versions");
        let is_versioned = |index| {
            let version = versions.version(versions.version_index(endian, index).index()).ok().flatten();
            version.is_some_and(|version| version.name().starts_with(b"GLIBC_"))
        };
        let strong = elf.dynamic_symbols().filter(|symbol| symbol.is_undefined() && !symbol.is_weak());
        let named = strong.filter(|symbol| symbol.name().is_ok_and(|name| !name.is_empty()));
        let strangers = named.filter(|symbol| !is_versioned(symbol.index()));
        strangers.filter_map(|symbol| symbol.name().ok().map(String::from)).collect()
    });
    assert!(strangers.is_empty(), "not from the C library: {strangers:?}");
}

/// The version of glibc that a strong import needs at least.
fn needed_glibc(name: &[u8]) -> Option<(u32, u32)> {
    let version = std::str::from_utf8(name).ok()?.strip_prefix("GLIBC_")?;
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

#[test]
fn no_strong_import_is_younger_than_glibc_2_17() {
    let young: Vec<String> = with_each(|elf| {
        let (endian, data) = (elf.endian(), elf.data());
        let sections = elf.elf_header().sections(endian, data).expect("sections");
        let versions = sections.versions(endian, data).expect("readable").expect("symbol versions");
        let strong = elf.dynamic_symbols().filter(|symbol| symbol.is_undefined() && !symbol.is_weak());
        let is_young = |index| {
            let version = versions.version(versions.version_index(endian, index).index()).ok().flatten();
            version.is_some_and(|version| needed_glibc(version.name()).is_some_and(|needed| needed > (2, 17)))
        };
        let young = strong.filter(|symbol| is_young(symbol.index()));
        young.filter_map(|symbol| symbol.name().ok().map(String::from)).collect()
    });
    assert!(young.is_empty(), "the library would not load on an older system: {young:?}");
}

fn exported_by(elf: &Elf) -> BTreeSet<String> {
    let defined = elf.dynamic_symbols().filter(|symbol| symbol.is_definition());
    defined.filter_map(|symbol| symbol.name().ok().map(String::from)).collect()
}

#[test]
fn the_hardened_library_exports_the_same_and_memcpy_and_tokens() {
    let (mut plain, checked) = (with_library(exported_by), with(hardened(), exported_by));
    // It looks at what is copied into blocks, and knows tokens for types.
    let own = repository().join("tests/golden/hardened-exports.txt");
    let own = std::fs::read_to_string(own).expect("the reviewed list");
    plain.extend(own.lines().filter(|line| !line.starts_with('#')).map(str::to_string));
    assert!(plain == checked, "only in one of them: {:?}", plain.symmetric_difference(&checked));
}

#[test]
fn exports_are_those_reviewed() {
    let found = with_library(exported_by);
    for name in
        ["malloc", "free", "calloc", "realloc", "malloc_usable_size", "_Znwm", "_ZdlPvm", "vcm_version"]
    {
        assert!(found.contains(name), "the library must export {name}");
    }
    expect_golden("exports.txt", found);
}

/// `packaging/deb` refuses to pack anything else, but it is not a part of `make test`.
#[test]
fn the_list_of_debians_package_is_that_of_the_library() {
    let path = repository().join("packaging/debian/libvcmalloc0.symbols");
    let list = fs::read_to_string(&path).expect("the list can be read");
    let promised: BTreeSet<String> = list
        .lines()
        .filter_map(|line| Some(line.strip_prefix(' ')?.split_once('@')?.0.to_string()))
        .collect();
    let exported = with_library(exported_by);
    assert!(promised == exported, "{}: not as exported: {:?}", path.display(), &promised ^ &exported);
}

#[test]
fn every_form_of_new_and_delete_is_exported() {
    let (size, align, nothrow) = ("m", "St11align_val_t", "RKSt9nothrow_t");
    let mut forms = Vec::new();
    for letter in ["w", "a"] {
        for tail in ["".to_string(), align.into(), nothrow.into(), format!("{align}{nothrow}")] {
            forms.push(format!("_Zn{letter}{size}{tail}"));
        }
    }
    for letter in ["l", "a"] {
        let tails = ["", size, nothrow, align];
        forms.extend(tails.map(|tail| format!("_Zd{letter}Pv{tail}")));
        forms.push(format!("_Zd{letter}Pv{size}{align}"));
        forms.push(format!("_Zd{letter}Pv{align}{nothrow}"));
    }
    let missing: Vec<String> = with_both(|elf| {
        let exported = exported_by(elf);
        forms.iter().filter(|form| !exported.contains(*form)).cloned().collect()
    });
    assert!(missing.is_empty(), "missing forms: {missing:?}");
}

#[test]
fn only_the_c_library_is_needed() {
    let allowed = ["libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];
    let strangers: Vec<String> = with_both(|elf| {
        let (entries, strings) = dynamic_section(elf);
        let needed = entries.iter().filter(|(tag, _)| *tag == elf::DT_NEEDED);
        let names = needed.map(|(_, value)| string_at(strings, *value));
        names.filter(|name| !allowed.contains(&name.as_str())).collect()
    });
    assert!(strangers.is_empty(), "the library may need only the C library, not {strangers:?}");
}

#[test]
fn closing_the_library_leaves_it_loaded() {
    let flags: Vec<u64> = with_both(|elf| {
        let (entries, _) = dynamic_section(elf);
        let flags = entries.iter().find(|(tag, _)| *tag == elf::DT_FLAGS_1);
        vec![flags.map_or(0, |(_, value)| *value)]
    });
    let nodelete = elf::DF_1_NODELETE.0;
    assert!(flags.iter().all(|flags| flags & nodelete != 0), "link with -z nodelete: blocks outlive dlclose");
}

/// For the area of our own registration and the words behind it (decisions 0050, 0107, 0126): what a library that is loaded late may ask of glibc's surplus.
#[test]
fn the_library_has_no_thread_local_storage_but_64_bytes_at_a_constant_offset() {
    let places: Vec<u64> = with_both(|elf| {
        let endian = elf.endian();
        let headers = elf.elf_program_headers().iter();
        headers.filter(|header| header.p_type(endian) == elf::PT_TLS).map(|it| it.p_memsz(endian)).collect()
    });
    assert_eq!(places, [64, 64], "late loading would run out of static TLS");
    let calls: Vec<String> = with_both(|elf| {
        let names = elf.dynamic_symbols().filter_map(|symbol| symbol.name().ok());
        names.filter(|name| *name == "__tls_get_addr").map(String::from).collect::<Vec<_>>()
    });
    assert!(calls.is_empty(), "TLS by a call, which may allocate");
}

#[test]
fn nothing_lazily_bound_can_recurse_into_the_loader() {
    let (flags, flags_1) = with_library(|elf| {
        let (entries, _) = dynamic_section(elf);
        let value = |wanted: elf::DynamicTag| {
            entries.iter().find(|(tag, _)| *tag == wanted).map_or(0, |(_, value)| *value)
        };
        (value(elf::DT_FLAGS), value(elf::DT_FLAGS_1))
    });
    let bound_now = flags & elf::DF_BIND_NOW.0 != 0 || flags_1 & elf::DF_1_NOW.0 != 0;
    assert!(
        bound_now,
        "link with -z now: the loader would bind symbols inside malloc, on any stack, holding its lock"
    );
}

#[test]
fn no_panic_is_reachable() {
    let found: Vec<String> = with_both(|elf| {
        let defined = elf.symbols().filter(|symbol| symbol.is_definition());
        let names: Vec<&str> = defined.filter_map(|symbol| symbol.name().ok()).collect();
        // The exports stand in another table: in a stripped library there would be nothing to find.
        let is_whole = names.iter().any(|name| name.contains("vcmalloc_core"));
        assert!(is_whole, "the library has no full symbol table");
        names.into_iter().filter(|name| name.contains("9panicking")).map(String::from).collect::<Vec<_>>()
    });
    assert!(found.is_empty(), "panics are reachable in the release library: {found:#?}");
}

/// Tags and values of the dynamic section, and the file's dynamic strings.
fn dynamic_section<'data>(elf: &Elf<'data>) -> (Vec<(elf::DynamicTag, u64)>, &'data [u8]) {
    let (endian, data) = (elf.endian(), elf.data());
    let header = elf.elf_header();
    let sections = header.sections(endian, data).expect("sections");
    let (dynamic, index) = sections.dynamic(endian, data).expect("readable").expect("a dynamic section");
    let entries = dynamic.iter().map(|entry| (entry.d_tag(endian), entry.d_val(endian))).collect();
    let strings = sections.section(index).expect("the dynamic section links its strings");
    let strings = object::read::elf::SectionHeader::data(strings, endian, data).expect("dynamic strings");
    (entries, strings)
}

fn string_at(strings: &[u8], offset: u64) -> String {
    let bytes = &strings[offset as usize..];
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
