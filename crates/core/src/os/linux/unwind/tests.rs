use super::objects::Segments;
use super::rows::{Base, Rule};
use super::*;
use core::ffi::c_void;
use proptest::prelude::*;

// The unwinder of exceptions, as the control.
unsafe extern "C" {
    fn _Unwind_Backtrace(take: extern "C" fn(*mut c_void, *mut c_void) -> i32, argument: *mut c_void) -> i32;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

extern "C" fn take(context: *mut c_void, frames: *mut c_void) -> i32 {
    // SAFETY: called with what `both` hands over.
    unsafe { (*frames.cast::<Vec<usize>>()).push(_Unwind_GetIP(context)) };
    0
}

fn finder() -> Option<FindObject> {
    // SAFETY: looks a name up, and hands it over as what it is.
    unsafe { FindObject::new(libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr())) }
}

/// The calls that led to the caller of this, as the control tells them and as we do.
#[inline(never)]
fn both() -> (Vec<usize>, Vec<usize>) {
    let mut theirs = Vec::new();
    // SAFETY: `take` takes a vector.
    unsafe { _Unwind_Backtrace(take, (&raw mut theirs).cast()) };
    let mut ours = vec![0; 128];
    let depth = stack(&mut ours, &(0..0), finder());
    ours.truncate(depth);
    // Ours begins in `stack`, and each has its own place in this function.
    (theirs.split_off(1), ours.split_off(2))
}

fn agree((theirs, ours): (Vec<usize>, Vec<usize>)) -> usize {
    let theirs: Vec<usize> = theirs.into_iter().filter(|code| *code != 0).collect();
    assert_eq!(ours, theirs);
    ours.len()
}

#[inline(never)]
fn deeper(levels: usize) -> (Vec<usize>, Vec<usize>) {
    let found = if levels == 0 { both() } else { deeper(levels - 1) };
    core::hint::black_box(found)
}

#[test]
fn calls_are_those_that_exceptions_pass() {
    let shallow = agree(deeper(0));
    assert_eq!(agree(deeper(20)), shallow + 20);
    let mut words: Vec<u32> = (0..40).collect();
    let mut found = None;
    // Through code of the standard library, and through a callback of C.
    words.sort_by(|one, other| {
        found.get_or_insert_with(both);
        other.cmp(one)
    });
    assert!(agree(found.unwrap()) > 3);
    assert!(agree(std::thread::spawn(|| deeper(3)).join().unwrap()) > 4);
}

#[test]
fn calls_are_found_through_functions_of_c_and_signal_handlers() {
    static FOUND: std::sync::Mutex<Vec<(Vec<usize>, Vec<usize>)>> = std::sync::Mutex::new(Vec::new());
    extern "C" fn compare(_: *const c_void, _: *const c_void) -> i32 {
        FOUND.lock().unwrap().push(both());
        0
    }
    extern "C" fn handler(_: i32) {
        FOUND.lock().unwrap().push(both());
    }
    let mut pair = [2u64, 1];
    // SAFETY: two words are sorted, and a signal is raised whose handler is there.
    unsafe {
        libc::qsort(pair.as_mut_ptr().cast(), 2, 8, Some(compare));
        libc::signal(libc::SIGUSR2, handler as *const () as usize);
        libc::raise(libc::SIGUSR2);
    }
    let found = core::mem::take(&mut *FOUND.lock().unwrap());
    assert_eq!(found.len(), 2);
    found.into_iter().for_each(|found| assert!(agree(found) > 4));
}

#[test]
fn objects_are_the_same_ones_by_either_way() {
    assert!(finder().is_some(), "this glibc has it");
    for code in [agree as *const () as usize, libc::qsort as *const () as usize] {
        let [one, other] = [finder(), None].map(|find| objects::object_of(code, find).unwrap());
        assert_eq!(one.tables, other.tables);
        assert!(one.range.contains(&code) && other.range.contains(&code));
    }
    let here = 0usize;
    for nowhere in [0, 0x1000, (&raw const here).expose_provenance()] {
        assert!([finder(), None].iter().all(|find| objects::object_of(nowhere, *find).is_none()));
    }
    let mut frames = [[0; 64]; 2];
    let [one, other] = &mut frames;
    assert_eq!(stack(one, &(0..0), finder()), stack(other, &(0..0), None));
    assert_eq!(one[2..], other[2..]);
}

