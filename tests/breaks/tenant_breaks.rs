//! Breaks of heaps of tenants: limits, ends, and those who watch them.

use super::planted::{Break, core};

pub const BREAKS: &[Break] = &[
    core(
        "the_limit_of_a_heap_is_passed_by_one_span",
        "let fits = |now: usize| now.checked_add(more).filter(|sum| *sum <= limit);",
        "let fits = |now: usize| now.checked_add(more).filter(|_| now <= limit);",
        "the_limit_is_never_passed_by_a_byte_whatever_threads_are_at_it",
    ),
    core(
        "a_heap_that_ends_keeps_its_cache",
        "self.detach(store, tenant, id)?;\n        // A heap that drains may",
        "// A heap that drains may",
        "a_busy_heap_ends_whole_in_each_way_and_another_has_its_cache_then",
    ),
    core(
        "a_late_free_is_taken_while_the_span_waits_to_be_closed",
        "if tenant.is_over() {\n            // The block went with its heap",
        "if false {\n            // The block went with its heap",
        "a_block_that_is_freed_after_its_heap_is_found_while_its_span_waits_to_be_closed",
    ),
    core(
        "a_heap_that_ended_stays_in_the_account_of_its_parent",
        "            self.part_from_parent(tenant);\n",
        "",
        "the_call_that_ends_a_large_heap_leaves_spans_to_the_janitor_and_none_of_them_is_the_parents",
    ),
    core(
        "memory_of_a_heap_that_waits_to_be_closed_helps_nobody",
        "        self.close_all_ended(floors);\n        self.drain_everything(floors)?;\n        Ok(self.release_idle(floors))",
        "        self.drain_everything(floors)?;\n        Ok(self.release_idle(floors))",
        "memory_of_a_heap_that_waits_to_be_closed_serves_who_would_be_refused",
    ),
    core(
        "samples_outlive_their_heap",
        "Ending::FreeAll => self.profile.remove_heap(id.0),",
        "Ending::FreeAll => {}",
        "samples_go_with_their_heap_or_to_the_one_above_it",
    ),
    core(
        "a_child_keeps_the_count_of_heaps_below_another",
        "                self.recount_children();\n",
        "",
        "a_child_counts_the_heaps_below_another_anew",
    ),
    core(
        "a_heap_that_was_being_closed_is_lost_in_a_child",
        "state.store(LEFT, Ordering::Relaxed);",
        "",
        "a_child_closes_what_a_thread_that_stayed_behind_was_closing",
    ),
    core(
        "each_end_of_a_heap_is_a_tick",
        "if left == 0 || is_called() || !has_ended() || !self.is_started() {",
        "if left == 0 || is_called() || { self.upkeep.close_ended(&self.floors); true } {",
        "memory_of_heaps_that_end_goes_at_once_and_makes_no_tick_come_earlier",
    ),
    core(
        "blocks_that_go_with_their_heap_stay_in_a_recording",
        "self.ends(address);\n                self.probing",
        "self.probing",
        "a_recording_has_the_blocks_of_a_heap_and_their_end",
    ),
];
