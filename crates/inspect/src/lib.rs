//! Looking at things without changing them. Nothing here prints, decides or ends the process.
//!
//! ```text
//! daemon  allocator      which daemon a process is, whose malloc it gets; ceph: what it answers at its admin socket
//! loaded  link_map  variables  start  readable  condition  resources  pressure  block      parts of a running process
//! process  machine  command  dependencies  systemd  privileges  elf    a process, a machine, a file
//! usage                  time and memory of processes at a moment
//! window                 the statistics of a process on vcmalloc, from its memory
//! root                   where the machine's files are: the real root, or a folder that stands for one
//! ```
//!
//! Used by `vcm` and by the labs.

pub mod allocator;
pub mod block;
pub mod ceph;
pub mod command;
pub mod condition;
pub mod daemon;
pub mod dependencies;
pub mod elf;
mod link_map;
pub mod loaded;
pub mod machine;
pub mod pressure;
pub mod privileges;
pub mod process;
pub mod readable;
pub mod resources;
pub mod root;
pub mod start;
pub mod systemd;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod usage;
pub mod variables;
pub mod window;
