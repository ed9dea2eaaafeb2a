//! Programs that are linked with gperftools' library under each of its names, and under several at once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use vcmalloc_tests::{Finished, Ground, compile, library, run};

use super::{On, symbols};

const NAMES: [&str; 5] = [
    "libtcmalloc.so.4",
    "libtcmalloc_minimal.so.4",
    "libtcmalloc_and_profiler.so.4",
    "libtcmalloc_debug.so.4",
    "libtcmalloc_minimal_debug.so.4",
];
const TIME: Duration = Duration::from_secs(60);

/// The program, linked with libraries of these names.
fn linked_with(names: &[&str]) -> Result<PathBuf, String> {
    let source = library::repository().join("tests/tcmalloc/names.cc");
    // The program's file is called as its source is.
    let stem = names.join("+").replace(".so.4", "");
    let copy = library::work_directory("names").join(format!("{stem}.cc"));
    let text = std::fs::read_to_string(&source).map_err(|error| error.to_string())?;
    if std::fs::read_to_string(&copy).ok().as_ref() != Some(&text) {
        std::fs::write(&copy, text).map_err(|error| error.to_string())?;
    }
    let folder = source.parent().unwrap_or(&source).display().to_string();
    let mut flags = vec![format!("-I{folder}"), "-Wl,--no-as-needed".into()];
    flags.extend(names.iter().map(|name| format!("-l:{name}")));
    compile::program(&copy, Ground::Glibc, &flags)
}

fn is_on_ours(mut command: Command) -> Result<(), String> {
    let finished: Finished = run(&mut command, TIME)?;
    finished.succeeded()?;
    match finished.text().contains("vcmalloc") && finished.complaints.is_empty() {
        true => Ok(()),
        false => Err(format!("{}{}", finished.text(), finished.complaints)),
    }
}

fn prepared(program: &Path) -> Result<Command, String> {
    let mut command = Command::new(program);
    Ground::Glibc.prepare(&mut command)?;
    Ok(command)
}

/// One file after the other: by a preload, by the loader's own search, by `vcm run`.
pub fn each() -> Result<(), String> {
    let folder = library::stand_ins()?;
    for name in NAMES {
        let program = linked_with(&[name])?;
        run(&mut prepared(&program)?, TIME)?.succeeded()?;
        let mut preloaded = prepared(&program)?;
        preloaded.env("LD_PRELOAD", folder.join(name));
        let mut found = prepared(&program)?;
        found.env("LD_LIBRARY_PATH", &folder);
        let mut by_tool = prepared(&library::tool()?)?;
        by_tool.args(["run", "--strict", "--"]).arg(&program).env("VCM_LIBRARY", library::our_shared()?);
        for (how, command) in [("preload", preloaded), ("search", found), ("vcm run", by_tool)] {
            is_on_ours(command).map_err(|error| format!("{name} by {how}: {error}"))?;
        }
    }
    Ok(())
}

/// All files are loaded, the first serves: one heap, one janitor.
pub fn several() -> Result<(), String> {
    let folder = library::stand_ins()?;
    let program = linked_with(&["libtcmalloc_minimal.so.4", "libtcmalloc.so.4", "libtcmalloc_debug.so.4"])?;
    let mut found = prepared(&program)?;
    found.env("LD_LIBRARY_PATH", &folder);
    let mut by_tool = prepared(&library::tool()?)?;
    by_tool.args(["run", "--strict", "--"]).arg(&program).env("VCM_LIBRARY", library::our_shared()?);
    is_on_ours(found).map_err(|error| format!("by search: {error}"))?;
    is_on_ours(by_tool).map_err(|error| format!("by vcm run: {error}"))
}

/// gperftools' own libraries come later, or are needed under a name that was not preloaded: nobody notices.
pub fn beside_gperftools() -> Result<(), String> {
    let theirs = Path::new("/usr/lib/x86_64-linux-gnu");
    for name in NAMES {
        let mut command = On::Ours.command("opens_gperftools.c")?;
        run(command.arg(theirs.join(name)), TIME)?.succeeded()?;
        let mut other = prepared(&linked_with(&[name])?)?;
        other.env("LD_PRELOAD", library::stand_in()?);
        is_on_ours(other).map_err(|error| format!("{name} needed beside libtcmalloc.so.4: {error}"))?;
    }
    Ok(())
}

pub fn files() -> Result<(), String> {
    let folder = library::stand_ins()?;
    let first = symbols::exported(&library::stand_in()?)?;
    for name in NAMES {
        let path = folder.join(name);
        symbols::needed_by(&path, name)?;
        symbols::old_enough(&path)?;
        let exported = symbols::exported(&path)?;
        if !exported.keys().eq(first.keys()) {
            return Err(format!("{name} has other names than libtcmalloc.so.4"));
        }
    }
    Ok(())
}
