//! Breaks of heaps of tenants: limits, ends, and those who watch them.

use super::planted::Test::Loom;
use super::planted::{Break, core, other};

pub const BREAKS: &[Break] = &[
    core(
        "the_limit_of_a_heap_is_passed_by_one_span",
        ".filter(|sum| *sum <= self.limit.load(Ordering::Relaxed));",
        ".filter(|_| now <= self.limit.load(Ordering::Relaxed));",
        "the_limit_is_never_passed_by_a_byte_whatever_threads_are_at_it",
    ),
    core(
        "a_heap_that_ends_keeps_its_cache",
        "self.detach_all(store, tenant, id)?;\n        // A heap that drains may",
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
        "            self.part_from_parent(store, tenant);\n",
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
    core(
        "the_end_of_a_heap_waits_for_one_of_its_caches",
        "while is_still() && self.slots().any(",
        "while is_still() && false && self.slots().any(",
        "a_heap_ends_when_a_thread_that_takes_its_first_cache_away_has_brought_the_blocks_back",
    ),
    core(
        "a_name_that_ended_gets_a_block_of_the_next_cache",
        "match tenant.use_cache().filter(|_| self.is_live(id)) {",
        "match tenant.use_cache() {",
        "a_name_that_was_good_a_moment_ago_gets_no_block_of_the_cache_of_the_next_heap",
    ),
    core(
        "the_function_for_a_limit_calls_itself",
        "            _ if in_on_limit.load(Ordering::Relaxed) == mark => false,\n",
        "",
        "the_function_for_a_limit_may_ask_the_heap_for_blocks_and_is_not_called_for_that",
    ),
    core(
        "an_entry_has_more_heaps_than_names",
        "if !tenant.life().is_spent() {\n            registry.unused = number;",
        "if true {\n            registry.unused = number;",
        "an_entry_that_had_as_many_heaps_as_there_are_names_gets_no_other",
    ),
    core(
        "a_wait_for_another_thread_keeps_the_cpu",
        "if self.0 < LOOKS {\n            self.0 += 1;\n            pause();",
        "if self.0 <= LOOKS {\n            pause();",
        "the_end_of_a_heap_leaves_the_cpu_to_the_thread_that_it_waits_for",
    ),
    other(
        "a_name_is_compared_before_its_state",
        "let state = self.state.load(Ordering::Acquire);\n        (self.generation.load(Ordering::Relaxed) == generation).then_some(state)",
        "let is_it = self.generation.load(Ordering::Relaxed) == generation;\n        is_it.then_some(self.state.load(Ordering::Acquire))",
        Loom("loom_a_name_is_not_found_after_its_heap_has_ended_although_the_entry_lives_again"),
    ),
    other(
        "words_of_an_entry_are_read_after_its_name",
        "fence(Ordering::Acquire);\n        self.state_in(generation)",
        "self.state_in(generation)",
        Loom("loom_words_of_an_entry_are_those_of_the_heap_whose_name_is_good_before_and_after"),
    ),
    other(
        "a_user_of_a_cache_is_not_seen",
        "self.0.fetch_add(1, Ordering::SeqCst);\n        in_one_order();",
        "self.0.fetch_add(1, Ordering::Relaxed);",
        Loom("loom_a_cache_is_taken_away_after_all_who_use_it_have_come_back"),
    ),
    other(
        "what_a_user_of_a_cache_did_is_not_seen",
        "self.0.fetch_update(Ordering::Release, Ordering::Relaxed, fewer);",
        "self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);",
        Loom("loom_a_cache_is_taken_away_after_all_who_use_it_have_come_back"),
    ),
    other(
        "bytes_that_a_heap_above_refuses_stay_counted_below",
        "accounts().take_while(|(below, _)| *below != at)",
        "accounts().take_while(|_| false)",
        Loom("loom_no_limit_of_a_heap_or_of_one_above_it_is_passed_and_nothing_is_lost"),
    ),
    core(
        "an_empty_span_of_a_zombie_goes_back_while_it_is_closed",
        "        if tenant.is_zombie() {\n            return false;",
        "        if false {\n            return false;",
        "a_heap_with_blocks_that_waited_becomes_a_zombie_all_the_same",
    ),
    core(
        "what_left_quarantine_after_the_end_was_freed_late",
        "        if !is_zombie {\n            // Blocks that wait",
        "        if false {\n            // Blocks that wait",
        "a_heap_with_blocks_that_waited_becomes_a_zombie_all_the_same",
    ),
    core(
        "blocks_aligned_to_much_outlive_their_heap",
        ".find(is_live).or_else(|| far.into_iter().find(is_live))",
        ".find(is_live).or_else(|| far.into_iter().find(|_| false))",
        "a_block_that_is_aligned_to_much_ends_with_its_heap",
    ),
    core(
        "a_block_of_no_bytes_is_nobodys",
        "            && id == HeapId::OWN\n            && !self.heap.is_aborting()",
        "            && !self.heap.is_aborting()",
        "a_block_of_no_bytes_is_of_its_heap_and_goes_with_it",
    ),
    core(
        "a_late_access_is_nobodys_fault",
        "            return Some(Misuse { block, ..Misuse::at(Fault::AfterEnd(access), address) });",
        "            return Some(Misuse { block, ..Misuse::at(Fault::UseAfterFree, address) });",
        "a_late_access_to_a_zombie_is_explained_and_late_frees_are_counted",
    ),
    core(
        "a_tenants_block_leaves_quarantine_for_the_process",
        "false => self.let_wait_of_tenant(start, live.class),",
        "false => self.let_wait(start, live.class),",
        "the_process_gets_no_block_of_a_tenant_and_the_other_way_round",
    ),
    core(
        "what_waits_lives",
        "        cached += waiting(&tenant.waiting_bytes);\n",
        "",
        "blocks_that_wait_are_no_live_ones_of_their_heap",
    ),
    core(
        "a_small_heap_without_a_delay_waits",
        "if asked && freed != 0 {",
        "if asked && freed == 0 {",
        "a_small_heap_without_a_delay_gives_its_memory_back_when_it_ends",
    ),
    core(
        "types_with_pointers_and_without_share_a_partition",
        "hash => (hash >> 63) * (PARTS / 2) + hash % (PARTS / 2),",
        "hash => hash % PARTS,",
        "types_with_pointers_and_without_are_never_together",
    ),
];
