//! The file that lies at an address of a process, and how it can be read from here.

use super::profile::Mapping;
use object::read::Object;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, elf};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use vcm_foreign::elf::Parts;
use vcm_foreign::{Shown, file};
use vcm_inspect::process::Process;

/// All that can be executed.
pub fn of(process: &Process) -> io::Result<Vec<Mapping>> {
    let maps = file::of_kernel(Path::new(&format!("/proc/{}/maps", process.id)))?;
    let lines = maps.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
    Ok(lines
        .filter_map(|line| Line::of(line).filter(|line| line.is_code))
        .map(|line| mapped(process, line))
        .collect())
}

/// A line of /proc/PID/maps (proc_pid_maps(5)).
struct Line<'a> {
    start: u64,
    end: u64,
    is_code: bool,
    offset: u64,
    inode: u64,
    file: &'a str,
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let mut rest = line;
        let mut word = || {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            rest = after.trim_start_matches(' ');
            word
        };
        let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = word().split_once('-')?;
        let (rights, offset, _device, inode) = (word(), word(), word(), word());
        Some(Line {
            start: hexadecimal(start)?,
            end: hexadecimal(end)?,
            is_code: rights.as_bytes().get(2) == Some(&b'x'),
            offset: hexadecimal(offset)?,
            inode: inode.parse().ok()?,
            file: rest,
        })
    }
}

fn mapped(process: &Process, line: Line) -> Mapping {
    let mut mapping = Mapping {
        start: line.start,
        end: line.end,
        offset: line.offset,
        file: line.file.shown().printed(),
        to_file: line.offset.wrapping_sub(line.start),
        ..Mapping::default()
    };
    let readable = if line.inode == 0 { None } else { file_of(process, &line) };
    if let Some(known) = readable.as_deref().and_then(|path| Known::read(path, line.offset)) {
        mapping.build_id = known.build_id;
        mapping.to_file = mapping.to_file.wrapping_add(known.to_address);
    }
    mapping.readable = readable;
    mapping
}

/// The mapped file itself, which only some may open; else the file of its name, if it is still the same one.
fn file_of(process: &Process, line: &Line) -> Option<PathBuf> {
    let itself = PathBuf::from(format!("/proc/{}/map_files/{:x}-{:x}", process.id, line.start, line.end));
    if file::open(&itself).is_ok() {
        return Some(itself);
    }
    let named = process.as_kernel_names_it(Path::new(line.file));
    fs::metadata(&named).is_ok_and(|file| file.ino() == line.inode).then_some(named)
}

/// The facts that an ELF file tells of itself.
struct Known {
    build_id: String,
    /// From an offset in the file to the address that its headers give it.
    to_address: u64,
}

impl Known {
    fn read(path: &Path, offset: u64) -> Option<Known> {
        // A cache reads parts: daemons with full symbols are gigabytes long.
        let cache = Parts::open(path).ok()?;
        let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let endian = file.endian();
        let holds = |header: &&elf::ProgramHeader64<Endianness>| {
            let begin = header.p_offset(endian);
            header.p_type(endian) == elf::PT_LOAD
                // A mapping begins at a page, which the part may begin behind.
                && offset.checked_sub(begin & !0xfff).is_some_and(|at| at < header.p_filesz(endian).saturating_add(begin & 0xfff))
        };
        let headers = file.elf_header().program_headers(endian, &cache).ok()?;
        let runs = |header: &&elf::ProgramHeader64<Endianness>| header.p_flags(endian).contains(elf::PF_X);
        let header = headers.iter().filter(holds).find(runs).or_else(|| headers.iter().find(holds))?;
        let build_id = file.build_id().ok().flatten().unwrap_or_default();
        Some(Known {
            build_id: build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
            to_address: header.p_vaddr(endian).wrapping_sub(header.p_offset(endian)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_taken_apart_with_blanks_in_its_name() {
        let line =
            Line::of("7f00-7f20 r-xp 00001000 08:01 55                 /usr/lib/a b.so (deleted)").unwrap();
        assert_eq!((line.start, line.end, line.offset, line.inode), (0x7f00, 0x7f20, 0x1000, 55));
        assert_eq!((line.is_code, line.file), (true, "/usr/lib/a b.so (deleted)"));
        let anonymous = Line::of("7f00-7f20 rwxp 00000000 00:00 0 ").unwrap();
        assert_eq!((anonymous.file, anonymous.inode), ("", 0));
        assert!(!Line::of("7f00-7f20 rw-p 00000000 00:00 0").unwrap().is_code);
        assert!(Line::of("").is_none());
    }

    #[test]
    fn an_address_of_this_program_becomes_one_of_its_file() {
        let here = an_address_of_this_program_becomes_one_of_its_file as *const () as u64;
        let mapped = of(&Process::new(std::process::id() as i32)).unwrap();
        let own = mapped.iter().find(|of| (of.start..of.end).contains(&here)).unwrap();
        let program = std::env::current_exe().unwrap();
        assert_eq!(own.file, program.canonicalize().unwrap().to_str().unwrap());
        assert!(own.build_id.is_empty() || own.build_id.len() >= 16, "{:?}", own);
        let cache = Parts::open(&program).unwrap();
        let file = ElfFile64::<Endianness, _>::parse(&cache).unwrap();
        use object::ObjectSymbol;
        let symbol = file.symbols().find(|symbol| {
            symbol.name().is_ok_and(|name| name.contains("an_address_of_this_program_becomes_one"))
                && symbol.address() == here.wrapping_add(own.to_file)
        });
        assert!(symbol.is_some(), "{:x} {:?}", here.wrapping_add(own.to_file), own);
    }
}
