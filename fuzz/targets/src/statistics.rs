//! The statistics after any sequence of calls: the JSON parses, the text says the same, the bridge adds up.

use serde_json::Value;
use vcmalloc_core::base::text::Sink;

use crate::support::{Oracle, Step, TestHeap, steps};

struct Text(Vec<u8>);

impl Sink for Text {
    fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

fn text_of(write: impl FnOnce(&mut Text)) -> String {
    let mut text = Text(Vec::new());
    write(&mut text);
    String::from_utf8(text.0).expect("the statistics are UTF-8")
}

fn check(heap: &TestHeap, oracle: &Oracle) {
    let stats = heap.stats();
    let json: Value = serde_json::from_str(&text_of(|sink| heap.put_stats_json(sink))).expect("JSON");
    let mut count = 0;
    stats.each(|key, value| {
        count += 1;
        assert_eq!(stats.get(key.as_bytes()), Some(value));
        // These figures can change by being asked.
        if !["metadata", "resident", "not_in_memory", "dirty_free"].contains(&key) {
            assert_eq!(json[key].as_u64(), Some(value), "{key}");
        }
    });
    assert!(count > 20);
    let held: usize = oracle.live().map(|(_, bytes)| bytes).sum();
    assert_eq!(stats.live as usize, held, "live is what the program holds");
    let classes = json["classes"].as_array().expect("a list of classes");
    let sum = |field: &str| -> u64 {
        let bytes = |of: &Value| of[field].as_u64().unwrap_or(0) * of["block_bytes"].as_u64().unwrap_or(0);
        classes.iter().map(bytes).sum()
    };
    assert_eq!(sum("live_blocks") + stats.large, stats.live);
    assert_eq!((sum("cached_blocks"), sum("transfer_blocks")), (stats.vcpu_caches, stats.transfer));
    assert_eq!(sum("free_blocks"), stats.free_in_spans);
    let bridge = stats.live
        + stats.vcpu_caches
        + stats.transfer
        + stats.free_in_spans
        + stats.span_tails
        + stats.dirty_free
        + stats.metadata;
    assert_eq!(bridge - stats.not_in_memory, stats.resident, "the bridge adds up");
    check_text(&text_of(|sink| heap.put_stats_text(sink)));
}

/// The rows of the text carry signs; their sum is its last row.
fn check_text(text: &str) {
    let mut sum = 0i64;
    for line in text.lines().skip(1) {
        let number =
            || line.split_whitespace().last().and_then(|word| word.parse::<i64>().ok()).expect("a number");
        match line.as_bytes().first() {
            Some(b'=') => return assert_eq!(sum, number(), "{text}"),
            Some(b'-') => sum -= number(),
            _ => sum += number(),
        }
    }
    panic!("the text has no total:\n{text}");
}

pub fn run(input: &[u8]) {
    let (heap, mut oracle) = (TestHeap::new(), Oracle::default());
    for (number, step) in steps::<Step>(input, 200).into_iter().enumerate() {
        oracle.step(&heap, step);
        if number % 50 == 49 {
            check(&heap, &oracle);
        }
    }
    if heap.stats().mapped != 0 {
        check(&heap, &oracle);
    }
    let _ = text_of(|sink| heap.put_release_report(sink, 0));
    oracle.end(&heap);
}
