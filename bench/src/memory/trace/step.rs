//! A call of a recorded thread.

/// The kind of a step. A realloc is two steps of one thread, since the object that it ends may be another thread's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    Malloc = 1,
    Free = 2,
    Calloc = 3,
    Aligned = 4,
    /// realloc, first half: the old object ends.
    ReallocFrom = 5,
    /// realloc, second half: the new object begins.
    ReallocTo = 6,
}

impl Operation {
    fn from_number(number: u8) -> Option<Self> {
        use Operation::*;
        [Malloc, Free, Calloc, Aligned, ReallocFrom, ReallocTo].into_iter().find(|one| *one as u8 == number)
    }

    pub fn ends_an_object(self) -> bool {
        matches!(self, Self::Free | Self::ReallocFrom)
    }
}

/// One call of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Step {
    pub microseconds: u32,
    pub object: u32,
    pub bytes: u32,
    operation: u8,
    pub log2_alignment: u8,
    unused: u16,
}

impl Step {
    pub fn new(microseconds: u32, object: u32, bytes: u32, operation: Operation, log2_alignment: u8) -> Self {
        Step { microseconds, object, bytes, operation: operation as u8, log2_alignment, unused: 0 }
    }

    pub fn operation(self) -> Operation {
        // The writer below puts in nothing else; a free of nothing is the harmless answer.
        Operation::from_number(self.operation).unwrap_or(Operation::Free)
    }
}
