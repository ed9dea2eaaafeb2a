//! The restartable sequences of a library, read from its file.

use std::fs;
use std::path::{Path, PathBuf};

use crate::registers;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, RelocationTarget, SegmentFlags};

/// Sections named by the kernel's interface: one `struct rseq_cs` after another.
const SECTION: &str = "__rseq_cs";
const DESCRIPTOR_BYTES: u64 = 32;
/// A larger function is not a fast path, and stopping at each of its instructions would take minutes.
const LARGEST_FUNCTION: u64 = 1024;

#[derive(Debug, Clone)]
pub struct Sequence {
    /// The place of the descriptor: what a thread announces.
    pub descriptor: u64,
    pub version: u32,
    pub flags: u32,
    pub start: u64,
    pub length: u64,
    pub abort: u64,
}

pub struct Function {
    pub name: String,
    pub start: u64,
    pub length: u64,
}

pub struct Library {
    pub path: PathBuf,
    pub sequences: Vec<Sequence>,
    functions: Vec<Function>,
    /// Address and contents of what is executable.
    code: Vec<(u64, Vec<u8>)>,
}

/// One instruction to stop at, and the sequence it lies in, if any.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    pub address: u64,
    pub sequence: Option<usize>,
}

pub fn read(path: &Path) -> Result<Library, String> {
    let data = fs::read(path).map_err(|error| error.to_string())?;
    let file = object::File::parse(&*data).map_err(|error| error.to_string())?;
    let is_code = |segment: &object::Segment| matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.contains(object::elf::PF_X));
    let code = file.segments().filter(is_code);
    let code = code.map(|segment| (segment.address(), segment.data().unwrap_or_default().to_vec())).collect();
    let symbols = file.symbols().chain(file.dynamic_symbols()).filter(|symbol| symbol.size() > 0);
    let functions = symbols.filter_map(|symbol| {
        let name = symbol.name().ok()?.to_string();
        (symbol.kind() == object::SymbolKind::Text).then(|| Function {
            name,
            start: symbol.address(),
            length: symbol.size(),
        })
    });
    let functions = functions.collect();
    Ok(Library { path: path.to_path_buf(), sequences: sequences_of(&file)?, functions, code })
}

fn sequences_of(file: &object::File) -> Result<Vec<Sequence>, String> {
    let Some(section) = file.section_by_name(SECTION) else { return Ok(Vec::new()) };
    let mut bytes = section.data().map_err(|error| error.to_string())?.to_vec();
    // A shared library's addresses stand in the relocations, not in the section.
    for (address, relocation) in file.dynamic_relocations().into_iter().flatten() {
        let inside = address >= section.address() && address + 8 <= section.address() + section.size();
        if inside && relocation.target() == RelocationTarget::Absolute {
            let at = (address - section.address()) as usize;
            bytes[at..at + 8].copy_from_slice(&relocation.addend().to_le_bytes());
        }
    }
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let half = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    let addresses = (section.address()..).step_by(DESCRIPTOR_BYTES as usize);
    let descriptors =
        bytes.chunks_exact(DESCRIPTOR_BYTES as usize).zip(addresses).map(|(bytes, descriptor)| Sequence {
            descriptor,
            version: half(bytes, 0),
            flags: half(bytes, 4),
            start: word(bytes, 8),
            length: word(bytes, 16),
            abort: word(bytes, 24),
        });
    Ok(descriptors.collect())
}

impl Sequence {
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.start + self.length).contains(&address)
    }

    /// Checks what the kernel would refuse with a segmentation fault, at the first preemption and not before.
    pub fn check(&self, library: &Library) -> Result<(), String> {
        let expect = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_string()) };
        expect(self.version == 0 && self.flags == 0, "version and flags must be 0")?;
        expect(self.length > 0 && self.length < 4096, "a sequence has some instructions, and not many")?;
        expect(!self.contains(self.abort), "the abort handler lies outside the sequence")?;
        let last = library.instructions(self.start, self.length).last().copied();
        expect(last.is_some(), "the sequence lies in the code")?;
        let signature = library
            .bytes(self.abort - 4, 4)
            .map(|bytes| u32::from_le_bytes(bytes.try_into().expect("4 bytes")));
        // The kernel compares it with what was registered.
        expect(signature == Some(registers::SIGNATURE), "the signature stands before the abort handler")
    }
}

impl Library {
    pub fn function_named(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.name == name)
    }

    pub fn function_at(&self, address: u64) -> Option<&Function> {
        self.functions
            .iter()
            .find(|function| (function.start..function.start + function.length).contains(&address))
    }

    /// Every instruction of the sequences, and of the functions around them: what surrounds a sequence
    /// prepares and ends it, and has to bear a preemption as well.
    pub fn points(&self) -> Vec<Point> {
        let mut addresses = Vec::new();
        for sequence in &self.sequences {
            addresses.extend(self.instructions(sequence.start, sequence.length));
            let function =
                self.function_at(sequence.start).filter(|function| function.length <= LARGEST_FUNCTION);
            addresses.extend(
                function
                    .map(|function| self.instructions(function.start, function.length))
                    .unwrap_or_default(),
            );
        }
        addresses.sort_unstable();
        addresses.dedup();
        let sequence_of = |address| self.sequences.iter().position(|sequence| sequence.contains(address));
        addresses.into_iter().map(|address| Point { address, sequence: sequence_of(address) }).collect()
    }

    fn instructions(&self, start: u64, length: u64) -> Vec<u64> {
        self.bytes(start, length).map_or_else(Vec::new, |bytes| registers::instructions(bytes, start))
    }

    fn bytes(&self, address: u64, length: u64) -> Option<&[u8]> {
        self.code.iter().find_map(|(start, bytes)| {
            let from = address.checked_sub(*start)? as usize;
            bytes.get(from..from + length as usize)
        })
    }
}
