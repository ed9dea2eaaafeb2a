use super::*;
use crate::os::fake::Fake;

#[test]
fn a_heap_that_profiles_knows_its_samples_and_forgets_freed_ones() {
    let heap = Box::new(Heap::new(Fake::default()));
    assert!(heap.start_profile(1) && heap.is_profiling());
    let blocks: Vec<usize> = [1, 100, 5000, 300_000].into_iter().map(|bytes| heap.allocate(bytes)).collect();
    let aligned = heap.allocate_aligned(4096, 100);
    let zeroed = heap.allocate_zeroed(1, 1 << 20);
    assert_eq!(aligned % 4096, 0);
    let mut seen = Vec::new();
    heap.each_live_sample(|sample| {
        assert_eq!(sample.stack.len(), 3);
        // Nothing is held: the reader may allocate.
        heap.free(heap.allocate(100));
        seen.push((sample.address, sample.bytes));
    });
    for (block, bytes) in
        blocks.iter().zip([1, 100, 5000, 300_000]).chain([(&aligned, 100), (&zeroed, 1 << 20)])
    {
        assert!(seen.contains(&(*block, bytes)), "{bytes}");
    }
    let moved = heap.reallocate(blocks[3], 900_000);
    let mut sizes = Vec::new();
    heap.each_live_sample(|sample| sizes.push((sample.address, sample.bytes)));
    assert!(sizes.contains(&(moved, 900_000)) && !sizes.iter().any(|(_, bytes)| *bytes == 300_000));
    blocks[..3].iter().chain([&aligned, &zeroed, &moved]).for_each(|block| heap.free(*block));
    let stats = heap.profile_stats();
    assert_eq!((stats.live_samples, stats.live_bytes), (0, 0));
    heap.stop_profile();
    heap.free(heap.allocate(100));
    assert_eq!(heap.profile_stats().allocated_bytes, stats.allocated_bytes);
    assert!(!heap.write_profile(c"/nonexistent/file"));
}