#[test]
fn no_more_calls_are_taken_than_there_is_place_for_and_own_ones_are_left_out() {
    let mut few = [0; 3];
    assert_eq!(stack(&mut few, &(0..0), finder()), 3);
    let mut all = [0; 64];
    let depth = stack(&mut all, &(0..0), finder());
    let own = all[1]..all[1] + 1;
    let mut others = [0; 64];
    assert!(stack(&mut others, &own, finder()) <= depth);
    assert!(!others.contains(&all[1]));
    assert_eq!(stack(&mut [0; 64], &(0..usize::MAX), finder()), 0);
}

/// The row at `offset` of an entry for 16 bytes of code at 0x1000, with these programs.
fn row_of(common: &[u8], program: &[u8], offset: usize) -> Option<rows::Row> {
    rows::row(&frame_of("", common, program, offset)?)
}

/// The entry, whose common part has this augmentation and begins with what belongs to it.
fn frame_of(augmentation: &str, common: &[u8], program: &[u8], offset: usize) -> Option<Frame> {
    // Version 1, units of 1 and -8 bytes, the return address in column 16.
    let mut bytes = [&[0, 0, 0, 0, 1], augmentation.as_bytes(), &[0, 1, 0x78, 16]].concat();
    bytes.extend(common);
    let common_length = bytes.len() as u32;
    let mut whole = common_length.to_ne_bytes().to_vec();
    whole.extend(bytes);
    let entry = whole.len();
    whole.extend((20 + program.len() as u32).to_ne_bytes());
    whole.extend((entry as u32 + 4).to_ne_bytes());
    whole.extend(0x1000u64.to_ne_bytes());
    whole.extend(16u64.to_ne_bytes());
    whole.extend(program);
    let start = whole.as_ptr().expose_provenance();
    let segments = Segments::of_memory(start..start + whole.len());
    whole.leak();
    tables::frame_at(start + entry, 0x1000 + offset, &segments)
}

#[test]
fn augmentations_are_read_as_far_as_they_are_known() {
    // A personality of four bytes, one byte for the rest, and where the function's own part is empty.
    let common = [7, 0x03, 1, 2, 3, 4, 0x1b, 0x00, 0x0c, 7, 8, 0x90, 1];
    let row = |augmentation: &str, common: &[u8]| {
        let frame = frame_of(augmentation, common, &[0, 0x0e, 16], 8)?;
        Some((rows::row(&frame)?.base, frame.is_signal))
    };
    let base = Base::Register { number: 7, offset: 16 };
    assert_eq!(row("zPLR", &common), Some((base, false)));
    assert_eq!(row("zPLRS", &common), Some((base, true)));
    assert_eq!(row("zPLRX", &common), Some((base, false)), "what is not known is passed over");
    assert_eq!(row("X", &common), None, "nothing tells how long it is");
    assert_eq!(row("zPLR", &common[..5]), None);
    assert_eq!(
        row("", &[0x0c, 7, 8, 0x90, 1]).map(|(base, _)| base),
        Some(base),
        "a program may begin with nothing"
    );
}

#[test]
fn rules_hold_from_where_they_are_given() {
    // Base rsp + 8, return address at base - 8; after 1 byte base + 16 and rbp at base - 16; after 4 rbp is the base's
    // register; after 15 as at the beginning.
    let common = [0x0c, 7, 8, 0x90, 1];
    let program = [0x0a, 0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x4b, 0x0b];
    let base = |number, offset| Base::Register { number, offset };
    let at = |offset| row_of(&common, &program, offset).unwrap();
    assert_eq!((at(0).base, at(0).rules[6], at(0).rules[16]), (base(7, 8), Rule::Same, Rule::At(-8)));
    assert_eq!((at(1).base, at(3).rules[6]), (base(7, 16), Rule::At(-16)));
    assert_eq!(at(4).base, base(6, 16));
    assert_eq!(at(15), at(0));
    assert_eq!(row_of(&common, &program, 16), None, "behind the function");
    assert_eq!(row_of(&[], &[], 3).map(|row| row.base), Some(Base::Unknown), "as LuaJIT registers its code");
}

