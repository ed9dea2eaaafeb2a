//! The experiments, one file each: what is asked, what is run, what the report found.

pub mod cache_tier;
pub mod file_system;
pub mod journal;
pub mod key_value;
pub mod many_threads;
pub mod memory_target;
pub mod metadata_pools;
pub mod object_gateway;
pub mod read_mix;
pub mod thread_cache;
pub mod tuning_ladder;

use crate::engine::experiment::Experiment;

pub static ALL: &[&Experiment] = &[
    &thread_cache::THREAD_CACHE,
    &many_threads::MANY_THREADS,
    &memory_target::MEMORY_TARGET,
    &journal::JOURNAL,
    &read_mix::READ_MIX,
    &tuning_ladder::TUNING_LADDER,
    &key_value::KEY_VALUE,
    &cache_tier::CACHE_TIER,
    &object_gateway::OBJECT_GATEWAY,
    &file_system::FILE_SYSTEM,
    &metadata_pools::METADATA_POOLS,
];
