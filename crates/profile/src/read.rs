//! A profile out of a running process.

use super::profile::{Amount, Measure, Profile, Site};
use super::{mappings, pinned};
use std::collections::BTreeMap;
use std::time::SystemTime;
use vcm_foreign::Shown;
use vcm_inspect::window::{Class, OfStack, Samples, Seen, Sum};

/// Reads the profile that the process takes, or the last that it took; without names. The error is the rest of a line
/// that begins with the number of the process.
pub fn read(seen: &Seen) -> Result<Profile, String> {
    with(seen, seen.samples()?, None)
}

/// The part of it that lives in tenants' heaps of this name.
pub fn read_heap(seen: &Seen, name: &str) -> Result<Profile, String> {
    let samples = seen.samples()?;
    // Later: a heap whose samples were read was there before.
    let samples = of_heaps(samples, &seen.heaps_called(name)?);
    let mut bytes_of: BTreeMap<u64, f64> = BTreeMap::new();
    for sample in samples.live.iter().filter(|sample| sample.thread != 0) {
        *bytes_of.entry(sample.thread).or_default() += sample.sum.bytes as f64;
    }
    let mut profile = with(seen, samples, None)?;
    profile.threads = bytes_of.into_iter().collect();
    profile.threads.sort_by(|left, right| right.1.total_cmp(&left.1));
    profile.measures = vec![Measure::Live];
    profile.comments.iter_mut().for_each(|comment| *comment += &format!(", heap {name}"));
    Ok(profile)
}

/// The samples of some heaps; of stacks nothing is known but these.
fn of_heaps(mut samples: Samples, heaps: &[u64]) -> Samples {
    samples.live.retain(|sample| heaps.contains(&sample.heap));
    for stack in &mut samples.stacks {
        (stack.allocated, stack.freed, stack.peak) = (Sum::default(), Sum::default(), None);
    }
    for sample in &samples.live {
        let Some(of) = samples.stacks.get_mut(sample.stack) else { continue };
        of.allocated.objects += sample.sum.objects;
        of.allocated.bytes = of.allocated.bytes.saturating_add(sample.sum.bytes);
    }
    Samples { keeps_peak: false, ..samples }
}

/// The same with an estimate of what each call site pins.
pub fn read_pinned(seen: &Seen) -> Result<Profile, String> {
    let snapshot = seen.snapshot()?;
    with(seen, seen.samples()?, Some(&snapshot.classes))
}

fn with(seen: &Seen, samples: Samples, classes: Option<&[Class]>) -> Result<Profile, String> {
    let mappings = mappings::of(&seen.process);
    let mut profile = of(&samples, classes);
    profile.mappings = mappings.map_err(|error| format!("does not tell what it has mapped: {error}"))?;
    profile.time = Some(SystemTime::now());
    let words = seen.process.command_line().unwrap_or_default();
    let words: Vec<String> = words.iter().map(|word| word.shown().printed()).collect();
    let command = if words.is_empty() { seen.name.printed() } else { words.join(" ") };
    profile.comments = vec![format!("{} {command}", seen.process.id)];
    Ok(profile)
}

fn of(samples: &Samples, classes: Option<&[Class]>) -> Profile {
    let mut sites: Vec<Site> = samples.stacks.iter().map(|of| site(of, samples.interval)).collect();
    sites.iter_mut().for_each(|site| site.live.variance = 0.0);
    for sample in &samples.live {
        let Some(site) = sites.get_mut(sample.stack) else { continue };
        // The chance of each is known, so the error is that of these very samples.
        let weight = sample.sum.bytes as f64;
        let chance = if weight > 0.0 { (sample.bytes as f64 / weight).min(1.0) } else { 1.0 };
        site.live.variance += weight * weight * (1.0 - chance);
    }
    if let Some(classes) = classes {
        pinned::add(&mut sites, samples, classes);
    }
    sites.retain(|site| site.allocated.objects > 0.0 || site.allocated.bytes > 0.0);
    let measures = Measure::ALL.into_iter().filter(|measure| match measure {
        Measure::Live | Measure::Allocated => true,
        Measure::Peak => samples.keeps_peak,
        Measure::Pinned => classes.is_some(),
    });
    Profile {
        sites,
        interval: samples.interval,
        dropped: samples.dropped,
        raised: samples.raised,
        torn: samples.torn.clone(),
        is_on: samples.is_on,
        measures: measures.collect(),
        ..Profile::default()
    }
}

fn site(of: &OfStack, interval: u64) -> Site {
    let amount = |sum: Sum| Amount::sampled(sum.objects, sum.bytes as f64, interval);
    // In a look that is torn a freed block may stand behind its own allocation.
    let live = Sum {
        objects: (of.allocated.objects - of.freed.objects).max(0.0),
        bytes: of.allocated.bytes.saturating_sub(of.freed.bytes),
    };
    Site {
        frames: of.frames.iter().map(|frame| frame.wrapping_sub(1)).collect(),
        live: amount(live),
        allocated: amount(of.allocated),
        peak: of.peak.map(amount).unwrap_or_default(),
        pinned: Amount::default(),
    }
}
