//! Reads raw traces of gperftools' branch `wip-malloc-tracing` (alk/gperftools), unpacked.
//!
//! The file is a sequence of numbers whose first byte tells by its trailing zeros how many bytes follow (WebAssembly/design#601).
//! Each thread writes a buffer of its events when that is full, so buffers come in the order in which they filled. Allocations have
//! tokens, which a thread takes in blocks of consecutive numbers; a free names the token, so it can stand in the file before the
//! buffer that allocated. Sizes are kept in units of 8 bytes: they come back rounded up. Numbers by the events' types:
//!
//! ```text
//!   low 3 bits   0 malloc (signed difference of size/8)   1 free, 4 sized free (signed difference of token)
//!                2 tokens from here on (base; time and CPU)   3 buffer (thread; time and CPU; bytes)   7 see below
//!   low 8 bits   0x07 end of a thread   0x0F end   0x17 realloc (as malloc; as free)   0x1F aligned (as malloc; alignment)
//!                0x27 barrier (time and CPU)
//! ```

use crate::event::{Event, Object, StreamId};
use crate::writer::{Writer, Written};
use crate::{Error, Result};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};

/// The lowest bits of a time are the number of the CPU.
const CPU_BITS: u32 = 10;
/// Buffers of the recorder are 4 KiB; nothing near this is one.
const MOST_BUFFER_BYTES: u64 = 16 << 20;

/// The result of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Frees and reallocations of tokens that nobody allocated.
    pub unknown: u64,
    pub written: Written,
}

/// Writes a whole raw trace into a new one. Threads whose events have to wait for another thread's buffer are held in memory.
pub fn import<W: Write>(input: impl Read, ticks_per_second: f64, writer: Writer<W>) -> Result<(W, Imported)> {
    let mut import = Import {
        source: Source { input, at: 0 },
        nanoseconds_per_tick: 1e9 / ticks_per_second,
        first_time: None,
        threads: HashMap::new(),
        blocks: BTreeMap::new(),
        waiting: HashMap::new(),
        imported: Imported::default(),
        writer,
    };
    while import.buffer()? {}
    import.release_all()?;
    let (out, written) = import.writer.finish()?;
    Ok((out, Imported { written, ..import.imported }))
}

/// Numbers, from the file or from a buffer out of it.
struct Source<R> {
    input: R,
    at: u64,
}

impl<R: Read> Source<R> {
    fn cut_off(&self) -> Error {
        Error::CutOff { at: self.at, within: "an event" }
    }

    /// None at the end of the input.
    fn number(&mut self) -> Result<Option<u64>> {
        let mut bytes = [0u8; 9];
        match self.input.read(&mut bytes[..1]) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => return self.number(),
            Err(error) => return Err(error.into()),
        }
        let more = bytes[0].trailing_zeros().min(8) as usize;
        self.input.read_exact(&mut bytes[1..=more]).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => self.cut_off(),
            _ => error.into(),
        })?;
        self.at += 1 + more as u64;
        if more == 8 {
            return Ok(Some(u64::from_le_bytes(std::array::from_fn(|byte| bytes[byte + 1]))));
        }
        let word = u64::from_le_bytes(std::array::from_fn(|byte| bytes[byte]));
        Ok(Some(word >> (more + 1)))
    }

    fn need(&mut self) -> Result<u64> {
        self.number()?.ok_or_else(|| self.cut_off())
    }
}

