//! `vcm man --dir FOLDER`: the manual pages, made from the command line's own description.

use crate::cli::{Cli, Man};
use crate::config_file::{CONFIG_VARIABLE, default_path};
use crate::settings::PROOF_VARIABLE;
use clap::{Command, CommandFactory};
use std::fs;
use std::io;
use std::path::Path;
use vcm_foreign::Shown;
use vcm_front::library::LIBRARY_VARIABLE;
use vcm_front::manual::{note, page, section};
use vcm_front::say::{FAILURE, Failure, Outcome};

pub fn man(arguments: &Man) -> Outcome {
    write_pages(&arguments.dir)
        .map_err(|error| Failure::new(FAILURE, format!("{}: {error}", arguments.dir.shown())))?;
    Ok(0)
}

fn write_pages(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, page) in pages()? {
        fs::write(folder.join(name), page)?;
    }
    Ok(())
}

/// The name and the text of each page: one for the tool, one for each verb that is not hidden.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    // The pages are in the repository: a commit's own hash cannot be in a file of it.
    let tool = Cli::command().version(env!("CARGO_PKG_VERSION"));
    // `vcm help` has no page of its own.
    let whole = page(tool.clone().disable_help_subcommand(true), &[files(), environment(), see_also(&tool)])?;
    let mut pages = vec![("vcm.1".to_string(), whole)];
    // `vcm-lab` is a program with a page of its own.
    for verb in tool.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "lab") {
        let name = format!("vcm-{}", verb.get_name());
        let command = verb.clone().name(name.clone()).bin_name(format!("vcm {}", verb.get_name()));
        // For the page's foot; only the tool itself takes --version.
        let command = command.version(env!("CARGO_PKG_VERSION")).disable_version_flag(true);
        pages.push((format!("{name}.1"), page(command, &[])?));
    }
    Ok(pages)
}

fn files() -> String {
    let config_file = default_path().shown().to_string();
    let entries = [
        (
            config_file.as_str(),
            "The config file, unless VCM_CONFIG names another: lines 'name = value'; '#' begins a comment. Lines \
             before the first section apply to every program, '[program]' begins the section of one, '[*]' \
             begins one for every program again. The kernel cuts a program's name to 15 bytes; a section may \
             give these or \
             the whole name. Whole lines within 8,191 bytes of the file are read.",
        ),
        (
            "/etc/systemd/system/UNIT.service.d/vcmalloc.conf",
            "What 'vcm enable UNIT' writes and 'vcm disable UNIT' removes.",
        ),
        (
            "/usr/local/lib/libvcmalloc.so.0, libvcmalloc-hardened.so.0, vcmalloc/libtcmalloc*.so.4",
            "The libraries that are preloaded, as installed by 'make install'; packages install them below \
             /usr/lib.",
        ),
    ];
    section("FILES", &entries)
}

fn environment() -> String {
    let entries = [
        (
            "VCM_<NAME>",
            "The option of this name, as in VCM_CACHE_LIMIT=64M; 'vcm config' lists them, and the equivalent \
             variables of other allocators.",
        ),
        (CONFIG_VARIABLE, "Another config file."),
        (LIBRARY_VARIABLE, "The library that vcm preloads: a file, not a folder."),
        ("LD_PRELOAD", "'vcm run' puts the library before its entries."),
        (PROOF_VARIABLE, "Set by 'vcm run', for the library's report to it. Do not set it yourself."),
    ];
    section("ENVIRONMENT", &entries)
}

fn see_also(tool: &Command) -> String {
    let verbs = tool.get_subcommands().filter(|verb| !verb.is_hide_set());
    let pages: Vec<String> = verbs.map(|verb| format!("vcm-{}(1)", verb.get_name())).collect();
    let text = format!("{}, ld.so(8), systemd.unit(5)", pages.join(", "));
    note("SEE ALSO", &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_refers_to_no_page_and_no_flag_that_is_not_there() {
        let pages = pages().unwrap();
        for (name, page) in &pages {
            let page = String::from_utf8_lossy(page).replace('\\', "");
            for word in
                page.split([' ', '\n', ',']).filter(|word| word.starts_with("vcm") && word.ends_with("(1)"))
            {
                let wanted = word.replace("(1)", ".1");
                let is_there = pages.iter().any(|(other, _)| *other == wanted);
                assert!(is_there || wanted == "vcm-lab.1", "{name}: {word}");
            }
            assert_eq!(page.contains("--version"), name == "vcm.1", "{name}");
        }
        let run = pages.iter().find(|(name, _)| name == "vcm-run.1").unwrap();
        assert!(String::from_utf8_lossy(&run.1).contains("vcm run [OPTIONS] \\-\\- COMMAND [ARG]...\\fR"));
    }

    #[test]
    fn the_pages_in_the_repository_are_up_to_date() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../man");
        for (name, page) in pages().unwrap() {
            let kept = fs::read(folder.join(&name)).unwrap_or_default();
            assert!(kept == page, "man/{name} is outdated; renew it: cargo run -p vcm -- man --dir man");
        }
    }
}
