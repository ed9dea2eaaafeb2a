//! A latency histogram, and the shares of operations within the bounds that the reports print.
//!
//! Owns the reading of the OSD's own histograms (`perf histogram dump`). Their buckets double: 0.1, 0.2, 0.4
//! ... ms; a bound inside a bucket gets the part of it that lies below, as if the operations in it were
//! spread evenly.

use serde_json::Value;

/// The bounds of the report of 2015, in milliseconds.
pub const BOUNDS_MS: [u32; 6] = [1, 2, 5, 10, 20, 50];

/// The measures that hold the shares, in the order of `BOUNDS_MS`.
pub const SHARE_NAMES: [&str; 6] =
    ["within_1ms", "within_2ms", "within_5ms", "within_10ms", "within_20ms", "within_50ms"];

/// Buckets by rising latency; the upper edges are in nanoseconds and the last is infinite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    edges: Vec<f64>,
    counts: Vec<f64>,
}

impl Histogram {
    pub fn new(edges: Vec<f64>, counts: Vec<f64>) -> Histogram {
        Histogram { edges, counts }
    }

    /// From one entry of `perf histogram dump`: latency by request size; the sizes are added up.
    pub fn of_osd(dumped: &Value) -> Option<Histogram> {
        let ranges = dumped["axes"][0]["ranges"].as_array()?;
        let rows = dumped["values"].as_array()?;
        let edges = ranges.iter().map(|range| match range["max"].as_f64() {
            Some(last) => (last + 1.0).max(0.0),
            None => f64::INFINITY,
        });
        let sum = |row: &Value| row.as_array().map_or(0.0, |row| row.iter().filter_map(Value::as_f64).sum());
        Some(Histogram { edges: edges.collect(), counts: rows.iter().map(sum).collect() })
    }

    /// The counts that were added since `before`.
    pub fn since(&self, before: &Histogram) -> Histogram {
        let counts = self.counts.iter().enumerate();
        let counts = counts.map(|(index, count)| (count - before.counts.get(index).unwrap_or(&0.0)).max(0.0));
        Histogram { edges: self.edges.clone(), counts: counts.collect() }
    }

    pub fn plus(&self, other: &Histogram) -> Histogram {
        if self.counts.is_empty() {
            return other.clone();
        }
        let counts = self.counts.iter().enumerate();
        let counts = counts.map(|(index, count)| count + other.counts.get(index).unwrap_or(&0.0));
        Histogram { edges: self.edges.clone(), counts: counts.collect() }
    }

    pub fn total(&self) -> f64 {
        self.counts.iter().sum()
    }

    /// Percent of the operations that took at most this long; none if there were none.
    pub fn share_within(&self, milliseconds: f64) -> Option<f64> {
        let (bound, total) = (milliseconds * 1e6, self.total());
        if total == 0.0 {
            return None;
        }
        let mut lower = 0.0;
        let mut within = 0.0;
        for (edge, count) in self.edges.iter().zip(&self.counts) {
            within += match () {
                () if *edge <= bound => *count,
                () if lower < bound && edge.is_finite() => count * (bound - lower) / (edge - lower),
                () => 0.0,
            };
            lower = *edge;
        }
        Some(100.0 * within / total)
    }

    /// The shares for the rows.
    pub fn shares(&self) -> Vec<(&'static str, f64)> {
        let bounds = SHARE_NAMES.iter().zip(BOUNDS_MS);
        bounds.filter_map(|(name, bound)| Some((*name, self.share_within(f64::from(bound))?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn dumped() -> Value {
        json!({
            "axes": [
                { "name": "Latency (usec)", "ranges": [
                    { "max": -1 }, { "min": 0, "max": 999_999 }, { "min": 1_000_000, "max": 2_999_999 }, { "min": 3_000_000 },
                ] },
                { "name": "Request size (bytes)", "ranges": [{ "max": -1 }, { "min": 0 }] },
            ],
            "values": [[0, 0], [10, 20], [40, 0], [0, 30]],
        })
    }

    #[test]
    fn sizes_are_added_up_and_a_bound_in_a_bucket_takes_its_part() {
        let histogram = Histogram::of_osd(&dumped()).unwrap();
        assert_eq!(histogram.total(), 100.0);
        assert_eq!(histogram.share_within(1.0), Some(30.0));
        assert_eq!(histogram.share_within(2.0), Some(50.0));
        assert_eq!(histogram.share_within(3.0), Some(70.0));
        // The end of the last bucket is not known, so none of it lies within any bound.
        assert_eq!(histogram.share_within(50.0), Some(70.0));
    }

    #[test]
    fn only_what_came_since_is_counted() {
        let later = Histogram::of_osd(&dumped()).unwrap();
        assert_eq!(later.since(&later).share_within(1.0), None);
        assert_eq!(later.since(&Histogram::default()), later);
        assert_eq!(later.plus(&later).total(), 200.0);
    }
}
