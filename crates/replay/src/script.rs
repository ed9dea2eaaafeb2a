//! An epoch as words to replay, by stream.
//!
//! ```text
//!   bits 0..4 what   4 another waits for it, or it waits   5..33 slot   33..64 bytes (all ones: in the next word)
//!   behind it, in this order: the bytes; log2 of the alignment, or the slot that a realloc ends, with bit 63 if it waits
//!   the end of a tenant: 5..33 its number, 33..64 its blocks, and behind it their slots, each with bit 63 if it waits
//! ```

use crate::numbers::Numbers;
use crate::tenants::Tenants;
use std::collections::HashMap;
use vcm_trace::{Event, Item, Object, PROCESS, RawEpoch, RawSection, StreamId};

pub const FREE: u64 = 0;
pub const MALLOC: u64 = 1;
pub const CALLOC: u64 = 2;
pub const ALIGNED: u64 = 3;
pub const REALLOC: u64 = 4;
pub const SKIP: u64 = 5;
/// The time of the trace, in the other bits.
pub const TIME: u64 = 6;
/// The next allocation is of the tenant in the slot's place.
pub const OF: u64 = 7;
/// All blocks of a tenant end.
pub const END: u64 = 8;

pub const WAITS: u64 = 1 << 4;
pub const OLD_WAITS: u64 = 1 << 63;
/// A block of a tenant that the trace does not know.
const NO_SLOT: u64 = SLOT_MASK;
pub const SLOT_SHIFT: u32 = 5;
pub const SLOT_MASK: u64 = (1 << 28) - 1;
pub const BYTES_SHIFT: u32 = 33;
pub const LONG: u64 = (1 << 31) - 1;

/// The part of one stream in the epoch.
pub struct Part {
    pub stream: usize,
    pub begin: usize,
    pub end: usize,
    /// Places in the words, each with its time.
    pub marks: Vec<(usize, u64)>,
    pub crossings: Vec<Crossing>,
    pub ends: bool,
}

/// The end of another stream's object.
pub struct Crossing {
    /// The first word of the event, and the one that names the object.
    pub at: usize,
    pub names: usize,
    pub slot: u32,
    /// Part and word of the begin, where that is in this epoch.
    pub begun: Option<(usize, usize)>,
}

#[derive(Default)]
pub struct Script {
    pub words: Vec<u64>,
    pub parts: Vec<Part>,
    pub events: u64,
    pub times: (u64, u64),
    /// When, resident bytes of the process as recorded.
    pub resident: Vec<(u64, u64)>,
}

/// Turns the epochs of a trace, from its first on, into scripts.
pub struct Writer<'a> {
    tenants: &'a Tenants,
    /// By tenant, what its end waits for: all frees of it stand in one place, the last one's.
    ending: Vec<Vec<Object>>,
    numbers: Numbers,
    streams: HashMap<StreamId, usize>,
    /// By slot: epoch, part and word of the begin, and the bytes.
    born: Vec<(u32, u32, u32, u64)>,
    epoch: u32,
    is_timed: bool,
    pub live_bytes: u64,
    /// Ends of objects that the trace does not know.
    pub unknown: u64,
    pub lost: u64,
    pub allocations: u64,
}

/// Ends that came before their begin was read: part, crossing, object.
type Early = Vec<(usize, usize, Object)>;

impl<'a> Writer<'a> {
    /// `is_timed`: with words for the time.
    pub fn new(is_timed: bool, tenants: &'a Tenants) -> Self {
        Writer {
            tenants,
            ending: vec![Vec::new(); tenants.found.len()],
            numbers: Numbers::default(),
            streams: HashMap::new(),
            born: Vec::new(),
            epoch: 0,
            is_timed,
            live_bytes: 0,
            unknown: 0,
            lost: 0,
            allocations: 0,
        }
    }

    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    pub fn slots(&self) -> usize {
        self.numbers.most()
    }

    pub fn write(&mut self, raw: &RawEpoch) -> vcm_trace::Result<Script> {
        self.numbers.begin();
        self.epoch += 1;
        let mut script = Script { events: raw.events(), times: raw.times(), ..Script::default() };
        let mut early = Early::new();
        for section in raw.sections()? {
            let done = self.part(&section, &mut script, &mut early);
            done.ok_or_else(|| raw.damaged())?;
        }
        self.resolve(&mut script, early);
        Ok(script)
    }

