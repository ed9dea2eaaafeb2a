//! Memory for as many bytes as a foreigner says.

use std::io::{self, Error, ErrorKind};

/// Room for so many elements, all zero; an error where there is none, or more is asked for than may be.
pub fn zeroed<T: Clone + Default>(count: u64, most: u64) -> io::Result<Vec<T>> {
    let refused =
        || Error::new(ErrorKind::InvalidData, format!("{count} of something is more than there can be"));
    let count = usize::try_from(count).ok().filter(|_| count <= most).ok_or_else(refused)?;
    let mut room = Vec::new();
    room.try_reserve_exact(count).map_err(|_| Error::from(ErrorKind::OutOfMemory))?;
    room.resize(count, T::default());
    Ok(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_may_be_and_more_than_there_is_are_errors() {
        assert_eq!(zeroed::<u8>(100, 100).unwrap(), [0; 100]);
        assert_eq!(zeroed::<u8>(101, 100).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(zeroed::<u8>(u64::MAX, 1 << 40).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(zeroed::<u64>(1 << 60, u64::MAX).unwrap_err().kind(), ErrorKind::OutOfMemory);
    }
}
