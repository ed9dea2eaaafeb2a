//! The checks, each in a file of its own. The order is that of the report within one severity.

mod cache_limit;
mod cpu_governor;
mod database_place;
mod debug_levels;
mod file_limit;
mod huge_pages;
mod idle_allocator;
mod jemalloc_options;
mod journal_place;
mod journal_size;
mod last_words;
mod library_replaced;
mod map_count;
mod memory_held;
mod memory_stays;
mod memory_target;
mod mixed_allocators;
mod no_memory_target;
mod op_tracker;
mod own_settings;
mod preload_over_tcmalloc;
mod preload_refused;
mod restart_pending;
mod simple_messenger;
mod swapped;
mod thread_cache_share;
mod unit_filter;
mod variable_lost;
mod variables_ignored;

use super::check::Check;

pub static ALL: [&Check; 29] = [
    &preload_over_tcmalloc::CHECK,
    &preload_refused::CHECK,
    &restart_pending::CHECK,
    &unit_filter::CHECK,
    &no_memory_target::CHECK,
    &variables_ignored::CHECK,
    &variable_lost::CHECK,
    &own_settings::CHECK,
    &mixed_allocators::CHECK,
    &thread_cache_share::CHECK,
    &memory_target::CHECK,
    &swapped::CHECK,
    &huge_pages::CHECK,
    &map_count::CHECK,
    &file_limit::CHECK,
    &journal_place::CHECK,
    &journal_size::CHECK,
    &debug_levels::CHECK,
    &cpu_governor::CHECK,
    &simple_messenger::CHECK,
    &memory_held::CHECK,
    &memory_stays::CHECK,
    &database_place::CHECK,
    &op_tracker::CHECK,
    &cache_limit::CHECK,
    &last_words::CHECK,
    &library_replaced::CHECK,
    &idle_allocator::CHECK,
    &jemalloc_options::CHECK,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::Fake;

    #[test]
    fn every_check_has_a_name_of_its_own_a_reason_and_a_source() {
        for (at, check) in ALL.iter().enumerate() {
            assert!(ALL.iter().skip(at + 1).all(|other| other.id != check.id), "{}", check.id);
            assert!(check.why.ends_with('.') && !check.looks_for.ends_with('.'), "{}", check.id);
            assert!(!check.source.name.is_empty() && !check.source.url.contains(' '), "{}", check.id);
        }
    }

    #[test]
    fn a_good_machine_has_nothing_but_the_op_tracker_to_note() {
        let fake = Fake::new();
        fake.osd();
        fake.brick();
        let found = super::super::check::run(&ALL, &fake.survey());
        let ids: Vec<&str> = found.found.iter().map(|finding| finding.check.id).collect();
        assert_eq!(ids, ["op-tracker"]);
    }
}
