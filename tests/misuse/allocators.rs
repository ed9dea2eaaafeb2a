//! The allocators that the suites of misuse and robustness are run on, and a run that cannot hang.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use vcmalloc_tests::{Ground, child, library};

/// An allocator that programs can be run on.
#[derive(Clone)]
pub struct Allocator {
    pub name: &'static str,
    /// The file that is preloaded; glibc's own needs nothing.
    pub library: Option<PathBuf>,
    /// Without restartable sequences.
    pub locked: bool,
    /// With the option that lets a block be freed by another family of functions than made it.
    pub mixed: bool,
    /// With the option that lets a free say any size.
    pub lying: bool,
}

const DEBIAN: &str = "/usr/lib/x86_64-linux-gnu";
const PEERS: [(&str, &str, &str); 4] = [
    ("jemalloc", DEBIAN, "libjemalloc.so.2"),
    ("gperftools", DEBIAN, "libtcmalloc_minimal.so.4"),
    ("mimalloc", DEBIAN, "libmimalloc.so.2"),
    ("scudo", "/usr/lib/llvm-14/lib/clang/14.0.6/lib/linux", "libclang_rt.scudo_standalone-x86_64.so"),
];

impl Allocator {
    fn plain(name: &'static str, library: Option<PathBuf>) -> Allocator {
        Allocator { name, library, locked: false, mixed: false, lying: false }
    }

    /// Ours, with and without restartable sequences.
    #[allow(dead_code)] // the tables run each once
    pub fn ours() -> Result<[Allocator; 2], String> {
        let library = library::shared()?;
        let ours = |(name, locked)| Allocator { locked, ..Allocator::plain(name, Some(library.clone())) };
        Ok([("vcmalloc", false), ("locked", true)].map(ours))
    }

    /// Ours that checks every block.
    #[allow(dead_code)] // the robustness test runs the default build
    pub fn hardened() -> Result<Allocator, String> {
        Ok(Allocator::plain("hardened", Some(library::hardened()?)))
    }

    /// glibc, every peer that is installed, and ours in two ways.
    #[allow(dead_code)] // the tests run ours alone
    pub fn all() -> Result<Vec<Allocator>, String> {
        let ours = library::our_shared()?;
        let mut all = vec![Allocator::plain("glibc", None)];
        for (name, folder, file) in PEERS {
            let library = PathBuf::from(folder).join(file);
            match library.exists() {
                true => all.push(Allocator::plain(name, Some(library))),
                false => eprintln!("{name} is left out: there is no {}", library.display()),
            }
        }
        all.push(Allocator::plain("vcmalloc", Some(ours)));
        all.push(Allocator::hardened()?);
        Ok(all)
    }

    #[allow(dead_code)] // only the misuse suite promises more of it
    pub fn is_hardened(&self) -> bool {
        self.name == "hardened"
    }

    #[allow(dead_code)] // the crimes are the same for all
    pub fn is_ours(&self) -> bool {
        matches!(self.name, "vcmalloc" | "locked" | "hardened")
    }

    /// Sets the environment in which `command` runs on this allocator and on nothing else.
    pub fn prepare(&self, command: &mut Command) -> Result<(), String> {
        Ground::Glibc.prepare(command)?;
        command.env_remove("CONFORMANCE_ON");
        if let Some(library) = &self.library {
            command.env("LD_PRELOAD", library);
        }
        // The suites say what happens to ordinary blocks; a crime on a guarded one would be a stroke of luck.
        command.env("VCM_GUARDED_RATE", "0");
        if self.mixed {
            command.env("VCM_WRONG_FUNCTION_CHECK", "off");
        }
        if self.lying {
            command.env("VCM_WRONG_SIZE_CHECK", "off");
        }
        if self.locked {
            command.env("VCM_FRONT", "locked");
        }
        Ok(())
    }
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Exit(i32),
    Signal(i32),
    Hang,
}

/// A finished run.
pub struct Run {
    pub end: End,
    pub output: String,
    pub complaints: String,
}

/// Runs `command` to its end, or kills it and all its descendants after `limit`.
pub fn run(command: &mut Command, limit: Duration) -> Result<Run, String> {
    let mut started = child::Started::new(command).map_err(|error| format!("{command:?} {error}"))?;
    let end = match child::wait(&mut started.child, limit) {
        None => End::Hang,
        Some(status) => status.signal().map_or(End::Exit(status.code().unwrap_or(-1)), End::Signal),
    };
    let (output, complaints) = started.end()?;
    Ok(Run { end, output: String::from_utf8_lossy(&output).into_owned(), complaints })
}
