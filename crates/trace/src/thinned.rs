//! A long row of moments, of which about so many are kept, evenly.

/// Holds at most twice `about` of them.
#[derive(Clone, Debug)]
pub struct Thinned<T> {
    about: usize,
    kept: Vec<T>,
    since: u64,
    every: u64,
}

impl<T: Copy + PartialEq> Thinned<T> {
    pub fn new(about: usize) -> Self {
        Thinned { about, kept: Vec::new(), since: 0, every: 1 }
    }

    pub fn push(&mut self, moment: T) {
        self.since += 1;
        if self.since < self.every {
            return;
        }
        self.since = 0;
        self.kept.push(moment);
        if self.kept.len() >= 2 * self.about {
            // Every other one goes, and from now on half as many are kept.
            let mut at = 0;
            self.kept.retain(|_| {
                at += 1;
                at % 2 == 0
            });
            self.every *= 2;
        }
    }

    pub fn into_kept(self) -> Vec<T> {
        self.kept
    }

    /// With the last moment of all behind those that were kept.
    pub fn ending_with(mut self, last: T) -> Vec<T> {
        if self.kept.last() != Some(&last) {
            self.kept.push(last);
        }
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_row_some_are_kept_evenly_with_the_last() {
        let mut row = Thinned::new(100);
        (0..123_457).for_each(|at| row.push(at));
        let kept = row.ending_with(123_456);
        assert!((100..=201).contains(&kept.len()), "{}", kept.len());
        assert_eq!(kept.last(), Some(&123_456));
        let steps: Vec<i32> = kept.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps[..steps.len() - 1].iter().all(|step| *step == steps[0]), "{steps:?}");
    }
}