#[test]
fn every_instruction_is_known_and_others_end_the_walk() {
    let common = [0x0c, 7, 8, 0x90, 1];
    let rule = |program: &[u8], number: usize| row_of(&common, program, 8).map(|row| row.rules[number]);
    assert_eq!(rule(&[0x83, 3], 3), Some(Rule::At(-24)));
    assert_eq!(rule(&[0x05, 3, 3], 3), Some(Rule::At(-24)));
    assert_eq!(rule(&[0x11, 3, 0x7d], 3), Some(Rule::At(24)));
    assert_eq!(rule(&[0x07, 3], 3), Some(Rule::Undefined));
    assert_eq!(rule(&[0x83, 3, 0x08, 3], 3), Some(Rule::Same));
    assert_eq!(rule(&[0x83, 3, 0xc3], 3), Some(Rule::Same));
    assert_eq!(rule(&[0x83, 3, 0x06, 3], 3), Some(Rule::Same));
    assert_eq!(rule(&[0x09, 3, 12], 3), Some(Rule::Register(12)));
    assert_eq!(rule(&[0x14, 3, 2], 3), Some(Rule::Is(-16)));
    assert_eq!(rule(&[0x15, 3, 0x7e], 3), Some(Rule::Is(16)));
    assert!(matches!(rule(&[0x10, 3, 1, 0x30], 3), Some(Rule::AtExpression(_))));
    assert!(matches!(rule(&[0x16, 3, 1, 0x30], 3), Some(Rule::IsExpression(_))));
    assert_eq!(rule(&[0x2e, 16, 0x90, 4], 16), Some(Rule::At(-32)));
    assert_eq!(rule(&[0x90, 4, 0x91, 4, 0x92, 60, 0xbf, 1], 16), Some(Rule::At(-32)), "vectors are left out");
    let base = |program: &[u8]| row_of(&common, program, 8).map(|row| row.base);
    let counted = |number, offset| Some(Base::Register { number, offset });
    assert_eq!(base(&[0x12, 6, 0x7e]), counted(6, 16));
    assert_eq!(base(&[0x13, 0x7c]), counted(7, 32));
    assert!(matches!(base(&[0x0f, 1, 0x30]), Some(Base::Expression(_))));
    for (step, moved) in
        [(&[0x02, 9][..], true), (&[0x02, 8], false), (&[0x03, 9, 0], true), (&[0x04, 8, 0, 0, 0], false)]
    {
        let program = [step, &[0x0e, 64]].concat();
        assert_eq!(base(&program), counted(7, if moved { 8 } else { 64 }), "{step:x?}");
    }
    for unknown in [
        &[0x2d][..],
        &[0x17],
        &[0x01, 0, 16, 0, 0, 0, 0, 0, 0],
        &[0x0b],
        &[0x0a, 0x0a, 0x0a, 0x0a],
        &[0x0e],
        &[0x0f, 5, 0x30],
    ] {
        assert_eq!(row_of(&common, unknown, 8), None, "{unknown:x?}");
    }
}

fn computed(program: &[u8], start: Option<usize>) -> Option<usize> {
    let mut registers = [0; REGISTERS];
    registers[STACK] = 0x7000;
    registers[CODE] = 0x100b;
    let whole = [&[program.len() as u8], program].concat();
    expression::value(
        whole.as_ptr().expose_provenance(),
        &registers,
        start,
        &mut Memory { readable: 1, is_asked: true },
    )
}

