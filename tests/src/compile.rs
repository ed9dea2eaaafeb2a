//! Compiling the C and C++ programs, again only when something that they are made of is newer than the
//! program, or they are to be compiled otherwise.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
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
    // One source with other flags is another program: tests that run side by side must not build over each other.
    let mut hasher = DefaultHasher::new();
    (source, flags).hash(&mut hasher);
    let folder = format!("programs/{:016x}", hasher.finish());
    let program = library::work_directory(&folder).join(format!("{stem}.{kind}"));
    let mut command = machine::compiler(if is_cpp { "g++" } else { "gcc" });
    command.args(FLAGS).args(if is_cpp {
        ["-std=c++17", "-fno-allocation-dce"]
    } else {
        ["-std=gnu11", "-Wno-use-after-free"]
    });
    command.arg(source);
    let mut linked = None;
    if ground == Ground::Static {
        // Before the C and C++ libraries, so that the linker takes malloc and operator new from it.
        let archive = library::archive()?;
        command.arg(&archive);
        linked = Some(archive);
    }
    command.args(flags);
    compile(&mut command, source, linked.as_deref(), &program).map(|()| program)
}

/// Compiles `source` to a shared library called `name`.
pub fn shared_library(source: &Path, name: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let library = library::work_directory("programs").join(format!("lib{name}.so"));
    let mut command = machine::compiler("gcc");
    command.args(FLAGS).args(["-shared", "-fPIC"]).args(flags).arg(source);
    compile(&mut command, source, None, &library).map(|()| library)
}

fn compile(command: &mut Command, source: &Path, linked: Option<&Path>, output: &Path) -> Result<(), String> {
    if library::is_built() {
        let missing = || format!("{} was not compiled before", output.display());
        return output.exists().then_some(()).ok_or_else(missing);
    }
    // Each once: the same program serves several tests that run side by side.
    let one = lock_of(output);
    let _one = one.lock().unwrap_or_else(PoisonError::into_inner);
    let beside = |ending: &str| {
        let mut name = output.as_os_str().to_owned();
        name.push(".");
        name.push(ending);
        PathBuf::from(name)
    };
    // The files that the compiler says that it read, and how it was called.
    let (read, called) = (beside("d"), beside("called"));
    let call = format!("{command:?}");
    if fs::read_to_string(&called).is_ok_and(|before| before == call) && !is_older(output, &read, linked) {
        return Ok(());
    }
    let _ = fs::remove_file(&called);
    // A program that is being written must not be started, nor be found by the next run if this one is ended.
    let fresh = beside("new");
    command.args(["-MMD", "-MF"]).arg(&read).arg("-o").arg(&fresh);
    let finished = run(command, Duration::from_secs(120))?;
    finished.succeeded().map_err(|error| format!("{} does not compile: {error}", source.display()))?;
    if !finished.complaints.is_empty() {
        return Err(format!("{} compiles with warnings:\n{}", source.display(), finished.complaints));
    }
    let kept = fs::rename(&fresh, output).and_then(|()| fs::write(&called, call));
    kept.map_err(|error| format!("{}: {error}", output.display()))
}

fn lock_of(output: &Path) -> Arc<Mutex<()>> {
    static LOCKS: Mutex<BTreeMap<PathBuf, Arc<Mutex<()>>>> = Mutex::new(BTreeMap::new());
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    locks.entry(output.to_path_buf()).or_default().clone()
}

fn is_older(output: &Path, read: &Path, linked: Option<&Path>) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let (Some(built), Ok(rule)) = (changed(output), fs::read_to_string(read)) else { return true };
    // `output: source header \`, and more lines.
    let inputs = rule.split_whitespace().skip(1).filter(|word| *word != "\\").map(Path::new);
    // A file that is not there any more has changed too.
    let is_newer = |input: &Path| changed(input).is_none_or(|time: SystemTime| time > built);
    inputs.chain(linked).any(is_newer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_compiled_again_for_a_new_header_and_for_other_flags() {
        let folder = tempfile::tempdir().unwrap();
        // A name of its own: all programs lie in one folder.
        let stem = format!("compiled_again_{}", std::process::id());
        let (source, header) = (folder.path().join(format!("{stem}.c")), folder.path().join("code.h"));
        fs::write(&source, "#include \"code.h\"\nint main(void) { return CODE + MORE; }\n").unwrap();
        let code = |more: &str| {
            let program = program(&source, Ground::Glibc, &[format!("-DMORE={more}")]).unwrap();
            (Command::new(&program).status().unwrap().code(), program)
        };
        fs::write(&header, "#define CODE 1\n").unwrap();
        assert_eq!(code("0").0, Some(1));
        fs::write(&header, "#define CODE 2\n").unwrap();
        assert_eq!(code("0").0, Some(2), "another header");
        let (last, program) = code("5");
        assert_eq!(last, Some(7), "other flags");
        for ending in ["d", "called"] {
            fs::remove_file(format!("{}.{ending}", program.display())).unwrap();
        }
        fs::remove_file(program).unwrap();
    }
}
