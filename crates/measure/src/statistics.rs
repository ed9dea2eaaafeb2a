//! The few statistics that tables and verdicts use. None of them allocates more than a copy of its input.

/// The middle value, or the mean of the two middle ones; none for an empty input.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some((sorted[sorted.len() / 2 - 1] + upper) / 2.0)
}

pub fn minimum(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

pub fn maximum(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}

/// The least and the greatest.
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    Some((minimum(values)?, maximum(values)?))
}

/// The median distance from the median, as a share of the median: what a typical repetition is off by.
pub fn noise(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    Some(median(&distances)? / middle.abs().max(f64::MIN_POSITIVE))
}

/// The n-th root of the product: the mean for ratios, because 2x and 0.5x cancel. None if a value is not
/// positive.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| value.is_nan() || *value <= 0.0) {
        return None;
    }
    Some((values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// `value` in terms of `reference`; none where that means nothing.
pub fn ratio(value: f64, reference: f64) -> Option<f64> {
    let ratio = value / reference;
    (reference > 0.0 && ratio.is_finite()).then_some(ratio)
}

/// The interval in which the median of what the values were drawn from lies, with 95 % confidence: two of the
/// values, by the binomial distribution and nothing else (W. J. Conover, Practical Nonparametric Statistics,
/// 3.2). None below six values.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    // The chance that fewer than `below` of the values lie under the median may be 2.5 %.
    // As logarithms: from 1,075 values on the first chance is less than the least number.
    let (mut below, mut log_term, mut sum) = (0, count as f64 * 0.5f64.ln(), 0.0);
    while below <= count / 2 {
        sum += f64::exp(log_term);
        if sum > 0.025 {
            break;
        }
        log_term += ((count - below) as f64 / (below + 1) as f64).ln();
        below += 1;
    }
    let least = below.checked_sub(1)?;
    Some((*sorted.get(least)?, *sorted.get(count - 1 - least)?))
}

/// The width of the middle half of the values over their median: 0 for equal values, 0.1 for "within 10 %".
pub fn spread(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quartile = |quarter: usize| sorted.get((sorted.len().checked_sub(1)? * quarter + 2) / 4).copied();
    ratio(quartile(3)? - quartile(1)?, median(values)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_odd_count_is_the_middle_value_whatever_the_order() {
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
    }

    #[test]
    fn the_median_of_an_even_count_is_the_mean_of_the_two_middle_values() {
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), Some(3.0));
    }

    #[test]
    fn nothing_has_no_median_minimum_mean_or_spread() {
        assert_eq!((median(&[]), minimum(&[]), maximum(&[])), (None, None, None));
        assert_eq!((geometric_mean(&[]), spread(&[])), (None, None));
    }

    #[test]
    fn noise_ignores_one_outlier() {
        assert!(noise(&[1.0, 1.01, 0.99, 5.0]).unwrap() < 0.02);
        assert_eq!(noise(&[7.0]), Some(0.0));
    }

    #[test]
    fn in_a_geometric_mean_twice_and_half_cancel() {
        assert!((geometric_mean(&[2.0, 0.5]).unwrap() - 1.0).abs() < 1e-12);
        assert!((geometric_mean(&[1.0, 8.0]).unwrap() - 8f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn a_geometric_mean_refuses_zero_negative_and_unknown_values() {
        for bad in [0.0, -1.0, f64::NAN] {
            assert_eq!(geometric_mean(&[1.0, bad]), None);
        }
    }

    #[test]
    fn a_ratio_to_nothing_is_no_ratio() {
        assert_eq!(ratio(3.0, 2.0), Some(1.5));
        assert_eq!(ratio(3.0, 0.0), None);
        assert_eq!(ratio(f64::NAN, 2.0), None);
    }

    #[test]
    fn the_interval_of_the_median_is_that_of_the_sign_test() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(median_interval(&values), Some((6.0, 15.0)));
        assert_eq!(median_interval(&values[..6]), Some((1.0, 6.0)));
        let many: Vec<f64> = (1..=2000).map(f64::from).collect();
        // About 1000 -+ 1.96 times the root of 500, the standard deviation of the binomial distribution.
        assert_eq!(median_interval(&many), Some((956.0, 1045.0)));
        assert_eq!(median_interval(&values[..5]), None, "five values say nothing with 95 % confidence");
    }

    #[test]
    fn the_spread_ignores_one_outlier_among_five() {
        assert_eq!(spread(&[10.0, 10.0, 10.0, 10.0, 90.0]), Some(0.0));
        assert_eq!(spread(&[8.0, 9.0, 10.0, 11.0, 12.0]), Some(0.2));
    }
}
