//! glibc's questions about the heap, answered about ours.

use super::sink::DescriptorSink;
use super::{Blocks, blocks, heap};
use core::ffi::c_int;
use vcmalloc_core::base::text::{self, Sink};
use vcmalloc_core::heap::Stats;

/// A C stream as a place for text.
struct StreamSink(*mut libc::FILE);

impl Sink for StreamSink {
    fn put(&mut self, bytes: &[u8]) {
        // SAFETY: the stream is the caller's, open for writing.
        unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), self.0) };
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    let mut sink = DescriptorSink::new(2);
    super::version::put_statistics(&mut sink);
    sink.flush();
}

/// Free bytes that the heap keeps: quarantine, caches, transfer arrays, free blocks and free pages.
fn free_bytes(stats: &Stats) -> u64 {
    stats.quarantined
        + stats.vcpu_caches
        + stats.transfer
        + stats.free_in_spans
        + stats.span_tails
        + stats.dirty_free
}

/// The figures that glibc has, as far as they exist here.
#[cfg(target_env = "gnu")]
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> libc::mallinfo2 {
    let stats = heap().stats();
    let free = free_bytes(&stats) as usize;
    libc::mallinfo2 {
        arena: stats.live as usize - stats.large as usize + free,
        ordblks: stats.spans as usize,
        smblks: 0,
        hblks: stats.large_blocks as usize,
        hblkhd: stats.large as usize,
        usmblks: 0,
        fsmblks: (stats.vcpu_caches + stats.transfer) as usize,
        uordblks: (stats.live - stats.large) as usize,
        fordblks: free,
        keepcost: stats.dirty_free as usize,
    }
}

#[cfg(target_env = "gnu")]
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> libc::mallinfo {
    // The old structure's fields are too small for today's heaps: they stop at their end instead of wrapping.
    let narrow = |value: usize| c_int::try_from(value).unwrap_or(c_int::MAX);
    let wide = mallinfo2();
    libc::mallinfo {
        arena: narrow(wide.arena),
        ordblks: narrow(wide.ordblks),
        smblks: narrow(wide.smblks),
        hblks: narrow(wide.hblks),
        hblkhd: narrow(wide.hblkhd),
        usmblks: narrow(wide.usmblks),
        fsmblks: narrow(wide.fsmblks),
        uordblks: narrow(wide.uordblks),
        fordblks: narrow(wide.fordblks),
        keepcost: narrow(wide.keepcost),
    }
}

/// Accepts glibc's parameters and answers as glibc does; they tune structures that do not exist here.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(parameter: c_int, value: c_int) -> c_int {
    // musl has no names for them.
    const M_MXFAST: c_int = 1;
    const M_MMAP_THRESHOLD: c_int = -3;
    /// glibc's own limits for the two parameters that have one.
    const MOST_FAST: c_int = 160;
    const MOST_MMAP_THRESHOLD: c_int = 32 << 20;
    let refused = match parameter {
        M_MXFAST => !(0..=MOST_FAST).contains(&value),
        M_MMAP_THRESHOLD => value > MOST_MMAP_THRESHOLD,
        _ => false,
    };
    c_int::from(!refused)
}

/// Gives free memory back, but for `pad` bytes; 1 if some went back.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(pad: usize) -> c_int {
    c_int::from(blocks().release(pad) > 0)
}

/// Writes the heap as XML in glibc's form: one heap, its classes as sizes, and the totals.
///
/// # Safety
/// `stream` is a stream open for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if options != 0 {
        return libc::EINVAL;
    }
    let sink = &mut StreamSink(stream);
    let stats = heap().stats();
    text::put_str(sink, "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n");
    put_sizes(sink);
    text::put_str(sink, "</sizes>\n</heap>\n");
    put_total(sink, "fast", 0, stats.vcpu_caches + stats.transfer);
    put_total(sink, "rest", 0, stats.quarantined + stats.free_in_spans + stats.span_tails + stats.dirty_free);
    put_total(sink, "mmap", stats.large_blocks, stats.large);
    for (kind, bytes) in
        [("current", stats.live + free_bytes(&stats)), ("live", stats.live), ("rss", stats.resident)]
    {
        text::put_str(sink, "<system type=\"");
        text::put_str(sink, kind);
        text::put_str(sink, "\" size=\"");
        text::put_decimal(sink, bytes);
        text::put_str(sink, "\"/>\n");
    }
    text::put_str(sink, "</malloc>\n");
    0
}

fn put_sizes(sink: &mut dyn Sink) {
    for class in vcmalloc_core::class::SizeClass::all() {
        let of = heap().class_stats(class);
        let free = of.free_blocks + of.cached_blocks + of.transfer_blocks;
        if of.spans == 0 {
            continue;
        }
        for (name, value) in [
            ("<size from=\"", of.block_bytes),
            ("\" to=\"", of.block_bytes),
            ("\" total=\"", free * of.block_bytes),
            ("\" count=\"", free),
            ("\" live=\"", of.live_blocks),
        ] {
            text::put_str(sink, name);
            text::put_decimal(sink, value);
        }
        text::put_str(sink, "\"/>\n");
    }
}

fn put_total(sink: &mut dyn Sink, kind: &str, count: u64, bytes: u64) {
    text::put_str(sink, "<total type=\"");
    text::put_str(sink, kind);
    text::put_str(sink, "\" count=\"");
    text::put_decimal(sink, count);
    text::put_str(sink, "\" size=\"");
    text::put_decimal(sink, bytes);
    text::put_str(sink, "\"/>\n");
}
