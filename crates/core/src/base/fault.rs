//! Misuses of the heap by a program, in words.

use super::text::{self, Sink};

/// A misuse of the heap by the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The block was free already.
    DoubleFree,
    /// The address lies inside a block or between blocks.
    InteriorPointer,
    /// The block is with its span: it was freed some time ago, or nobody ever had it.
    FreeBlock,
    /// The address lies in the heap, in a part that holds no block.
    FreeMemory,
    /// The address was never the heap's.
    ForeignPointer,
    /// The address was never the heap's, in a call that frees nothing at once.
    ForeignUse,
    /// The size or alignment given to a sized free is not that of the block.
    WrongSize,
    /// The block was made by one family of functions and freed by another.
    WrongFunction {
        made: Maker,
        freed: Maker,
    },
    /// Bytes behind the block's end changed.
    Overflow,
    /// Bytes before the block's start changed.
    Underflow,
    /// A free block was written to.
    WriteAfterFree,
    /// A free block was read or written.
    UseAfterFree,
    /// The heap handed a block out that somebody has: its own notes were changed.
    HandedOutTwice,
    /// An access to a guard page beside a sampled block, or to one that was freed.
    PastEnd(Access),
    BeforeStart(Access),
    AfterFree(Access),
    /// An access to a block of a heap that has ended, and waits only for its blocks to be freed.
    AfterEnd(Access),
    /// An access to a guard page that no block is beside.
    NoBlock(Access),
    /// Memory of the heap was to be executed.
    Jump,
}

/// How memory was touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Read,
    Write,
    /// An instruction was to be read there.
    Execute,
    /// The machine does not tell.
    Unknown,
}

impl Access {
    /// One of three texts that say the same of a read, a write, and either.
    fn choose(self, read: &'static str, write: &'static str, either: &'static str) -> &'static str {
        match self {
            Access::Read => read,
            Access::Write => write,
            Access::Execute | Access::Unknown => either,
        }
    }
}

/// The functions that a block was made by: those of the same family must free it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Maker {
    Malloc,
    New,
    NewArray,
    AlignedNew,
    AlignedNewArray,
}

impl Maker {
    pub const ALL: [Maker; 5] =
        [Maker::Malloc, Maker::New, Maker::NewArray, Maker::AlignedNew, Maker::AlignedNewArray];

    fn makes(self) -> &'static str {
        match self {
            Maker::Malloc => "malloc",
            Maker::New => "operator new",
            Maker::NewArray => "operator new[]",
            Maker::AlignedNew => "aligned operator new",
            Maker::AlignedNewArray => "aligned operator new[]",
        }
    }

    fn frees(self) -> &'static str {
        match self {
            Maker::Malloc => "free or realloc",
            Maker::New => "operator delete",
            Maker::NewArray => "operator delete[]",
            Maker::AlignedNew => "aligned operator delete",
            Maker::AlignedNewArray => "aligned operator delete[]",
        }
    }
}

impl Fault {
    pub fn text(self) -> &'static str {
        match self {
            Fault::DoubleFree => "double free",
            Fault::InteriorPointer => "free of an interior pointer",
            Fault::FreeBlock => "double free, or free of a block that was never handed out",
            Fault::FreeMemory => "free of memory that holds no block",
            Fault::ForeignPointer => "free of a pointer that is not from this heap",
            Fault::ForeignUse => "realloc or size of a pointer that is not from this heap",
            Fault::WrongSize => "free with the wrong size or alignment",
            Fault::WrongFunction { .. } => "free by the wrong function",
            Fault::Overflow => "write behind the end of a block",
            Fault::Underflow => "write before the start of a block",
            Fault::WriteAfterFree => "write to a freed block",
            Fault::UseAfterFree => "use of a freed block",
            Fault::HandedOutTwice => "the notes about a free block were changed",
            Fault::PastEnd(how) => how.choose(
                "read behind the end of a block",
                "write behind the end of a block",
                "access behind the end of a block",
            ),
            Fault::BeforeStart(how) => how.choose(
                "read before the start of a block",
                "write before the start of a block",
                "access before the start of a block",
            ),
            Fault::AfterFree(how) => {
                how.choose("read of a freed block", "write to a freed block", "access to a freed block")
            }
            Fault::AfterEnd(how) => how.choose(
                "read of a block whose heap has ended",
                "write to a block whose heap has ended",
                "access to a block whose heap has ended",
            ),
            Fault::NoBlock(how) => how.choose(
                "read of memory that holds no block",
                "write to memory that holds no block",
                "access to memory that holds no block",
            ),
            Fault::Jump => "jump into the heap",
        }
    }
}

