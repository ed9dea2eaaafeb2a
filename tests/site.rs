//! The documentation as a web site, where `make site` has built it: all pages are there, and each local link and picture leads to a file
//! of the site and to a heading in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use vcmalloc_tests::library::{repository, target_directory};

/// The site, if it is built and of the pages that the tree has today.
fn site() -> Option<PathBuf> {
    let site = target_directory().join("site");
    let contents = fs::read_to_string(site.join("pages/SUMMARY.md")).ok()?;
    let pages = pages_of_the_tree()?;
    let listed: BTreeSet<String> = chapters(&contents).into_iter().collect();
    (listed == pages && site.join("html/index.html").exists()).then_some(site)
}

/// The pages that the site has to have: all but forms of the host and parts of other pages.
fn pages_of_the_tree() -> Option<BTreeSet<String>> {
    let output = Command::new("git").args(["ls-files", "*.md"]).current_dir(repository()).output().ok()?;
    let parts = [".github/", "crates/vcm/src/", "tests/kernels/"];
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let kept = names.lines().filter(|page| !parts.iter().any(|part| page.starts_with(part)));
    Some(kept.map(str::to_owned).collect())
}

fn chapters(contents: &str) -> Vec<String> {
    contents
        .lines()
        .filter_map(|line| line.rsplit_once("](")?.1.strip_suffix(')'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_built_site_has_every_page_and_each_link_in_it_leads_somewhere() {
    let Some(site) = site() else {
        return vcmalloc_tests::skip!("no site of today's pages is built ('make site' makes it)");
    };
    let html = site.join("html");
    let mut files = Vec::new();
    walk(&html, &mut files);
    let texts: BTreeMap<PathBuf, String> = files
        .iter()
        .filter(|file| file.extension().is_some_and(|kind| kind == "html"))
        .map(|file| (file.clone(), fs::read_to_string(file).expect("a page")))
        .collect();
    let pages = pages_of_the_tree().expect("pages");
    for page in &pages {
        assert!(texts.contains_key(&html.join(page).with_extension("html")), "{page} is not in the site");
    }
    assert!(
        pages.len() > 200 && texts.len() >= pages.len(),
        "{} pages, {} of HTML",
        pages.len(),
        texts.len()
    );
    let names: BTreeMap<&PathBuf, BTreeSet<&str>> =
        texts.iter().map(|(file, text)| (file, attributes(text, "id").collect())).collect();
    let mut broken = BTreeSet::new();
    // The page for missing pages has the addresses of a site at the root of a host.
    for (file, text) in texts.iter().filter(|(file, _)| !file.ends_with("404.html")) {
        for link in attributes(text, "href").chain(attributes(text, "src")) {
            let Some((target, heading)) = local(file, link) else { continue };
            let leads = target.is_file()
                && heading
                    .is_none_or(|of| names.get(&target).is_none_or(|names| names.contains(of.as_str())));
            if !leads {
                broken.insert(format!("{}: {link}", file.strip_prefix(&html).unwrap_or(file).display()));
            }
        }
    }
    let shown: Vec<&str> = broken.iter().take(40).map(String::as_str).collect();
    assert!(broken.is_empty(), "{} links lead nowhere:\n{}", broken.len(), shown.join("\n"));
}

#[test]
fn links_of_html_are_found_and_those_to_other_hosts_are_not_followed() {
    let text =
        "<a href=\"a.html#b-c\">x</a> <img src=\"p%20q.svg\" id=\"i\"> href = <a href=\"https://a.b\">";
    let links: Vec<&str> = attributes(text, "href").chain(attributes(text, "src")).collect();
    assert_eq!(links, ["a.html#b-c", "https://a.b", "p%20q.svg"]);
    let page = Path::new("/s/d/x.html");
    assert_eq!(local(page, "../a.html#b-c"), Some(("/s/a.html".into(), Some("b-c".to_owned()))));
    assert_eq!(local(page, "#b"), Some(("/s/d/x.html".into(), Some("b".to_owned()))));
    assert_eq!(local(page, "p%20q.svg"), Some(("/s/d/p q.svg".into(), None)));
    assert_eq!(local(page, "https://a.b"), None);
    assert_eq!(chapters("# Summary\n\n[a](b.md)\n  - [c \\[d\\]](e/f.md)\n"), ["b.md", "e/f.md"]);
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the site").flatten() {
        let path = entry.path();
        if path.is_dir() { walk(&path, found) } else { found.push(path) }
    }
}

/// The values of an attribute, as mdBook writes them: in double quotes.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let head = format!(" {name}=\"");
    let starts: Vec<usize> = text.match_indices(&head).map(|(at, _)| at + head.len()).collect();
    starts.into_iter().filter_map(move |at| text[at..].split('"').next())
}

/// The file that a link leads to and the heading in it; nothing for another host or a scheme.
fn local(page: &Path, link: &str) -> Option<(PathBuf, Option<String>)> {
    if link.contains("://")
        || ["mailto:", "data:", "javascript:"].iter().any(|scheme| link.starts_with(scheme))
    {
        return None;
    }
    let (file, heading) = link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
    let file = file.split('?').next().unwrap_or_default();
    let heading = heading.filter(|heading| !heading.is_empty()).map(plain);
    if file.is_empty() {
        return Some((page.to_owned(), heading));
    }
    let mut target = page.parent()?.to_owned();
    for part in Path::new(&plain(file)).components() {
        match part {
            Component::ParentDir => drop(target.pop()),
            Component::CurDir => {}
            part => target.push(part),
        }
    }
    Some((target, heading))
}

/// Without the escapes of addresses and of HTML.
fn plain(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let escaped = (byte == b'%').then(|| rest.clone().take(2).collect::<Vec<u8>>());
        let code = escaped.and_then(|digits| u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest.nth(1);
            }
            None => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).replace("&amp;", "&").replace("&#x27;", "'").replace("&quot;", "\"")
}
