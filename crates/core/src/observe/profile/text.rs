//! The profile as text: the format of gperftools' heap profiler, which every pprof reads.
//!
//! Figures are scaled already, so the header says `heapprofile` and not `heap_v2`: a reader of the latter
//! scales each stack by the mean size of its samples, where we know the weight of each.

use super::{Profile, ProfileStats};
use crate::base::text::{Sink, put_decimal, put_hex, put_str};
use crate::os::Os;

impl<O: Os> Profile<O> {
    /// Writes all stacks that hold memory or ever did, and where the process's files are mapped. `within`: as
    /// in `each_live`; the text is written outside.
    pub fn put(&self, os: &O, sink: &mut dyn Sink, within: impl Fn(&mut dyn FnMut())) {
        self.put_head(sink, true, &within);
        self.put_stacks(sink, within);
        self.put_mappings(os, sink);
    }

    /// The first line: the sums; of nothing where the profile is not `wanted`.
    pub fn put_head(&self, sink: &mut dyn Sink, wanted: bool, within: impl Fn(&mut dyn FnMut())) {
        let mut stats = ProfileStats::default();
        if wanted {
            within(&mut || stats = self.stats());
        }
        put_str(sink, "heap profile: ");
        put_counts(
            sink,
            stats.live_objects,
            stats.live_bytes,
            stats.allocated_objects,
            stats.allocated_bytes,
        );
        put_str(sink, " heapprofile\n");
    }

    /// A line for each stack.
    pub fn put_stacks(&self, sink: &mut dyn Sink, within: impl Fn(&mut dyn FnMut())) {
        self.each_stack(within, |stack| {
            let (in_use, allocated) = (stack.in_use(), stack.allocated);
            put_counts(sink, in_use.objects(), in_use.bytes, allocated.objects(), allocated.bytes);
            for frame in stack.stack.frames() {
                put_str(sink, " ");
                put_hex(sink, *frame as u64);
            }
            put_str(sink, "\n");
        });
    }

    /// Writes where the process's files are mapped.
    pub fn put_mappings(&self, os: &O, sink: &mut dyn Sink) {
        put_str(sink, "\nMAPPED_LIBRARIES:\n");
        os.read_through(c"/proc/self/maps", &mut |piece| sink.put(piece));
    }
}

fn put_counts(sink: &mut dyn Sink, objects: u64, bytes: u64, all_objects: u64, all_bytes: u64) {
    for (number, before) in [(objects, ""), (bytes, ": "), (all_objects, " ["), (all_bytes, ": ")] {
        put_str(sink, before);
        put_decimal(sink, number);
    }
    put_str(sink, "] @");
}
