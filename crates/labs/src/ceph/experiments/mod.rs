//! The experiments, one file each: what is asked, what is run, what the report found.

pub mod thread_cache;
