//! The breaks: what is broken, by which words in place of which others, and the test that must notice it.
//!
//! A break is found by its words, wherever in its folder they stand: they must stand there exactly once.

/// A deliberate mistake.
pub struct Break {
    pub name: &'static str,
    /// The folder that has the words, from the repository's root.
    pub within: &'static str,
    pub before: &'static str,
    pub after: &'static str,
    pub noticed_by: Test,
}

/// Which tests are asked: those whose name has the word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Test {
    /// Of the core.
    Core(&'static str),
    /// Of the core, by loom.
    Loom(&'static str),
    /// Of another package.
    Of(&'static str, &'static str),
    /// Of a suite of the tool's, on the shared library, which is built first: suite, word.
    Tool(&'static str, &'static str),
    /// Of a suite in `tests/`, whose programs run on a library that is built first: package, suite, word.
    On(&'static str, &'static str, &'static str),
}

use Test::{Core, Loom, Of, On, Tool};

const CORE: &str = "crates/core/src";
const CRATES: &str = "crates";

const fn core(name: &'static str, before: &'static str, after: &'static str, word: &'static str) -> Break {
    Break { name, within: CORE, before, after, noticed_by: Core(word) }
}

const fn other(name: &'static str, before: &'static str, after: &'static str, noticed_by: Test) -> Break {
    Break { name, within: CRATES, before, after, noticed_by }
}

/// From the bottom of the house to its top.
pub const BREAKS: &[Break] = &[
    other(
        "a_lock_is_left_without_publishing",
        "let state = self.state.fetch_sub(HELD, Ordering::Release);",
        "let state = self.state.fetch_sub(HELD, Ordering::Relaxed);",
        Loom("loom_"),
    ),
    core(
        "a_child_that_shares_the_memory_runs_sequences",
        "if registration::unregister(address, bytes) {",
        "if address != bytes {",
        "a_registration_is_taken_back_and_made_again",
    ),
    core(
        "a_child_registers_what_its_parent_will_use",
        "&& area.cpu_id.compare_exchange(NOT_YET, REFUSED, Ordering::Relaxed, Ordering::Relaxed).is_ok();",
        "&& area.cpu_id.compare_exchange(NOT_YET, NOT_YET, Ordering::Relaxed, Ordering::Relaxed).is_ok();",
        "nobody_registers_a_thread_of_ours_while_it_lends_its_memory",
    ),
    core(
        "a_parent_stays_in_the_slow_path_that_its_child_was_ended_in",
        "lent.state & INSIDE == 0 && self.is_inside()",
        "lent.state & INSIDE != 0 && self.is_inside()",
        "a_child_that_was_ended_in_a_slow_path_leaves_its_parent_outside",
    ),
    core(
        "a_parent_goes_on_whose_child_misused_its_heap",
        "lent.state & ABORTING == 0 && self.is_aborting_itself()",
        "lent.state & ABORTING != 0 && self.is_aborting_itself()",
        "a_parent_ends_whose_child_misused_the_heap",
    ),
    core(
        "tables_are_followed_out_of_their_object",
        "ranges.iter().find(|range| range.contains(&address))?",
        "ranges.iter().find(|range| !range.is_empty())?",
        "tables_that_lie_are_never_followed_out_of_their_object",
    ),
    core(
        "the_cpus_are_those_of_the_calling_thread",
        "libc::syscall(libc::SYS_sched_getaffinity, process, room, set.as_mut_ptr())",
        "libc::syscall(libc::SYS_sched_getaffinity, process * 0, room, set.as_mut_ptr())",
        "cpus_are_those_of_the_process_as_it_was_when_first_asked",
    ),
    core(
        "a_block_keeps_its_key_when_a_slow_path_hands_it_out",
        "(self.without_key(class, self.handed_out(block)), zeroed)",
        "(self.handed_out(block), zeroed)",
        "no_block_carries_a_key_to_the_program",
    ),
    core(
        "the_key_is_the_same_for_all_blocks",
        "if key == 0 || !is_keyed(class) { 0 } else { key ^ block }",
        "if key == 0 || !is_keyed(class) { 0 } else { key | (block & 0) }",
        "a_copy_of_a_freed_block_is_no_key_elsewhere",
    ),
    core(
        "a_block_with_its_key_is_taken_for_freed_at_once",
        "&& self.looks_freed(class, block) {\n            return Ok(());",
        "&& self.looks_freed(class, block) && block == 0 {\n            return Ok(());",
        "a_live_block_that_carries_its_key_is_freed_and_serves_again",
    ),
    core(
        "a_block_with_its_key_is_judged_by_its_span_alone",
        "found = found || has_block(slab, class, block);",
        "",
        "a_small_block_freed_twice_is_stopped_at_the_call",
    ),
    core(
        "a_block_with_its_key_is_not_looked_for_in_the_transfer_array",
        "found = found || below.central.transfers(class, block);",
        "",
        "a_block_that_was_freed_is_found_wherever_it_lies",
    ),
    core(
        "a_block_with_its_key_is_not_looked_for_in_its_span",
        "found || below.pages.class_of_allocated(block) != Some(class)",
        "found",
        "a_block_that_was_freed_is_found_wherever_it_lies",
    ),
    core(
        "a_block_with_its_key_empties_the_caches",
        "if !self.cache.is_free(self.below_cache(), class, block)",
        "self.upkeep.reclaim(&self.below_upkeep())?;\n        if !self.cache.is_free(self.below_cache(), class, block)",
        "live_blocks_that_carry_their_keys_are_freed_and_no_cache_is_emptied",
    ),
    core(
        "what_nothing_can_serve_is_relieved_for",
        "let could_help = self.upkeep.could_help(&self.below_upkeep(), bytes, align);",
        "let could_help = self.upkeep.could_help(&self.below_upkeep(), bytes, align) || bytes > 0;",
        "a_request_that_cannot_be_had_costs_the_others_nothing",
    ),
    core(
        "what_the_caches_hold_counts_for_no_large_block",
        "could_have(in_spans) && could_have(self.free_in_small(below).min(in_spans))",
        "could_have(in_spans) && could_have(self.free_in_small(below).min(0))",
        "a_large_block_is_had_where_small_ones_have_to_leave_the_caches",
    ),
    core(
        "tables_grow_for_what_the_system_refuses",
        "if count > TRIED_FROM {",
        "if count > u32::MAX - 1 {",
        "a_request_that_cannot_be_had_costs_the_others_nothing",
    ),
    core(
        "who_needs_a_slab_waits_for_who_empties_them",
        "let Some(_held) = self.freezer.try_lock() else { return };",
        "let _held = self.freezer.lock();",
        "who_needs_a_slab_while_others_are_emptied_does_not_wait",
    ),
    core(
        "all_blocks_go_back_under_one_holding_of_the_lock",
        "blocks.chunks(DRAIN_BATCH)",
        "blocks.chunks(usize::MAX)",
        "the_lock_of_a_class_is_taken_anew_for_every_few_blocks",
    ),
    core(
        "guarded_samples_lie_beside_libraries",
        "map(hint, bytes, PROT_NONE, MAP_NORESERVE)",
        "map(hint & 0, bytes, PROT_NONE, MAP_NORESERVE)",
        "what_is_reserved_apart_lies_far_from_libraries",
    ),
    core(
        "a_sparse_block_of_zeros_is_written_as_a_whole",
        "if resident < states.len() / 2 ||",
        "if",
        "a_block_of_zeros_on_fresh_or_sparse_memory_takes_no_page_of_it",
    ),
    core(
        "gaps_of_a_block_of_zeros_are_taken_for_zeros",
        "} else if !os.release(at, count * page) {",
        "} else if count == 0 {",
        "of_a_block_of_zeros_whose_memory_went_in_part",
    ),
    core(
        "realloc_in_place_does_not_look_for_the_key",
        "&& !self.looks_freed(class, address) =>",
        "=>",
        "a_freed_block_is_not_resized_in_place_either",
    ),
    core(
        "the_handler_of_fork_believes_that_the_word_was_zeroed",
        "self.process.look_after_fork(&self.os);",
        "self.process.look_for_fork(&self.os);",
        "a_child_whose_word_the_system_only_said",
    ),
    core(
        "who_puts_a_child_right_does_not_learn_its_number",
        "self.process.learn_number(&self.os);",
        "",
        "a_child_that_was_put_right_before_the_handler_runs",
    ),
    core(
        "the_fast_paths_stay_on_while_it_is_recorded",
        "self.front.stop(self.closed(0).as_ptr().expose_provenance());\n            // Where that",
        "// Where that",
        "the_fast_paths_are_off_while_it_lasts",
    ),
    core(
        "a_recording_goes_on_when_the_tool_is_gone",
        "stamp <= until\n    }",
        "stamp <= until || until != 0\n    }",
        "it_ends_with_the_first_event_behind_its_time",
    ),
    core(
        "a_recorded_free_is_not_told",
        "self.ends(address);\n        Self::free_slow(self, address);",
        "Self::free_slow(self, address);",
        "the_fast_paths_are_off_while_it_lasts",
    ),
    core(
        "two_locks_are_taken_in_the_other_order",
        "let mut held = self.releasing.lock();\n        let mut state = self.lock();\n        if !is_wished(&state) {",
        "let mut state = self.lock();\n        let mut held = self.releasing.lock();\n        if !is_wished(&state) {",
        "a_bounded_release_gives_what_was_asked_for",
    ),
    other(
        "a_thread_of_musls_keeps_its_registration_until_its_memory_is_gone",
        "unregister(ptr::from_ref(area).addr(), AREA_BYTES);",
        "",
        On("vcmalloc-tests", "musl", "threads_of_a_static_program"),
    ),
    other(
        "a_thread_is_registered_where_another_library_does_it",
        "let is_theirs = THEIRS.iter().any(|name| !moved::find(libc::RTLD_DEFAULT, name).is_null());",
        "let is_theirs = false;",
        On("vcmalloc-tests", "conformance", "own_registration_gives_way_to_a_name"),
    ),
    other(
        "who_registers_later_is_refused",
        "registration::give_way(),",
        "(),",
        On("vcmalloc-tests", "conformance", "own_registration_gives_way_to_who_comes_late"),
    ),
    // options
    core(
        "a_kilobyte_has_a_thousand_bytes",
        "b'K' => scaled(number, 1 << 10),",
        "b'K' => scaled(number, 1000),",
        "byte_counts_take_the_units_that_people_write",
    ),
    core(
        "the_last_setting_wins",
        "if origin >= self.origin(id) {",
        "if origin >= Origin::Default {",
        "the_stronger_origin_wins_in_any_order",
    ),
    core(
        "no_value_is_out_of_range",
        "if value != AUTO && !value::within(spec.kind, value, spec.least, spec.greatest) {",
        "if value != AUTO && !value::within(spec.kind, value, 0, u64::MAX) {",
        "a_bad_value_is_refused_with_what_is_expected",
    ),
    core(
        "a_setuid_program_obeys_its_caller",
        "if self.os.is_privileged() {\n            return;",
        "if false {\n            return;",
        "settings_come_from_file_and_environment_but_not_in_a_privileged_process",
    ),
    // pages
    core(
        "the_hard_limit_is_not_looked_at_under_the_lock",
        "<= self.limits.hard().unwrap_or(usize::MAX)",
        "<= self.limits.hard().map_or(usize::MAX, |_| usize::MAX)",
        "a_limit_that_comes_while_a_thread_waits_for_the_lock_holds_for_that_thread",
    ),
    core(
        "every_run_is_called_zero",
        "let zeroed = self.mark_used(blocks, number, mask);",
        "let zeroed = self.mark_used(blocks, number, mask) || true;",
        "memory_is_zeroed_until_it_was_used_once",
    ),
    core(
        "every_block_is_called_zero",
        "index as u32 >= self.blocks() - self.fresh.get() || pages & self.released() == pages",
        "index as u32 >= self.blocks() - self.fresh.get() || pages & self.released() == 0",
        "single_blocks_are_other_blocks_and_zero_as_long_as_nobody_had_them",
    ),
    core(
        "a_block_is_put_back_twice",
        "if word.get() & bit != 0 {\n            return Err(Fault::DoubleFree);",
        "if false {\n            return Err(Fault::DoubleFree);",
        "double_and_interior_frees_are_found_when_the_block_comes_back",
    ),
    // central
    core(
        "the_budget_has_no_bound",
        ".filter(|after| *after <= self.limit())",
        ".filter(|after| *after < usize::MAX)",
        "room_is_taken_whole_or_not_at_all",
    ),
    core(
        "empty_spans_stay",
        "if span.is_empty() && self.free_blocks > span.blocks() as usize {",
        "if span.is_empty() && self.free_blocks > usize::MAX / 2 {",
        "a_span_whose_last_block_returns_goes_back_to_the_page_heap",
    ),
    core(
        "blocks_that_come_back_stay_given",
        "pages.note_allocated(address, false);\n                    freed += 1;",
        "freed += 1;",
        "a_block_that_is_back_in_its_span_is_known_as_nobodys",
    ),
    core(
        "of_the_blocks_of_one_span_that_go_back_together_one_is_counted",
        "self.free_blocks += freed;",
        "self.free_blocks += 1;",
        "neighbours_go_back_together_and_strangers_between_them_each_to_their_own_span",
    ),
    core(
        "what_goes_back_together_is_taken_for_one_spans",
        "take_while(|address| address.wrapping_sub(start) < bytes)",
        "take_while(|address| address.wrapping_sub(start) < usize::MAX)",
        "neighbours_go_back_together_and_strangers_between_them_each_to_their_own_span",
    ),
    // cache
    core(
        "a_slab_is_emptied_without_a_fence",
        "let stopped = cpus == 0 || below.os.fence_sequences();",
        "let stopped = true;",
        "a_slab_is_emptied_behind_a_fence_that_began_when_it_was_frozen",
    ),
    core(
        "a_refused_fence_is_passed_over",
        "                if stopped {\n                    outcome = outcome.and(",
        "                {\n                    outcome = outcome.and(",
        "where_the_fence_is_refused_slabs_of_virtual_cpus_stay_full_and_in_use",
    ),
    core(
        "the_fence_comes_before_the_freezing",
        "        let mut outcome = Ok(());\n        self.each_made(|slot, slab| {\n            if has_something(",
        "        let mut outcome = Ok(());\n        if cpus > 0 {\n            below.os.fence_sequences();\n        }\n        \
         self.each_made(|slot, slab| {\n            if has_something(",
        "a_slab_is_emptied_behind_a_fence_that_began_when_it_was_frozen",
    ),
    core(
        "a_full_array_takes_one_more",
        "\"cmp {top:e}, [{word} + 4]\",\n                    \"jae {refused}\",",
        "\"cmp {top:e}, [{word} + 4]\",\n                    \"ja {refused}\",",
        "in_vcpu_caches",
    ),
    core(
        "the_block_freed_last_is_taken_again",
        "                    \"cmp [{slab} + {top}], {block}\",\n                    \"je {refused}\",\n",
        "",
        "a_double_free_is_found_at_the_bad_call_in_vcpu_caches",
    ),
    // watch
    core(
        "what_is_written_around_a_guarded_block_is_not_looked_at",
        "if let Some((fault, damaged)) = slot.damage(page, page_bytes) {",
        "if let Some((fault, damaged)) = slot.damage(page, page_bytes).filter(|_| false) {",
        "what_is_written_around_a_block_is_found_when_it_is_freed",
    ),
    core(
        "a_slot_is_used_again_at_once",
        "        let fresh = state.used;\n        if fresh < self.slot_count",
        "        let fresh = state.used;\n        if state.first == NOBODY && fresh < self.slot_count",
        "a_slot_is_used_again_only_after_all_others",
    ),
    // heap
    core(
        "a_lowered_bound_leaves_the_caches_full",
        "central.budget.taken() > ",
        "central.budget.taken() > usize::MAX / 2 + ",
        "a_lowered_bound_holds_when_the_call_returns",
    ),
    core(
        "transfer_arrays_are_in_no_sum",
        "        self.transfer += of.transfer_blocks * bytes;\n",
        "",
        "tiers_and_committed_bytes_are_two_ways_to_the_same_sum",
    ),
    core(
        "span_tails_are_in_no_sum",
        "        self.span_tails += of.spans * (shape.span_bytes() as u64 - shape.blocks as u64 * bytes);\n",
        "",
        "the_terms_of_the_bridge_add_up_to_what_is_resident",
    ),
    core(
        "the_caches_are_no_metadata",
        "        self.cache.each_mapping(&mut take);\n",
        "",
        "whatever_the_heap_has_mapped_is_in_its_figures",
    ),
    core(
        "the_profile_is_no_metadata",
        "        self.profile.each_mapping(&mut take);\n",
        "",
        "whatever_the_heap_has_mapped_is_in_its_figures",
    ),
    core(
        "nobody_hears_the_bell",
        "if self.state.load(Ordering::Relaxed) != RUNG",
        "if self.state.load(Ordering::Relaxed) == RUNG",
        "the_thread_sleeps_when_all_is_done_wakes_by_a_slow_path_and_ends_when_told",
    ),
    core(
        "idle_pages_stay",
        "&& age >= wish.ticks",
        "&& age >= wish.ticks && wish.ticks == 0",
        "memory_stays_for_the_delay_and_then_goes",
    ),
    core(
        "arrays_are_never_trimmed",
        "let mut left = place.transfer.lock().low_water();",
        "let mut left = 0 * place.transfer.lock().low_water();",
        "what_nobody_took_from_an_array_goes_back_to_its_spans",
    ),
    core(
        "a_child_has_its_parents_slow_paths",
        "        self.slow_paths.forget_others::<O>();\n        self.process.set(KNOWN);",
        "        self.process.set(KNOWN);",
        "in_a_child_no_thread_of_the_parent_stands_in_a_slow_path",
    ),
    // hardened
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
    // exports
    other(
        "free_changes_errno",
        "    undisturbed(|| blocks().free_slow(address(block)));\n",
        "    blocks().free_slow(address(block));\n",
        On("vcmalloc", "conformance", "free_keeps_errno_while_the_system_refuses::preload"),
    ),
    other(
        "malloc_without_memory_leaves_errno",
        "set_errno(if block == 0 { ENOMEM } else { before });",
        "set_errno(before);",
        On("vcmalloc", "conformance", "out_of_memory_is_null_and_passes::preload"),
    ),
    other(
        "the_end_of_an_array_is_passed_by_one",
        "\"cmp r9d, [r8 + 4]\n            jae .Lvcm_leave\n",
        "\"cmp r9d, [r8 + 4]\n            ja .Lvcm_leave\n",
        On("vcmalloc", "conformance", "many_threads_allocate_at_once::preload"),
    ),
    other(
        "the_stand_in_loses_the_tails_of_spans",
        "(tiers.free_in_spans + tiers.span_tails).saturating_sub(pages.given_back_in_spans)",
        "tiers.free_in_spans.saturating_sub(pages.given_back_in_spans)",
        On("vcmalloc-tcmalloc", "tcmalloc", "properties"),
    ),
    // tools
    other(
        "a_number_of_more_than_64_bits_is_read",
        "if part != 0 && part.leading_zeros() < shift {",
        "if part.leading_zeros() > 64 {",
        Of("vcm-trace", "what_ends_early_or_is_too_long_is_refused"),
    ),
    other(
        "nobody_waits_for_the_beginning_of_an_object",
        "comes.then_some((owner, ordinal))",
        "comes.then_some((owner, ordinal)).filter(|_| false)",
        Of("vcm-trace", "in_order_every_object_begins_before_it_ends"),
    ),
    other(
        "a_damaged_block_is_believed",
        "if checksum(&bytes[..CHECKED_BYTES], &packed) != word(9) {",
        "if checksum(&bytes[..CHECKED_BYTES], &packed) == 0 {",
        Of("vcm-trace", "a_byte_that_was_changed_is_never_taken_for_an_event"),
    ),
    other(
        "the_median_is_the_upper_of_two",
        "Some((sorted[sorted.len() / 2 - 1] + upper) / 2.0)",
        "Some(upper)",
        Of("vcm-measure", "the_median_of_an_even_count_is_the_mean_of_the_two_middle_values"),
    ),
    other(
        "repetitions_are_compared_with_others",
        "(&other.axes, other.repetition, &other.step) == (&row.axes, row.repetition, &row.step)",
        "(&other.axes, &other.step) == (&row.axes, &row.step)",
        Of("vcm-labs", "a_relative_row_is_divided_by_its_own_repetitions"),
    ),
    other(
        "the_doctor_compares_the_wrong_way",
        "if bytes < cpus * LEAST_FOR_A_CPU {",
        "if bytes > cpus * LEAST_FOR_A_CPU {",
        Of("vcm", "a_bound_below_a_mebibyte_for_each_cpu_is_noted"),
    ),
    other(
        "the_doctor_waits_until_no_file_can_be_opened",
        "Some(open) if seen.is_empty() && open > soft / 5 * 4 => {",
        "Some(open) if seen.is_empty() && open > soft => {",
        Of("vcm", "a_process_near_its_limit_is_found"),
    ),
    other(
        "enable_overwrites_what_somebody_edited",
        "Some(noted == Some(sum(body)))",
        "Some(noted.is_some() || sum(body) == 0)",
        Of("vcm", "files_of_others_and_edited_ones_are_left_alone"),
    ),
    other(
        "enable_loses_against_an_environment_file",
        "is_ours_too && (set.is_from_environment_file || comes_later(&set.file))",
        "is_ours_too && comes_later(&set.file)",
        Of("vcm", "a_preload_in_an_environment_file_or_a_later_drop_in_does_not_win"),
    ),
    other(
        "vcm_run_names_no_front",
        "front {front}, from {file}",
        "front {version}, from {file}",
        Tool("refused_calls", "a_refused_call_is_named_by_run_and_by_stat"),
    ),
    other(
        "vcm_stat_gives_no_reason",
        "stats.overflows, snapshot.front_reason",
        "stats.overflows, snapshot.front",
        Tool("refused_calls", "a_refused_call_is_named_by_run_and_by_stat"),
    ),
    other(
        "a_refused_fence_is_called_a_refused_registration",
        "FrontReason::Fence => \"membarrier is refused\"",
        "FrontReason::Fence => \"rseq is refused\"",
        Tool("refused_calls", "a_refused_call_is_named_by_run_and_by_stat"),
    ),
    other(
        "a_refusal_is_named_where_nothing_is_refused",
        "FrontReason::Libc => \"registered by the C library\"",
        "FrontReason::Libc => \"rseq is refused\"",
        Tool("refused_calls", "where_nothing_is_refused"),
    ),
];
