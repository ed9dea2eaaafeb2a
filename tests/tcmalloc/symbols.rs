//! Our library's exports beside those of gperftools, and what it asks of the C library.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use object::read::elf::ElfFile64;
use object::{Object, ObjectSymbol, RelocationTarget};
use vcmalloc_tests::library::{hardened, our_shared, repository, stand_in};

const THEIRS: &str = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4";
type Elf<'data> = ElfFile64<'data, object::Endianness>;

/// The installed headers' declarations in C++, by the beginnings of the mangled names; in C every name counts.
const PUBLIC: [&str; 13] = [
    "_ZN15MallocExtension",
    "_ZTI15MallocExtension",
    "_ZTS15MallocExtension",
    "_ZTV15MallocExtension",
    "_ZN12SysAllocator",
    "_ZTI12SysAllocator",
    "_ZTS12SysAllocator",
    "_ZTV12SysAllocator",
    "_ZN10MallocHook",
    "_ZN15HeapLeakChecker",
    "_ZNK15HeapLeakChecker",
    "_ZN11HeapCleaner",
    "_Z13GetStack",
];

/// Of those, the names that our library does not have, by their beginnings, and why.
/// docs/reference/tcmalloc.md tells the same to readers.
const ABSENT: [(&str, &str); 15] = [
    ("_ZN10MallocHook", "private: how gperftools calls hooks, which are refused here"),
    ("_ZN15HeapLeakChecker", "private members of the leak checker; its public ones are here"),
    ("_ZN11HeapCleaner14heap_cleanups_E", "private"),
    ("heap_leak_checker_", "the leak checker's own"),
    ("MallocHook_InitAtFirstAllocation", "the leak checker's own"),
    ("mmap", "replaced by gperftools for its hooks; here libc's is called"),
    ("mremap", "replaced by gperftools for its hooks; here libc's is called"),
    ("munmap", "replaced by gperftools for its hooks; here libc's is called"),
    ("sbrk", "replaced by gperftools for its hooks; here libc's is called"),
    ("RunningOnValgrind", "a helper that no installed header declares"),
    ("ValgrindSlowdown", "a helper that no installed header declares"),
    ("TCMalloc", "helpers that no installed header declares"),
    ("tcmalloc_sys_alloc", "a helper that no installed header declares"),
    ("__start_", "the linker's marks of a section"),
    ("__stop_", "the linker's marks of a section"),
];

fn with<T>(path: &Path, look: impl FnOnce(&Elf) -> T) -> Result<T, String> {
    let shown = path.display();
    let data = fs::read(path).map_err(|error| format!("{shown}: {error}"))?;
    Elf::parse(&*data).map(|elf| look(&elf)).map_err(|error| format!("{shown}: {error}"))
}

/// Names and addresses.
pub fn exported(path: &Path) -> Result<BTreeMap<String, u64>, String> {
    with(path, |elf| {
        let defined = elf.dynamic_symbols().filter(|symbol| symbol.is_definition());
        defined.filter_map(|symbol| Some((symbol.name().ok()?.to_string(), symbol.address()))).collect()
    })
}

pub fn names() -> Result<(), String> {
    let (ours, theirs) = (exported(&stand_in()?)?, exported(Path::new(THEIRS))?);
    let public = |name: &str| !name.starts_with("_Z") || PUBLIC.iter().any(|start| name.starts_with(start));
    let decided = |name: &str| ABSENT.iter().any(|(start, _)| name.starts_with(start));
    let missing = theirs.keys().filter(|name| public(name) && !ours.contains_key(*name));
    let undecided: Vec<_> = missing.filter(|name| !decided(name)).collect();
    match undecided.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "programs may be linked with these; export them, or say in ABSENT why not: {undecided:#?}"
        )),
    }
}

pub fn exports() -> Result<(), String> {
    let found: BTreeSet<String> = exported(&stand_in()?)?.into_keys().collect();
    let path: PathBuf = repository().join("tests/golden/tcmalloc-exports.txt");
    if std::env::var_os("RENEW_GOLDEN").is_some() {
        let lines = found.into_iter().collect::<Vec<_>>().join("\n");
        let text = format!("# Reviewed; `make golden` writes it.\n{lines}\n");
        return fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()));
    }
    let text = fs::read_to_string(&path)
        .map_err(|error| format!("{}: {error}; run `make golden`", path.display()))?;
    let known: BTreeSet<String> =
        text.lines().filter(|line| !line.starts_with('#')).map(String::from).collect();
    let (new, gone): (Vec<_>, Vec<_>) =
        (found.difference(&known).collect(), known.difference(&found).collect());
    match new.is_empty() && gone.is_empty() {
        true => Ok(()),
        false => Err(format!("new {new:?}, gone {gone:?}; if that is meant, run `make golden`")),
    }
}

const TABLE: &str = "_ZTV15MallocExtension";
/// The offset to the top and the type stand before the functions.
const BEFORE_METHODS: u64 = 16;

