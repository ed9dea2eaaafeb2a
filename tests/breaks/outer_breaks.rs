//! Breaks of the exports and of the tools.

use super::planted::Test::{Of, On, Tool};
use super::planted::{Break, other};

pub const BREAKS: &[Break] = &[
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
        "malloc_keeps_the_place_of_errno_while_the_program_is_told",
        "    let before = errno();\n    let block = allocate();\n    set_errno(if block == 0 { ENOMEM } else { before });",
        "    // SAFETY: errno is this thread's own.\n    let (place, before) = unsafe { (libc::__errno_location(), errno()) };\n    let block = allocate();\n    // SAFETY: it was.\n    unsafe { *place = if block == 0 { ENOMEM } else { before } };",
        On("vcmalloc", "conformance", "fibers_change_threads_in_the_pressure_function::preload"),
    ),
    other(
        "the_end_of_an_array_is_passed_by_one",
        "            cmp r9d, [r8 + 4]\n            jae .Lvcm_leave\n",
        "            cmp r9d, [r8 + 4]\n            ja .Lvcm_leave\n",
        On("vcmalloc", "conformance", "many_threads_allocate_at_once::preload"),
    ),
    other(
        "the_stand_in_loses_the_tails_of_spans",
        "(tiers.free_in_spans + tiers.span_tails).saturating_sub(pages.given_back_in_spans)",
        "tiers.free_in_spans.saturating_sub(pages.given_back_in_spans)",
        On("vcmalloc-tcmalloc", "tcmalloc", "properties"),
    ),
    other(
        "a_block_that_no_cache_takes_is_not_counted_as_freed",
        "        Blocks::free_slow(heap(), address);\n        gave_bytes(bytes);\n",
        "        Blocks::free_slow(heap(), address);\n        let _ = bytes;\n",
        On("vcmalloc-jemalloc", "jemalloc", "counts::ours"),
    ),
    other(
        "a_thread_that_ends_stays_in_its_arena",
        "    let before = thread().arena.swap(0, Ordering::Relaxed);\n    if before != 0 {\n",
        "    let before = thread().arena.swap(0, Ordering::Relaxed);\n    if before == u32::MAX {\n",
        On("vcmalloc-jemalloc", "jemalloc", "arenas::ours"),
    ),
    other(
        "a_place_is_not_compared_with_its_row",
        "first(row, part) != Some(*place)",
        "first(row, part).is_none()",
        On("vcmalloc-jemalloc", "jemalloc", "tree::ours"),
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
    other(
        "every_child_has_a_janitor",
        "self.options.get(OptionId::janitor) == ALWAYS",
        "self.options.get(OptionId::janitor) != ALWAYS + 1",
        On("vcmalloc", "conformance", "the_option_janitor_gives_one_thread_its_janitor::preload"),
    ),
    other(
        "the_doctor_finds_fault_with_a_large_heap",
        "if more <= used || more <= WORTH_SAYING {",
        "if more <= WORTH_SAYING {",
        Of("vcm", "little_more_and_less_than_twice_are_fine"),
    ),
];
