//! The machine that the programs are compiled for and run on: this one, or another that qemu plays.
//! `scripts/aarch64` and `scripts/kernels` set the variables.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use crate::library;

/// The other machine's name: `aarch64`.
pub const OTHER_MACHINE: &str = "VCMALLOC_TEST_MACHINE";

/// The folder that it takes for `/`, with programs of Debian's.
pub const OTHER_ROOT: &str = "VCMALLOC_TEST_ROOT";

/// A program that is started with each compiled program as its argument. With `true` programs are compiled, and none runs.
pub const RUNNER: &str = "VCMALLOC_TEST_RUNNER";

/// How many times slower than others this machine is: a whole emulated machine does not know it by itself.
pub const SLOWNESS: &str = "VCMALLOC_TEST_SLOWNESS";

static OTHER: LazyLock<Option<String>> = LazyLock::new(|| env::var(OTHER_MACHINE).ok());

pub fn is_other() -> bool {
    OTHER.is_some()
}

/// The target that cargo builds the library for, unless it is this machine.
pub fn target() -> Option<String> {
    OTHER.as_ref().map(|machine| format!("{machine}-unknown-linux-gnu"))
}

/// A compiler of the GNU family (`gcc`, `g++`).
pub fn compiler(name: &str) -> Command {
    Command::new(OTHER.as_ref().map_or(name.into(), |machine| format!("{machine}-linux-gnu-{name}")))
}

/// The folder of the other machine's files; without the variable, its C library as the compiler's package has it.
fn root(machine: &str) -> PathBuf {
    env::var_os(OTHER_ROOT).map_or_else(|| format!("/usr/{machine}-linux-gnu").into(), PathBuf::from)
}

/// The folder with the other machine's libraries of Debian's, for the linker.
pub fn other_libraries() -> Option<PathBuf> {
    OTHER.as_ref().map(|machine| root(machine).join(format!("usr/lib/{machine}-linux-gnu")))
}

/// A program of Debian's, of the machine: the installed one, else the one that `scripts/setup` has unpacked.
pub fn debians(program: &str) -> Command {
    match (OTHER.as_ref(), Path::new(program).file_name()) {
        (Some(machine), Some(name)) => command(&root(machine).join("usr/bin").join(name)),
        _ if is_installed(program) => Command::new(program),
        _ => from_unpacked(program),
    }
}

/// The folder where `scripts/setup` unpacks servers, which installed would be started.
pub fn unpacked() -> PathBuf {
    library::target_directory().join("setup/root")
}

fn is_installed(program: &str) -> bool {
    let places = env::var_os("PATH").unwrap_or_default();
    program.contains('/') || env::split_paths(&places).any(|place| place.join(program).exists())
}

fn from_unpacked(program: &str) -> Command {
    let places = ["usr/bin", "usr/sbin"].map(|place| unpacked().join(place).join(program));
    let Some(found) = places.into_iter().find(|place| place.exists()) else { return Command::new(program) };
    let mut command = Command::new(found);
    let libraries = format!("{}-linux-gnu", env::consts::ARCH);
    let libraries =
        ["usr/lib", "lib"].map(|place| unpacked().join(place).join(&libraries).display().to_string());
    command.env("LD_LIBRARY_PATH", libraries.join(":"));
    command
}

/// The folder where Python finds its own tests, if they are not installed.
pub fn python_tests() -> Option<PathBuf> {
    let folders = std::fs::read_dir(unpacked().join("usr/lib")).ok()?.flatten().map(|entry| entry.path());
    let mut of_python = folders.filter(|folder| folder.join("test/test_json").exists());
    // Python takes the first `test` that it comes by, and nothing else is in there.
    of_python.next()
}

/// 1 where programs run at their usual speed.
pub fn slowness() -> u32 {
    static SLOWER: LazyLock<u32> = LazyLock::new(|| {
        // qemu is some 20 times slower, but few programs compute all the time.
        let unsaid = if is_other() { 5 } else { 1 };
        env::var(SLOWNESS).ok().and_then(|text| text.parse().ok()).unwrap_or(unsaid)
    });
    *SLOWER
}

/// How long to wait there for what takes so long here.
pub fn patience(limit: Duration) -> Duration {
    limit * slowness()
}

/// A command that runs a program compiled for the machine. The qemu is a static program: a library to be
/// preloaded reaches the program, not qemu.
pub fn command(program: &Path) -> Command {
    if let Some(runner) = env::var_os(RUNNER) {
        let mut command = Command::new(runner);
        command.arg(program);
        return command;
    }
    let Some(machine) = OTHER.as_ref() else { return Command::new(program) };
    let mut command = Command::new(format!("qemu-{machine}-static"));
    command.arg("-L").arg(root(machine)).arg(program);
    command
}
