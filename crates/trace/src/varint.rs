//! LEB128: seven bits a byte, the lowest first; and zigzag for what may be negative.

/// A value of 64 bits takes at most so many bytes.
const MOST_BYTES: usize = 10;

pub fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

pub fn put_signed(bytes: &mut Vec<u8>, value: i64) {
    put(bytes, (value << 1 ^ value >> 63) as u64);
}

/// Takes a value from the front; none where the bytes end, or hold more than 64 bits.
#[inline(always)]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    // Two bytes hold nearly all ages and sizes.
    match **bytes {
        [first, ..] if first < 0x80 => {
            *bytes = &bytes[1..];
            Some(u64::from(first))
        }
        [first, second, ..] if second < 0x80 => {
            *bytes = &bytes[2..];
            Some(u64::from(first & 0x7F) | u64::from(second) << 7)
        }
        _ => take_long(bytes),
    }
}

fn take_long(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(MOST_BYTES).enumerate() {
        let part = u64::from(byte & 0x7F);
        let shift = 7 * index as u32;
        if part != 0 && part.leading_zeros() < shift {
            return None;
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
}

pub fn take_signed(bytes: &mut &[u8]) -> Option<i64> {
    take(bytes).map(|value| (value >> 1) as i64 ^ -((value & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_comes_back() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                put(&mut bytes, value);
                put_signed(&mut bytes, value as i64);
                put_signed(&mut bytes, (value as i64).wrapping_neg());
                let mut rest = &bytes[..];
                assert_eq!(take(&mut rest), Some(value));
                assert_eq!(take_signed(&mut rest), Some(value as i64));
                assert_eq!(take_signed(&mut rest), Some((value as i64).wrapping_neg()));
                assert!(rest.is_empty());
            }
        }
    }

    #[test]
    fn what_ends_early_or_is_too_long_is_refused() {
        assert_eq!(take(&mut &[0x80u8, 0x80][..]), None);
        assert_eq!(take(&mut &[][..]), None);
        assert_eq!(take(&mut &[0xFFu8; 11][..]), None);
        assert_eq!(take(&mut &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2][..]), None);
    }
}
