//! The grounds a program is run on: which allocator serves it, and by which way in.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::library;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ground {
    /// The C library's own allocator: the control that the program tests the C library's rules.
    Glibc,
    /// `LD_PRELOAD`, with restartable sequences where the machine has them.
    Preload,
    /// `LD_PRELOAD`, on the locked caches.
    Locked,
    /// `LD_PRELOAD` with the C library told not to register threads, so that ours does it.
    Registered,
    /// `LD_PRELOAD` of the hardened library.
    Hardened,
    /// `LD_PRELOAD`, with many guarded samples and a heap profile. Not one of `ALL`: for the tests that name
    /// it.
    Watched,
    /// The program is linked with the archive.
    Static,
}

/// Variables that would change the allocator's behaviour behind a test's back.
const DISTURBING_PREFIXES: [&str; 5] = ["VCM_", "TCMALLOC_", "MALLOC_", "LD_PRELOAD", "GLIBC_TUNABLES"];

impl Ground {
    pub const ALL: [Ground; 6] = [
        Ground::Glibc,
        Ground::Preload,
        Ground::Locked,
        Ground::Registered,
        Ground::Hardened,
        Ground::Static,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Ground::Glibc => "glibc",
            Ground::Preload => "preload",
            Ground::Locked => "locked",
            Ground::Registered => "registered",
            Ground::Hardened => "hardened",
            Ground::Watched => "watched",
            Ground::Static => "static",
        }
    }

    pub fn named(name: &str) -> Option<Ground> {
        Ground::ALL.into_iter().find(|ground| ground.name() == name)
    }

    pub fn is_ours(self) -> bool {
        self != Ground::Glibc
    }

    /// Sets the environment in which `command` runs on this ground and on nothing else.
    pub fn prepare(self, command: &mut Command) -> Result<(), String> {
        for (name, _) in std::env::vars_os() {
            if DISTURBING_PREFIXES.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        command.env("LC_ALL", "C").env("TZ", "UTC");
        heed_signals(command);
        // conformance/check.h compares this with the allocator the program really has.
        let expected = match self {
            Ground::Glibc => "glibc",
            _ if library::is_foreign() => "any",
            _ => "vcmalloc",
        };
        command.env("CONFORMANCE_ON", expected);
        if matches!(self, Ground::Preload | Ground::Locked | Ground::Registered | Ground::Watched) {
            command.env("LD_PRELOAD", library::shared()?);
        }
        if self == Ground::Hardened {
            command.env("LD_PRELOAD", library::hardened()?);
        }
        if self == Ground::Watched {
            let often =
                [("VCM_SAMPLE_INTERVAL", "2000"), ("VCM_GUARDED_RATE", "100000"), ("VCM_PROFILE", "on")];
            command.envs(often);
        }
        if self == Ground::Locked {
            command.env("VCM_FRONT", "locked");
        }
        if self == Ground::Registered {
            command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
        }
        Ok(())
    }
}

/// Programs that are to end by a signal would ignore it where the tests are run by `nohup`, or behind a shell that ignores it.
pub fn heed_signals(command: &mut Command) {
    // SAFETY: `signal` may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        })
    };
}