/// In both tables each place leads to the function of the same name.
pub fn methods() -> Result<(), String> {
    let ours = table(&stand_in()?)?;
    let theirs = table(Path::new(THEIRS))?;
    let names = exported(&stand_in()?)?;
    if theirs.len() < 25 {
        return Err(format!("their table has only {} entries", theirs.len()));
    }
    for (place, (entry, _)) in &theirs {
        let Some(name) = entry else { return Err(format!("their entry at {place:#x} has no name")) };
        let address = ours.get(place).map(|(_, address)| *address);
        if *place >= BEFORE_METHODS && address != names.get(name).copied() {
            return Err(format!(
                "at {place:#x} {name} is expected, at {:#x?}, not {address:#x?}",
                names.get(name)
            ));
        }
    }
    Ok(())
}

/// The entries of the table of MallocExtension: by place, the symbol's name and its address.
fn table(path: &Path) -> Result<BTreeMap<u64, (Option<String>, u64)>, String> {
    with(path, |elf| {
        let own = elf.dynamic_symbols().find(|symbol| symbol.name() == Ok(TABLE));
        let Some((start, bytes)) = own.map(|symbol| (symbol.address(), symbol.size())) else {
            return BTreeMap::new();
        };
        let relocations = elf.dynamic_relocations().into_iter().flatten();
        let inside = relocations.filter(|(place, _)| (start..start + bytes).contains(place));
        let entry = |(place, relocation): (u64, object::Relocation)| {
            let symbol = match relocation.target() {
                RelocationTarget::Symbol(index) => elf.dynamic_symbol_table()?.symbol_by_index(index).ok(),
                _ => None,
            };
            let name = symbol.as_ref().and_then(|symbol| symbol.name().ok()).map(String::from);
            let address = symbol.map_or(relocation.addend() as u64, |symbol| symbol.address());
            Some((place - start, (name, address)))
        };
        use object::ObjectSymbolTable;
        inside.filter_map(entry).collect()
    })
}

pub fn needed() -> Result<(), String> {
    needed_by(&stand_in()?, "libtcmalloc.so.4")
}

pub fn needed_by(path: &Path, soname: &str) -> Result<(), String> {
    let allowed = ["libc.so.6", "ld-linux-x86-64.so.2", "libdl.so.2", "libpthread.so.0"];
    let output = std::process::Command::new("readelf").arg("-d").arg(path).output();
    let text = String::from_utf8_lossy(&output.map_err(|error| error.to_string())?.stdout).into_owned();
    let bracketed = |line: &str| Some(line.split_once('[')?.1.split_once(']')?.0.to_string());
    let needed: Vec<String> =
        text.lines().filter(|line| line.contains("(NEEDED)")).filter_map(bracketed).collect();
    let strangers: Vec<_> = needed.iter().filter(|name| !allowed.contains(&name.as_str())).collect();
    let name: Vec<String> =
        text.lines().filter(|line| line.contains("(SONAME)")).filter_map(bracketed).collect();
    match strangers.is_empty() && name == [soname] {
        true => Ok(()),
        false => Err(format!("needed beside the C library: {strangers:?}; soname {name:?}")),
    }
}

/// The newest version that is asked of glibc: 2.31 is Debian 11's, 2.17 that of the oldest system still in
/// use.
const NEWEST: (u32, u32) = (2, 17);

pub fn versions() -> Result<(), String> {
    [our_shared()?, hardened()?, stand_in()?].iter().try_for_each(|path| old_enough(path))
}

pub fn old_enough(path: &Path) -> Result<(), String> {
    let found = versions_of(path)?;
    let newest = found.iter().max().ok_or("no versions at all")?;
    match *newest > NEWEST {
        true => Err(format!("{} asks for GLIBC_{}.{}; see moved.rs", path.display(), newest.0, newest.1)),
        false => Ok(()),
    }
}

fn versions_of(path: &Path) -> Result<Vec<(u32, u32)>, String> {
    use object::read::elf::FileHeader;
    with(path, |elf| {
        let (endian, data) = (elf.endian(), elf.data());
        let sections = elf.elf_header().sections(endian, data).expect("sections");
        let versions = sections.versions(endian, data).expect("readable").expect("symbol versions");
        let undefined = elf.dynamic_symbols().filter(|symbol| symbol.is_undefined());
        let names = undefined.filter_map(|symbol| {
            let version =
                versions.version(versions.version_index(endian, symbol.index()).index()).ok().flatten()?;
            let text = String::from_utf8_lossy(version.name()).into_owned();
            let mut parts = text.strip_prefix("GLIBC_")?.split('.').map(str::parse);
            Some((parts.next()?.ok()?, parts.next()?.ok()?))
        });
        names.collect()
    })
}

pub fn panics() -> Result<(), String> {
    let found: Vec<String> = with(&stand_in()?, |elf| {
        let defined = elf.symbols().filter(|symbol| symbol.is_definition());
        let names: Vec<&str> = defined.filter_map(|symbol| symbol.name().ok()).collect();
        // The exports stand in another table: in a stripped library there would be nothing to find.
        let stripped = names.iter().all(|name| !name.contains("vcmalloc_core"));
        let panics = names.into_iter().filter(|name| name.contains("9panicking"));
        panics.chain(stripped.then_some("no full symbol table")).map(String::from).collect()
    })?;
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("panics are reachable: {found:#?}")),
    }
}
