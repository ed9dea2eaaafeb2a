//! A profile: call sites with what they allocated, and what is needed to name them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Objects and bytes that samples stand for. A difference of two may be negative.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Amount {
    pub objects: f64,
    pub bytes: f64,
    /// Of the estimate of the bytes, squared bytes: how far chance alone may have taken it.
    pub variance: f64,
}

impl Amount {
    /// So much of so many objects, of which about one in `interval` bytes was sampled.
    ///
    /// An object of `r` bytes is a sample with the chance `p = 1 - exp(-r / interval)` and then stands for `1 / p` of its
    /// like (Poisson sampling). The variance of such a sum of `n` samples is `n r² (1 - p) / p²`; where objects of several
    /// sizes come from one site their mean stands for `r`.
    pub fn sampled(objects: f64, bytes: f64, interval: u64) -> Amount {
        let variance = if objects > 0.0 && bytes > 0.0 && interval > 1 {
            let missed = (-bytes / objects / interval as f64).exp();
            bytes * bytes * missed / (objects * (1.0 - missed))
        } else {
            0.0
        };
        Amount { objects, bytes, variance }
    }

    /// The standard error of the bytes.
    pub fn error(&self) -> f64 {
        self.variance.max(0.0).sqrt()
    }

    pub fn add(&mut self, other: Amount) {
        self.objects += other.objects;
        self.bytes += other.bytes;
        self.variance += other.variance;
    }

    /// This and not that, of two independent estimates.
    pub fn minus(self, other: Amount) -> Amount {
        Amount {
            objects: self.objects - other.objects,
            bytes: self.bytes - other.bytes,
            variance: self.variance + other.variance,
        }
    }
}

/// The measure of a call site that is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Measure {
    /// Memory that it allocated and that is in use.
    Live,
    /// All that it allocated since the profile began.
    Allocated,
    /// Memory that was in use when most was.
    Peak,
    /// Memory that cannot go back because of what is in use.
    Pinned,
}

impl Measure {
    pub const ALL: [Measure; 4] = [Measure::Live, Measure::Allocated, Measure::Peak, Measure::Pinned];

    /// In the names of pprof's kinds of sample: `inuse_space`.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Live => "inuse",
            Measure::Allocated => "alloc",
            Measure::Peak => "peak",
            Measure::Pinned => "pinned",
        }
    }

    /// For a reader.
    pub fn words(self) -> &'static str {
        match self {
            Measure::Live => "in use",
            Measure::Allocated => "allocated",
            Measure::Peak => "in use at the peak",
            Measure::Pinned => "pinned",
        }
    }
}

/// All that was allocated with one stack.
#[derive(Clone, Default, Debug)]
pub struct Site {
    /// Return addresses less one, so that each lies in the call itself; innermost first.
    pub frames: Vec<u64>,
    pub live: Amount,
    pub allocated: Amount,
    pub peak: Amount,
    pub pinned: Amount,
}

impl Site {
    pub fn amount(&self, measure: Measure) -> Amount {
        match measure {
            Measure::Live => self.live,
            Measure::Allocated => self.allocated,
            Measure::Peak => self.peak,
            Measure::Pinned => self.pinned,
        }
    }

    pub fn amount_mut(&mut self, measure: Measure) -> &mut Amount {
        match measure {
            Measure::Live => &mut self.live,
            Measure::Allocated => &mut self.allocated,
            Measure::Peak => &mut self.peak,
            Measure::Pinned => &mut self.pinned,
        }
    }
}

/// A part of a file, or of memory without one, in which code lies.
#[derive(Clone, Default, Debug)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// The place in the file where it begins.
    pub offset: u64,
    /// As the process calls it; `[vdso]`, or empty where there is none.
    pub file: String,
    /// In hexadecimal digits; empty where the file has none.
    pub build_id: String,
    /// The number that is added to an address here to get that in the file's own headers, as `addr2line` takes it.
    pub to_file: u64,
    /// Names were found for what lies here.
    pub named: bool,
    /// The path at which the file can be opened, while the process lives; none where it cannot.
    pub readable: Option<PathBuf>,
}

impl Mapping {
    /// The last part of the path.
    pub fn module(&self) -> &str {
        let file = self.file.strip_suffix(" (deleted)").unwrap_or(&self.file);
        match file.rsplit('/').next() {
            Some(name) if !name.is_empty() => name,
            _ => "[anon]",
        }
    }
}

