//! The call that did something: its thread, the time, and the return addresses that led there, innermost first.

/// Frames kept of a stack.
pub const MOST_FRAMES: usize = 32;

/// A stack. Zeroed it is an empty one.
#[derive(Clone, Copy)]
pub struct Stack {
    frames: [usize; MOST_FRAMES],
    depth: usize,
}

impl Stack {
    pub const EMPTY: Stack = Stack { frames: [0; MOST_FRAMES], depth: 0 };
    /// Offsets in it of the frames, and of how many there are.
    pub const FRAMES: usize = core::mem::offset_of!(Self, frames);
    pub const DEPTH: usize = core::mem::offset_of!(Self, depth);

    /// The stack that `fill` writes; `fill` returns its depth.
    pub fn taken_by(fill: impl FnOnce(&mut [usize]) -> usize) -> Stack {
        let mut stack = Stack::EMPTY;
        stack.depth = fill(&mut stack.frames).min(MOST_FRAMES);
        stack
    }

    pub fn frames(&self) -> &[usize] {
        self.frames.get(..self.depth).unwrap_or(&[])
    }

    /// A number that equal stacks share.
    pub fn hash(&self) -> u64 {
        self.frames().iter().fold(self.depth as u64, |hash, frame| {
            (hash.rotate_left(5) ^ *frame as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        })
    }
}

/// The thread that did something with a block, the time, and the stack.
#[derive(Clone, Copy)]
pub struct Trace {
    pub thread: u64,
    pub nanoseconds: u64,
    pub stack: Stack,
}
