//! Numbers as a reader takes them in. A unit is a word: `B`, `s` and `us` are shown as what fits, others as they are.

const KIB: f64 = 1024.0;
const MIB: f64 = KIB * KIB;
const GIB: f64 = MIB * KIB;

/// A number with its unit, where that tells more than the heading does.
pub fn shown(value: f64, unit: &str) -> String {
    match unit {
        "B" if value.abs() >= GIB => format!("{:.2} GiB", value / GIB),
        "B" if value.abs() >= 0.1 * MIB || value == 0.0 => format!("{:.1} MiB", value / MIB),
        "B" => format!("{:.1} KiB", value / KIB),
        "us" if value >= 1e4 => format!("{:.1} ms", value / 1e3),
        "us" => format!("{value:.1} us"),
        "s" => format!("{value:.3} s"),
        _ if value.abs() >= 100.0 => grouped(value.round()),
        _ => format!("{value:.3}"),
    }
}

const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// Bytes in three digits or four, with a sign where something went: `1.23 GiB`, `-512 B`.
pub fn bytes(bytes: f64) -> String {
    let (mut value, mut unit) = (bytes.abs(), 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    let sign = if bytes < 0.0 && value >= 0.5 { "-" } else { "" };
    format!("{sign}{value:.decimals$} {}", UNITS.get(unit).copied().unwrap_or(""))
}

pub fn amount(count: u64) -> String {
    bytes(count as f64)
}

/// An amount with a sign, for what was added or taken; `0` where nothing was.
pub fn change(count: u64) -> String {
    if count == 0 { "0".into() } else { format!("+{}", amount(count)) }
}

pub fn share(part: f64, whole: f64) -> String {
    let percent = if whole.abs() > 0.0 { part / whole * 100.0 } else { 0.0 };
    // Two like "-0.0" and "0.0" are one.
    format!("{:.1} %", if percent.abs() < 0.05 { 0.0 } else { percent })
}

/// `1,234,567`
pub fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::from(if number < 0.0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The divisor of the numbers of an axis, and the unit that they have then.
pub(crate) fn of_axis(most: f64, unit: &str) -> (f64, String) {
    let found = match unit {
        "B" if most >= 4.0 * GIB => (GIB, "GiB"),
        "B" if most >= 0.5 * MIB => (MIB, "MiB"),
        "B" if most >= 4.0 * KIB => (KIB, "KiB"),
        "B" => (1.0, "bytes"),
        "us" if most >= 1e4 => (1e3, "ms"),
        "s" if most >= 7200.0 => (3600.0, "hours"),
        "s" if most < 0.5 => (1e-3, "ms"),
        unit => (1.0, unit),
    };
    (found.0, found.1.to_owned())
}

/// Of a mark at an axis to `most` whose marks are `step` apart: as few digits as tell them apart.
pub(crate) fn mark(value: f64, step: f64, most: f64) -> String {
    let (divisor, suffix) = [(1e9, "G"), (1e6, "M"), (1e3, "k")]
        .into_iter()
        .find(|(divisor, _)| most.abs() >= *divisor * 2.0 && step * 50.0 >= *divisor)
        .unwrap_or((1.0, ""));
    let digits = (-(step / divisor * 1.000_001).log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{:.digits$}", value / divisor);
    if value == 0.0 { "0".to_owned() } else { text + suffix }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units_that_fit() {
        assert_eq!(shown(1_234_567.0, "ops/s"), "1,234,567");
        assert_eq!(shown(1.5 * MIB, "B"), "1.5 MiB");
        assert_eq!(shown(2048.0, "B"), "2.0 KiB");
        assert_eq!(shown(12_345.0, "us"), "12.3 ms");
        assert_eq!(grouped(-1234.0), "-1,234");
    }

    #[test]
    fn amounts_have_three_digits_at_most_eight_characters_and_a_sign_where_something_went() {
        let shown = [0, 512, 1000, 1024, 10 << 10, 1023 << 10, 1 << 20, 1234 << 20, u64::MAX].map(amount);
        let expected = [
            "0 B",
            "512 B",
            "0.98 KiB",
            "1.00 KiB",
            "10.0 KiB",
            "1.00 MiB",
            "1.00 MiB",
            "1.21 GiB",
            "16384 PiB",
        ];
        assert_eq!(shown, expected);
        assert_eq!([512.4, -3.0 * MIB, -0.2].map(bytes), ["512 B", "-3.00 MiB", "0 B"]);
        assert_eq!((change(0), change(2048)), ("0".to_string(), "+2.00 KiB".to_string()));
        assert_eq!([share(1.0, 3.0), share(1.0, 0.0), share(-0.0001, 1.0)], ["33.3 %", "0.0 %", "0.0 %"]);
    }

    #[test]
    fn marks_have_as_many_digits_as_tell_them_apart() {
        let marks = |values: &[f64], step: f64| {
            let most = values.iter().copied().fold(0.0, f64::max);
            values.iter().map(|value| mark(*value, step, most)).collect::<Vec<_>>()
        };
        assert_eq!(marks(&[0.0, 0.5, 1.0], 0.5), ["0", "0.5", "1.0"]);
        assert_eq!(marks(&[0.0, 50_000.0, 100_000.0], 50_000.0), ["0", "50k", "100k"]);
        assert_eq!(marks(&[2_000_000.0, 2_200_000.0], 200_000.0), ["2.0M", "2.2M"]);
        assert_eq!(marks(&[20.0, 40.0, 60.0], 20.0), ["20", "40", "60"]);
        assert_eq!(marks(&[0.02], 0.02), ["0.02"]);
    }
}
