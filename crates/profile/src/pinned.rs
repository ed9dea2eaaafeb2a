//! The call sites that hold memory which cannot go back: an estimate (docs/design/profile.md).
//!
//! A sampled block does not lie among its like, so nobody sees what lies beside it. It is known how much of each
//! class's spans is free and held by neighbours in use, and how many of the samples that were taken about the same time
//! are gone: blocks that are allocated one after another lie together, so where most of a time's samples are gone,
//! those that live hold the spans of the others.

use super::profile::{Amount, Site};
use vcm_inspect::window::{Class, Sample, Samples};

/// Samples that live on either side of one, from which the fate of its time is told.
const NEIGHBOURS: usize = 8;

/// Adds what each site pins. The sites are those of the samples' stacks, in their order.
pub fn add(sites: &mut [Site], samples: &Samples, classes: &[Class]) {
    let mut live: Vec<&Sample> = samples.live.iter().collect();
    live.sort_by_key(|sample| sample.birth);
    let births: Vec<u64> = live.iter().map(|sample| sample.birth).collect();
    let classes = by_size(classes);
    // For each class: samples, and how many blocks are gone for those that live.
    let mut found: Vec<Vec<(&Sample, f64)>> = classes.iter().map(|_| Vec::new()).collect();
    for (at, sample) in live.iter().enumerate() {
        // Alignment may have asked for more; that is not known.
        let class = classes.partition_point(|class| class.block_bytes < sample.bytes);
        let (Some(class), Some(list)) = (classes.get(class), found.get_mut(class)) else { continue };
        let blocks = class.span_bytes / class.spans.max(1) / class.block_bytes.max(1);
        // A block cannot hold more than the rest of its span.
        let gone = gone_beside(&births, at, samples.births).min(blocks.saturating_sub(1) as f64);
        list.push((sample, gone));
    }
    for (class, list) in classes.iter().zip(found) {
        share_out(sites, held(class), &list);
    }
}

/// In the order of their sizes, those with blocks in use.
fn by_size(classes: &[Class]) -> Vec<Class> {
    let mut classes: Vec<Class> = classes.iter().copied().filter(|class| class.spans > 0).collect();
    classes.sort_by_key(|class| class.block_bytes);
    classes
}

/// Bytes of free blocks in spans that have blocks in use; not what went back page by page.
fn held(class: &Class) -> f64 {
    let others = (class.live_blocks + class.cached_blocks + class.transfer_blocks) * class.block_bytes;
    (class.free_blocks * class.block_bytes).min(class.resident.saturating_sub(others)) as f64
}

/// How many samples of about this one's time are gone, for each that lives. Before it and after it are looked at on their
/// own, and the fewer count: at the border of two times it belongs to that of which more is left.
fn gone_beside(births: &[u64], at: usize, all: u64) -> f64 {
    let Some(own) = births.get(at).copied() else { return 0.0 };
    let gone = |span: u64, alive: usize| (span as f64 / alive.max(1) as f64 - 1.0).max(0.0);
    let before = match at.checked_sub(NEIGHBOURS).and_then(|first| births.get(first)) {
        Some(first) => gone(own - first, NEIGHBOURS),
        None => gone(own, at + 1),
    };
    let after = match births.get(at + NEIGHBOURS) {
        Some(last) => gone(last - own, NEIGHBOURS),
        None => gone((all + 1).saturating_sub(own), births.len() - at),
    };
    before.min(after)
}

/// Divides what a class holds by what is gone beside each sample; if nothing is gone, by what lives.
fn share_out(sites: &mut [Site], held: f64, list: &[(&Sample, f64)]) {
    let weight = |(sample, gone): &(&Sample, f64)| sample.sum.objects * gone;
    let whole: f64 = list.iter().map(weight).sum();
    let even: f64 = list.iter().map(|(sample, _)| sample.sum.objects).sum();
    for one in list {
        let part = if whole > 0.0 { weight(one) / whole } else { one.0.sum.objects / even.max(1.0) };
        let Some(site) = sites.get_mut(one.0.stack) else { continue };
        let bytes = held * part;
        // Each sample's part is as uncertain as whether it was drawn.
        site.pinned.add(Amount { objects: one.0.sum.objects, bytes, variance: bytes * bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vcm_inspect::window::Sum;

    const CLASS: Class = Class {
        block_bytes: 1024,
        spans: 100,
        live_blocks: 3150,
        cached_blocks: 0,
        transfer_blocks: 0,
        free_blocks: 2850,
        quarantined_blocks: 0,
        span_bytes: 100 * 65536,
        resident: 100 * 65536,
    };

    fn sample(stack: usize, birth: u64) -> Sample {
        let sum = Sum { objects: 10.0, bytes: 10_000 };
        Sample { address: birth * 4096, bytes: 1000, sum, stack, birth, heap: 0, thread: 0 }
    }

    fn pinned(live: Vec<Sample>, births: u64) -> Vec<f64> {
        let samples = Samples { live, births, ..Samples::default() };
        let mut sites = vec![Site::default(); 3];
        add(&mut sites, &samples, &[CLASS]);
        sites.iter().map(|site| site.pinned.bytes).collect()
    }

    #[test]
    fn who_leaves_one_block_in_twenty_holds_the_spans_and_who_leaves_all_does_not() {
        let dense = (1..=300).map(|birth| sample(0, birth));
        let sparse = (301..=600).step_by(20).map(|birth| sample(1, birth));
        let figures = pinned(dense.chain(sparse).collect(), 600);
        let held = 2850.0 * 1024.0;
        assert!((figures.iter().sum::<f64>() - held).abs() < 1.0, "{figures:?}");
        assert!(figures[1] > 0.9 * held && figures[0] < 0.1 * held, "{figures:?}");
    }

    #[test]
    fn where_they_were_allocated_by_turns_each_holds_by_what_it_has() {
        let live = (1..=600).step_by(10).map(|birth| sample((birth / 10 % 2) as usize, birth)).collect();
        let figures = pinned(live, 600);
        assert!((figures[0] / figures[1] - 1.0).abs() < 0.1, "{figures:?}");
    }

    #[test]
    fn blocks_too_large_for_a_class_and_full_spans_pin_nothing() {
        let large = Sample { bytes: 1 << 20, ..sample(2, 1) };
        assert_eq!(pinned(vec![large], 100), [0.0; 3]);
        let samples = Samples { live: vec![sample(0, 1)], births: 9, ..Samples::default() };
        let mut sites = vec![Site::default()];
        add(&mut sites, &samples, &[Class { free_blocks: 0, ..CLASS }]);
        assert_eq!(sites[0].pinned.bytes, 0.0);
    }
}