#[test]
fn expressions_compute_what_linkers_and_compilers_write() {
    // A stub of the procedure linkage table: rsp + 8 + ((rip & 15 >= 11) << 3).
    let stub = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
    assert_eq!(computed(&stub, None), Some(0x7010));
    let word = 77usize;
    let mut read = vec![0x0e];
    read.extend(((&raw const word).expose_provenance() - 8).to_ne_bytes());
    read.extend([0x23, 8, 0x06]);
    assert_eq!(computed(&read, None), Some(77));
    for (steps, value) in [
        (&[0x31, 0x1c][..], 9),
        (&[0x33, 0x1e], 30),
        (&[0x35, 0x21], 15),
        (&[0x31, 0x25], 5),
        (&[0x3a, 0x29], 1),
        (&[0x3a, 0x2b], 0),
        (&[0x3a, 0x2c], 1),
        (&[0x3a, 0x2d], 0),
        (&[0x3a, 0x2e], 0),
        (&[0x12, 0x22], 20),
        (&[0x31, 0x13], 10),
        (&[0x08, 200, 0x22], 210),
        (&[0x09, 0xff, 0x22], 9),
        (&[0x0a, 0, 1, 0x22], 266),
        (&[0x0b, 0xff, 0xff, 0x22], 9),
        (&[0x0c, 0, 0, 1, 0, 0x22], 65546),
        (&[0x0d, 0xff, 0xff, 0xff, 0xff, 0x22], 9),
        (&[0x10, 0x80, 1, 0x22], 138),
        (&[0x11, 0x7f, 0x22], 9),
    ] {
        assert_eq!(computed(steps, Some(10)), Some(value), "{steps:x?}");
    }
    for bad in [&[0x22][..], &[0x06], &[0x30, 0x06], &[0xff], &[0x91, 0], &[0x30; 9], &[]] {
        assert_eq!(computed(bad, None), None, "{bad:x?}");
    }
}

proptest! {
    #[test]
    fn any_table_is_followed_without_harm(common in prop::collection::vec(any::<u8>(), 0..24),
                                          program in prop::collection::vec(any::<u8>(), 0..64), offset in 0usize..16) {
        row_of(&common, &program, offset);
        computed(&program, Some(offset));
    }

    /// Tables that lie, at the very end of what is mapped: counts, places of entries and of what these have in common, lengths.
    #[test]
    fn tables_that_lie_are_never_followed_out_of_their_object(
        count in prop_oneof![0u32..20, any::<u32>()],
        pairs in prop::collection::vec((-200i32..200, prop_oneof![-300i32..300, any::<i32>()]), 0..16),
        rest in prop::collection::vec(prop_oneof![Just(0u8), Just(1), 0u8..32, any::<u8>()], 0..160),
        far in 0usize..400,
    ) {
        let mut bytes = vec![1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0];
        bytes.extend(count.to_ne_bytes());
        for (code, entry) in pairs {
            bytes.extend(code.to_ne_bytes());
            bytes.extend(entry.to_ne_bytes());
        }
        bytes.extend(rest);
        // SAFETY: two pages of our own, the second without access.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let memory = libc::mmap(core::ptr::null_mut(), 2 * PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            libc::mprotect(memory.byte_add(PAGE), PAGE, libc::PROT_NONE);
            let start = memory.expose_provenance() + PAGE - bytes.len();
            core::ptr::with_exposed_provenance_mut::<u8>(start).copy_from(bytes.as_ptr(), bytes.len());
            let segments = Segments::of_memory(start..start + bytes.len());
            let object = Object { range: 0..usize::MAX, tables: start, segments };
            if let Some(frame) = tables::find(&object, (start - 200).wrapping_add(far)) {
                rows::row(&frame);
            }
            for entry in 0..bytes.len() {
                tables::frame_at(start + entry, start, &object.segments);
            }
            libc::munmap(memory, 2 * PAGE);
        }
    }

    /// Whatever the other registers hold: the walk ends, and reads nothing that cannot be read.
    #[test]
    fn any_registers_are_walked_without_harm(values in prop::array::uniform17(any::<usize>()), far in 0usize..64) {
        let mut registers = values;
        let here = 0usize;
        // The stack pointer alone is known to be right.
        registers[STACK] = (&raw const here).expose_provenance();
        registers[CODE] = both as *const () as usize + far;
        let mut frames = [0; 16];
        prop_assert!(walk(registers, &mut frames, &(0..0), finder()) >= 1);
    }
}
