//! The places of the values in effect, for readers outside the process (docs/design/window.md).

use super::{Kind, OPTION_COUNT, Options, SPECS};
use crate::base::place::{Places, Within};
use core::mem::offset_of;

impl Options {
    /// Adds each option's value and origin, and the texts of paths, of options that lie so far in the heap.
    pub(crate) const fn places(mut list: Places, at: usize) -> Places {
        let (values, origins) = (at + offset_of!(Self, values), at + offset_of!(Self, origins));
        let mut index = 0;
        while index < OPTION_COUNT {
            let name = SPECS[index].name;
            list = list.put("option.", name, Within::Heap, 8, values + 8 * index, (0, 1));
            list = list.put("origin.", name, Within::Heap, 1, origins + index, (0, 1));
            if matches!(SPECS[index].kind, Kind::Path) {
                list = super::path::Paths::places(list, name, at + offset_of!(Self, paths));
            }
            index += 1;
        }
        list
    }
}
