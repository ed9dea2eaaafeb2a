//! What a program did wrong, in words.

use super::text::{self, Sink};

/// A misuse of the heap by the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The block was free already.
    DoubleFree,
    /// The address lies inside a block or between blocks.
    InteriorPointer,
    /// The address lies in the heap, in a part that holds no block.
    FreeMemory,
    /// The address was never the heap's.
    ForeignPointer,
    /// The size or alignment given to a sized free is not that of the block.
    WrongSize,
}

impl Fault {
    pub fn text(self) -> &'static str {
        match self {
            Fault::DoubleFree => "double free",
            Fault::InteriorPointer => "free of an interior pointer",
            Fault::FreeMemory => "free of memory that holds no block",
            Fault::ForeignPointer => "free of a pointer that is not from this heap",
            Fault::WrongSize => "free with the wrong size or alignment",
        }
    }
}

/// What is known about the address of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misuse {
    pub fault: Fault,
    pub address: usize,
    /// Start and bytes of the block that the address belongs to, where there is one.
    pub block: Option<(usize, usize)>,
    /// For a double free: how many frees on this virtual CPU lie between the two, where that is known.
    pub frees_between: Option<u32>,
}

impl Misuse {
    /// A misuse of which only the address is known.
    pub fn at(fault: Fault, address: usize) -> Self {
        Misuse { fault, address, block: None, frees_between: None }
    }
}

impl Misuse {
    /// What is printed before the process is stopped, without the end of the line.
    pub fn put(&self, sink: &mut dyn Sink) {
        text::put_str(sink, "vcmalloc: ");
        text::put_str(sink, self.fault.text());
        text::put_str(sink, ": address ");
        text::put_hex(sink, self.address as u64);
        if let Some((start, bytes)) = self.block {
            text::put_str(sink, ", block ");
            text::put_hex(sink, start as u64);
            text::put_str(sink, " of ");
            text::put_decimal(sink, bytes as u64);
            text::put_str(sink, " bytes");
            let inside = self.address.wrapping_sub(start);
            if inside != 0 {
                text::put_str(sink, ", ");
                text::put_decimal(sink, inside as u64);
                text::put_str(sink, " bytes in");
            }
        }
        if let Some(frees) = self.frees_between {
            text::put_str(sink, ", freed ");
            text::put_decimal(sink, frees as u64 + 1);
            text::put_str(sink, " frees ago");
        }
    }
}
