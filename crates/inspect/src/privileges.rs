//! Rights: what a program gains when it is started, and what a process may read.
//!
//! A program that gains an identity or capabilities which its starter does not have starts in
//! secure-execution mode (AT_SECURE, getauxval(3)), where the loader ignores a preload.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gain {
    SetUser,
    SetGroup,
    Capabilities,
}

/// The advice about a process that may not be looked into.
pub fn how_to_see_more() -> &'static str {
    if nix::unistd::geteuid().is_root() {
        "although vcm runs as root: a container or a security policy forbids it"
    } else {
        "run vcm as root"
    }
}

/// The process that starts a program.
#[derive(Clone, Copy)]
pub struct Starter {
    /// None: some user who is not root and owns no programs.
    pub user: Option<u32>,
    pub group: Option<u32>,
    /// PR_SET_NO_NEW_PRIVS: nothing is gained.
    pub gains_nothing: bool,
}

impl Starter {
    pub fn this_process() -> Self {
        Starter {
            user: Some(nix::unistd::getuid().as_raw()),
            group: Some(nix::unistd::getgid().as_raw()),
            gains_nothing: nix::sys::prctl::get_no_new_privs().unwrap_or(false),
        }
    }
}

/// The rights that the program gains over its starter; none where those it carries have no effect.
pub fn gained_by(path: &Path, starter: Starter) -> Option<Gain> {
    const SET_USER: u32 = 0o4000;
    // Without execution by the group the bit means mandatory locking, not another group.
    const SET_GROUP_AND_EXECUTE: u32 = 0o2010;
    if starter.gains_nothing {
        return None;
    }
    let file = fs::metadata(path).ok()?;
    if file.mode() & SET_USER != 0 && Some(file.uid()) != starter.user {
        return Some(Gain::SetUser);
    }
    if file.mode() & SET_GROUP_AND_EXECUTE == SET_GROUP_AND_EXECUTE && Some(file.gid()) != starter.group {
        return Some(Gain::SetGroup);
    }
    // Root has all capabilities already, so the kernel sees no gain.
    let has_capabilities = matches!(xattr::get(path, "security.capability"), Ok(Some(_)));
    (has_capabilities && starter.user != Some(0)).then_some(Gain::Capabilities)
}
