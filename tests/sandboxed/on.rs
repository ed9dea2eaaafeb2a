//! The grounds of probes and daemons: glibc, and each of our libraries with either kind of caches.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use vcmalloc_tests::{Ground, library};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Library {
    Default,
    Hardened,
    StandIn,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum On {
    Glibc,
    Ours { library: Library, is_locked: bool },
}

impl On {
    pub const OURS: [On; 6] = [
        On::Ours { library: Library::Default, is_locked: false },
        On::Ours { library: Library::Default, is_locked: true },
        On::Ours { library: Library::Hardened, is_locked: false },
        On::Ours { library: Library::Hardened, is_locked: true },
        On::Ours { library: Library::StandIn, is_locked: false },
        On::Ours { library: Library::StandIn, is_locked: true },
    ];

    pub fn name(self) -> &'static str {
        match self {
            On::Glibc => "glibc",
            On::Ours { library: Library::Default, is_locked: false } => "default",
            On::Ours { library: Library::Default, is_locked: true } => "default_locked",
            On::Ours { library: Library::Hardened, is_locked: false } => "hardened",
            On::Ours { library: Library::Hardened, is_locked: true } => "hardened_locked",
            On::Ours { library: Library::StandIn, is_locked: false } => "stand_in",
            On::Ours { library: Library::StandIn, is_locked: true } => "stand_in_locked",
        }
    }

    /// The library that is preloaded. `PROBE_LIBRARIES` names a folder with other libraries than those that are built.
    pub fn library(self) -> Result<Option<PathBuf>, String> {
        let On::Ours { library, .. } = self else { return Ok(None) };
        let file = match library {
            Library::Default => "libvcmalloc.so",
            Library::Hardened => "libvcmalloc-hardened.so",
            Library::StandIn => "libtcmalloc.so.4",
        };
        if let Some(folder) = env::var_os("PROBE_LIBRARIES") {
            return Ok(Some(Path::new(&folder).join(file)));
        }
        match library {
            Library::Default => library::shared(),
            Library::Hardened => library::hardened(),
            Library::StandIn => library::stand_in(),
        }
        .map(Some)
    }

    /// Sets the environment in which `command` runs on this and on nothing else.
    pub fn prepare(self, command: &mut Command) -> Result<(), String> {
        Ground::Glibc.prepare(command)?;
        command.env_remove("CONFORMANCE_ON");
        if let Some(library) = self.library()? {
            command.env("LD_PRELOAD", library);
        }
        if let On::Ours { is_locked: true, .. } = self {
            command.env("VCM_FRONT", "locked");
        }
        Ok(())
    }
}
