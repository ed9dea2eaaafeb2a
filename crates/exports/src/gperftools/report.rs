//! The text of GetStats: the way from live bytes to resident ones in gperftools' lines, then the classes as
//! far as there is room. Whole lines only: Ceph passes 2,048 bytes.

use crate::heap;
use vcmalloc_core::base::text::{Buffer, Sink, put_decimal, put_str};
use vcmalloc_core::class::SizeClass;
use vcmalloc_core::heap::Stats;

/// Fills the buffer and ends the text with a zero.
pub fn write(buffer: &mut [u8]) {
    let room = buffer.len().saturating_sub(1);
    let mut text = Buffer::new(buffer.get_mut(..room).unwrap_or(&mut []));
    put(&mut text, room);
    let written = text.offered().min(room);
    let cut = text.offered() > room;
    let whole = match buffer.get(..written) {
        // A buffer that does not hold the first line gets what it holds.
        Some(text) if cut => text.iter().rposition(|byte| *byte == b'\n').map_or(written, |at| at + 1),
        _ => written,
    };
    if let Some(end) = buffer.get_mut(whole) {
        *end = 0;
    }
}

fn put(text: &mut Buffer<'_>, room: usize) {
    let stats = heap().stats();
    put_bridge(text, &stats);
    put_settings(text, &stats);
    put_str(
        text,
        "MALLOC: bytes a block, live, in vCPU caches, in transfer arrays, free in spans (blocks)\n",
    );
    for class in SizeClass::all() {
        let of = heap().class_stats(class);
        if of.spans == 0 || text.offered() > room {
            continue;
        }
        put_str(text, "MALLOC: ");
        for number in [of.block_bytes, of.live_blocks, of.cached_blocks, of.transfer_blocks, of.free_blocks] {
            put_right(text, number, 11);
        }
        put_str(text, "\n");
    }
}

/// Each line's sign and bytes; the lines add up from one rule to the next.
fn put_bridge(text: &mut Buffer<'_>, stats: &Stats) {
    const RULE: &str = "MALLOC:   ------------\n";
    put_str(text, "------------------------------------------------\n");
    put_row(text, ' ', stats.live, "Bytes in use by application");
    put_row(text, '+', stats.dirty_free, "Bytes in page heap freelist");
    put_row(text, '+', stats.free_in_spans + stats.span_tails, "Bytes in central cache freelist");
    put_row(text, '+', stats.transfer, "Bytes in transfer cache freelist");
    put_row(text, '+', stats.vcpu_caches, "Bytes in thread cache freelists (vCPU caches)");
    put_row(text, '+', stats.metadata, "Bytes in malloc metadata");
    put_row(text, '-', stats.not_in_memory, "Of these not in memory (untouched, or given back)");
    put_str(text, RULE);
    put_row(text, '=', stats.resident, "Actual memory used (physical + swap): resident");
    let released = (stats.mapped + stats.metadata).saturating_sub(stats.resident);
    put_row(text, '+', released, "Bytes released to OS (aka unmapped)");
    put_str(text, RULE);
    put_row(text, '=', stats.resident + released, "Virtual address space used");
    put_str(text, "MALLOC:\n");
    put_count(text, stats.spans, "Spans in use");
    put_count(text, stats.slabs, "Thread heaps in use (vCPU caches)");
}

fn put_settings(text: &mut Buffer<'_>, stats: &Stats) {
    put_str(text, "------------------------------------------------\nvcmalloc ");
    put_str(text, env!("VCMALLOC_VERSION"));
    put_str(text, ", front ");
    put_str(text, heap().front_kind().name());
    put_str(text, ", caches at most ");
    put_decimal(text, stats.cache_limit);
    put_str(text, ", given back since start ");
    put_decimal(text, stats.given_back);
    put_str(text, "\n");
}

/// gperftools' form: `MALLOC: + %12u (%7.1f MiB) words`.
fn put_row(text: &mut Buffer<'_>, sign: char, bytes: u64, words: &str) {
    put_str(text, "MALLOC: ");
    text.put(&[sign as u8, b' ']);
    put_right(text, bytes, 12);
    put_str(text, " (");
    let tenths = bytes.saturating_mul(10) >> 20;
    put_right(text, tenths / 10, 5);
    put_str(text, ".");
    put_decimal(text, tenths % 10);
    put_str(text, " MiB) ");
    put_str(text, words);
    put_str(text, "\n");
}

fn put_count(text: &mut Buffer<'_>, count: u64, words: &str) {
    put_str(text, "MALLOC:   ");
    put_right(text, count, 12);
    put_str(text, "              ");
    put_str(text, words);
    put_str(text, "\n");
}

fn put_right(text: &mut Buffer<'_>, number: u64, width: usize) {
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    (digits..width).for_each(|_| text.put(b" "));
    put_decimal(text, number);
}
