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

/// What to do about a process that may not be looked into.
pub fn how_to_see_more() -> &'static str {
    if nix::unistd::geteuid().is_root() {
        "although vcm runs as root: a container or a security policy forbids it"
    } else {
        "run vcm as root"
    }
}

/// What the program gains over this process; nothing where the rights it carries have no effect.
pub fn gained_by(path: &Path) -> Option<Gain> {
    const SET_USER: u32 = 0o4000;
    // Without execution by the group the bit means mandatory locking, not another group.
    const SET_GROUP_AND_EXECUTE: u32 = 0o2010;
    if nix::sys::prctl::get_no_new_privs().unwrap_or(false) {
        return None;
    }
    let file = fs::metadata(path).ok()?;
    let (user, group) = (nix::unistd::getuid(), nix::unistd::getgid());
    if file.mode() & SET_USER != 0 && file.uid() != user.as_raw() {
        return Some(Gain::SetUser);
    }
    if file.mode() & SET_GROUP_AND_EXECUTE == SET_GROUP_AND_EXECUTE && file.gid() != group.as_raw() {
        return Some(Gain::SetGroup);
    }
    // Root has all capabilities already, so the kernel sees no gain.
    let has_capabilities = matches!(xattr::get(path, "security.capability"), Ok(Some(_)));
    (has_capabilities && !user.is_root()).then_some(Gain::Capabilities)
}