    fn dense(&mut self, stream: StreamId) -> usize {
        let next = self.streams.len();
        *self.streams.entry(stream).or_insert(next)
    }

    fn part(&mut self, section: &RawSection<'_>, script: &mut Script, early: &mut Early) -> Option<()> {
        let (mut time, mut next) = (section.start, section.first_ordinal);
        if section.stream == PROCESS {
            // Times stand before every 32nd event and at the end: samples are taken as evenly spaced between.
            let (begin, mut samples) = (time, Vec::new());
            section.walk(|item| match item {
                Item::Event(Event::Memory { resident, .. }) => samples.push(resident),
                Item::Time(span) => time = time.saturating_add(span),
                _ => {}
            })?;
            let gaps = (samples.len() as u64).saturating_sub(1).max(1);
            let at = |index| begin + (u128::from(time - begin) * u128::from(index) / u128::from(gaps)) as u64;
            script.resident.extend((0u64..).map(at).zip(samples));
            return Some(());
        }
        let (stream, at) = (self.dense(section.stream), script.parts.len());
        let mut part = Part {
            stream,
            begin: script.words.len(),
            end: 0,
            marks: vec![(script.words.len(), time)],
            crossings: Vec::new(),
            ends: false,
        };
        let mut is_right = true;
        section.walk(|item| {
            let begin = script.words.len();
            match item {
                Item::Time(span) => {
                    time = time.saturating_add(span);
                    part.marks.push((begin, time));
                    if self.is_timed {
                        script.words.push(time << 4 | TIME);
                    }
                }
                Item::Event(event) => {
                    is_right &= self
                        .event(
                            &event,
                            (section.stream, stream),
                            &mut next,
                            &mut part,
                            at,
                            &mut script.words,
                            early,
                        )
                        .is_some();
                }
            }
        })?;
        part.end = script.words.len();
        script.parts.push(part);
        is_right.then_some(())
    }

