//! Which pages of a heap are in memory, from /proc/PID/pagemap: what `mincore` tells a process of itself.

use super::counters::Counters;
use super::layout::Within;
use super::memory::{Memory, number};
use crate::process::Process;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Pages of which the kernel is asked at once.
const CHUNK: u64 = 1 << 14;
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// No heap is longer: 16 TiB.
const MOST_BYTES: u64 = 1 << 44;

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
    let pages = Pages { file: File::open(process.file("pagemap"))?, page: page_bytes() };
    let unit = counters.constant("unit.bytes").max(1);
    let (base, block) = (counters.one("pages.base"), counters.constant("block.bytes"));
    let bytes = (counters.one("pages.blocks") * block).min(MOST_BYTES);
    let units = memory.bytes(counters.one("metadata_at.classes"), (bytes / unit) as usize)?;
    let foreign = foreign_blocks(memory, counters)?;
    let mut found = Residence { by_class: vec![0; 256], ..Residence::default() };
    pages.each(base, bytes, |offset, entry| {
        if foreign.get((offset / block) as usize) == Some(&true) {
            return;
        }
        let class = units.get((offset / unit) as usize).copied().unwrap_or(0);
        if entry & PRESENT != 0 {
            found.by_class.iter_mut().skip(class.into()).take(1).for_each(|bytes| *bytes += pages.page);
        } else if entry & SWAPPED != 0 {
            found.swapped += pages.page;
        }
    })?;
    found.guarded = pages.present(counters.one("guards.base"), counters.one("guards.bytes"))?;
    found.metadata = counters.layout.heap_bytes as u64;
    for (at, bytes) in metadata(counters) {
        found.metadata += pages.present(at, bytes)?;
    }
    Ok(found)
}

/// Start and bytes of each mapping that holds what the heap knows.
fn metadata(counters: &Counters) -> Vec<(u64, u64)> {
    let tables = counters.layout.places.keys().filter_map(|name| name.strip_prefix("metadata_at."));
    let range = |name: &str| {
        let [at, bytes] = ["at", "bytes"].map(|part| counters.one(&format!("metadata_{part}.{name}")));
        (at, bytes)
    };
    let mut ranges: Vec<(u64, u64)> = tables.map(range).collect();
    let slots = counters.one("cache.slots") * counters.constant("cache.slot_bytes");
    let tables = (counters.constant("cache.tables_at") + slots).next_multiple_of(1 << 16);
    ranges.push((counters.one("cache.base"), tables));
    ranges.push((counters.one("transfer.arrays"), counters.constant("transfer.arrays_bytes")));
    let slab = counters.constant("slab.bytes");
    ranges.extend(counters.slabs.iter().map(|of| (of.at, slab)));
    ranges.retain(|(at, bytes)| *at != 0 && *bytes > 0);
    ranges
}

/// Which of the heap's 2 MiB blocks are somebody else's; nothing where all are its own.
fn foreign_blocks(memory: &Memory, counters: &Counters) -> io::Result<Vec<bool>> {
    let Some(place) = counters.layout.place("block.huge", Within::Block) else { return Ok(Vec::new()) };
    if counters.one("pages.units_lost") == 0 {
        return Ok(Vec::new());
    }
    let (count, bytes) = (counters.one("pages.blocks"), counters.constant("block.entry_bytes"));
    let table = memory.bytes(counters.one("metadata_at.blocks"), (count * bytes) as usize)?;
    let is_foreign = |index| number(&table, (index * bytes) as usize + place.offset as usize, 1) == 0;
    Ok((0..count).map(is_foreign).collect())
}

fn page_bytes() -> u64 {
    // SAFETY: asks for a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

struct Pages {
    file: File,
    page: u64,
}

impl Pages {
    /// Calls `take` for each page with its distance from the start and what the kernel says of it.
    fn each(&self, start: u64, bytes: u64, mut take: impl FnMut(u64, u64)) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK as usize * 8];
        let (first, count) = (start / self.page, bytes.div_ceil(self.page));
        let mut done = 0;
        while done < count {
            let wanted = (count - done).min(CHUNK) as usize * 8;
            let into = buffer.get_mut(..wanted).unwrap_or_default();
            let read = self.file.read_at(into, (first + done) * 8)?;
            if read < 8 {
                break;
            }
            for (index, entry) in into.get(..read).unwrap_or_default().chunks_exact(8).enumerate() {
                let entry = number(entry, 0, 8);
                if entry & (PRESENT | SWAPPED) != 0 {
                    take((done + index as u64) * self.page, entry);
                }
            }
            done += read as u64 / 8;
        }
        Ok(())
    }

    fn present(&self, start: u64, bytes: u64) -> io::Result<u64> {
        let mut found = 0;
        self.each(start, bytes.min(MOST_BYTES), |_, entry| {
            found += if entry & PRESENT != 0 { self.page } else { 0 };
        })?;
        Ok(found)
    }
}
