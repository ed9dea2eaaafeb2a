//! The names of many daemons in few words.

/// From so many on neighbours are a range.
const RANGE: usize = 3;
/// More names than that are not listed one by one.
const MOST: usize = 6;

/// `osd.0 to osd.23, osd.30`; if that is still long, the first, the last and how many there are.
pub fn names<'a>(labels: impl IntoIterator<Item = &'a str>) -> String {
    let mut labels: Vec<&str> = labels.into_iter().collect();
    labels.sort_by_key(|label| {
        numbered(label).map_or(((*label).to_string(), 0), |(kind, number)| (kind.into(), number))
    });
    labels.dedup();
    let mut parts: Vec<String> = Vec::new();
    let mut rest: &[&str] = &labels;
    while let Some(first) = rest.first() {
        let length = rest
            .iter()
            .enumerate()
            .take_while(|(at, label)| follows(first, label, *at as u64))
            .count()
            .max(1);
        let (run, others) = rest.split_at(length);
        match run {
            [first, .., last] if run.len() >= RANGE => parts.push(format!("{first} to {last}")),
            _ => parts.extend(run.iter().map(ToString::to_string)),
        }
        rest = others;
    }
    match parts.as_slice() {
        [first, second, .., last] if parts.len() > MOST => {
            format!("{first}, {second} ... {last} ({} in all)", labels.len())
        }
        _ => parts.join(", "),
    }
}

/// Kind and number of `osd.3`.
fn numbered(label: &str) -> Option<(&str, u64)> {
    let (kind, number) = label.rsplit_once('.')?;
    Some((kind, number.parse().ok()?))
}

fn follows(first: &str, label: &str, by: u64) -> bool {
    let (Some((kind, from)), Some((other, number))) = (numbered(first), numbered(label)) else {
        return false;
    };
    kind == other && number.checked_sub(from) == Some(by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_a_range_and_long_lists_are_cut() {
        let osds: Vec<String> = (0..24).rev().map(|number| format!("osd.{number}")).collect();
        assert_eq!(names(osds.iter().map(String::as_str)), "osd.0 to osd.23");
        assert_eq!(names(["osd.10", "osd.9", "osd.3", "mon.a"]), "mon.a, osd.3, osd.9, osd.10");
        assert_eq!(names(["osd.1", "osd.2", "osd.3", "osd.7"]), "osd.1 to osd.3, osd.7");
        let odd: Vec<String> = (0..24).map(|number| format!("osd.{}", 2 * number)).collect();
        assert_eq!(names(odd.iter().map(String::as_str)), "osd.0, osd.2 ... osd.46 (24 in all)");
        assert_eq!(names(["glusterfsd /b/1", "glusterfsd /b/2"]), "glusterfsd /b/1, glusterfsd /b/2");
        assert_eq!((names([]), names(["x"])), (String::new(), "x".into()));
    }
}