/// A fault, with all that is known about its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misuse {
    pub fault: Fault,
    pub address: usize,
    /// Start and bytes of the block that the address belongs to, where there is one.
    pub block: Option<(usize, usize)>,
    /// The size that the caller of a sized free gave.
    pub said: Option<usize>,
    /// For a double free: how many frees on this virtual CPU lie between the two, where that is known.
    pub frees_between: Option<u32>,
}

impl Misuse {
    /// A misuse of which only the address is known.
    pub fn at(fault: Fault, address: usize) -> Self {
        Misuse { fault, address, block: None, said: None, frees_between: None }
    }

    /// Turns the verdict of `free` into that of a call that asked for the size of a block.
    pub fn of_use(self) -> Self {
        match self.fault {
            Fault::ForeignPointer => Misuse { fault: Fault::ForeignUse, ..self },
            _ => self,
        }
    }
}

/// A fault that a whole program can have without being wrong: a library in it that has its own operator new and not its
/// own delete.
const WAY_OUT_OF_FUNCTION: &str = "; VCM_WRONG_FUNCTION_CHECK=off lets it pass";
/// A fault that hurts nobody as long as the size is used for nothing else.
const WAY_OUT_OF_SIZE: &str = "; VCM_WRONG_SIZE_CHECK=off lets it pass";

impl Misuse {
    /// Puts the line that is printed before the process is stopped, without the end of the line.
    pub fn put(&self, sink: &mut dyn Sink) {
        text::put_str(sink, "vcmalloc: ");
        text::put_str(sink, self.fault.text());
        text::put_str(sink, ": address ");
        text::put_hex(sink, self.address as u64);
        if let Some((start, bytes)) = self.block {
            self.put_block(sink, start, bytes);
        }
        if let Fault::WrongFunction { made, freed } = self.fault {
            text::put_str(sink, ", made by ");
            text::put_str(sink, made.makes());
            text::put_str(sink, ", given to ");
            text::put_str(sink, freed.frees());
            text::put_str(sink, WAY_OUT_OF_FUNCTION);
        }
        if let Some(bytes) = self.said {
            text::put_str(sink, ", freed as one of ");
            text::put_decimal(sink, bytes as u64);
            text::put_str(sink, " bytes");
        }
        if self.fault == Fault::WrongSize {
            text::put_str(sink, WAY_OUT_OF_SIZE);
        }
        if let Some(frees) = self.frees_between {
            put_age(sink, frees);
        }
    }

    fn put_block(&self, sink: &mut dyn Sink, start: usize, bytes: usize) {
        text::put_str(sink, ", block ");
        text::put_hex(sink, start as u64);
        text::put_str(sink, " of ");
        text::put_decimal(sink, bytes as u64);
        text::put_str(sink, " bytes");
        if self.address != start {
            let is_before = self.address < start;
            text::put_str(sink, ", ");
            text::put_decimal(sink, self.address.abs_diff(start) as u64);
            text::put_str(sink, if is_before { " bytes before it" } else { " bytes in" });
        }
    }
}

fn put_age(sink: &mut dyn Sink, frees_between: u32) {
    if frees_between == 0 {
        return text::put_str(sink, ", freed just before");
    }
    text::put_str(sink, ", freed ");
    text::put_decimal(sink, frees_between as u64 + 1);
    text::put_str(sink, " frees ago");
}
