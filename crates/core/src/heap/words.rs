//! The last words of the process: the thread that writes them, and those that wait for it (docs/design/last-words.md).

use crate::base::text::{Buffer, put_decimal, put_str};
use crate::heap::Heap;
use crate::options::{OptionId, PATH_BYTES};
use crate::os::Os;

/// Writes what is due for these reasons; the system's error where it cannot.
pub type Writer<O> = fn(&Heap<O>, u32) -> Result<(), u32>;

impl<O: Os> Heap<O> {
    /// At the end of a slow path, outside.
    #[inline]
    pub(crate) fn see_to_words_if_due(&self) {
        if self.upkeep.words.concern_program() {
            self.see_to_words();
        }
    }

    /// The janitor writes, who has descriptors of its own; this thread waits, for the kernel would not. Without such a
    /// janitor it writes itself.
    #[cold]
    #[inline(never)]
    fn see_to_words(&self) {
        // A signal handler inside the heap leaves it to the thread that it interrupted.
        if self.is_inside() || self.is_aborting() {
            return;
        }
        let (words, janitor) = (&self.upkeep.words, &self.upkeep.thread);
        if words.are_due() {
            if janitor.has_aside() {
                janitor.call();
            }
            let somebody_will = || janitor.has_aside() || words.is_somebody_at_it();
            if !words.wait(&self.os, somebody_will) {
                self.speak();
            }
        }
        if let Some(error) = words.take_failed() {
            self.say_they_failed(error);
        }
    }

    /// For the janitor, and for a thread that has none.
    pub(crate) fn speak(&self) {
        let words = &self.upkeep.words;
        if !words.are_due() || self.is_aborting() || !words.begin() {
            return;
        }
        self.upkeep.look_if_asked(&self.floors);
        let reasons = words.reasons();
        let outcome = if reasons == 0 { Ok(()) } else { (self.writer)(self, reasons) };
        words.end::<O>(reasons, outcome);
    }

    fn say_they_failed(&self, error: u32) {
        let mut line = [0u8; PATH_BYTES + 128];
        let mut buffer = Buffer::new(&mut line);
        put_str(&mut buffer, "vcmalloc: last_words: ");
        self.options.put(&mut buffer, OptionId::last_words);
        put_str(&mut buffer, " cannot be written: ");
        match error {
            0 => put_str(&mut buffer, "there is something else than a file, or files may not be written"),
            error => {
                put_str(&mut buffer, "error ");
                put_decimal(&mut buffer, error.into());
            }
        }
        put_str(&mut buffer, "\n");
        self.os.write(2, buffer.as_bytes());
    }
}
