//! The pages of a heap that are in memory, from /proc/PID/pagemap: `mincore` tells a process the same of itself.
//!
//! Since Linux 6.7 the kernel tells runs of pages (PAGEMAP_SCAN), in a third of the time that an entry for each page takes.

use super::counters::Counters;
use super::layout::Within;
use super::memory::{Memory, Table, number};
use crate::process::Process;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Pages of which the kernel is asked at once.
const CHUNK: u64 = 1 << 14;
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// A guard page (MADV_GUARD_INSTALL) looks swapped out. Since Linux 6.15 it has a bit of its own; its place in the swap, which no
/// file has, tells it before.
const GUARD: u64 = 1 << 58;
const PLACE_OF_MARKS: u64 = 0x1f;
/// No heap is longer: 16 TiB.
const MOST_BYTES: u64 = 1 << 44;

/// Beyond what a process can have mapped (52 bits of addresses, where the kernel has most).
const MOST_ADDRESS: u64 = 1 << 52;
/// For all pages of a process: a TiB takes a second.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes in memory.
#[derive(Clone, Default, Debug)]
pub struct Residence {
    /// By class; the last number is that of large blocks, the first of what is in no span.
    pub by_class: Vec<u64>,
    pub guarded: u64,
    pub metadata: u64,
    /// Of the heap's blocks, swapped out.
    pub swapped: u64,
}

/// Of the heap whose counters these are.
pub fn of(process: &Process, memory: &Memory, counters: &Counters) -> io::Result<Residence> {
    let pages = Pages::of(process)?;
    let (unit, block) = (counters.constant("unit.bytes"), counters.constant("block.bytes"));
    let (base, count) = (counters.one("pages.base"), counters.one("pages.blocks"));
    let bytes = count.checked_mul(block).filter(|bytes| *bytes <= MOST_BYTES).ok_or_else(lie)?;
    // A unit has whole pages, and a block whole units: else this would go on by bytes.
    if bytes > 0 && (unit < pages.page || block < unit) {
        return Err(lie());
    }
    let mut units = Table::new(memory, counters.one("metadata_at.classes"), bytes / unit.max(1));
    let mut foreign = Foreign::of(memory, counters);
    let mut found = Residence { by_class: vec![0; 256], ..Residence::default() };
    pages.each(base, bytes, |run| {
        // Unit by unit: a unit is a whole part of a block, and of one class.
        let mut at = run.offset;
        while at < run.offset + run.bytes {
            let end = ((at / unit + 1) * unit).min(run.offset + run.bytes);
            let class = units.byte(at / unit)?.unwrap_or(0);
            if foreign.has(at / block)? {
                // Somebody else's.
            } else if run.is_present {
                found.by_class.iter_mut().skip(class.into()).take(1).for_each(|bytes| *bytes += end - at);
            } else {
                found.swapped += end - at;
            }
            at = end;
        }
        Ok(())
    })?;
    found.guarded = pages.present(counters.one("guards.base"), counters.one("guards.bytes"))?;
    found.metadata = counters.layout.heap_bytes as u64;
    for (at, bytes) in metadata(counters) {
        found.metadata = found.metadata.saturating_add(pages.present(at, bytes)?);
    }
    Ok(found)
}

/// More than any library of ours says.
pub(super) fn lie() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its statistics are inconsistent")
}

/// Start and bytes of each mapping that holds what the heap knows.
fn metadata(counters: &Counters) -> Vec<(u64, u64)> {
    let tables = counters.layout.places.keys().filter_map(|name| name.strip_prefix("metadata_at."));
    let range = |name: &str| {
        let [at, bytes] = ["at", "bytes"].map(|part| counters.one(&format!("metadata_{part}.{name}")));
        (at, bytes)
    };
    let mut ranges: Vec<(u64, u64)> = tables.map(range).collect();
    let slots = counters.one("cache.slots").saturating_mul(counters.constant("cache.slot_bytes"));
    let tables = counters.constant("cache.tables_at").saturating_add(slots).min(MOST_BYTES);
    let tables = tables.next_multiple_of(1 << 16);
    ranges.push((counters.one("cache.base"), tables));
    ranges.push((counters.one("transfer.arrays"), counters.constant("transfer.arrays_bytes")));
    let row = counters.layout.constant("transfer.row_bytes").unwrap_or(0);
    let row = row.saturating_add(counters.constant("transfer.arrays_bytes"));
    ranges.extend(counters.rows.iter().map(|of| (of.at, row)));
    let slab = counters.constant("slab.bytes");
    ranges.extend(counters.slabs.iter().map(|of| (of.at, slab)));
    ranges.retain(|(at, bytes)| *at != 0 && *bytes > 0);
    ranges
}

