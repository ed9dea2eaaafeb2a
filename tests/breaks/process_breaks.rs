//! Breaks of what is done for processes: forks, children in their parent's memory, registrations, filters of system calls, signals.

use super::planted::Test::On;
use super::planted::{Break, core, other};

pub const BREAKS: &[Break] = &[
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
    core(
        "a_refused_filter_stays_until_the_process_ends",
        "match self.pending.iter().position(take) {",
        "match self.pending.iter().take(0).position(take) {",
        "a_refused_filter_goes_without_those_noted_before_and_after_it",
    ),
    other(
        "the_janitor_outlives_a_main_thread_in_the_strict_mode",
        "if filter.is_none() && heap().os().has_no_filter() {",
        "if false {",
        On("vcmalloc-tests", "conformance", "a_main_thread_in_the_strict_mode_ends_its_process::preload"),
    ),
    other(
        "a_process_that_is_new_lends_its_heap",
        "if !heap().is_guest() {\n        heap().look_at_process();\n    }\n    heap().lend(",
        "heap().lend(",
        On("vcmalloc-tests", "conformance", "a_child_of_vfork_leaves_a_new_process_its_heap::preload"),
    ),
    other(
        "the_number_of_the_process_is_asked_under_any_filter",
        "match heap().os().process_number() {",
        "match unsafe { libc::getpid() } as u64 {",
        On("vcmalloc-tests", "conformance", "a_filter_that_kills_for_getpid_meets_no_call::preload"),
    ),
    other(
        "a_child_with_its_parents_number_is_the_parent",
        "if os.lender() & LENT != 0 && self.is_known() {",
        "if os.lender() == LENT && false {",
        On(
            "vcmalloc-tests",
            "conformance",
            "a_child_in_its_parents_memory_is_known_without_its_number::preload",
        ),
    ),
    other(
        "a_fault_comes_again_for_ever_where_actions_are_refused",
        "if !is_reset {\n            // SAFETY",
        "if false {\n            // SAFETY",
        On(
            "vcmalloc-tests",
            "conformance",
            "a_crash_ends_its_process_where_a_filter_refuses_actions::preload",
        ),
    ),
    core(
        "a_success_that_a_filter_made_up_is_believed",
        "libc::SECCOMP_RET_ERRNO if value & libc::SECCOMP_RET_DATA == 0 => Verdict::Ends,",
        "",
        "a_filter_is_asked_for_the_number_and_for_each_half_of_an_argument",
    ),
];
