//! Families of functions that make and free blocks, and the sizes that frees tell.

use super::*;

#[test]
fn a_block_is_freed_by_the_family_that_made_it() {
    let heap = hardened();
    let block = heap.allocate(100);
    heap.mark(block, Maker::NewArray);
    let fault = Fault::WrongFunction { made: Maker::NewArray, freed: Maker::Malloc };
    assert_eq!(fault_of(heap.take_back(block, Maker::Malloc)), Some(fault));
    heap.hand_over(block, Maker::NewArray);
    heap.check_size(block, 100, 1);
    assert_eq!(fault_of(heap.take_back(block, Maker::Malloc)), None);
}

#[test]
fn where_the_option_says_so_a_free_may_lie_about_size_and_alignment() {
    let heap = hardened();
    heap.heap.options.set(b"wrong_size_check", b"off", Origin::Environment).unwrap();
    for (bytes, said, align) in [(28, 16, 1), (100, 5000, 1), (0, 8, 1), (100, 100, 64)] {
        let block = heap.allocate(bytes);
        heap.check_size(block, said, align);
        heap.free(block);
        assert_eq!(
            fault_of(heap.take_back(block, Maker::Malloc)),
            Some(Fault::DoubleFree),
            "the rest is checked"
        );
    }
}

#[test]
fn where_the_option_says_so_any_family_frees_what_another_made() {
    let heap = hardened();
    heap.heap.options.set(b"wrong_function_check", b"off", Origin::Environment).unwrap();
    for (made, freed) in Maker::ALL.into_iter().flat_map(|made| Maker::ALL.map(|freed| (made, freed))) {
        let block = heap.allocate(100);
        heap.mark(block, made);
        heap.hand_over(block, freed);
        assert_eq!(fault_of(heap.take_back(block, Maker::Malloc)), None, "{made:?} {freed:?}");
    }
    let block = heap.allocate(100);
    heap.mark(block, Maker::New);
    fill(heap.reallocate(block, 50) + 50, 1, 1);
    assert_eq!(fault_of(heap.take_back(block, Maker::New)), Some(Fault::Overflow), "the rest is checked");
}

#[test]
fn a_block_that_a_foreign_new_asked_malloc_for_fits_what_that_was_asked_for() {
    let frame = |bytes, align: usize| Frame::asked_for(align, bytes);
    assert!(frame(1, 1).serves_foreign_new(0, 1) && frame(100, 1).serves_foreign_new(100, 1));
    assert!(frame(128, 64).serves_foreign_new(100, 64) && frame(104, 8).serves_foreign_new(100, 4));
    assert!(!frame(2, 1).serves_foreign_new(0, 1) && !frame(100, 1).serves_foreign_new(99, 1));
    assert!(!frame(192, 64).serves_foreign_new(100, 64) && !frame(128, 64).serves_foreign_new(100, 32));
    let by_new = Frame { maker: Maker::New, ..frame(1, 1) };
    assert!(!by_new.serves_foreign_new(0, 1));
}

#[test]
fn the_lines_of_a_wrong_function_and_size_name_the_options_that_let_it_pass() {
    let mut memory = [0; 300];
    let mut line = Buffer::new(&mut memory);
    Misuse::at(Fault::WrongFunction { made: Maker::Malloc, freed: Maker::New }, 4096).put(&mut line);
    let option = spec(OptionId::wrong_function_check).name.to_uppercase();
    assert_eq!(
        std::str::from_utf8(line.as_bytes()).unwrap(),
        format!(
            "vcmalloc: free by the wrong function: address 0x1000, made by malloc, given to operator delete; \
             {VARIABLE_PREFIX}{option}=off lets it pass"
        )
    );
    let mut line = Buffer::new(&mut memory);
    Misuse { said: Some(16), ..Misuse::at(Fault::WrongSize, 4096) }.put(&mut line);
    let option = spec(OptionId::wrong_size_check).name.to_uppercase();
    assert_eq!(
        std::str::from_utf8(line.as_bytes()).unwrap(),
        format!(
            "vcmalloc: free with the wrong size or alignment: address 0x1000, freed as one of 16 bytes; \
             {VARIABLE_PREFIX}{option}=off lets it pass"
        )
    );
}

#[test]
fn where_an_object_has_its_own_operator_new_malloc_and_new_are_no_pair_to_judge() {
    for own_new in [|| false, || true] {
        let heap = Box::new(Hardened::new(Fake::default()).with_own_new(own_new));
        for (made, freed) in Maker::ALL.into_iter().flat_map(|made| Maker::ALL.map(|freed| (made, freed))) {
            let block = heap.allocate(100);
            heap.mark(block, made);
            let is_judged =
                made != freed && (!own_new() || (made == Maker::Malloc) == (freed == Maker::Malloc));
            let wrong = Fault::WrongFunction { made, freed };
            assert_eq!(fault_of(heap.take_back(block, freed)), is_judged.then_some(wrong), "{own_new:?}");
        }
        // As libstdc++ asks malloc for a block of no bytes, and for one at a multiple of 64.
        if own_new() {
            heap.check_size(heap.allocate(1), 0, 1);
            heap.check_size(heap.allocate_aligned(64, 128), 100, 64);
        }
    }
}
