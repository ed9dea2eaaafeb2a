//! Breaks of the hardened library.

use super::planted::Test::On;
use super::planted::{Break, core, other};

pub const BREAKS: &[Break] = &[
    core(
        "a_freed_block_leaves_quarantine_at_once",
        "let Some(shard) = shard else { return block };",
        "let Some(shard) = shard.filter(|_| place.is_none()) else { return block };",
        "a_block_waits_for_as_many_frees_as_a_bank_is_long_and_leaves_once",
    ),
    core(
        "the_tail_of_a_block_is_not_looked_at",
        "tail_words(canary, tail).iter().fold(0,",
        "tail_words(canary, tail).iter().skip(1).fold(0,",
        "every_changed_byte_around_a_block_is_found",
    ),
    core(
        "a_canary_knows_no_secret",
        "(secret ^ user as u64) as u128 * (secret.rotate_left(32) ^ APART ^ word) as u128",
        "(secret * 0 ^ user as u64) as u128 * (APART ^ word) as u128",
        "a_frame_says_what_was_asked_for",
    ),
    core(
        "what_stands_before_an_aligned_block_is_not_looked_at",
        "self.check_before(&live)?;",
        "let _ = self.check_before(&live);",
        "an_aligned_block_is_checked_as_any_other_is",
    ),
    core(
        "what_is_in_quarantine_lives",
        "middle.free_blocks + middle.transfer_blocks + cached_blocks + quarantined_blocks;",
        "middle.free_blocks + middle.transfer_blocks + cached_blocks;",
        "what_is_in_quarantine_is_told_apart_from_what_lives",
    ),
    core(
        "a_freed_block_is_taken_back_again",
        "Err(other) => Err(if other == freed { State::Freed } else { State::Never }),",
        "Err(other) => if other == freed { Ok(()) } else { Err(State::Never) },",
        "a_block_is_taken_back_once",
    ),
    core(
        "a_lock_is_taken_outside_a_slow_path",
        "match self.in_slow_path(grown) {",
        "match Some(grown()) {",
        "no_call_of_a_handler_waits_for_a_lock",
    ),
    other(
        "what_on_limit_freed_waits_in_quarantine",
        "attempt(Some(&|| self.empty_quarantine_of_tenants()))",
        "attempt(Some(&|| ()))",
        On("vcmalloc-tests", "conformance", "memory_that_on_limit_frees_serves_the_request::hardened"),
    ),
];
