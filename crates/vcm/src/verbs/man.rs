//! `vcm man --dir FOLDER`: the manual pages, made from the command line's own description.

use crate::cli::{Cli, Man};
use crate::say::{FAILURE, Failure, Outcome};
use clap::{Command, CommandFactory};
use std::fs;
use std::io;
use std::path::Path;

pub fn man(arguments: &Man) -> Outcome {
    write_pages(&arguments.dir)
        .map_err(|error| Failure::new(FAILURE, format!("{}: {error}", arguments.dir.display())))?;
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
    let tool = Cli::command();
    let mut pages = vec![("vcm.1".to_string(), page(tool.clone())?)];
    for verb in tool.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = format!("vcm-{}", verb.get_name());
        let command = verb.clone().name(name.clone()).bin_name(format!("vcm {}", verb.get_name()));
        let command = command.version(env!("CARGO_PKG_VERSION"));
        pages.push((format!("{name}.1"), page(command)?));
    }
    Ok(pages)
}

fn page(command: Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_in_the_repository_are_up_to_date() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../man");
        for (name, page) in pages().unwrap() {
            let kept = fs::read(folder.join(&name)).unwrap_or_default();
            assert!(kept == page, "man/{name} is outdated; renew it: cargo run -p vcm -- man --dir man");
        }
    }
}
