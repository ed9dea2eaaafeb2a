//! Looking at an ELF file: how it is loaded, what it needs, and which allocators are built into it.
//!
//! Owns the list of symbols that tell allocators apart. Reads only what is asked for, because daemons with
//! full symbol tables are gigabytes long.

use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME};
use object::read::elf::{Dyn, ElfFile64, ProgramHeader};
use object::read::{Architecture, FileKind, Object, ObjectSegment, ObjectSymbol};
use object::{Endianness, ReadRef};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use vcm_foreign::Text;
use vcm_foreign::elf::Parts;

/// gperftools' C++ interface: an object that exports this answers `MallocExtension` of the whole process.
pub const TCMALLOC_INTERFACE: &str = "_ZN15MallocExtension8instanceEv";
/// jemalloc's tree: an object that exports this answers for jemalloc, and programs know by it that jemalloc serves them.
pub const JEMALLOC_INTERFACE: &str = "mallctl";
/// Our own C interface.
pub const OWN_INTERFACE: &str = "vcm_version";

/// Allocators that programs carry under names of their own; a preload cannot reach these.
const PRIVATE_COPIES: [(&str, &str); 7] = [
    ("je_malloc", "jemalloc"),
    ("_rjem_malloc", "jemalloc (as Rust programs carry it)"),
    ("mi_malloc", "mimalloc"),
    ("tc_malloc", "tcmalloc"),
    ("rpmalloc", "rpmalloc"),
    ("sn_malloc", "snmalloc"),
    ("sn_rust_alloc", "snmalloc (as Rust programs carry it)"),
];

/// Symbols by which allocators are known once their malloc is found; `allocator` says which is whose.
const MARKS: [&str; 9] = [
    "tc_version",
    "HeapProfilerStart",
    "MallocExtension_Internal_GetStats",
    JEMALLOC_INTERFACE,
    "malloc_object_size",
    "__scudo_print_stats",
    "__asan_init",
    "__tsan_init",
    "gnu_get_libc_version",
];

/// How much of the file to read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// How it is loaded and what it needs.
    Loading,
    ExportedSymbols,
    /// The full symbol table too, where the file still has it.
    AllSymbols,
}

/// The symbols to look among.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Among {
    /// Those that other objects can use.
    Exported,
    All,
}

pub enum Look {
    Elf(Box<Elf>),
    /// An ELF file for another machine or word size.
    Foreign {
        machine: String,
    },
    /// `#!` and what follows it on the first line.
    Script {
        line: Vec<u8>,
    },
    Other,
}

#[derive(Default)]
pub struct Elf {
    /// The dynamic loader it asks for; none in a library or a static program.
    pub interpreter: Option<PathBuf>,
    /// The name by which others ask for it.
    pub soname: Option<String>,
    pub needed: Vec<String>,
    pub rpath: Vec<String>,
    pub runpath: Vec<String>,
    /// Made by Go, whose memory is its own runtime's.
    pub is_go: bool,
    exported: Vec<&'static str>,
    /// Asked for and not defined here.
    imported: Vec<&'static str>,
    /// Defined in the full symbol table, exported or not.
    defined: Vec<&'static str>,
}

impl Elf {
    pub fn exports(&self, symbol: &str) -> bool {
        self.exported.contains(&symbol)
    }

    pub fn imports(&self, symbol: &str) -> bool {
        self.imported.contains(&symbol)
    }

    pub fn defines(&self, symbol: &str) -> bool {
        self.exports(symbol) || self.defined.contains(&symbol)
    }

    /// glibc's dynamic loader, which up to 2.31 exports a malloc that serves nothing but itself. musl's is its C
    /// library too.
    pub fn is_glibc_loader(&self) -> bool {
        let names = ["ld-linux", "ld64.so", "ld.so"];
        self.soname.as_ref().is_some_and(|soname| names.iter().any(|name| soname.starts_with(name)))
    }

    /// An allocator that is built in under another name than `malloc`: its symbol and its name.
    pub fn private_copy(&self) -> Option<(&'static str, &'static str)> {
        PRIVATE_COPIES.into_iter().find(|(symbol, _)| self.defines(symbol))
    }
}

fn watched(name: &[u8]) -> Option<&'static str> {
    let known = ["malloc", TCMALLOC_INTERFACE, OWN_INTERFACE];
    let private = PRIVATE_COPIES.into_iter().map(|(symbol, _)| symbol);
    known.into_iter().chain(private).chain(MARKS).find(|symbol| symbol.as_bytes() == name)
}

