//! The heaps of tenants of a process, read out of their table: the largest, and the sums of those that have one name.

use super::counters::Counters;
use super::memory::{Memory, number};
use std::collections::HashMap;
use std::io;
use vcm_foreign::Text;

/// So many of the largest are kept, and so many names.
const MOST: usize = 16;
/// So many entries are read: a look at 50 MiB takes some 15 ms.
const MOST_ENTRIES: u64 = 1 << 16;
const MOST_ENTRY_BYTES: u64 = 1 << 12;
/// Each is read into some hundred bytes here, so an entry of a few would be a lie that takes our memory.
const LEAST_ENTRY_BYTES: u64 = 128;
const NAME_BYTES: usize = 40;
/// More than any process can have.
const MOST_BYTES: u64 = 1 << 52;
/// Entries that are read at a time.
const PORTION: u64 = 1024;

/// The figures of a heap, or of all that have one name.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Figures {
    /// Bytes of blocks that its spans gave out, among them those in its vCPU caches.
    pub live: u64,
    pub live_blocks: u64,
    /// Bytes of its spans and of the heaps below it.
    pub bytes: u64,
    pub peak: u64,
    /// 0: none.
    pub limit: u64,
    /// Requests that the limit refused.
    pub refused: u64,
}

#[derive(Clone, Debug)]
pub struct TenantHeap {
    pub name: Text,
    pub id: u64,
    pub figures: Figures,
    /// It gives no more blocks, and so many were freed since.
    pub drains: bool,
    pub late_frees: u64,
}

/// The heaps that have one name, together; peaks and limits are sums.
#[derive(Clone, Debug)]
pub struct OfName {
    /// As it is printed. None: those without one, and of all names beyond the largest.
    pub name: Option<String>,
    pub heaps: u64,
    pub figures: Figures,
}

#[derive(Clone, Default, Debug)]
pub struct Heaps {
    pub count: u64,
    /// Largest first.
    pub largest: Vec<TenantHeap>,
    /// Largest first, and the rest of them last.
    pub names: Vec<OfName>,
    /// Entries beyond those that are read.
    pub unread: u64,
}

impl Figures {
    fn add(&mut self, other: &Figures) {
        let Figures { live, live_blocks, bytes, peak, limit, refused } = self;
        let sums = [live, live_blocks, bytes, peak, limit, refused];
        let more = [other.live, other.live_blocks, other.bytes, other.peak, other.limit, other.refused];
        sums.into_iter().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }
}

/// Offsets in an entry.
struct Entry {
    bytes: u64,
    is_live: u64,
    drains: u64,
    of: HashMap<&'static str, usize>,
}

/// The numbers of an entry, of 8 bytes each.
const NUMBERS: [&str; 9] = [
    "bytes",
    "peak",
    "limit",
    "refused",
    "small_blocks",
    "small_bytes",
    "large_blocks",
    "large_bytes",
    "late",
];

impl Entry {
    /// None where the library has no such heaps, or says what cannot be.
    fn of(counters: &Counters) -> Option<Entry> {
        let constant = |name: &str| counters.layout.constant(name);
        let bytes = constant("tenant.entry_bytes")?;
        let mut of = HashMap::new();
        for name in NUMBERS.into_iter().chain(["id", "state", "name"]) {
            let offset = usize::try_from(constant(&format!("tenant.{name}"))?).ok()?;
            of.insert(name, offset);
        }
        (LEAST_ENTRY_BYTES..=MOST_ENTRY_BYTES).contains(&bytes).then_some(())?;
        Some(Entry { bytes, is_live: constant("tenants.is_live")?, drains: constant("tenants.drains")?, of })
    }

