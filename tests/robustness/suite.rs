//! The cases of the robustness suite, and which of them are known to fail.

use std::time::Duration;

/// How a case differs from just running its program on the allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    Plain,
    /// No variable but the one that preloads.
    EmptyEnvironment,
    /// glibc does not register threads for restartable sequences.
    NoSequences,
    /// With such a soft limit of memory, which the program passes: ours know it.
    Limited(&'static str),
    /// With an auditing library.
    Audited,
    /// In a folder with libraries and nothing else; `loading` changes its root.
    EmptyRoot,
    /// The allocator is not preloaded: the program loads it.
    Late,
    /// Linked with the archive; ours only.
    Static,
    /// A setuid program linked with the library; ours only.
    Secure,
    Valgrind,
    /// `ulimit -s unlimited`, which turns the layout of the address space round.
    UnlimitedStack,
    /// Calls of this name fail, one after the other.
    Refusing(&'static str),
}

use Setting::*;

pub struct Case {
    pub name: &'static str,
    /// Source in `robustness/`.
    pub program: &'static str,
    pub setting: Setting,
    pub limit: Duration,
}

const fn case(program: &'static str, name: &'static str, setting: Setting, seconds: u64) -> Case {
    Case { name, program, setting, limit: Duration::from_secs(seconds) }
}

pub const CASES: &[Case] = &[
    case("limits.c", "address_space_of_128_mib", Plain, 60),
    case("limits.c", "address_space_of_256_mib", Plain, 60),
    case("limits.c", "address_space_of_1_gib", Plain, 60),
    case("limits.c", "data_of_128_mib", Plain, 60),
    case("limits.c", "address_space_taken_while_running", Plain, 60),
    case("limits.c", "locked_memory", Plain, 60),
    case("limits.c", "future_memory_locked_up_to_a_limit", Plain, 60),
    case("limits.c", "no_mappings_left", Plain, 30),
    case("limits.c", "overcommit_refused", Plain, 60),
    case("limits.c", "memory_of_a_control_group", Plain, 60),
    case("limits.c", "page_cache_in_a_control_group", Plain, 60),
    case("limits.c", "no_open_files_left", Plain, 60),
    case("exhaustion.c", "out_of_memory_in_1_thread", Plain, 60),
    case("exhaustion.c", "out_of_memory_in_64_threads", Plain, 60),
    case("forks.c", "fork_from_64_threads", Plain, 60),
    case("forks.c", "fork_over_the_limit", Limited("1M"), 60),
    case("forks.c", "fork_in_a_handler_over_the_limit", Limited("1M"), 60),
    case("forks.c", "clone_over_the_limit", Limited("1M"), 60),
    case("forks.c", "a_child_frees_what_threads_allocated", Plain, 60),
    case("forks.c", "children_of_children", Plain, 60),
    case("forks.c", "fork_in_a_handler", Plain, 90),
    case("forks.c", "work_goes_on_in_the_child_of_a_handler", Plain, 90),
    case("forks.c", "vfork_and_exec", Plain, 30),
    case("forks.c", "spawn", Plain, 30),
    case("forks.c", "clone_as_fork", Plain, 300),
    case("forks.c", "clone3_as_fork", Plain, 300),
    case("forks.c", "underscore_fork", Plain, 300),
    case("forks.c", "vforked_child_allocates", Plain, 90),
    case("signals.c", "malloc_in_a_handler", Plain, 30),
    case("signals.c", "malloc_in_handlers_of_threads", Plain, 30),
    case("signals.c", "malloc_in_nested_handlers", Plain, 30),
    case("signals.c", "malloc_in_a_handler_while_forking", Plain, 30),
    case("signals.c", "malloc_in_handlers_of_threads_that_wait_for_a_fork", Plain, 30),
    case("signals.c", "malloc_on_a_small_alternate_stack", Plain, 30),
    case("signals.c", "malloc_in_a_fault_handler", Plain, 30),
    case("signals.c", "threads_are_cancelled", Plain, 30),
    case("threads.c", "stacks_of_16_kib", Plain, 30),
    case("threads.c", "a_thousand_threads", Plain, 60),
    case("threads.c", "destructors_of_threads_allocate", Plain, 30),
    case("threads.c", "exit_handlers_allocate", Plain, 30),
    case("threads.c", "exit_while_threads_work", Plain, 30),
    case("threads.c", "threads_change_cpus", Plain, 30),
    case("threads.c", "hard_requests", Plain, 60),
    case("loading.c", "plugins_come_and_go", Plain, 60),
    case("loading.c", "plugin_loaded_by_threads", Plain, 30),
    case("loading.c", "deeply_bound_plugin", Plain, 30),
    case("loading.c", "allocator_loaded_late", Late, 60),
    case("loading.c", "no_descriptors", Plain, 60),
    case("loading.c", "environment_taken_away", Plain, 60),
    case("loading.c", "no_random_addresses", Plain, 60),
    case("loading.c", "old_layout_of_addresses", Plain, 60),
    case("loading.c", "readable_is_executable", Plain, 60),
    case("loading.c", "empty_root", EmptyRoot, 60),
    case("loading.c", "empty_environment", EmptyEnvironment, 60),
    case("loading.c", "no_sequences", NoSequences, 60),
    case("loading.c", "audited", Audited, 60),
    case("loading.c", "valgrind", Valgrind, 90),
    case("loading.c", "unlimited_stack", UnlimitedStack, 60),
    case("threads.c", "statically_linked", Static, 60),
    case("secure.c", "setuid_program_obeys_nobody", Secure, 60),
    case("replaces.cc", "program_replaces_basic_new_and_delete", Plain, 30),
    case("crash.cc", "handler_after_a_bad_pointer", Plain, 30),
    case("crash.cc", "handler_after_a_double_free", Plain, 30),
    case("crash.cc", "handler_while_threads_work", Plain, 30),
    case("crash.cc", "handler_after_an_overflow", Plain, 30),
    case("crash.cc", "handler_while_the_heap_is_relieved", Limited("32M"), 30),
    case("inject/workloads.c", "mmap_refused", Refusing("mmap"), 3600),
    case("inject/workloads.c", "munmap_refused", Refusing("munmap"), 3600),
    case("inject/workloads.c", "mremap_refused", Refusing("mremap"), 3600),
    case("inject/workloads.c", "madvise_refused", Refusing("madvise"), 3600),
    case("inject/workloads.c", "mprotect_refused", Refusing("mprotect"), 3600),
    case("inject/workloads.c", "membarrier_refused", Refusing("membarrier"), 3600),
    case("inject/workloads.c", "futex_refused", Refusing("futex"), 3600),
    case("inject/workloads.c", "open_refused", Refusing("open"), 3600),
    case("inject/workloads.c", "read_refused", Refusing("read"), 3600),
];

/// Whether an open case fails each time.
#[allow(dead_code)] // for the next case that is found
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fails {
    Always,
    /// The test neither fails nor asks for the entry's removal.
    Sometimes,
}

/// The cases that do not work yet, and why. A case that always failed and passes now must leave the list.
pub const KNOWN_OPEN: &[(&str, Fails, &str)] = &[];
