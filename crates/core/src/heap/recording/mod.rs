//! Recording of the program's calls and their blocks, for a tool outside (docs/design/record.md).

mod events;
mod switch;

pub(crate) use switch::NotRecorded;
