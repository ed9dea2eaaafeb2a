//! Recording: what each call of the program did to blocks, for a tool outside (docs/design/record.md).

mod events;
mod switch;

pub(crate) use switch::NotRecorded;