    /// The heap whose entry it is; none where it is unused, or its heap ends.
    fn read(&self, entry: &[u8]) -> Option<TenantHeap> {
        let at = |name| self.of.get(name).copied().unwrap_or(usize::MAX);
        let state = number(entry, at("state"), 4);
        if state != self.is_live && state != self.drains {
            return None;
        }
        let of = |name| number(entry, at(name), 8).min(MOST_BYTES);
        let limit = number(entry, at("limit"), 8);
        let name = entry.get(at("name")..)?.get(..NAME_BYTES)?;
        let name = name.split(|byte| *byte == 0).next()?;
        Some(TenantHeap {
            name: Text::new(name),
            id: number(entry, at("id"), 8),
            figures: Figures {
                live: of("small_bytes") + of("large_bytes"),
                live_blocks: of("small_blocks") + of("large_blocks"),
                bytes: of("bytes"),
                peak: of("peak"),
                limit: if limit == u64::MAX { 0 } else { limit.min(MOST_BYTES) },
                refused: of("refused"),
            },
            drains: state == self.drains,
            late_frees: of("late"),
        })
    }
}

/// Calls `take` with the heaps of some entries at a time, and returns how many entries were not read. Each heap's figures are of
/// one moment, or nearly.
fn each(memory: &Memory, counters: &Counters, mut take: impl FnMut(Vec<TenantHeap>)) -> io::Result<u64> {
    let [count, table] =
        ["tenants.count", "metadata_at.tenants"].map(|name| counters.of_some_libraries(name).of(0));
    let Some(entry) = Entry::of(counters).filter(|_| count > 1 && table != 0) else { return Ok(0) };
    let end = count.min(MOST_ENTRIES);
    // The first entry is the process's own heap's, which has none.
    for from in (1..end).step_by(PORTION as usize) {
        let entries = PORTION.min(end - from);
        let bytes = memory.bytes(table.wrapping_add(from * entry.bytes), entries * entry.bytes)?;
        take(bytes.chunks_exact(entry.bytes as usize).filter_map(|bytes| entry.read(bytes)).collect());
    }
    Ok(count - end)
}

/// The numbers of the heaps that are called so; else the names of some others.
pub(super) fn called(
    memory: &Memory,
    counters: &Counters,
    name: &str,
) -> io::Result<Result<Vec<u64>, Vec<String>>> {
    let (mut found, mut others) = (Vec::new(), Vec::new());
    each(memory, counters, |heaps| {
        let (called, rest): (Vec<_>, Vec<_>) = heaps.into_iter().partition(|heap| heap.name == *name);
        found.extend(called.iter().map(|heap| heap.id));
        others.extend(rest.into_iter().take(MOST).map(|heap| heap.name.printed()));
    })?;
    others.sort();
    others.dedup();
    others.truncate(MOST);
    Ok(if found.is_empty() { Err(others) } else { Ok(found) })
}

impl Heaps {
    pub(super) fn read(memory: &Memory, counters: &Counters) -> io::Result<Heaps> {
        let (mut heaps, mut names) = (Heaps::default(), HashMap::<String, OfName>::new());
        heaps.unread = each(memory, counters, |some| {
            for heap in some {
                heaps.count += 1;
                // Names that are printed alike are one.
                let name = heap.name.printed();
                let of_name = names.entry(name.clone()).or_insert_with(|| OfName::new(Some(name)));
                of_name.add(1, &heap.figures);
                heaps.largest.push(heap);
            }
            heaps.largest.sort_by_key(|heap| std::cmp::Reverse(heap.figures.bytes));
            heaps.largest.truncate(MOST);
        })?;
        heaps.names = names.into_values().collect();
        // The name decides between equals, so that one look is as the next.
        heaps.names.sort_by(|left, right| {
            let key = |of: &OfName| std::cmp::Reverse(of.figures.bytes);
            key(left).cmp(&key(right)).then_with(|| left.name.cmp(&right.name))
        });
        let (named, unnamed): (Vec<OfName>, Vec<OfName>) =
            heaps.names.drain(..).partition(|of| of.name.as_ref().is_some_and(|name| !name.is_empty()));
        let mut others = OfName::new(None);
        named.iter().skip(MOST).chain(&unnamed).for_each(|of| others.add(of.heaps, &of.figures));
        heaps.names = named.into_iter().take(MOST).collect();
        heaps.names.extend((others.heaps > 0).then_some(others));
        Ok(heaps)
    }
}

impl OfName {
    fn new(name: Option<String>) -> OfName {
        OfName { name, heaps: 0, figures: Figures::default() }
    }

    fn add(&mut self, heaps: u64, figures: &Figures) {
        self.heaps += heaps;
        self.figures.add(figures);
    }
}
