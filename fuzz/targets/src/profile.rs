//! The heap profile after any sequence of calls: what is in use is what samples stand for, and the text reads
//! back.

use arbitrary::Arbitrary;
use vcmalloc_core::base::text::Sink;

use crate::support::{Oracle, Step as Call, TestHeap, steps};

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Call(Call),
    Start(u16),
    Stop,
    /// Stacks of other depths are other stacks.
    Depth(u8),
}

struct Text(Vec<u8>);

impl Sink for Text {
    fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// `N: B [N: B] @`, and what follows.
fn counts(line: &str) -> ([u64; 4], &str) {
    let (numbers, rest) = line.split_once('@').expect("an @ after the counts");
    let mut found = numbers.split(|letter: char| !letter.is_ascii_digit()).filter(|word| !word.is_empty());
    let mut next = || found.next().and_then(|word| word.parse().ok()).expect("four numbers");
    ([next(), next(), next(), next()], rest)
}

fn check(heap: &TestHeap) {
    let mut text = Text(Vec::new());
    heap.put_profile(&mut text);
    let text = String::from_utf8(text.0).expect("the profile is UTF-8");
    let mut lines = text.lines();
    let head = lines.next().and_then(|line| line.strip_prefix("heap profile: ")).expect("a header");
    let (total, kind) = counts(head);
    assert_eq!(kind.trim(), "heapprofile");
    let mut bytes = (0, 0);
    for line in lines.take_while(|line| !line.is_empty()) {
        let ([_, in_use, _, allocated], stack) = counts(line);
        assert!(in_use <= allocated && stack.split_whitespace().all(|frame| frame.starts_with("0x")));
        bytes = (bytes.0 + in_use, bytes.1 + allocated);
    }
    assert_eq!(bytes, (total[1], total[3]), "the stacks add up to the header");
    let stats = heap.profile_stats();
    let mut live = 0;
    heap.each_live_sample(|sample| {
        assert!(sample.bytes as u64 <= sample.weight.max(1) && sample.address % 16 == 0);
        live += 1;
    });
    assert_eq!((live, stats.live_bytes), (stats.live_samples, total[1]));
}

pub fn run(input: &[u8]) {
    let (heap, mut oracle) = (TestHeap::sampled(), Oracle::default());
    for step in steps::<Step>(input, 200) {
        match step {
            Step::Call(call) => oracle.step(&heap, call),
            Step::Start(interval) => {
                let started = heap.start_profile(interval as u64);
                assert!(started || oracle.refusing);
                check(&heap);
            }
            Step::Stop => heap.stop_profile(),
            Step::Depth(depth) => {
                heap.os().stack_depth.store(depth as usize % 40, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }
    check(&heap);
    oracle.end(&heap);
    // A profile that has ended sees no free.
    assert!(
        !heap.is_profiling() || heap.profile_stats().live_samples == 0,
        "what was freed is no live sample"
    );
}
