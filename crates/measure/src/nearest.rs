//! The names that may have been meant by one that does not exist.

/// `; did you mean 'x'?`, and all names.
pub fn suggestion<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    format!("{} There are: {}", question(typed, names.iter().copied()), names.join(", "))
}

/// `; did you mean 'x'?`, or the end of the sentence where no name is near.
pub fn question<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> String {
    let near = names.map(|name| (strsim::jaro_winkler(typed, name), name));
    let best = near.max_by(|one, other| one.0.total_cmp(&other.0)).filter(|best| best.0 > 0.7);
    best.map_or_else(|| ".".to_owned(), |(_, name)| format!("; did you mean '{name}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_suggested_and_a_far_one_is_not() {
        let names = || ["detach", "multiplex", "pools"].into_iter();
        assert!(suggestion("detatch", names()).contains("did you mean 'detach'"));
        assert!(!suggestion("qqq", names()).contains("did you mean"));
        assert!(suggestion("qqq", names()).contains("detach, multiplex, pools"));
    }
}
