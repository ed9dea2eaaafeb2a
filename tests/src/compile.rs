//! Compiling the C and C++ programs, again only when a source is newer than the program.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::{Ground, library, machine, run};

/// `-fno-builtin`: the compiler knows malloc and would remove the very calls that are tested.
const FLAGS: [&str; 9] = [
    "-O1",
    "-g",
    "-Wall",
    "-Wextra",
    "-fno-builtin",
    "-pthread",
    "-rdynamic",
    "-Wno-alloc-size-larger-than",
    "-D_GNU_SOURCE",
];

/// Compiles `source` for `ground` with additional `flags`, into a folder of the target directory.
pub fn program(source: &Path, ground: Ground, flags: &[String]) -> Result<PathBuf, String> {
    let is_cpp = source.extension().is_some_and(|extension| extension == "cc");
    let stem = source.file_stem().expect("a source has a name").to_string_lossy();
    let kind = if ground == Ground::Static { "static" } else { "dynamic" };
    let program = library::work_directory("programs").join(format!("{stem}.{kind}"));
    let mut inputs = vec![source.to_path_buf(), source.with_file_name("check.h")];
    let mut command = machine::compiler(if is_cpp { "g++" } else { "gcc" });
    command.args(FLAGS).args(if is_cpp {
        ["-std=c++17", "-fno-allocation-dce"]
    } else {
        ["-std=gnu11", "-Wno-use-after-free"]
    });
    command.arg(source);
    if ground == Ground::Static {
        // Before the C and C++ libraries, so that the linker takes malloc and operator new from it.
        let archive = library::archive()?;
        command.arg(&archive);
        inputs.push(archive);
    }
    command.args(flags).arg("-o").arg(&program);
    compile(&mut command, source, &inputs, &program).map(|()| program)
}

/// Compiles `source` to a shared library called `name`.
pub fn shared_library(source: &Path, name: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let library = library::work_directory("programs").join(format!("lib{name}.so"));
    let mut command = machine::compiler("gcc");
    command.args(FLAGS).args(["-shared", "-fPIC"]).args(flags).arg(source).arg("-o").arg(&library);
    compile(&mut command, source, &[source.to_path_buf()], &library).map(|()| library)
}

fn compile(command: &mut Command, source: &Path, inputs: &[PathBuf], output: &Path) -> Result<(), String> {
    // One at a time: the same program serves several tests that run side by side.
    static COMPILER: Mutex<()> = Mutex::new(());
    let _one = COMPILER.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_older(output, inputs) {
        return Ok(());
    }
    let finished = run(command, Duration::from_secs(120))?;
    finished.succeeded().map_err(|error| format!("{} does not compile: {error}", source.display()))?;
    match finished.complaints.is_empty() {
        true => Ok(()),
        false => {
            // Or the next run would find it compiled.
            let _ = std::fs::remove_file(output);
            Err(format!("{} compiles with warnings:\n{}", source.display(), finished.complaints))
        }
    }
}

fn is_older(output: &Path, inputs: &[PathBuf]) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let Some(built) = changed(output) else { return true };
    inputs.iter().any(|input| changed(input).unwrap_or(SystemTime::UNIX_EPOCH) > built)
}
