//! A heap profile as jemalloc writes it (`heap_v2`): blocks as they were sampled, which readers weigh by the mean size of
//! each stack's, and where the process's files are mapped. jeprof and the readers of its format take it.

use crate::heap;
use core::ffi::CStr;
use vcmalloc_core::base::text::{Sink, put_decimal, put_hex, put_str};
use vcmalloc_core::os::Os;

/// Blocks and bytes.
#[derive(Clone, Copy, Default)]
struct Sampled {
    blocks: u64,
    bytes: u64,
}

fn put_sampled(sink: &mut dyn Sink, sampled: Sampled) {
    put_str(sink, "  t*: ");
    put_decimal(sink, sampled.blocks);
    put_str(sink, ": ");
    put_decimal(sink, sampled.bytes);
    // The sum of all that was ever allocated is not kept.
    put_str(sink, " [0: 0]\n");
}

pub fn put(sink: &mut dyn Sink) {
    let mut all = Sampled::default();
    heap().each_live_sample(|sample| {
        all = Sampled { blocks: all.blocks + 1, bytes: all.bytes + sample.bytes as u64 };
    });
    put_str(sink, "heap_v2/");
    put_decimal(sink, heap().profile_stats().interval);
    put_str(sink, "\n");
    put_sampled(sink, all);
    heap().each_live_sample(|sample| {
        put_str(sink, "@");
        for address in sample.stack {
            put_str(sink, " ");
            put_hex(sink, *address as u64);
        }
        put_str(sink, "\n");
        put_sampled(sink, Sampled { blocks: 1, bytes: sample.bytes as u64 });
    });
    put_str(sink, "\nMAPPED_LIBRARIES:\n");
    heap().os().read_through(c"/proc/self/maps", &mut |piece| sink.put(piece));
}

/// False where the file cannot be written whole.
pub fn write(path: &CStr) -> bool {
    heap().os().write_file(path, &mut |sink| put(sink))
}
