//! Any size and alignment: the class holds it, wastes little, and finds its blocks by offset.

use arbitrary::{Arbitrary, Unstructured};
use vcmalloc_core::class::{LARGEST_BYTES, SizeClass, UNIT_BYTES};

#[derive(Arbitrary, Debug)]
struct Input {
    bytes: u32,
    shift: u8,
    offset: u32,
}

pub fn run(input: &[u8]) {
    let mut rest = Unstructured::new(input);
    while !rest.is_empty() {
        let Ok(Input { bytes, shift, offset }) = rest.arbitrary() else { return };
        // No bytes have no class: where such a block lies is not a matter of classes.
        let bytes = bytes as usize % LARGEST_BYTES + 1;
        let class = SizeClass::for_small(bytes);
        assert!(class.is_small() && class.block_bytes() >= bytes);
        assert!(
            class.block_bytes() - bytes.max(1) < 16
                || (class.block_bytes() - bytes) * 8 <= class.block_bytes()
        );
        if let Some(smaller) = SizeClass::all().take_while(|smaller| *smaller < class).last() {
            assert!(smaller.block_bytes() < bytes.max(1), "a smaller class would do");
        }
        let align = 1usize << (shift % 64);
        match SizeClass::for_aligned(bytes, align) {
            Some(aligned) => {
                assert!(aligned >= class && aligned.block_bytes() % align == 0 && align <= UNIT_BYTES);
                let first = SizeClass::all()
                    .find(|one| one.block_bytes() >= bytes.max(1) && one.block_bytes() % align == 0);
                assert_eq!(Some(aligned), first, "the first that is aligned");
            }
            None => assert!(align > UNIT_BYTES),
        }
        let shape = class.shape();
        let offset = offset as usize % shape.span_bytes();
        assert_eq!(shape.block_at(offset), offset / class.block_bytes());
        assert!(shape.blocks as usize * class.block_bytes() <= shape.span_bytes());
    }
}
