//! The order in which allocators are measured.
//!
//! The machine's speed drifts, so what is compared runs next to each other: A B C in every case, in the next turn
//! B C A, and so on; the one that goes first profits least from a quiet moment.

/// One run to be made.
#[derive(Debug, PartialEq, Eq)]
pub struct Turn<'a, C, A> {
    pub pass: usize,
    pub case: &'a C,
    pub allocator: &'a A,
}

/// All runs in their order: every pass goes over all cases, every case over its allocators, and each time another one
/// of them begins.
pub fn interleaved<'a, C, A>(
    passes: usize,
    cases: &'a [C],
    allocators_of: impl Fn(&C) -> Vec<&'a A>,
) -> Vec<Turn<'a, C, A>> {
    let mut turns = Vec::new();
    for pass in 0..passes {
        for (position, case) in cases.iter().enumerate() {
            let allocators = rotated(&allocators_of(case), pass + position);
            turns.extend(allocators.into_iter().map(|allocator| Turn { pass, case, allocator }));
        }
    }
    turns
}

/// The same in the same circle, begun so many places later.
pub fn rotated<T: Clone>(all: &[T], by: usize) -> Vec<T> {
    let mut rotated = all.to_vec();
    rotated.rotate_left(by % all.len().max(1));
    rotated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_begins_as_often_as_the_others_and_all_run_in_every_case_of_every_pass() {
        let allocators = ["a", "b", "c"];
        let turns = interleaved(3, &["x", "y"], |_| allocators.iter().collect());
        let order: String = turns.iter().map(|turn| *turn.allocator).collect();
        assert_eq!(order, "abcbcabcacabcababc");
        let cases: String = turns.iter().step_by(3).map(|turn| *turn.case).collect();
        assert_eq!(cases, "xyxyxy");
        let firsts = |name| turns.iter().step_by(3).filter(|turn| *turn.allocator == name).count();
        assert_eq!(allocators.map(firsts), [2, 2, 2]);
    }

    #[test]
    fn nothing_to_rotate_is_nothing() {
        assert!(rotated::<u8>(&[], 3).is_empty());
        assert!(interleaved::<_, u8>(2, &["x"], |_| Vec::new()).is_empty());
    }
}
