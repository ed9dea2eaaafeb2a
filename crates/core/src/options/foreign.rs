//! Variables of gperftools that mean something here: some are an option under another name (`alias` in its
//! declaration), the others below say the same in another unit and are translated.

use super::{OptionId, Options, Origin, Refused, find_alias, spec};
use crate::base::text::{Buffer, Sink, put_decimal, put_str};
use crate::options::BadValue;

/// A variable and the option that it sets. One variable may set several.
pub struct Foreign {
    pub variable: &'static str,
    pub option: OptionId,
    translate: fn(&[u8], &mut dyn Sink) -> Translation,
}

enum Translation {
    /// The option's value was written.
    Written,
    /// With this value the variable says nothing about the option.
    Silent,
    Unreadable,
}
use Translation::{Silent, Unreadable, Written};

const fn foreign(
    variable: &'static str,
    option: OptionId,
    translate: fn(&[u8], &mut dyn Sink) -> Translation,
) -> Foreign {
    Foreign { variable, option, translate }
}

pub static FOREIGN: [Foreign; 9] = [
    foreign("TCMALLOC_RELEASE_RATE", OptionId::release_delay, delay_of_rate),
    foreign("TCMALLOC_RELEASE_RATE", OptionId::retain, retain_of_rate),
    foreign("TCMALLOC_DISABLE_MEMORY_RELEASE", OptionId::release_delay, |text, sink| when(text, sink, "1h")),
    foreign("TCMALLOC_DISABLE_MEMORY_RELEASE", OptionId::retain, |text, sink| when(text, sink, "1T")),
    foreign("TCMALLOC_AGGRESSIVE_DECOMMIT", OptionId::retain, |text, sink| when(text, sink, "0")),
    foreign("TCMALLOC_HEAP_LIMIT_MB", OptionId::hard_limit, bytes_of_megabytes),
    foreign("TCMALLOC_SAMPLE_PARAMETER", OptionId::sample_interval, |text, sink| sampled(text, sink, None)),
    foreign("TCMALLOC_SAMPLE_PARAMETER", OptionId::profile, |text, sink| sampled(text, sink, Some("on"))),
    foreign("MALLOCSTATS", OptionId::stats_at_exit, |text, sink| when(text, sink, "on")),
];

/// The options that a variable of another allocator sets.
pub fn set_by(variable: &[u8]) -> impl Iterator<Item = OptionId> {
    let translated = FOREIGN.iter().filter(move |foreign| foreign.variable.as_bytes() == variable);
    find_alias(variable).into_iter().chain(translated.map(|foreign| foreign.option))
}

impl Options {
    /// Takes a variable of another allocator; none where it means nothing here.
    pub fn set_foreign(&self, variable: &[u8], text: &[u8]) -> Option<Result<(), Refused>> {
        if let Some(id) = find_alias(variable) {
            return Some(self.set(spec(id).name.as_bytes(), text, Origin::Alias).map(drop));
        }
        let mut outcome = None;
        for foreign in FOREIGN.iter().filter(|foreign| foreign.variable.as_bytes() == variable) {
            let taken = self.set_translated(foreign, text);
            outcome = Some(outcome.unwrap_or(Ok(())).and(taken));
        }
        outcome
    }

    fn set_translated(&self, foreign: &Foreign, text: &[u8]) -> Result<(), Refused> {
        let mut bytes = [0u8; 32];
        let mut value = Buffer::new(&mut bytes);
        match (foreign.translate)(text, &mut value) {
            Written => {
                self.set(spec(foreign.option).name.as_bytes(), value.as_bytes(), Origin::Alias).map(drop)
            }
            Silent => Ok(()),
            Unreadable => Err(Refused::BadValue(BadValue::NotOfKind)),
        }
    }
}

/// gperftools takes these letters for yes, and everything else for no.
fn when(text: &[u8], sink: &mut dyn Sink, value: &str) -> Translation {
    match text.first() {
        Some(b't' | b'T' | b'y' | b'Y' | b'1') => {
            put_str(sink, value);
            Written
        }
        _ => Silent,
    }
}

fn bytes_of_megabytes(text: &[u8], sink: &mut dyn Sink) -> Translation {
    match millionths(text) {
        Some(0) => Silent,
        Some(number) => {
            put_decimal(sink, number / MILLION);
            put_str(sink, "M");
            Written
        }
        None => Unreadable,
    }
}

/// Bytes between samples; 0 takes none, which is what happens without the variable.
fn sampled(text: &[u8], sink: &mut dyn Sink, value: Option<&str>) -> Translation {
    match millionths(text) {
        Some(0) => Silent,
        Some(number) => {
            match value {
                Some(value) => put_str(sink, value),
                None => put_decimal(sink, number / MILLION),
            }
            Written
        }
        None => Unreadable,
    }
}

