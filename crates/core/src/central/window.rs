//! The places of this layer's numbers, for readers outside the process (docs/design/window.md).

use super::arrays::{Array, Domains};
use super::budget::Budget;
use super::lists::SpanLists;
use super::transfer::Transfer;
use super::{Central, Class, places};
use crate::base::place::Places;
use crate::class::TABLE_LEN;
use crate::os::{MOST_DOMAINS, Mutex, Os};
use core::mem::offset_of;

impl<O: Os> Central<O> {
    /// Adds the places of a middle that lies so far in the heap.
    pub(crate) const fn places(list: Places, at: usize) -> Places {
        let each = (size_of::<Class<O>>(), TABLE_LEN);
        let first = at + offset_of!(Self, classes);
        let (array, spans) = (first + offset_of!(Class<O>, array), first + offset_of!(Class<O>, spans));
        let (cached, transfer) = (offset_of!(Array<O>, cached), offset_of!(Array<O>, transfer));
        let rows = at + offset_of!(Self, domains) + offset_of!(Domains, rows);
        let of_spans = spans + Mutex::<SpanLists, O>::VALUE;
        let budget = at + offset_of!(Self, budget);
        list.many("class.transfer", 4, array + cached, each)
            .many("class.transfer_lock", 4, array + transfer + Mutex::<Transfer, O>::STATE, each)
            .many("class.free", 8, of_spans + offset_of!(SpanLists, free_blocks), each)
            .many("class.spans", 8, of_spans + offset_of!(SpanLists, spans), each)
            .many("class.spans_lock", 4, spans + Mutex::<SpanLists, O>::STATE, each)
            .one("transfer.arrays", 8, at + offset_of!(Self, arrays))
            .constant("transfer.arrays_bytes", places::ALL_BYTES)
            .many("transfer.rows", 8, rows, (size_of::<usize>(), MOST_DOMAINS))
            .constant("transfer.row_bytes", Domains::row_bytes::<O>())
            .constant("transfer.row_stride", size_of::<Array<O>>())
            .constant("transfer.row_cached", cached)
            .one("budget.limit", 8, budget + offset_of!(Budget, limit))
            .one("budget.taken", 8, budget + offset_of!(Budget, taken))
            .one("budget.most_taken", 8, budget + offset_of!(Budget, most_taken))
    }
}
