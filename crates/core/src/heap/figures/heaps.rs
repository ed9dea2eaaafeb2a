//! The heaps of tenants in words: the largest ones.

use super::columns::put_right;
use crate::base::text::{self, Sink};
use crate::heap::Heap;
use crate::os::Os;
use crate::tenants::{HeapId, TenantStats};

/// So many are named.
const MOST: usize = 16;

impl<O: Os> Heap<O> {
    /// The largest heaps of tenants, largest first, and how many there are.
    fn largest_heaps(&self) -> ([(HeapId, TenantStats); MOST], usize) {
        let (mut largest, mut count) = ([(HeapId::NONE, TenantStats::default()); MOST], 0);
        self.each_heap(|id| {
            let Some(stats) = self.heap_stats(id) else { return };
            count += 1;
            let mut next = (id, stats);
            for place in &mut largest {
                if place.0 == HeapId::NONE || place.1.bytes < next.1.bytes {
                    core::mem::swap(place, &mut next);
                }
            }
        });
        (largest, count)
    }

    /// For a reader; nothing where there are none.
    #[inline(never)]
    pub(super) fn put_heaps(&self, sink: &mut dyn Sink) {
        let (largest, count) = self.largest_heaps();
        if count == 0 {
            return;
        }
        text::put_str(sink, "heaps of tenants: ");
        text::put_decimal(sink, count as u64);
        text::put_str(sink, "\n          live        spans         most        limit    refused  name\n");
        for (id, stats) in largest.into_iter().filter(|(id, _)| *id != HeapId::NONE) {
            for (number, width) in [
                (stats.live, 14),
                (stats.bytes, 13),
                (stats.peak, 13),
                (stats.limit, 13),
                (stats.refused, 11),
            ] {
                put_right(sink, number, width);
            }
            text::put_str(sink, "  ");
            self.put_heap_name(sink, id);
            if stats.is_draining {
                text::put_str(sink, " (drains, ");
                text::put_decimal(sink, stats.late);
                text::put_str(sink, " late frees)");
            }
            text::put_str(sink, "\n");
        }
    }

    /// For a program: the elements of an array.
    #[inline(never)]
    pub(super) fn put_heaps_json(&self, sink: &mut dyn Sink) {
        let (largest, count) = self.largest_heaps();
        text::put_str(sink, ",\"heaps\":");
        text::put_decimal(sink, count as u64);
        text::put_str(sink, ",\"largest_heaps\":[");
        let mut separator = "";
        for (id, stats) in largest.into_iter().filter(|(id, _)| *id != HeapId::NONE) {
            text::put_str(sink, separator);
            text::put_str(sink, "{\"name\":\"");
            self.put_heap_name(sink, id);
            text::put_str(sink, "\"");
            for (name, value) in [
                (",\"id\":", id.0),
                (",\"live\":", stats.live),
                (",\"live_blocks\":", stats.live_blocks),
                (",\"cached\":", stats.cached),
                (",\"bytes\":", stats.bytes),
                (",\"peak\":", stats.peak),
                (",\"limit\":", stats.limit),
                (",\"refused\":", stats.refused),
                (",\"draining\":", u64::from(stats.is_draining)),
                (",\"late_frees\":", stats.late),
            ] {
                text::put_str(sink, name);
                text::put_decimal(sink, value);
            }
            text::put_str(sink, "}");
            separator = ",";
        }
        text::put_str(sink, "]");
    }

    /// A program may call a heap anything: bytes that a line or a string of JSON cannot have become dots.
    fn put_heap_name(&self, sink: &mut dyn Sink, id: HeapId) {
        let name = self.heap_name(id);
        for byte in name.into_iter().take_while(|byte| *byte != 0) {
            let is_plain = (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
            sink.put(&[if is_plain { byte } else { b'.' }]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::text::Buffer;
    use crate::heap::Made;
    use crate::os::fake::Fake;

    fn text_of(write: impl FnOnce(&mut dyn Sink)) -> String {
        let mut room = vec![0u8; 64 << 10];
        let mut sink = Buffer::new(&mut room);
        write(&mut sink);
        String::from_utf8(sink.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn the_largest_heaps_are_named_and_names_cannot_break_a_line() {
        let heap = Box::new(Heap::new(Fake::default()));
        heap.free(heap.allocate(1));
        assert!(!text_of(|sink| heap.put_stats_text(sink)).contains("heaps of tenants"));
        for index in 0..20usize {
            let name = format!("h{index}\n\"\\");
            let made = Made {
                name: name.as_bytes(),
                parent: HeapId::OWN,
                limit: Some(100 << 20),
                on_limit: None,
                argument: 0,
            };
            let id = heap.make_heap(made).unwrap();
            heap.allocate_in(id, 16, (index + 1) * (300 << 10)).unwrap();
        }
        let text = text_of(|sink| heap.put_stats_text(sink));
        let rows: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("heaps of")).collect();
        assert_eq!(rows[0], "heaps of tenants: 20");
        assert!(rows[2].ends_with("  h19...") && rows[17].ends_with("  h4..."), "{rows:#?}");
        let json = text_of(|sink| heap.put_stats_json(sink));
        assert!(json.contains(",\"heaps\":20,\"largest_heaps\":[{\"name\":\"h19...\",\"id\":"), "{json}");
    }
}
