//! The place of the built library, and the build that puts it there.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::machine;

/// Runs the programs on this library instead of ours: a peer, or a build with other flags.
pub const OTHER_LIBRARY: &str = "VCMALLOC_TEST_LIBRARY";

/// The libraries and programs are there already, on a machine without cargo and compilers: they are taken as they are.
pub const IS_BUILT: &str = "VCMALLOC_TEST_IS_BUILT";

/// The tool that is there already, as `make test` says: cargo has built it with the tests.
const BUILT_TOOL: &str = "VCMALLOC_TEST_TOOL";

/// One package a call: built together, cargo would give the library the features that the tool's needs turn
/// on.
const BUILD: &str = "cargo build --release -p";

/// The repository's root.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in a folder of the repository")
}

/// The target directory that holds this very test, so that any `CARGO_TARGET_DIR` works.
pub fn target_directory() -> PathBuf {
    let test = env::current_exe().expect("a running test has a path");
    test.ancestors().nth(3).expect("target/<profile>/deps/<test>").to_path_buf()
}

/// The folder where cargo puts what it builds for the machine of the programs.
fn built_directory() -> PathBuf {
    machine::target().map_or_else(target_directory, |target| target_directory().join(target))
}

/// A folder under the target directory for what tests make, kept between runs.
pub fn work_directory(name: &str) -> PathBuf {
    let directory = built_directory().join("vcmalloc-tests").join(name);
    std::fs::create_dir_all(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    directory
}

/// True when the programs run on somebody else's library, of which only the common rules hold.
pub fn is_foreign() -> bool {
    env::var_os(OTHER_LIBRARY).is_some()
}

/// True where nothing may be built: a missing file is an error.
pub fn is_built() -> bool {
    env::var_os(IS_BUILT).is_some()
}

/// The shared library the programs are run on.
pub fn shared() -> Result<PathBuf, String> {
    match env::var_os(OTHER_LIBRARY) {
        Some(path) if Path::new(&path).is_absolute() => Ok(PathBuf::from(path)),
        Some(path) => Err(format!("{OTHER_LIBRARY}={}: give an absolute path", path.to_string_lossy())),
        None => our_shared(),
    }
}

/// Our shared library, whatever the programs are run on.
pub fn our_shared() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    built(&BUILT, "vcmalloc-shared", "libvcmalloc.so")
}

/// The hardened library, under the name that programs preload.
pub fn hardened() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    static CARGO: OnceLock<Result<(), String>> = OnceLock::new();
    let linked = || {
        let file = built(&CARGO, "vcmalloc-hardened", "libvcmalloc_hardened.so")?;
        let library = file.with_file_name("libvcmalloc-hardened.so");
        if is_built() {
            return Ok(library);
        }
        let failed = |error| format!("{}: {error}", library.display());
        // Beside it and then over it: a program may be starting on the old one.
        let fresh = file.with_file_name(format!("libvcmalloc-hardened.so.{}", std::process::id()));
        std::fs::hard_link(&file, &fresh).and_then(|()| std::fs::rename(&fresh, &library)).map_err(failed)?;
        // Renaming a file to another name of itself leaves both.
        let _ = std::fs::remove_file(&fresh);
        Ok(library)
    };
    BUILT.get_or_init(linked).clone()
}

/// Our stand-in for gperftools' library.
pub fn stand_in() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    built(&BUILT, "vcmalloc-tcmalloc", "libtcmalloc.so")
}

/// Our stand-in for jemalloc's library.
pub fn jemalloc() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    built(&BUILT, "vcmalloc-jemalloc", "libjemalloc.so")
}

/// The folder with our stand-in under each of gperftools' names.
pub fn stand_ins() -> Result<PathBuf, String> {
    static LINKED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let linked = || {
        let folder = stand_in()?.parent().expect("a file in a folder").to_path_buf();
        let output = Command::new(repository().join("scripts/stand-ins")).arg(&folder).output();
        let output = output.map_err(|error| format!("scripts/stand-ins did not start: {error}"))?;
        match output.status.success() {
            true => Ok(folder),
            false => Err(format!("scripts/stand-ins failed:\n{}", String::from_utf8_lossy(&output.stderr))),
        }
    };
    LINKED.get_or_init(linked).clone()
}

/// The archive that programs link: one object, as `make libraries` leaves it.
pub fn archive() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    MADE.get_or_init(|| one_object(built(&BUILT, "vcmalloc-static", "libvcmalloc.a")?)).clone()
}

/// The same of the library that checks every block.
pub fn hardened_archive() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let package = "vcmalloc-hardened-static";
    MADE.get_or_init(|| one_object(built(&BUILT, package, "libvcmalloc_hardened.a")?)).clone()
}

fn one_object(archive: PathBuf) -> Result<PathBuf, String> {
    let output = Command::new(repository().join("scripts/archive")).arg(&archive).output();
    let output = output.map_err(|error| format!("scripts/archive did not start: {error}"))?;
    match output.status.success() {
        true => Ok(archive),
        false => Err(format!("scripts/archive failed:\n{}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// The library that `vcm record` preloads.
pub fn interposer() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    built(&BUILT, "vcm-interposer", "libvcm_interposer.so")
}

/// The tool: a release of it where nobody says which.
pub fn tool() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    static LINKED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Some(path) = env::var_os(BUILT_TOOL).map(PathBuf::from) {
        return LINKED.get_or_init(|| beside_the_libraries(&path)).clone();
    }
    built(&BUILT, "vcm", "vcm")
}

/// A tool finds the libraries that lie beside it.
fn beside_the_libraries(tool: &Path) -> Result<PathBuf, String> {
    if !tool.is_absolute() {
        return Err(format!("{BUILT_TOOL}={}: give an absolute path", tool.display()));
    }
    let place = built_directory().join("release").join("vcm-of-the-tests");
    // Beside it and then over it: another test may be starting the old one.
    let fresh = place.with_extension(std::process::id().to_string());
    let linked = std::fs::hard_link(tool, &fresh).and_then(|()| std::fs::rename(&fresh, &place));
    // Renaming a file to another name of itself leaves both.
    let _ = std::fs::remove_file(&fresh);
    linked.map_err(|error| format!("{BUILT_TOOL}={} beside the libraries: {error}", tool.display()))?;
    Ok(place)
}

fn built(once: &OnceLock<Result<(), String>>, package: &str, file: &str) -> Result<PathBuf, String> {
    if !is_built() {
        once.get_or_init(|| build(package)).clone()?;
    }
    let path = built_directory().join("release").join(file);
    match path.exists() {
        true => Ok(path),
        false => Err(format!("{} is missing although `{BUILD} {package}` succeeded", path.display())),
    }
}

/// Asks cargo every time: it knows whether the library is older than its source, and answers at once if not.
fn build(package: &str) -> Result<(), String> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(BUILD.split(' ').skip(1)).args([package, "--quiet"]);
    if let Some(target) = machine::target() {
        command.args(["--target", &target]);
    }
    command.current_dir(repository()).env("CARGO_TARGET_DIR", target_directory());
    let output = command.output().map_err(|error| format!("`{BUILD} {package}` did not start: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("`{BUILD} {package}` failed:\n{}", String::from_utf8_lossy(&output.stderr))),
    }
}
