//! Looking at things without changing them. Nothing here prints, decides or ends the process.

pub mod allocator;
pub mod block;
pub mod ceph;
pub mod command;
pub mod condition;
pub mod daemon;
pub mod dependencies;
pub mod elf;
pub mod loaded;
pub mod machine;
pub mod privileges;
pub mod process;
pub mod readable;
pub mod resources;
pub mod root;
pub mod start;
pub mod systemd;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod variables;
