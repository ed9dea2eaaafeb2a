//! Misuses of blocks by unsafe code, one a run: the hardened crate stops each.
//!
//!     cargo run -p vcmalloc --features hardened --example crimes -- freed_twice

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;

use vcmalloc::Vcmalloc;

#[global_allocator]
static ALLOCATOR: Vcmalloc = Vcmalloc;

fn layout(bytes: usize, align: usize) -> Layout {
    Layout::from_size_align(bytes, align).expect("a layout")
}

fn main() {
    let crime = std::env::args().nth(1).unwrap_or_default();
    let of_8 = layout(8, 8);
    // SAFETY: none is claimed: these are the crimes.
    unsafe {
        let block = black_box(ALLOCATOR.alloc(of_8));
        match crime.as_str() {
            "freed_twice" => {
                ALLOCATOR.dealloc(block, of_8);
                ALLOCATOR.dealloc(block, of_8);
            }
            "freed_as_aligned" => ALLOCATOR.dealloc(block, layout(8, 64)),
            "freed_as_less_aligned" => {
                let aligned = black_box(ALLOCATOR.alloc(layout(100, 64)));
                ALLOCATOR.dealloc(aligned, layout(100, 8));
            }
            "written_past_the_end" => {
                block.add(8).write_volatile(1);
                ALLOCATOR.dealloc(block, of_8);
            }
            "written_before_the_start" => {
                block.sub(1).write_volatile(1);
                ALLOCATOR.dealloc(block, of_8);
            }
            "written_after_the_free" => {
                ALLOCATOR.dealloc(block, of_8);
                block.write_volatile(1);
                (0..100_000).for_each(|_| ALLOCATOR.dealloc(black_box(ALLOCATOR.alloc(of_8)), of_8));
            }
            "freed_inside" => ALLOCATOR.dealloc(block.add(4), layout(4, 4)),
            _ => panic!("no such crime: {crime}"),
        }
    }
    println!("nobody saw it");
}