/// Finds out what the file is. An error means that it cannot be read; a file of an unknown kind is `Other`.
pub fn look(path: &Path, depth: Depth) -> io::Result<Look> {
    let cache = Parts::open(path)?;
    let data = &cache;
    let length = data.len().map_err(|()| io::Error::other("its length cannot be read"))?;
    let head = data.read_bytes_at(0, length.min(256)).unwrap_or(&[]);
    if let Some(rest) = head.strip_prefix(b"#!") {
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or(rest).trim_ascii().to_vec();
        return Ok(Look::Script { line });
    }
    let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, format!("a damaged ELF file: {error}"));
    match FileKind::parse(data) {
        Ok(FileKind::Elf64) => {
            let file = ElfFile64::<Endianness, _>::parse(data).map_err(damaged)?;
            if file.architecture() != own_architecture() {
                let machine = format!("{:?}", file.architecture());
                return Ok(Look::Foreign { machine });
            }
            read(&file, data, depth).map(|elf| Look::Elf(Box::new(elf))).map_err(damaged)
        }
        Ok(FileKind::Elf32) => Ok(Look::Foreign { machine: "a 32-bit machine".into() }),
        _ => Ok(Look::Other),
    }
}

/// How far behind the first byte that is loaded of it the file's first of these symbols lies.
pub fn offset_of(path: &Path, names: &[&str], among: Among) -> io::Result<Option<u64>> {
    const PAGE: u64 = 4096;
    let cache = Parts::open(path)?;
    let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, format!("a damaged ELF file: {error}"));
    let file = ElfFile64::<Endianness, _>::parse(&cache).map_err(damaged)?;
    let is_meant = |name: object::Result<&[u8]>| {
        name.is_ok_and(|name| names.iter().any(|wanted| wanted.as_bytes() == name))
    };
    let dynamic =
        file.dynamic_symbols().find(|symbol| symbol.is_definition() && is_meant(symbol.name_bytes()));
    let own = || {
        let mut symbols = file.symbols().filter(|_| among == Among::All);
        symbols.find(|symbol| symbol.is_definition() && is_meant(symbol.name_bytes()))
    };
    let Some(address) = dynamic.or_else(own).map(|symbol| symbol.address()) else { return Ok(None) };
    let start = file.segments().map(|segment| segment.address() & !(PAGE - 1)).min().unwrap_or(0);
    Ok(address.checked_sub(start))
}

fn own_architecture() -> Architecture {
    match std::env::consts::ARCH {
        "aarch64" => Architecture::Aarch64,
        _ => Architecture::X86_64,
    }
}

fn read<'a, R: ReadRef<'a>>(
    file: &ElfFile64<'a, Endianness, R>,
    data: R,
    depth: Depth,
) -> object::Result<Elf> {
    let mut elf = Elf::default();
    let endian = file.endian();
    for segment in file.elf_program_headers() {
        if let Some(path) = segment.interpreter(endian, data)? {
            elf.interpreter = Some(PathBuf::from(std::ffi::OsString::from_vec(path.to_vec())));
        }
    }
    read_dynamic(file, data, &mut elf)?;
    elf.is_go = file.section_by_name_bytes(b".go.buildinfo").is_some();
    if depth >= Depth::ExportedSymbols {
        elf.exported = watched_among(file.dynamic_symbols().filter(|symbol| symbol.is_definition()));
        elf.imported = watched_among(file.dynamic_symbols().filter(|symbol| symbol.is_undefined()));
    }
    if depth >= Depth::AllSymbols {
        // Local ones too: the linker makes a hidden malloc local, and it still serves the whole program.
        elf.defined = watched_among(file.symbols().filter(|symbol| symbol.is_definition()));
    }
    Ok(elf)
}

fn read_dynamic<'a, R: ReadRef<'a>>(
    file: &ElfFile64<'a, Endianness, R>,
    data: R,
    elf: &mut Elf,
) -> object::Result<()> {
    let endian = file.endian();
    let sections = file.elf_section_table();
    let Some((entries, strings)) = sections.dynamic(endian, data)? else { return Ok(()) };
    let strings = sections.strings(endian, data, strings)?;
    for entry in entries {
        let text = || {
            let at = entry.val32(endian).and_then(|at| strings.get(at).ok());
            Text::new(at.unwrap_or_default()).printed()
        };
        let list = |text: String| text.split(':').map(str::to_string).collect::<Vec<_>>();
        match entry.tag(endian) {
            DT_NEEDED => elf.needed.push(text()),
            DT_SONAME => elf.soname = Some(text()),
            DT_RPATH => elf.rpath = list(text()),
            DT_RUNPATH => elf.runpath = list(text()),
            _ => {}
        }
    }
    Ok(())
}

fn watched_among<'a>(symbols: impl Iterator<Item = impl ObjectSymbol<'a>>) -> Vec<&'static str> {
    let mut found: Vec<&'static str> =
        symbols.filter_map(|symbol| symbol.name_bytes().ok().and_then(watched)).collect();
    found.dedup();
    found
}