/// The 2 MiB blocks of the heap that are somebody else's; none where all are its own.
struct Foreign<'a> {
    table: Option<Table<'a>>,
    entry_bytes: u64,
    offset: u64,
}

impl<'a> Foreign<'a> {
    fn of(memory: &'a Memory, counters: &Counters) -> Self {
        let place = counters.layout.place("block.huge", Within::Block);
        let place = place.filter(|_| counters.one("pages.units_lost") > 0);
        let (count, entry_bytes) = (counters.one("pages.blocks"), counters.constant("block.entry_bytes"));
        let bytes = count.saturating_mul(entry_bytes);
        let table = || Table::new(memory, counters.one("metadata_at.blocks"), bytes);
        Foreign { table: place.map(|_| table()), entry_bytes, offset: place.map_or(0, |place| place.offset) }
    }

    fn has(&mut self, block: u64) -> io::Result<bool> {
        let Some(table) = &mut self.table else { return Ok(false) };
        let place = block.saturating_mul(self.entry_bytes).saturating_add(self.offset);
        Ok(table.byte(place)? == Some(0))
    }
}

fn page_bytes() -> u64 {
    // SAFETY: asks for a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Pages that follow each other, in memory or swapped out.
struct Run {
    /// From the start of what was asked for.
    offset: u64,
    bytes: u64,
    is_present: bool,
}

struct Pages {
    file: File,
    page: u64,
    /// A process may name ranges through which the kernel goes for minutes.
    deadline: Instant,
}

impl Pages {
    fn of(process: &Process) -> io::Result<Pages> {
        let file = File::open(process.file("pagemap"))?;
        Ok(Pages { file, page: page_bytes(), deadline: Instant::now() + PATIENCE })
    }

    fn is_in_time(&self) -> io::Result<()> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "to count its pages takes too long");
        (Instant::now() < self.deadline).then_some(()).ok_or_else(late)
    }

    /// Calls `take` for each run of pages that are not nowhere.
    fn each(&self, start: u64, bytes: u64, mut take: impl FnMut(Run) -> io::Result<()>) -> io::Result<()> {
        let first = start / self.page * self.page;
        let end = bytes.div_ceil(self.page).checked_mul(self.page).and_then(|bytes| first.checked_add(bytes));
        let end = end.filter(|end| *end <= MOST_ADDRESS).ok_or_else(lie)?;
        if !self.scan(first, end, &mut take)? {
            self.read(first, end, &mut take)?;
        }
        Ok(())
    }

    /// False where this kernel does not have it.
    fn scan(&self, first: u64, end: u64, take: &mut impl FnMut(Run) -> io::Result<()>) -> io::Result<bool> {
        Ok(self.scan_for(SCAN_PRESENT | SCAN_SWAPPED | SCAN_GUARD, first, end, take)?
            || self.scan_for(SCAN_PRESENT | SCAN_SWAPPED, first, end, take)?)
    }

    fn scan_for(
        &self,
        returned: u64,
        first: u64,
        end: u64,
        take: &mut impl FnMut(Run) -> io::Result<()>,
    ) -> io::Result<bool> {
        self.scan_all(returned, first, end, |region| {
            let of = |run: Run| Run { offset: region.start - first + run.offset, ..run };
            let is_present = region.categories & SCAN_PRESENT != 0;
            match (is_present, returned & SCAN_GUARD != 0) {
                (false, true) if region.categories & SCAN_GUARD != 0 => Ok(()),
                (false, false) => self.read(region.start, region.end, &mut |run| take(of(run))),
                _ => take(of(Run { offset: 0, bytes: region.end - region.start, is_present })),
            }
        })
    }

    fn scan_all(
        &self,
        returned: u64,
        first: u64,
        end: u64,
        mut take: impl FnMut(&Region) -> io::Result<()>,
    ) -> io::Result<bool> {
        let mut regions = [Region::default(); REGIONS];
        let mut at = first;
        while at < end {
            self.is_in_time()?;
            let mut scan = Scan {
                bytes: size_of::<Scan>() as u64,
                start: at,
                end,
                regions: regions.as_mut_ptr() as u64,
                region_count: regions.len() as u64,
                any_of: SCAN_PRESENT | SCAN_SWAPPED,
                returned,
                ..Scan::default()
            };
            // SAFETY: the structure has the layout and the length that the kernel's has, and the regions are as many.
            let found = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
            let Ok(found) = usize::try_from(found) else {
                let error = io::Error::last_os_error();
                let is_unknown = matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL));
                // Nothing was taken yet.
                return if is_unknown && at == first { Ok(false) } else { Err(error) };
            };
            regions.iter().take(found).try_for_each(&mut take)?;
            if scan.walked_to <= at {
                break;
            }
            at = scan.walked_to;
        }
        Ok(true)
    }

    fn read(&self, first: u64, end: u64, take: &mut impl FnMut(Run) -> io::Result<()>) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK as usize * 8];
        let mut at = first;
        while at < end {
            self.is_in_time()?;
            let wanted = ((end - at) / self.page).min(CHUNK) as usize * 8;
            let into = buffer.get_mut(..wanted).unwrap_or_default();
            let read = self.file.read_at(into, at / self.page * 8)?;
            if read < 8 {
                break;
            }
            for (index, entry) in into.get(..read).unwrap_or_default().chunks_exact(8).enumerate() {
                let entry = number(entry, 0, 8);
                let is_mark = entry & PRESENT == 0
                    && (entry & GUARD != 0
                        || entry & SWAPPED != 0 && entry & PLACE_OF_MARKS == PLACE_OF_MARKS);
                if entry & (PRESENT | SWAPPED) != 0 && !is_mark {
                    let offset = at - first + index as u64 * self.page;
                    take(Run { offset, bytes: self.page, is_present: entry & PRESENT != 0 })?;
                }
            }
            at += read as u64 / 8 * self.page;
        }
        Ok(())
    }

    fn present(&self, start: u64, bytes: u64) -> io::Result<u64> {
        let mut found = 0;
        self.each(start, bytes.min(MOST_BYTES), |run| {
            found += if run.is_present { run.bytes } else { 0 };
            Ok(())
        })?;
        Ok(found)
    }
}

