//! Bytes as a reader takes them in at a glance.

const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// Three digits or four: `1.23 GiB`, `512 B`.
pub fn amount(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, 0);
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
    format!("{value:.decimals$} {}", UNITS.get(unit).copied().unwrap_or(""))
}

/// The same with a sign, for what was added or taken; `0` where nothing was.
pub fn change(bytes: u64) -> String {
    if bytes == 0 { "0".into() } else { format!("+{}", amount(bytes)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_digits_and_never_more_than_eight_characters() {
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
        assert_eq!((change(0), change(2048)), ("0".to_string(), "+2.00 KiB".to_string()));
    }
}
