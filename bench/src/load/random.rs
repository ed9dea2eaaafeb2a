//! Random numbers that cost about a nanosecond and are the same under every allocator.

/// Marsaglia's xorshift generator with the multiplied output ("xorshift64*").
pub struct Random(u64);

impl Random {
    /// Different seeds give unrelated sequences; the same seed gives the same one.
    pub fn seeded(seed: u64) -> Self {
        // A zero state would stay zero; the odd constant (2^64 over the golden ratio) keeps small seeds
        // apart.
        Self(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    #[inline(always)]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Evenly from `0..limit`, by taking the high half of a product instead of a division. `limit` < 2^32.
    #[inline(always)]
    pub fn below(&mut self, limit: usize) -> usize {
        scaled(self.next() >> 32, limit)
    }
}

/// Maps 32 random bits to `0..limit`.
#[inline(always)]
pub fn scaled(bits: u64, limit: usize) -> usize {
    (((bits & 0xFFFF_FFFF) * limit as u64) >> 32) as usize
}

/// How the sizes of a pattern are distributed; both ends belong to it.
#[derive(Clone, Copy, Debug)]
pub enum SizeLaw {
    /// Each byte count equally likely.
    Uniform { least: usize, greatest: usize },
    /// Each doubling equally likely: `least` and `least << doublings` are the ends.
    LogUniform { least: usize, doublings: usize },
}

impl SizeLaw {
    /// A size from 32 random bits, without a logarithm: the high bits choose the doubling, the rest the place
    /// in it.
    #[inline(always)]
    pub fn bytes(self, bits: u64) -> usize {
        match self {
            Self::Uniform { least, greatest } => least + scaled(bits, greatest - least + 1),
            Self::LogUniform { least, doublings } => {
                let base = least << scaled(bits, doublings);
                base + scaled(bits.wrapping_mul(0x9E37_79B1), base + 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_within_the_law_and_reach_both_halves_of_it() {
        let mut random = Random::seeded(1);
        for law in [
            SizeLaw::Uniform { least: 4096, greatest: 65536 },
            SizeLaw::LogUniform { least: 4096, doublings: 4 },
        ] {
            let sizes: Vec<usize> = (0..10_000).map(|_| law.bytes(random.next() >> 32)).collect();
            assert!(sizes.iter().all(|bytes| (4096..=65536).contains(bytes)));
            assert!(sizes.iter().any(|&bytes| bytes < 5000) && sizes.iter().any(|&bytes| bytes > 60_000));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_seed_others() {
        let numbers = |seed| {
            let mut random = Random::seeded(seed);
            [random.next(), random.next()]
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }
}
