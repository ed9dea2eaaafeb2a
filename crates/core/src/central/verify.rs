//! Checks what must be true of this layer whenever nobody holds its locks. For tests.

use super::Central;
use crate::base::sync::Ordering;
use crate::class::{SizeClass, TABLE_LEN};
use crate::os::Os;
use crate::pages::Pages;

impl<O: Os> Central<O> {
    /// Panics where the structures contradict each other. Returns the room that the transfer arrays hold.
    pub fn verify(&self, pages: &Pages<O>) -> usize {
        let mut open = [0; TABLE_LEN];
        pages.each_span(|_, span| open[span.class().index()] += usize::from(span.heap.get() == 0));
        let mut room = 0;
        for class in SizeClass::all() {
            let place = self.class(class);
            for array in self.arrays_of(class) {
                let transfer = array.transfer.lock();
                assert!(transfer.len() <= transfer.capacity());
                let cached = array.cached.load(Ordering::Relaxed);
                assert_eq!(transfer.len() as u32, cached, "the copy of the length");
                room += transfer.capacity() * class.block_bytes();
            }
            let spans = place.spans.lock();
            assert_eq!(spans.spans, open[class.index()], "every open span of {class:?} is counted");
            spans.verify(pages, class);
        }
        assert_eq!(room, self.transfer_taken.load(Ordering::Relaxed), "the arrays' room is counted");
        room
    }
}
