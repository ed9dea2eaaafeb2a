//! Bytes and shares as a reader takes them in at a glance.

const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// Three digits or four, with a sign where something went: `1.23 GiB`, `-512 B`.
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

pub fn share(part: f64, whole: f64) -> String {
    let percent = if whole.abs() > 0.0 { part / whole * 100.0 } else { 0.0 };
    // Two like "-0.0" and "0.0" are one.
    format!("{:.1} %", if percent.abs() < 0.05 { 0.0 } else { percent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_digits_and_a_sign_where_something_went() {
        let shown = [0.0, 512.4, 1000.0, 10240.0, -3.0 * 1048576.0, -0.2].map(bytes);
        assert_eq!(shown, ["0 B", "512 B", "0.98 KiB", "10.0 KiB", "-3.00 MiB", "0 B"]);
        assert_eq!([share(1.0, 3.0), share(1.0, 0.0), share(-0.0001, 1.0)], ["33.3 %", "0.0 %", "0.0 %"]);
    }
}
