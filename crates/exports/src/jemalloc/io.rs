//! How a caller of mallctl passes values: a place for the old one and its length, and the new one with its length. The rules are
//! those of jemalloc's manual; a length that does not fit is EINVAL, and what fits is copied all the same.

use core::ffi::{CStr, c_int, c_void};
use libc::{EINVAL, EPERM};

/// The answer of a name: nothing, or the number of an error.
pub type Outcome = Result<(), c_int>;

/// The numbers in a name, in their order; 0 where it has none.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Numbers {
    pub first: usize,
    pub second: usize,
}

/// A value as jemalloc types it.
#[derive(Clone, Copy)]
pub enum Value {
    Bool(bool),
    /// `unsigned` and `uint32_t`.
    U32(u32),
    /// `size_t`, `ssize_t`, `uint64_t`, `int64_t` and pointers.
    Word(u64),
    Text(&'static CStr),
}

impl Value {
    fn bytes(self) -> ([u8; 8], usize) {
        match self {
            Value::Bool(value) => (u64::from(value).to_ne_bytes(), 1),
            // Little-endian, as all machines that we run on.
            Value::U32(value) => (u64::from(value).to_ne_bytes(), 4),
            Value::Word(value) => (value.to_ne_bytes(), 8),
            Value::Text(text) => ((text.as_ptr().expose_provenance() as u64).to_ne_bytes(), 8),
        }
    }
}

/// A type that any bytes are a value of. A byte that is no `bool` counts as true.
pub trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for u32 {}
impl Plain for u64 {}
impl Plain for i64 {}
impl Plain for usize {}
impl<T> Plain for *const T {}
impl<T> Plain for *mut T {}

/// One call's places.
pub struct Io {
    old: *mut c_void,
    old_length: *mut usize,
    new: *const c_void,
    new_length: usize,
}

impl Io {
    /// # Safety
    /// Each pointer is null or valid for what mallctl does with it, as long as the value lives.
    pub unsafe fn new(
        old: *mut c_void,
        old_length: *mut usize,
        new: *const c_void,
        new_length: usize,
    ) -> Self {
        Io { old, old_length, new, new_length }
    }

    pub fn is_read(&self) -> bool {
        !self.old.is_null() && !self.old_length.is_null()
    }

    pub fn is_written(&self) -> bool {
        !self.new.is_null()
    }

    pub fn read_only(&self) -> Outcome {
        if self.is_written() || self.new_length != 0 { Err(EPERM) } else { Ok(()) }
    }

    pub fn write_only(&self) -> Outcome {
        if self.old.is_null() && self.old_length.is_null() { Ok(()) } else { Err(EPERM) }
    }

    pub fn neither(&self) -> Outcome {
        self.read_only()?;
        self.write_only()
    }

    pub fn not_both(&self) -> Outcome {
        if self.is_read() && (self.is_written() || self.new_length != 0) { Err(EPERM) } else { Ok(()) }
    }

    /// There is room for a value of so many bytes; where not, none is said to be there.
    pub fn has_room(&self, bytes: usize) -> Outcome {
        // SAFETY: by the caller's promise.
        let room = if self.old_length.is_null() { 0 } else { unsafe { self.old_length.read_unaligned() } };
        if !self.old.is_null() && room == bytes {
            return Ok(());
        }
        if !self.old_length.is_null() {
            // SAFETY: by the caller's promise.
            unsafe { self.old_length.write_unaligned(0) };
        }
        Err(EINVAL)
    }

    /// Gives the caller the value, if he asks for it.
    pub fn give(&self, value: Value) -> Outcome {
        if !self.is_read() {
            return Ok(());
        }
        let (bytes, length) = value.bytes();
        // SAFETY: by the caller's promise: the place has so many bytes as he says.
        unsafe {
            let room = self.old_length.read_unaligned();
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.old.cast::<u8>(), room.min(length));
            if room != length {
                self.old_length.write_unaligned(room.min(length));
                return Err(EINVAL);
            }
        }
        Ok(())
    }

    /// The new value, if there is one.
    pub fn take<T: Plain>(&self) -> Result<Option<T>, c_int> {
        if !self.is_written() {
            return Ok(None);
        }
        if self.new_length != size_of::<T>() {
            return Err(EINVAL);
        }
        // SAFETY: by the caller's promise, of so many bytes, which are a value of the type.
        Ok(Some(unsafe { self.new.cast::<T>().read_unaligned() }))
    }

    pub fn take_bool(&self) -> Result<Option<bool>, c_int> {
        Ok(self.take::<u8>()?.map(|byte| byte != 0))
    }

    /// The new value, which must be there.
    pub fn demand<T: Plain>(&self) -> Result<T, c_int> {
        self.take()?.ok_or(EINVAL)
    }
}
