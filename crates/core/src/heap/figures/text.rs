//! The figures in words: for readers, and as JSON for programs.

use super::classes::ClassStats;
use super::columns::put_right;
use super::stats::{QUARANTINE, Stats};
use crate::base::text::{self, Sink};
use crate::class::SizeClass;
use crate::heap::Heap;
use crate::options::{self, OptionId};
use crate::os::Os;

impl<O: Os> Heap<O> {
    /// The statistics for a reader. The caller names itself before.
    pub fn put_stats_text(&self, sink: &mut dyn Sink) {
        let stats = self.stats();
        let mut name = [0u8; 16];
        let length = self.os.program_name(&mut name);
        text::put_str(sink, "heap of ");
        sink.put(name.get(..length).unwrap_or(&[]));
        text::put_str(sink, ", process ");
        text::put_decimal(sink, self.os.process_number());
        text::put_str(sink, ", in bytes\n");
        self.put_figures(sink, &stats);
    }

    /// The bridge, the front, and the classes.
    pub(super) fn put_figures(&self, sink: &mut dyn Sink, stats: &Stats) {
        let has_quarantine = self.pages.keeps_marks();
        for (sign, label, bytes) in
            stats.bridge().into_iter().filter(|row| has_quarantine || row.1 != QUARANTINE)
        {
            put_row(sink, sign, label, bytes);
        }
        put_row(sink, "= ", "resident", stats.resident);
        text::put_str(sink, "front: ");
        text::put_str(sink, self.cache.kind().name());
        text::put_str(sink, " (");
        text::put_str(sink, self.cache.reason().words());
        text::put_str(sink, "), caches and transfer arrays at most ");
        text::put_decimal(sink, stats.cache_limit);
        text::put_str(sink, " (");
        text::put_str(sink, self.options.origin(OptionId::cache_limit).name());
        text::put_str(sink, "), room in use ");
        text::put_decimal(sink, stats.cache_room);
        text::put_str(sink, ", most ");
        text::put_decimal(sink, stats.cache_room_most);
        text::put_str(sink, "\n");
        self.put_class_table(sink);
        self.put_heaps(sink);
    }

    #[inline(never)]
    fn put_class_table(&self, sink: &mut dyn Sink) {
        text::put_str(sink, "     block     spans      live    cached  transfer      free   (blocks)\n");
        for class in SizeClass::all() {
            let of = self.class_stats(class);
            if of.spans == 0 {
                continue;
            }
            for number in [
                of.block_bytes,
                of.spans,
                of.live_blocks,
                of.cached_blocks,
                of.transfer_blocks,
                of.free_blocks,
            ] {
                put_right(sink, number, 10);
            }
            text::put_str(sink, "\n");
        }
    }

    /// The statistics for a program.
    pub fn put_stats_json(&self, sink: &mut dyn Sink) {
        let stats = self.stats();
        text::put_str(sink, "{\"version\":1,\"front\":\"");
        text::put_str(sink, self.cache.kind().name());
        text::put_str(sink, "\",\"waste\":");
        text::put_decimal(sink, stats.waste());
        stats.each(|key, value| {
            text::put_str(sink, ",\"");
            text::put_str(sink, key);
            text::put_str(sink, "\":");
            text::put_decimal(sink, value);
        });
        text::put_str(sink, ",\"classes\":[");
        let mut separator = "";
        for class in SizeClass::all() {
            let of = self.class_stats(class);
            if of.spans > 0 {
                text::put_str(sink, separator);
                put_class_json(sink, of);
                separator = ",";
            }
        }
        text::put_str(sink, "]");
        self.put_heaps_json(sink);
        text::put_str(sink, "}\n");
    }

    /// Writes what a release gave, and what holds the rest: the classes whose spans keep most beside
    /// their live blocks.
    pub fn put_release_report(&self, sink: &mut dyn Sink, given: usize) {
        let stats = self.stats();
        text::put_str(sink, "vcmalloc: gave back ");
        text::put_decimal(sink, given as u64);
        text::put_str(sink, " bytes; in memory ");
        text::put_decimal(sink, stats.resident);
        text::put_str(sink, ", live ");
        text::put_decimal(sink, stats.live);
        text::put_str(sink, "\npinned: pages with live blocks beside free ones\n");
        text::put_str(sink, "     block     spans  in memory       live\n");
        for class in SizeClass::all() {
            let (of, resident) = (self.class_stats(class), self.resident_of(class));
            if of.spans > 0 {
                for (number, width) in [
                    (of.block_bytes, 10),
                    (of.spans, 10),
                    (resident, 11),
                    (of.live_blocks * of.block_bytes, 11),
                ] {
                    put_right(sink, number, width);
                }
                text::put_str(sink, "\n");
            }
        }
    }

    /// Each option with its value in effect and where it came from.
    pub fn put_options(&self, sink: &mut dyn Sink) {
        for id in OptionId::ALL {
            let spec = options::spec(id);
            text::put_str(sink, spec.name);
            text::put_str(sink, " = ");
            self.options.put(sink, id);
            text::put_str(sink, " (");
            text::put_str(sink, self.options.origin(id).name());
            text::put_str(sink, ")\n");
        }
        let setup = self.setup();
        text::put_str(sink, "in effect: front ");
        text::put_str(sink, setup.front.name());
        text::put_str(sink, ", cache_limit ");
        text::put_decimal(sink, setup.cache_limit as u64);
        text::put_str(sink, " bytes for ");
        text::put_decimal(sink, setup.usable_cpus as u64);
        text::put_str(sink, " CPUs\n");
    }
}

#[inline(never)]
fn put_class_json(sink: &mut dyn Sink, of: ClassStats) {
    let fields = [
        ("{\"block_bytes\":", of.block_bytes),
        (",\"spans\":", of.spans),
        (",\"live_blocks\":", of.live_blocks),
        (",\"cached_blocks\":", of.cached_blocks),
        (",\"transfer_blocks\":", of.transfer_blocks),
        (",\"free_blocks\":", of.free_blocks),
        (",\"quarantined_blocks\":", of.quarantined_blocks),
    ];
    for (name, value) in fields {
        text::put_str(sink, name);
        text::put_decimal(sink, value);
    }
    text::put_str(sink, "}");
}

#[inline(never)]
fn put_row(sink: &mut dyn Sink, sign: &str, label: &str, bytes: u64) {
    text::put_str(sink, sign);
    text::put_str(sink, label);
    (label.len()..42).for_each(|_| sink.put(b" "));
    put_right(sink, bytes, 16);
    text::put_str(sink, "\n");
}