    #[allow(clippy::too_many_arguments)]
    #[inline(always)]
    fn event(
        &mut self,
        event: &Event,
        (id, stream): (StreamId, usize),
        next: &mut u64,
        part: &mut Part,
        at: usize,
        words: &mut Vec<u64>,
        early: &mut Early,
    ) -> Option<()> {
        let mut begin = words.len();
        let (what, bytes) = match event {
            Event::Free { object } if self.ends_with_others(*object, id) => {
                self.tenant(*object, id, part, at, words, early);
                return Some(());
            }
            Event::Free { object } => {
                let slot = self.end(*object, id, stream);
                if object.stream != id {
                    self.cross(part, (at, begin, begin), *object, slot, early);
                }
                words.push(slot.map_or(SKIP, |slot| u64::from(slot) << SLOT_SHIFT | FREE));
                self.unknown += u64::from(slot.is_none() && object.stream == id);
                return Some(());
            }
            Event::Malloc { bytes } | Event::ReallocUnknown { bytes } => (MALLOC, *bytes),
            Event::Calloc { bytes } => (CALLOC, *bytes),
            Event::Aligned { bytes, .. } => (ALIGNED, *bytes),
            Event::Realloc { bytes, .. } => (REALLOC, *bytes),
            Event::ThreadEnd => {
                part.ends = true;
                return Some(());
            }
            Event::Gap { events } => {
                self.lost = self.lost.saturating_add(*events);
                return Some(());
            }
            Event::FreeUnknown => {
                self.unknown += 1;
                return Some(());
            }
            _ => return Some(()),
        };
        let slot = self.numbers.begins(stream, *next)?;
        if let Some(tenant) = self.tenants.of(Object { stream: id, ordinal: *next }) {
            words.push(u64::from(tenant) << SLOT_SHIFT | OF);
            begin += 1;
        }
        *next += 1;
        self.allocations += 1;
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        let birth = (self.epoch, at as u32, begin as u32, bytes);
        match self.born.get_mut(slot as usize) {
            Some(place) => *place = birth,
            None => {
                self.born.resize(slot as usize + 1, (0, 0, 0, 0));
                self.born[slot as usize] = birth;
            }
        }
        words.push(bytes.min(LONG) << BYTES_SHIFT | u64::from(slot) << SLOT_SHIFT | what);
        if bytes >= LONG {
            words.push(bytes);
        }
        match event {
            Event::Aligned { log2_alignment, .. } => words.push((*log2_alignment).into()),
            Event::Realloc { from, .. } => {
                let old = self.end(*from, id, stream);
                if from.stream != id {
                    self.cross(part, (at, begin, words.len()), *from, old, early);
                }
                match old {
                    Some(old) => words.push(old.into()),
                    None => {
                        words.push(0);
                        // Until its begin is found it is an allocation, with a word to skip.
                        words[begin] = words[begin] & !15 | MALLOC;
                        *words.last_mut()? = SKIP;
                    }
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Whether a free is one of those that end a tenant.
    fn ends_with_others(&self, object: Object, id: StreamId) -> bool {
        let tenant = self.tenants.of(object).and_then(|tenant| self.tenants.get(tenant));
        tenant.is_some_and(|tenant| tenant.reaper == id)
    }

    /// A block of a tenant ends, and with the last one all of them.
    fn tenant(
        &mut self,
        object: Object,
        id: StreamId,
        part: &mut Part,
        at: usize,
        words: &mut Vec<u64>,
        early: &mut Early,
    ) {
        let Some(tenant) = self.tenants.of(object) else { return };
        let Some(ending) = self.ending.get_mut(tenant as usize) else { return };
        ending.push(object);
        if self.tenants.get(tenant).is_none_or(|found| found.blocks > ending.len() as u64) {
            return;
        }
        let (all, begin) = (std::mem::take(ending), words.len());
        words.push((all.len() as u64) << BYTES_SHIFT | u64::from(tenant) << SLOT_SHIFT | END);
        for object in all {
            // None of them is the reaper's: it began after them.
            let slot = self.end(object, id, usize::MAX);
            self.cross(part, (at, begin, words.len()), object, slot, early);
            words.push(slot.map_or(NO_SLOT, u64::from));
        }
    }

    fn end(&mut self, object: Object, id: StreamId, stream: usize) -> Option<u32> {
        let stream = if object.stream == id { stream } else { *self.streams.get(&object.stream)? };
        let slot = self.numbers.ends(stream, object.ordinal)?;
        let bytes = self.born.get(slot as usize).map_or(0, |born| born.3);
        self.live_bytes = self.live_bytes.saturating_sub(bytes);
        Some(slot)
    }

    fn cross(
        &self,
        part: &mut Part,
        (at, begin, names): (usize, usize, usize),
        object: Object,
        slot: Option<u32>,
        early: &mut Early,
    ) {
        let begun = slot.and_then(|slot| self.born_here(slot));
        if slot.is_none() {
            early.push((at, part.crossings.len(), object));
        } else if begun.is_none() {
            return;
        }
        part.crossings.push(Crossing { at: begin, names, slot: slot.unwrap_or(0), begun });
    }

    fn born_here(&self, slot: u32) -> Option<(usize, usize)> {
        let (epoch, part, word, _) = *self.born.get(slot as usize)?;
        (epoch == self.epoch).then_some((part as usize, word as usize))
    }

    fn resolve(&mut self, script: &mut Script, early: Early) {
        for (part, at, object) in early {
            let slot = self.end(object, PROCESS, 0);
            let begun = slot.and_then(|slot| self.born_here(slot));
            let Some(crossing) = script.parts.get_mut(part).and_then(|part| part.crossings.get_mut(at))
            else {
                continue;
            };
            let (Some(slot), Some(begun)) = (slot, begun) else {
                self.unknown += 1;
                continue;
            };
            (crossing.slot, crossing.begun) = (slot, Some(begun));
            if crossing.at == crossing.names {
                script.words[crossing.at] = u64::from(slot) << SLOT_SHIFT | FREE;
            } else if script.words[crossing.at] & 15 == END {
                script.words[crossing.names] = slot.into();
            } else {
                script.words[crossing.at] = script.words[crossing.at] & !15 | REALLOC;
                script.words[crossing.names] = slot.into();
            }
        }
    }
}

impl Script {
    /// Makes an end wait for its begin, and the begin wake it.
    pub fn wait_for(&mut self, part: usize, crossing: usize) {
        let Some(crossing) = self.parts.get(part).and_then(|part| part.crossings.get(crossing)) else {
            return;
        };
        let Some((_, begun)) = crossing.begun else { return };
        self.words[crossing.names] |= if crossing.at == crossing.names { WAITS } else { OLD_WAITS };
        self.words[begun] |= WAITS;
    }
}
