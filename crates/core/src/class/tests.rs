use super::*;

#[test]
fn the_table_covers_every_request() {
    assert_eq!(SizeClass::for_small(0), SizeClass::NONE);
    for bytes in 1..=LARGEST_BYTES {
        let class = SizeClass::for_small(bytes);
        assert!(class.is_small(), "{bytes}");
        assert!(class.block_bytes() >= bytes, "{bytes}");
        if class.index() > 1 {
            let smaller = SizeClass::from_byte(class.byte() - 1);
            assert!(smaller.block_bytes() < bytes.max(1), "{bytes} fits a smaller class");
        }
    }
}

#[test]
fn a_block_wastes_at_most_an_eighth_above_128_bytes() {
    for bytes in 129..=LARGEST_BYTES {
        let block = SizeClass::for_small(bytes).block_bytes();
        assert!((block - bytes) * 8 <= block, "{bytes} in {block}");
    }
}

#[test]
fn division_by_reciprocal_is_exact_at_every_boundary() {
    for class in SizeClass::all() {
        let shape = class.shape();
        for index in 0..shape.blocks as usize {
            let start = index * class.block_bytes();
            assert_eq!(shape.block_at(start), index);
            assert_eq!(shape.block_at(start + class.block_bytes() - 1), index);
        }
    }
}

#[test]
fn aligned_requests_get_a_class_whose_blocks_are_aligned() {
    for shift in 4..=14 {
        let align = 1usize << shift;
        for bytes in [1, 17, align, align + 1, 4096, 5000, 100_000] {
            let class = SizeClass::for_aligned(bytes, align).unwrap();
            assert!(
                class.block_bytes() >= bytes && class.block_bytes().is_multiple_of(align),
                "{bytes} at {align}"
            );
        }
    }
    assert_eq!(SizeClass::for_aligned(LARGEST_BYTES, UNIT_BYTES), Some(SizeClass::for_small(LARGEST_BYTES)));
    assert_eq!(SizeClass::for_aligned(1, UNIT_BYTES * 2), None);
    assert_eq!(SizeClass::for_aligned(LARGEST_BYTES + 1, 16), None);
}

#[test]
fn classes_of_blocks_are_told_from_the_two_that_have_none() {
    assert!(SizeClass::all().all(SizeClass::is_small));
    assert_eq!(SizeClass::all().count(), CLASS_COUNT);
    for (none, index) in [(SizeClass::NONE, 0), (SizeClass::LARGE, CLASS_COUNT + 1)] {
        assert_eq!((none.is_small(), none.index(), block_bytes_of_index(index)), (false, index, 0));
    }
    assert!(SizeClass::all().all(|class| block_bytes_of_index(class.index()) == class.block_bytes()));
}

#[test]
fn storage_shapes_lie_close_to_their_class() {
    for (bytes, block) in [(4096, 4096), (4096 + 28, 4608), (65536, 65536), (131_072, 131_072)] {
        assert_eq!(SizeClass::for_small(bytes).block_bytes(), block);
    }
}

#[test]
fn spans_and_batches_are_as_long_as_they_should_be() {
    for class in SizeClass::all() {
        let (shape, bytes) = (class.shape(), class.block_bytes());
        let waste = shape.span_bytes() - shape.blocks as usize * bytes;
        assert!(waste < bytes && waste * 64 <= shape.span_bytes(), "{bytes}");
        assert!(shape.blocks >= 2 && (1..=32).contains(&shape.batch), "{bytes}");
        assert!(shape.batch == 1 || shape.batch as usize * bytes <= 32 << 10, "{bytes}");
    }
    // Bytes, units, blocks, batch: the bitmap full, the target length, 7 units for little waste, two blocks.
    let known = [
        (16, 1, 1024, 32),
        (32, 2, 1024, 32),
        (112, 4, 585, 32),
        (1024, 4, 64, 32),
        (4096, 4, 16, 8),
        (28 << 10, 7, 4, 1),
        (32 << 10, 4, 2, 1),
        (64 << 10, 8, 2, 1),
        (256 << 10, 32, 2, 1),
    ];
    for (bytes, units, blocks, batch) in known {
        let shape = SizeClass::for_small(bytes).shape();
        assert_eq!((shape.span_units, shape.blocks, shape.batch), (units, blocks, batch), "{bytes}");
    }
}
