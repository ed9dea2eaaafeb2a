//! The parts that all labs share. See docs/design/labs.md.
//!
//! From the top: `run` drives an `experiment` by its `plan` in a `session`; the session makes and starts
//! things, in `namespaces` of its own, through `undo`, `process`, `ground`, `space` and `packages`; `beside` and
//! `statistics` look;
//! `verdict` judges; `results` and `page` tell. tests/layers_of_tools.rs has the order of the files.

pub mod beside;
pub mod cell;
pub mod dry_run;
pub mod experiment;
pub mod ground;
pub mod identity;
pub mod journal;
pub mod lab;
pub mod marked;
pub mod namespaces;
pub mod neighbours;
pub mod other_system;
pub mod packages;
pub mod page;
pub mod plan;
pub mod process;
pub mod request;
pub mod results;
pub mod run;
pub mod session;
pub mod space;
pub mod statistics;
pub mod throttle;
pub mod understood;
pub mod undo;
pub mod verdict;
