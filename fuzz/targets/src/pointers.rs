//! A free of any address: a live block is freed, everything else stops the process, and nothing else is hurt.
//! After the stop the crash handler still gets memory.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arbitrary::{Arbitrary, Unstructured};
use vcmalloc_core::os::fake::Fake;

use crate::support::{Oracle, Step, TestHeap, steps};

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Pointer {
    Any(u64),
    /// Near a live block.
    Near(u8, i16),
    /// Inside the heap's range.
    Range(u32),
    Low(u16),
    Stack(u16),
}

fn resolved(pointer: Pointer, blocks: &[(usize, usize)]) -> usize {
    let first = blocks.first().map_or(0, |block| block.0);
    match pointer {
        Pointer::Any(address) => address as usize,
        Pointer::Near(which, offset) => blocks
            .get((which as usize).checked_rem(blocks.len()).unwrap_or(0))
            .map_or(8, |block| block.0.wrapping_add_signed(offset as isize)),
        Pointer::Range(offset) => (first & !0x1f_ffff).wrapping_add(offset as usize),
        Pointer::Low(address) => address as usize,
        Pointer::Stack(offset) => (&raw const first).addr() + offset as usize,
    }
}

/// True if the call ended as a process would.
fn is_stopped(act: impl FnOnce()) -> bool {
    // libFuzzer's own hook ends the process at any panic.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = catch_unwind(AssertUnwindSafe(act));
    std::panic::set_hook(hook);
    outcome.is_err()
}

pub fn run(input: &[u8]) {
    let mut rest = Unstructured::new(input);
    let Ok(pointer) = rest.arbitrary::<Pointer>() else { return };
    let mut system = Fake::default();
    (system.panics, system.quiet) = (true, true);
    let (heap, mut oracle) = (TestHeap::on(system), Oracle::default());
    for step in steps::<Step>(rest.take_rest(), 100) {
        if !matches!(step, Step::Refuse(..)) {
            oracle.step(&heap, step);
        }
    }
    // No block in a cache: a block that is not live is then known to be free.
    heap.drain_everything();
    let blocks: Vec<(usize, usize)> = oracle.live().collect();
    let address = resolved(pointer, &blocks);
    if address == 0 || blocks.iter().any(|block| block.0 == address) {
        return oracle.end(&heap);
    }
    let stopped = is_stopped(|| {
        heap.free(address);
        // A block that its span has already is found at the latest when the caches are emptied.
        heap.drain_everything();
    });
    assert!(stopped, "a free of {address:#x} went through");
    let block = heap.allocate(1000);
    assert!(block != 0 && heap.usable_bytes(block) >= 1000, "the crash handler gets memory");
    heap.free(block);
    assert_eq!(heap.allocate(1 << 40), 0);
}
