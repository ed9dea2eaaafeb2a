//! ceph.conf: sections, names in any spelling, variables in values.
//!
//! Follows the file's own rules: `osd journal size`, `osd-journal-size` and `osd_journal_size` are one name;
//! `[osd.3]` is stronger than `[osd]`, and that than `[global]`.

use super::Setting;
use std::collections::BTreeMap;
use std::path::Path;
use vcm_foreign::Shown;

/// The daemon or client that asks: decides which sections hold and what `$id` and the like stand for.
pub struct Asker<'a> {
    pub cluster: &'a str,
    /// `osd`, `mon`, `client`.
    pub kind: &'a str,
    pub id: &'a str,
}

/// The settings that the file has for this daemon.
pub fn read(text: &str, file: &Path, asker: &Asker) -> BTreeMap<String, Setting> {
    let own = format!("{}.{}", asker.kind, asker.id);
    let mut by_strength: [BTreeMap<String, Setting>; 3] = Default::default();
    let mut strength = None;
    for line in joined_lines(text) {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let section = section.trim().trim_matches('"');
            strength = ["global", asker.kind, &own].iter().position(|name| *name == section);
            continue;
        }
        let Some((name, value)) = line.split_once('=') else { continue };
        if let Some(set) = strength.and_then(|strength| by_strength.get_mut(strength)) {
            let value = expand(without_comment(value), asker).as_str().shown().printed();
            set.insert(
                normal(name).as_str().shown().printed(),
                Setting { value, origin: file.shown().to_string() },
            );
        }
    }
    let mut all = BTreeMap::new();
    by_strength.into_iter().for_each(|set| all.extend(set));
    all
}

/// A backslash at the end of a line continues it.
fn joined_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut continues = false;
    for line in text.lines() {
        let (part, more) = match line.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        match lines.last_mut() {
            Some(last) if continues => last.push_str(part),
            _ if line.trim_start().starts_with(['#', ';']) => continue,
            _ => lines.push(part.to_string()),
        }
        continues = more;
    }
    lines
}

fn without_comment(value: &str) -> &str {
    let end = value.find([';', '#']).unwrap_or(value.len());
    value.get(..end).unwrap_or(value).trim().trim_matches('"')
}

/// One spelling for a name.
pub fn normal(name: &str) -> String {
    name.split([' ', '-', '_', '\t']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}

pub fn expand(value: &str, asker: &Asker) -> String {
    let name = format!("{}.{}", asker.kind, asker.id);
    [("$cluster", asker.cluster), ("$type", asker.kind), ("$name", name.as_str()), ("$id", asker.id)]
        .into_iter()
        .fold(value.to_string(), |text, (variable, word)| {
            let braced = format!("${{{}}}", variable.trim_start_matches('$'));
            text.replace(&braced, word).replace(variable, word)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# a comment
[global]
osd journal size = 1024 ; small
debug-ms = 0/0
[osd]
osd_journal_size = 5120
osd data = /data/$cluster-${id}
long = one \\
  two
[osd.3]
osd  journal  size = 10240
[mon]
debug ms = 5
";

    fn get(kind: &str, id: &str, name: &str) -> Option<String> {
        let asker = Asker { cluster: "ceph", kind, id };
        read(FILE, Path::new("/etc/ceph/ceph.conf"), &asker).get(name).map(|set| set.value.clone())
    }

    #[test]
    fn the_closest_section_wins_and_spelling_does_not_matter() {
        assert_eq!(get("osd", "3", "osd_journal_size").as_deref(), Some("10240"));
        assert_eq!(get("osd", "4", "osd_journal_size").as_deref(), Some("5120"));
        assert_eq!(get("mon", "a", "osd_journal_size").as_deref(), Some("1024"));
        assert_eq!(get("mon", "a", "debug_ms").as_deref(), Some("5"));
        assert_eq!(get("osd", "4", "debug_ms").as_deref(), Some("0/0"));
    }

    #[test]
    fn variables_and_long_lines_are_read() {
        assert_eq!(get("osd", "3", "osd_data").as_deref(), Some("/data/ceph-3"));
        assert_eq!(get("osd", "3", "long").as_deref(), Some("one   two"));
    }
}
