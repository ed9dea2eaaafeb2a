//! docs/reference/options.md, made from the declaration of the options.

use super::list::{Entry, entries};
use std::fmt::Write;

const HEAD: &str = "\
<!-- Made by `RENEW_GOLDEN=1 cargo test -p vcm --bin vcm reference_page`; do not edit. -->
# Options

An option is set, strongest first:

1. through the C API while the program runs, `vcm_option_set`: only those that are *live*;
2. by its environment variable, `VCM_` and its name in capitals;
3. by a variable of another allocator that means the same (its *alias*; where it counts in other units it is
   translated, see [the stand-in for TCMalloc](tcmalloc.md));
4. in the program's section of the config file, `/etc/vcmalloc.conf` or the file that `VCM_CONFIG` names;
5. in the config file before the first section, for every program.

`vcm run --option NAME=VALUE -- COMMAND` and its long flags set the environment variable for one command. A
wrong name or value is reported on stderr and changes nothing. Programs that gain privileges (setuid) read
none of these.

Byte counts take `K`, `M`, `G`, `T` (powers of 1,024); durations take `us`, `ms`, `s`, `min`, `h`, and count
seconds without a unit; flags take `on` and `off`; a path begins with `/` and has at most 254 bytes and no control characters.

```
# /etc/vcmalloc.conf
name = value            # for every program

[ceph-osd]              # for the program of this name
name = value

[*]                     # for every program again
name = value
```

`#` begins a comment. The kernel cuts a program's name to 15 bytes; a section may give these 15 or the whole name. Of a file
longer than 8,191 bytes the whole lines within these are read, and it is reported. `vcm config --file FILE --program NAME` shows what a
program gets from a file, and reports what it would not take, with the line.

";

pub fn page() -> String {
    let mut page = HEAD.to_string();
    // Writing to a String cannot fail.
    let _ = writeln!(page, "| option | default | values | change | meaning |\n|---|---|---|---|---|");
    for entry in entries() {
        let _ = writeln!(
            page,
            "| [`{0}`](#{0}) | `{1}` | {2} | {3} | {4} |",
            entry.name,
            entry.default,
            cell(&entry.range),
            entry.when(),
            cell(entry.meaning)
        );
    }
    for entry in entries() {
        put_section(&mut page, &entry);
    }
    page
}

fn put_section(page: &mut String, entry: &Entry) {
    let aliases: Vec<String> = entry.foreign().map(|alias| format!("`{alias}`")).collect();
    let alias = if aliases.is_empty() { "none".to_string() } else { aliases.join(", ") };
    let _ = write!(
        page,
        "\n## {}\n\n{}.\n\n- kind: {}; values: {}; default: `{}`\n- change: {}\n- variable: `{}`; alias: \
         {alias}\n- \
         `vcm run --{} {} -- COMMAND`\n",
        entry.name,
        sentence(entry.meaning),
        entry.kind,
        entry.range,
        entry.default,
        entry.when(),
        entry.variable,
        entry.name.replace('_', "-"),
        entry.default,
    );
}

fn sentence(text: &str) -> String {
    let mut letters = text.trim_end_matches('.').chars();
    // A sentence that starts with a value ("auto: ...") keeps it as it is written.
    let starts_with_value = text.split_whitespace().next().is_some_and(|word| word.ends_with(':'));
    match letters.next() {
        Some(first) if !starts_with_value => first.to_uppercase().chain(letters).collect(),
        _ => text.trim_end_matches('.').to_string(),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_page_in_the_repository_is_up_to_date() {
        crate::reference_page::compare_or_renew("options.md", &page());
    }

    #[test]
    fn every_option_has_a_row_and_a_section() {
        let page = page();
        for entry in entries() {
            assert!(page.contains(&format!("| [`{0}`](#{0}) |", entry.name)));
            assert!(page.contains(&format!("\n## {}\n", entry.name)));
        }
    }
}
