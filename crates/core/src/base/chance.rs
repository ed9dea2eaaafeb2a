//! The arithmetic of sampling: random numbers, exponential intervals, the chance that a block is sampled.

/// Steps a generator and returns 64 random bits (SplitMix64: G. Steele, D. Lea, C. Flood, "Fast Splittable
/// Pseudorandom Number Generators", OOPSLA 2014).
pub fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// An interval from the exponential distribution with this mean, at least 1, at most 64 times the mean.
pub fn exponential(random: u64, mean: u64) -> u64 {
    ((minus_ln(random) * mean as f64) as u64).max(1)
}

/// `-ln(u)` for a number `u` that is uniform in (0, 1): `random` with the binary point before it.
fn minus_ln(random: u64) -> f64 {
    let bits = random | 1;
    let zeros = bits.leading_zeros();
    // u = m / 2^(zeros + 1) with m in [1, 2).
    let m = (bits << zeros) as f64 / 9_223_372_036_854_775_808.0;
    let t = (m - 1.0) / (m + 1.0);
    let square = t * t;
    // ln m = 2 artanh t; the terms left out are below 1e-7, for t is at most 1/3.
    let mut sum = 0.0;
    for odd in [11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * square + 1.0 / odd;
    }
    (zeros + 1) as f64 * core::f64::consts::LN_2 - 2.0 * t * sum
}

/// The chance that a block is sampled: `1 - exp(-bytes / mean)`.
pub fn sampled_chance(bytes: u64, mean: u64) -> f64 {
    let x = bytes.max(1) as f64 / mean.max(1) as f64;
    if x > 40.0 {
        return 1.0;
    }
    // f(x) = 1 - exp(-x) keeps its digits for small x, and f(2x) = f(x) (2 - f(x)).
    let mut halvings = 0;
    let mut y = x;
    while y > 0.0625 {
        y /= 2.0;
        halvings += 1;
    }
    let mut chance = y * (1.0 - y / 2.0 * (1.0 - y / 3.0 * (1.0 - y / 4.0 * (1.0 - y / 5.0))));
    for _ in 0..halvings {
        chance *= 2.0 - chance;
    }
    chance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chance_is_that_of_the_formula() {
        for (bytes, mean) in
            [(1, 1), (16, 524_288), (4096, 524_288), (524_288, 524_288), (1 << 30, 524_288), (100, 3)]
        {
            let exact = -(-(bytes as f64) / mean as f64).exp_m1();
            let ours = sampled_chance(bytes, mean);
            assert!((ours - exact).abs() <= exact * 1e-9, "{bytes}/{mean}: {ours} not {exact}");
        }
    }

    #[test]
    fn the_logarithm_is_that_of_the_formula() {
        for random in [1, 2, u64::MAX, u64::MAX / 2, 1 << 63, 0x1234_5678_9abc_def0, 3 << 40] {
            let exact = -((random | 1) as f64 / 2f64.powi(64)).ln();
            assert!((minus_ln(random) - exact).abs() < 1e-6, "{random:x}");
        }
    }

    #[test]
    fn intervals_have_the_mean_and_the_spread_of_the_exponential_distribution() {
        let (mut state, mean, count) = (7, 1000u64, 200_000);
        let draws: Vec<f64> = (0..count).map(|_| exponential(next_random(&mut state), mean) as f64).collect();
        let average = draws.iter().sum::<f64>() / count as f64;
        let above = draws.iter().filter(|draw| **draw > mean as f64).count() as f64 / count as f64;
        assert!((average / mean as f64 - 1.0).abs() < 0.02, "mean {average}");
        assert!((above - (-1f64).exp()).abs() < 0.01, "share above the mean {above}");
    }
}
