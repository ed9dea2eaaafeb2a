//! The profile as text: the format of gperftools' heap profiler, which every pprof reads.
//!
//! Figures are scaled already, so the header says `heapprofile` and not `heap_v2`: a reader of the latter
//! scales each stack by the mean size of its samples, where we know the weight of each.

use super::profile::{Profile, Tally};
use crate::base::text::{Sink, put_decimal, put_hex, put_str};
use crate::os::Os;

impl<O: Os> Profile<O> {
    /// Writes all stacks that hold memory or ever did, and where the process's files are mapped. `within`: as
    /// in `each_live`; what is written is written outside.
    pub fn put(&self, os: &O, sink: &mut dyn Sink, within: impl Fn(&mut dyn FnMut())) {
        self.put_stacks(sink, within, |of| (of.in_use(), of.allocated));
        put_str(sink, "\nMAPPED_LIBRARIES:\n");
        os.read_through(c"/proc/self/maps", &mut |piece| sink.put(piece));
    }

    fn put_stacks(
        &self,
        sink: &mut dyn Sink,
        within: impl Fn(&mut dyn FnMut()),
        of: impl Fn(&super::profile::OfStack) -> (Tally, Tally),
    ) {
        let mut stats = super::ProfileStats::default();
        within(&mut || stats = self.stats());
        put_str(sink, "heap profile: ");
        put_counts(
            sink,
            stats.live_objects,
            stats.live_bytes,
            stats.allocated_objects,
            stats.allocated_bytes,
        );
        put_str(sink, " heapprofile\n");
        self.each_stack(within, |stack| {
            let (in_use, allocated) = of(stack);
            put_counts(sink, in_use.objects(), in_use.bytes, allocated.objects(), allocated.bytes);
            for frame in stack.stack.frames() {
                put_str(sink, " ");
                put_hex(sink, *frame as u64);
            }
            put_str(sink, "\n");
        });
    }
}

fn put_counts(sink: &mut dyn Sink, objects: u64, bytes: u64, all_objects: u64, all_bytes: u64) {
    for (number, before) in [(objects, ""), (bytes, ": "), (all_objects, " ["), (all_bytes, ": ")] {
        put_str(sink, before);
        put_decimal(sink, number);
    }
    put_str(sink, "] @");
}