/// Of one call.
const REGIONS: usize = 512;
/// `_IOWR('f', 16, struct pm_scan_arg)` (linux/fs.h).
const PAGEMAP_SCAN: libc::Ioctl =
    (3 << 30 | (size_of::<Scan>() as u64) << 16 | (b'f' as u64) << 8 | 16) as libc::Ioctl;
const SCAN_PRESENT: u64 = 1 << 3;
const SCAN_SWAPPED: u64 = 1 << 4;
/// Of Linux 6.15.
const SCAN_GUARD: u64 = 1 << 8;

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct Scan {
    bytes: u64,
    flags: u64,
    start: u64,
    end: u64,
    walked_to: u64,
    regions: u64,
    region_count: u64,
    most_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    returned: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_pages_are_those_that_the_entries_tell() {
        let (page, count) = (page_bytes(), 5000);
        let bytes = (page * count) as usize;
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a mapping of our own, wherever there is room.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, kind, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        // SAFETY: advice about that mapping; each touched byte lies in it.
        unsafe {
            libc::madvise(at, bytes, libc::MADV_NOHUGEPAGE);
            // More runs than one call has room for, some of several pages.
            (0..count).filter(|index| index % 7 < 3).for_each(|index| {
                at.cast::<u8>().add((index * page) as usize).write(1);
            });
            // Guards that look swapped out, on kernels that have them.
            libc::madvise(at.byte_add((page * 3) as usize), (page * 2) as usize, 102);
        }
        let pages = Pages::of(&Process::new(std::process::id() as i32)).unwrap();
        let (first, end) = (at as u64, at as u64 + bytes as u64);
        let mut read = vec![false; count as usize];
        let is_guard = |run: &Run| (3..5).any(|guard| guard * page == run.offset);
        let mut note = |run: Run| {
            assert!(!is_guard(&run), "a guard is nowhere");
            read[(run.offset / page) as usize] = run.is_present;
            Ok(())
        };
        pages.read(first, end, &mut note).unwrap();
        assert!((0..count).all(|index| read[index as usize] == (index % 7 < 3)));
        let mut scanned = vec![false; count as usize];
        let mut take = |run: Run| {
            assert!(!is_guard(&run), "a guard is nowhere");
            let (from, pages) = ((run.offset / page) as usize, (run.bytes / page) as usize);
            scanned.iter_mut().skip(from).take(pages).for_each(|one| *one = run.is_present);
            Ok(())
        };
        if pages.scan(first, end, &mut take).unwrap() {
            assert_eq!(scanned, read);
            // As on a kernel before 6.15.
            let mut take = |run: Run| {
                assert!(!is_guard(&run), "a guard is nowhere");
                Ok(())
            };
            assert!(pages.scan_for(SCAN_PRESENT | SCAN_SWAPPED, first, end, &mut take).unwrap());
        } else {
            vcmalloc_tests::skip!("this kernel has no PAGEMAP_SCAN");
        }
        // SAFETY: nobody has a pointer into it any more.
        unsafe { libc::munmap(at, bytes) };
    }
}
