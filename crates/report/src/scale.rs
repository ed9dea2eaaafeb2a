//! The place of a number on an axis, and the numbers that are marked at it.

#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub least: f64,
    pub most: f64,
    /// By doublings, not by steps.
    pub doubles: bool,
}

impl Scale {
    /// From zero, with a little room above the greatest.
    pub fn from_zero(most: f64) -> Scale {
        Scale { least: 0.0, most: positive(most) * 1.06, doubles: false }
    }

    /// Around the values, with room on both sides: never so narrow that a small difference looks large.
    pub fn around(values: impl Iterator<Item = f64>) -> Scale {
        let (least, most) = values
            .filter(|value| value.is_finite())
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        if least > most {
            return Scale::from_zero(1.0);
        }
        let span = (most - least).max(most.abs() * 0.2).max(f64::MIN_POSITIVE);
        let middle = (least + most) / 2.0;
        let (low, high) = (middle - span * 0.6, middle + span * 0.6);
        // No memory and no speed is below zero.
        Scale { least: if least >= 0.0 { low.max(0.0) } else { low }, most: high, doubles: false }
    }

    /// From 0 at the least to 1 at the most.
    pub fn place(&self, value: f64) -> f64 {
        let place = match self.doubles {
            true => (value / self.least).log2() / (self.most / self.least).log2(),
            false => (value - self.least) / (self.most - self.least),
        };
        place.clamp(0.0, 1.0)
    }

    /// About so many numbers, and how far they are apart.
    pub fn marks(&self, about: usize) -> (Vec<f64>, f64) {
        if self.doubles {
            let powers = (self.least.log2().ceil() as i32)..=(self.most.log2().floor() as i32);
            let every = (powers.clone().count() / about.max(1)).max(1);
            return (powers.step_by(every).map(|power| 2f64.powi(power)).collect(), self.least.min(1.0));
        }
        let step = step((self.most - self.least) / about.max(1) as f64);
        let first = (self.least / step).ceil() as i64;
        let last = (self.most / step + 1e-9).floor() as i64;
        ((first..=last).take(100).map(|at| at as f64 * step).collect(), step)
    }
}

/// At least so far apart: 1, 2 or 5 of some power of ten.
fn step(least: f64) -> f64 {
    let least = positive(least);
    let power = 10f64.powf(least.log10().floor());
    let times = [1.0, 2.0, 5.0].into_iter().find(|times| times * power >= least * (1.0 - 1e-9));
    power * times.unwrap_or(10.0)
}

fn positive(value: f64) -> f64 {
    if value > 0.0 && value.is_finite() { value } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_inside() {
        assert_eq!(Scale::from_zero(100.0).marks(5).0, [0.0, 50.0, 100.0]);
        assert_eq!(Scale::from_zero(94.0).marks(5).0, [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(Scale { least: 0.5, most: 8.0, doubles: true }.marks(5).0, [0.5, 1.0, 2.0, 4.0, 8.0]);
        let around = Scale::around([1e6, 1.1e6].into_iter());
        let (marks, _) = around.marks(4);
        assert!(marks.len() >= 2 && marks.iter().all(|mark| (around.least..=around.most).contains(mark)));
    }

    #[test]
    fn a_difference_of_a_hundredth_does_not_fill_the_axis() {
        let scale = Scale::around([100.0, 101.0].into_iter());
        assert!(scale.place(101.0) - scale.place(100.0) < 0.05);
        assert!(Scale::around([0.0, 1.0].into_iter()).least == 0.0);
        for odd in
            [Scale::around([].into_iter()), Scale::around([0.0].into_iter()), Scale::from_zero(f64::NAN)]
        {
            assert!(odd.place(0.0).is_finite() && !odd.marks(4).0.is_empty(), "{odd:?}");
        }
    }
}