fn signed(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// An event as the file has it: objects are tokens.
enum Raw {
    Begin(Event),
    Free(u64),
    Realloc(u64, u64),
}

/// An event of a thread, until it can be written.
struct Queued {
    time: u64,
    raw: Raw,
    /// Of the object that begins, if one does.
    token: Option<u64>,
}

#[derive(Default)]
struct Thread {
    stream: StreamId,
    size: u64,
    token: u64,
    next_token: u64,
    begun: u64,
    time: u64,
    /// The events that wait for another thread's allocation, in order.
    queue: VecDeque<Queued>,
}

struct Import<R, W: Write> {
    source: Source<R>,
    nanoseconds_per_tick: f64,
    first_time: Option<u64>,
    threads: HashMap<u64, Thread>,
    /// Tokens from the key on, so many, are the objects from here on.
    blocks: BTreeMap<u64, (u64, Object)>,
    /// Threads that wait for a token.
    waiting: HashMap<u64, Vec<u64>>,
    imported: Imported,
    writer: Writer<W>,
}

impl<R: Read, W: Write> Import<R, W> {
    fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged { at: self.source.at, what }
    }

    /// Takes what stands at the top of the file; false at its end.
    fn buffer(&mut self) -> Result<bool> {
        let Some(first) = self.source.number()? else { return Ok(false) };
        match first & 7 {
            3 => {
                let (thread, time) = (first >> 3, self.time()?);
                let bytes = self.source.need()?;
                if bytes > MOST_BUFFER_BYTES {
                    return Err(self.damaged("a buffer cannot be that long"));
                }
                let mut buffer = vec![0; bytes as usize];
                self.source.input.read_exact(&mut buffer).map_err(|_| self.source.cut_off())?;
                self.source.at += bytes;
                self.events(thread, time, &buffer)?;
            }
            7 => match first & 0xFF {
                0x07 => {
                    let time = self.time()?;
                    let stream = self.thread(first >> 8).stream;
                    self.writer.event(stream, time, &Event::ThreadEnd)?;
                }
                0x0F => return Ok(false),
                0x27 => _ = self.time()?,
                _ => return Err(self.damaged("an event stands outside of a buffer")),
            },
            _ => return Err(self.damaged("an event stands outside of a buffer")),
        }
        Ok(true)
    }

    /// Nanoseconds since the first time in the file.
    fn time(&mut self) -> Result<u64> {
        let ticks = self.source.need()? >> CPU_BITS << CPU_BITS;
        Ok(self.since_first(ticks))
    }

    fn since_first(&mut self, ticks: u64) -> u64 {
        let first = *self.first_time.get_or_insert(ticks);
        (ticks.saturating_sub(first) as f64 * self.nanoseconds_per_tick) as u64
    }

    fn thread(&mut self, id: u64) -> &mut Thread {
        let stream = self.threads.len() as StreamId + 1;
        self.threads.entry(id).or_insert_with(|| Thread { stream, ..Thread::default() })
    }

    fn events(&mut self, id: u64, time: u64, buffer: &[u8]) -> Result<()> {
        let mut source = Source { input: buffer, at: self.source.at - buffer.len() as u64 };
        let thread = self.thread(id);
        thread.time = thread.time.max(time);
        while let Some(first) = source.number()? {
            let raw = match first & 7 {
                2 => {
                    let ticks = source.need()? >> CPU_BITS << CPU_BITS;
                    let time = self.since_first(ticks);
                    let thread = self.thread(id);
                    (thread.next_token, thread.time) = (first >> 3, thread.time.max(time));
                    continue;
                }
                0 => Raw::Begin(Event::Malloc { bytes: self.thread(id).size_after(first >> 3) }),
                1 | 4 => Raw::Free(self.thread(id).token_after(first >> 3)),
                7 if first & 0xFF == 0x17 => {
                    let bytes = self.thread(id).size_after(first >> 8);
                    let token = source.need()?;
                    Raw::Realloc(self.thread(id).token_after(token), bytes)
                }
                7 if first & 0xFF == 0x1F => {
                    let bytes = self.thread(id).size_after(first >> 8);
                    let alignment = source.need()?.max(1);
                    Raw::Begin(Event::Aligned { bytes, log2_alignment: alignment.ilog2() as u8 })
                }
                _ => {
                    return Err(Error::Damaged { at: source.at, what: "there is no such event in a buffer" });
                }
            };
            let token = (!matches!(raw, Raw::Free(_))).then(|| self.note_token(id));
            let thread = self.thread(id);
            thread.queue.push_back(Queued { time: thread.time, raw, token });
        }
        self.release(id)
    }

    /// Notes which object the next token of a thread is; the token.
    fn note_token(&mut self, id: u64) -> u64 {
        let thread = self.thread(id);
        let (token, object) = (thread.next_token, Object { stream: thread.stream, ordinal: thread.begun });
        (thread.next_token, thread.begun) = (token.wrapping_add(1), thread.begun + 1);
        let last = self.blocks.range_mut(..=token).next_back();
        match last.filter(|(base, (count, of))| {
            base.wrapping_add(*count) == token
                && of.stream == object.stream
                && of.ordinal + *count == object.ordinal
        }) {
            Some((_, (count, _))) => *count += 1,
            None => _ = self.blocks.insert(token, (1, object)),
        }
        token
    }

    fn object(&self, token: u64) -> Option<Object> {
        let (base, (count, object)) = self.blocks.range(..=token).next_back()?;
        (token - base < *count).then(|| Object { ordinal: object.ordinal + token - base, ..*object })
    }

    /// Writes what a thread has, up to what has to wait; then what waited for that.
    fn release(&mut self, id: u64) -> Result<()> {
        let mut ready = vec![id];
        while let Some(id) = ready.pop() {
            while let Some(queued) = self.thread(id).queue.pop_front() {
                let ended = match queued.raw {
                    Raw::Begin(_) => None,
                    Raw::Free(token) | Raw::Realloc(token, _) => Some(token),
                };
                let object = ended.and_then(|token| self.object(token));
                let is_there = |object: &Object| self.writer.next_ordinal(object.stream) > object.ordinal;
                if let Some(token) = ended.filter(|_| !object.as_ref().is_some_and(is_there)) {
                    self.thread(id).queue.push_front(queued);
                    self.waiting.entry(token).or_default().push(id);
                    break;
                }
                ready.extend(self.write(id, queued, object)?);
            }
        }
        Ok(())
    }

    /// Writes an event; the threads that waited for the object that it begins.
    fn write(&mut self, id: u64, queued: Queued, object: Option<Object>) -> Result<Vec<u64>> {
        let Queued { time, raw, token } = queued;
        let stream = self.thread(id).stream;
        self.imported.unknown += u64::from(object.is_none() && !matches!(raw, Raw::Begin(_)));
        let event = match (raw, object) {
            (Raw::Begin(event), _) => event,
            (Raw::Free(_), Some(object)) => Event::Free { object },
            (Raw::Free(_), None) => Event::FreeUnknown,
            (Raw::Realloc(_, bytes), Some(from)) => Event::Realloc { from, bytes },
            (Raw::Realloc(_, bytes), None) => Event::ReallocUnknown { bytes },
        };
        self.writer.event(stream, time, &event)?;
        Ok(token.and_then(|token| self.waiting.remove(&token)).unwrap_or_default())
    }

    /// At the end of the file nobody comes any more: tokens that are still waited for are unknown.
    fn release_all(&mut self) -> Result<()> {
        let mut waiting: Vec<u64> = std::mem::take(&mut self.waiting).into_values().flatten().collect();
        while let Some(id) = waiting.pop() {
            let Some(queued) = self.thread(id).queue.pop_front() else { continue };
            let more = self.write(id, queued, None)?;
            self.release(id)?;
            waiting.extend(more);
            waiting.extend(std::mem::take(&mut self.waiting).into_values().flatten());
        }
        Ok(())
    }
}

impl Thread {
    fn size_after(&mut self, number: u64) -> u64 {
        self.size = self.size.wrapping_add_signed(signed(number));
        self.size.wrapping_mul(8)
    }

    fn token_after(&mut self, number: u64) -> u64 {
        self.token = self.token.wrapping_add_signed(signed(number));
        self.token
    }
}
