//! docs/reference/doctor.md: the page around the list of checks is here, so that it cannot go out of date.

use super::check::Check;
use std::fmt::Write;

const HEAD: &str = include_str!("reference.md");

pub fn page(checks: &[&Check]) -> String {
    let mut page = HEAD.to_string();
    for check in checks {
        // Writing to a String cannot fail.
        let _ = write!(
            page,
            "\n### {}\n\n*{}.* Looks for {}.\n\n{}\n\nSource: {}.\n",
            check.id,
            check.severity.name(),
            check.looks_for,
            check.why,
            source(check)
        );
    }
    page
}

fn source(check: &Check) -> String {
    let (name, url) = (check.source.name, check.source.url);
    match (url.strip_prefix("docs/"), url.starts_with("results/")) {
        (Some(path), _) => format!("[{name}](../{path})"),
        (None, true) => format!("[{name}](../../{url})"),
        (None, false) => format!("[{name}]({url})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_page_in_the_repository_is_up_to_date() {
        crate::reference_page::compare_or_renew("doctor.md", &page(&super::super::checks::ALL));
    }
}
