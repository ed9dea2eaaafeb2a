//! Looking at things without changing them. Nothing here prints, decides or ends the process.

pub mod command;
pub mod dependencies;
pub mod elf;
pub mod privileges;
pub mod process;
