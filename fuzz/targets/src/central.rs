//! Any sequence of takes and gives of blocks of many classes under any budget, against the set of blocks out.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use arbitrary::Arbitrary;
use vcmalloc_core::base::ticks::Tick;
use vcmalloc_core::central::Central;
use vcmalloc_core::class::SizeClass;
use vcmalloc_core::os::Os;
use vcmalloc_core::os::fake::{Fake, Request};
use vcmalloc_core::pages::Pages;

use crate::support::steps;

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Take(u8, u8),
    Give(u8, u8),
    Return(u8, u8),
    /// A block that is out already, or no block at all.
    GiveWrong(u8, u16),
    Budget(u8),
    Trim(u8),
    Drain(u8, u8),
    Refuse(u8),
    Grant,
    Repair,
    Domain(u8),
}

fn class_of(number: u8) -> SizeClass {
    // Few classes, so that steps meet each other.
    SizeClass::all().nth(number as usize % 8 * 13 % 96).expect("a class")
}

fn some_of(out: &BTreeSet<(SizeClass, usize)>, class: SizeClass, count: usize) -> Vec<usize> {
    out.range((class, 0)..=(class, usize::MAX)).map(|(_, block)| *block).step_by(2).take(count).collect()
}

pub fn run(input: &[u8]) {
    let system = Fake::default();
    system.address_budget.store(1 << 30, Ordering::Relaxed);
    let (pages, central) = (Pages::new(), Central::new());
    assert!(pages.start(&system));
    central.start(&system);
    let mut out = BTreeSet::new();
    for step in steps::<Step>(input, 300) {
        match step {
            Step::Take(number, count) if out.len() < 3000 => {
                let (class, mut blocks) = (class_of(number), vec![0; count as usize % 128 + 1]);
                let taken = central.take(&system, &pages, class, &mut blocks);
                for block in &blocks[..taken] {
                    assert!(*block != 0 && pages.class_of(*block) == class);
                    assert!(out.insert((class, *block)), "a block was handed out twice");
                }
            }
            Step::Give(number, count) | Step::Return(number, count) => {
                let class = class_of(number);
                let blocks = some_of(&out, class, count as usize % 128);
                blocks.iter().for_each(|block| _ = out.remove(&(class, *block)));
                let given = match step {
                    Step::Give(..) => central.give(&system, &pages, class, &blocks),
                    _ => central.return_blocks(&pages, class, &blocks, Tick(5)),
                };
                assert!(given.is_ok(), "honest blocks are taken");
            }
            Step::GiveWrong(number, offset) => {
                let class = class_of(number);
                if let Some((_, block)) = out.range((class, 0)..=(class, usize::MAX)).next() {
                    let wrong = block + offset as usize;
                    let honest = out.contains(&(class, wrong));
                    // A block in the transfer array is no double free for the spans; only the rest is
                    // certain.
                    let inside = offset as usize % class.block_bytes() != 0;
                    if inside && !honest && pages.class_of(wrong) == class {
                        assert!(central.give_to_spans(&pages, class, &[wrong]).is_err());
                    }
                }
            }
            Step::Budget(shift) => {
                central.budget.set_limit(1 << (shift % 26));
            }
            Step::Trim(number) => assert!(central.trim(&pages, class_of(number), Tick(3)).is_ok()),
            Step::Drain(number, count) => {
                assert!(central.drain(&pages, class_of(number), count as usize * 8).is_ok());
            }
            Step::Refuse(after) => system.refuse_after(Request::Commit, after as u64 % 4),
            Step::Grant => system.grant(Request::Commit),
            Step::Domain(number) => system.domain.store(number as usize % 5, Ordering::Relaxed),
            Step::Repair => {
                std::thread::scope(|scope| {
                    scope.spawn(|| central.each_lock(&mut |lock| lock.hold()));
                });
                // SAFETY: the thread that held the locks has ended.
                unsafe {
                    central.repair_spans(&pages, true);
                    central.repair_transfers(true);
                }
            }
            _ => {}
        }
    }
    system.grant(Request::Commit);
    central.verify(&pages);
    for class in SizeClass::all() {
        assert!(central.drain(&pages, class, usize::MAX).is_ok());
        let blocks: Vec<usize> =
            out.range((class, 0)..=(class, usize::MAX)).map(|(_, block)| *block).collect();
        assert!(central.give_to_spans(&pages, class, &blocks).is_ok());
        let stats = central.stats(class);
        assert_eq!(stats.free_blocks, stats.spans * class.shape().blocks as u64, "everything came back");
    }
    assert_eq!((central.verify(&pages), central.budget.taken()), (0, 0));
    pages.verify();
    pages.each_reservation(|start, bytes| system.unmap(start, bytes.max(1)));
    central.each_mapping(&mut |start, bytes| system.unmap(start, bytes.max(1)));
}
