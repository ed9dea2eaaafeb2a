//! Parts of an object file that a foreigner may have made.

use crate::file;
use object::ReadRef;
use object::read::ReadCache;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

/// Bytes of one file that are read in all: tables of symbols of a daemon with all its names are below a quarter of it.
const MOST: u64 = 256 << 20;
/// The bytes that a name costs beside its own.
const OF_NAME: u64 = 64;

/// A file of which parts are read, so many in all: its tables may claim any length.
pub struct Parts {
    cache: ReadCache<File>,
    left: Cell<u64>,
}

impl Parts {
    pub fn open(path: &Path) -> io::Result<Parts> {
        Ok(Parts { cache: ReadCache::new(file::open(path)?), left: Cell::new(MOST) })
    }

    fn take(&self, bytes: u64) -> Result<(), ()> {
        self.left.set(self.left.get().checked_sub(bytes).ok_or(())?);
        Ok(())
    }
}

impl<'a> ReadRef<'a> for &'a Parts {
    fn len(self) -> Result<u64, ()> {
        (&self.cache).len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.take(size)?;
        (&self.cache).read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let found = (&self.cache).read_bytes_at_until(range, delimiter)?;
        self.take(found.len() as u64 + OF_NAME)?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_until_the_bound_is_reached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        File::create(&path).unwrap().set_len(50 << 30).unwrap();
        let parts = Parts::open(&path).unwrap();
        assert_eq!((&parts).len(), Ok(50 << 30));
        assert_eq!((&parts).read_bytes_at(49 << 30, 4), Ok(&[0; 4][..]));
        assert_eq!((&parts).read_bytes_at(0, 40 << 30), Err(()));
        assert!((&parts).read_bytes_at(0, 4096).is_ok());
    }
}