/// A function at an address; several if the compiler put one into another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    pub function: String,
    pub file: String,
    /// 0: not known.
    pub line: u32,
}

#[derive(Clone, Default, Debug)]
pub struct Profile {
    pub sites: Vec<Site>,
    pub mappings: Vec<Mapping>,
    /// By the addresses in `Site::frames`, innermost first; nothing where there are no names.
    pub frames: HashMap<u64, Vec<Frame>>,
    /// Mean bytes between samples.
    pub interval: u64,
    /// When it was read.
    pub time: Option<SystemTime>,
    /// How long allocations were counted; zero: not known.
    pub duration: Duration,
    pub comments: Vec<String>,
    /// Samples for which there was no room.
    pub dropped: u64,
    /// How often the interval was doubled, for samples to find room.
    pub raised: u64,
    /// The samples that moved while it was read; none: it is of one moment.
    pub torn: Option<String>,
    /// Whether the process still takes samples.
    pub is_on: bool,
    /// The measures that it has figures for.
    pub measures: Vec<Measure>,
    /// Of a tenant's heaps: the threads that took what is in use, by the system's number, and the bytes; the most first.
    pub threads: Vec<(u64, f64)>,
}

impl Profile {
    /// Lines about samples that were too many for their table; none where they were not.
    pub fn about_room(&self) -> Vec<String> {
        let raised = (self.raised > 0).then(|| {
            let now = crate::bytes(self.interval as f64);
            format!("so much is in use that the interval was doubled {} times by itself, to {now}; figures stay right on average", self.raised)
        });
        let dropped =
            (self.dropped > 0).then(|| format!("{} samples had no room and are missing", self.dropped));
        raised.into_iter().chain(dropped).collect()
    }

    pub fn total(&self, measure: Measure) -> Amount {
        let mut total = Amount::default();
        self.sites.iter().for_each(|site| total.add(site.amount(measure)));
        total
    }

    pub fn mapping(&self, address: u64) -> Option<&Mapping> {
        self.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))
    }

    /// Keeps only what was allocated since `before`, a reading of the same process; what is in use stays what it is.
    pub fn allocated_since(&mut self, before: &Profile) {
        let known: HashMap<&[u64], Amount> =
            before.sites.iter().map(|site| (site.frames.as_slice(), site.allocated)).collect();
        for site in &mut self.sites {
            if let Some(then) = known.get(site.frames.as_slice()) {
                let (objects, bytes) =
                    (site.allocated.objects - then.objects, site.allocated.bytes - then.bytes);
                site.allocated = Amount::sampled(objects.max(0.0), bytes.max(0.0), self.interval);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_that_of_poisson_sampling() {
        // Objects far below the interval: each sample stands for about an interval, and n samples have an error of 1/√n.
        let small = Amount::sampled(1000.0 * 512.0, 1000.0 * 512.0 * 1024.0, 512 << 10);
        assert!((small.error() / small.bytes - (1.0f64 / 1000.0).sqrt()).abs() < 0.001, "{small:?}");
        // Far above it: nothing is missed.
        assert!(Amount::sampled(10.0, 10.0 * (64 << 20) as f64, 512 << 10).error() < 1.0);
        assert_eq!(Amount::sampled(0.0, 0.0, 512 << 10).error(), 0.0);
    }

    #[test]
    fn what_was_allocated_before_is_left_out_and_what_is_in_use_stays() {
        let site = |frames: &[u64], allocated| Site {
            frames: frames.to_vec(),
            allocated: Amount::sampled(allocated, allocated * 10.0, 100),
            live: Amount::sampled(3.0, 30.0, 100),
            ..Site::default()
        };
        let of = |sites| Profile { sites, interval: 100, ..Profile::default() };
        let before = of(vec![site(&[1, 2], 5.0)]);
        let mut after = of(vec![site(&[1, 2], 7.0), site(&[1, 3], 4.0)]);
        after.allocated_since(&before);
        let figures: Vec<_> =
            after.sites.iter().map(|site| (site.allocated.bytes, site.live.bytes)).collect();
        assert_eq!(figures, [(20.0, 30.0), (40.0, 30.0)]);
    }
}