const MILLION: u64 = 1_000_000;

/// Rate 1 is a delay of one second, rate 10 a tenth of that, rate 0 or less never.
fn delay_of_rate(text: &[u8], sink: &mut dyn Sink) -> Translation {
    let Some(rate) = millionths(text) else { return Unreadable };
    let milliseconds = (1000 * MILLION).checked_div(rate).unwrap_or(u64::MAX);
    put_decimal(sink, milliseconds.clamp(10, 3_600_000));
    put_str(sink, "ms");
    Written
}

fn retain_of_rate(text: &[u8], sink: &mut dyn Sink) -> Translation {
    match millionths(text) {
        Some(0) => {
            put_str(sink, "1T");
            Written
        }
        Some(_) => Silent,
        None => Unreadable,
    }
}

/// A decimal number in millionths; 0 for a negative one.
fn millionths(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let (mut value, mut scale, mut any) = (0u64, 0, false);
    for byte in digits {
        match byte {
            b'0'..=b'9' if scale == 7 => any = true,
            b'0'..=b'9' => {
                value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
                scale += u32::from(scale > 0);
                any = true;
            }
            b'.' if scale == 0 => scale = 1,
            _ => return None,
        }
    }
    if !any {
        return None;
    }
    let missing = if scale == 0 { 6 } else { 7 - scale };
    let value = value.checked_mul(10u64.pow(missing))?;
    Some(if digits.len() == text.len() { value } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(variable: &str, text: &str) -> Options {
        let options = Options::new();
        assert_eq!(options.set_foreign(variable.as_bytes(), text.as_bytes()), Some(Ok(())), "{variable}");
        options
    }

    #[test]
    fn decimal_numbers_are_read_in_millionths() {
        let known: [(&str, Option<u64>); 10] = [
            ("1", Some(MILLION)),
            ("0", Some(0)),
            ("0.5", Some(500_000)),
            ("10.25", Some(10_250_000)),
            (".1", Some(100_000)),
            ("1.", Some(MILLION)),
            ("0.12345678", Some(123_456)),
            ("-3", Some(0)),
            ("", None),
            ("1e3", None),
        ];
        for (text, value) in known {
            assert_eq!(millionths(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn a_release_rate_is_a_delay() {
        let delay = |text| after("TCMALLOC_RELEASE_RATE", text).get(OptionId::release_delay) / MILLION;
        assert_eq!(["1", "10", "0.5", "1000000", "0"].map(delay), [1000, 100, 2000, 10, 3_600_000]);
        assert_eq!(after("TCMALLOC_RELEASE_RATE", "0").get(OptionId::retain), 1 << 40, "0 means never");
        let options = after("TCMALLOC_RELEASE_RATE", "5");
        assert_eq!(options.origin(OptionId::retain), Origin::Default, "a rate says nothing about amounts");
        assert_eq!(options.origin(OptionId::release_delay), Origin::Alias);
    }

    #[test]
    fn flags_and_megabytes_are_translated() {
        assert_eq!(after("TCMALLOC_AGGRESSIVE_DECOMMIT", "true").get(OptionId::retain), 0);
        assert_ne!(after("TCMALLOC_AGGRESSIVE_DECOMMIT", "0").get(OptionId::retain), 0);
        assert_eq!(after("TCMALLOC_HEAP_LIMIT_MB", "300").get(OptionId::hard_limit), 300 << 20);
        assert_eq!(
            after("TCMALLOC_HEAP_LIMIT_MB", "0").origin(OptionId::hard_limit),
            Origin::Default,
            "0 is no limit"
        );
        let sampled = after("TCMALLOC_SAMPLE_PARAMETER", "4096");
        assert_eq!((sampled.get(OptionId::sample_interval), sampled.is_on(OptionId::profile)), (4096, true));
        assert!(!after("TCMALLOC_SAMPLE_PARAMETER", "0").is_on(OptionId::profile));
        assert!(after("MALLOCSTATS", "1").is_on(OptionId::stats_at_exit));
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_what_means_nothing_is_left_alone() {
        let options = Options::new();
        assert!(matches!(options.set_foreign(b"TCMALLOC_RELEASE_RATE", b"fast"), Some(Err(_))));
        assert_eq!(options.set_foreign(b"TCMALLOC_SKIP_SBRK", b"1"), None);
        assert_eq!(set_by(b"TCMALLOC_RELEASE_RATE").count(), 2);
        assert_eq!(set_by(b"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES").count(), 1);
    }
}
