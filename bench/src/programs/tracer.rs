//! A tracer at the probes of our library, as bpftrace and perf attach it: the kernel raises the semaphore in each process that
//! maps the library, stops at the probes and counts. It reads nothing there.

use anyhow::{Context, Result, ensure};
use object::read::elf::{ElfFile64, SectionHeader};
use object::{Object, ObjectSegment};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Attached until it is dropped.
pub struct Tracer {
    events: Vec<File>,
}

impl Tracer {
    /// Attaches to every probe of the library on every CPU. Needs the right to do so, as root has it.
    pub fn attach(library: &Path) -> Result<Tracer> {
        let kind = fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")
            .context("the kernel has no uprobes")?;
        let kind: u32 = kind.trim().parse()?;
        let path = std::ffi::CString::new(library.as_os_str().as_bytes())?;
        let mut events = Vec::new();
        for (site, semaphore) in probes(library)? {
            for cpu in 0..std::thread::available_parallelism()?.get() {
                events.push(event(kind, &path, site, semaphore, cpu as libc::c_int)?);
            }
        }
        ensure!(!events.is_empty(), "{} has no probes", library.display());
        Ok(Tracer { events })
    }

    /// How often the kernel has stopped at the probes.
    pub fn stops(&mut self) -> u64 {
        let count = |event: &mut File| {
            let mut bytes = [0; 8];
            event.read_exact(&mut bytes).map_or(0, |()| u64::from_ne_bytes(bytes))
        };
        self.events.iter_mut().map(count).sum()
    }
}

/// `perf_event_open` with a `struct perf_event_attr` of 136 bytes: type, size, config (the semaphore's place), and at 56 the path
/// and the site's place.
fn event(kind: u32, path: &std::ffi::CStr, site: u64, semaphore: u64, cpu: libc::c_int) -> Result<File> {
    let mut attributes = [0u64; 17];
    attributes[0] = u64::from(kind) | 136 << 32;
    attributes[1] = semaphore << 32;
    (attributes[7], attributes[8]) = (path.as_ptr() as u64, site);
    let close_on_exec: libc::c_ulong = 8;
    // SAFETY: the attributes and the path outlive the call, which returns a new descriptor or an error.
    let event =
        unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), -1, cpu, -1, close_on_exec) };
    if event < 0 {
        return Err(std::io::Error::last_os_error()).context("cannot attach to the probes (perf_event_open)");
    }
    // SAFETY: it was just opened, and nobody else has it.
    Ok(unsafe { File::from_raw_fd(event as libc::c_int) })
}

/// The places in the file of each probe and of its semaphore.
fn probes(library: &Path) -> Result<Vec<(u64, u64)>> {
    let data = fs::read(library)?;
    let elf = ElfFile64::<object::Endianness>::parse(&*data)?;
    let place = |address: u64| {
        let offset = |range: (u64, u64), start: u64| {
            (address.wrapping_sub(start) < range.1).then(|| address - start + range.0)
        };
        elf.segments()
            .find_map(|segment| offset(segment.file_range(), segment.address()))
            .context("a probe outside the file")
    };
    let section = elf.section_by_name(".note.stapsdt").context("it has no probes")?;
    let notes = section.elf_section_header().notes(elf.endian(), elf.data())?;
    let mut notes = notes.context("it has no probes")?;
    let mut found = Vec::new();
    while let Some(note) = notes.next()? {
        let number = |at: usize| {
            note.desc()
                .get(at * 8..at * 8 + 8)
                .and_then(|bytes| bytes.try_into().ok())
                .map(u64::from_le_bytes)
        };
        let (site, semaphore) = (number(0).context("a short note")?, number(2).context("a short note")?);
        found.push((place(site)?, place(semaphore)?));
    }
    Ok(found)
}
