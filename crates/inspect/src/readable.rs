//! Whether a process may read a file, or make one.
//!
//! Goes by the mode bits of the file and of the folders above it, and by capabilities. Access lists and
//! security modules may say otherwise in either direction; config files seldom have them.

use super::process::Process;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whom the kernel compares with a file's owner and group.
struct Identity {
    user: u32,
    groups: Vec<u32>,
    /// Mode bits do not keep it from what is asked about.
    may_all: bool,
}

/// The places of CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH in a set (capabilities(7)).
const READS_ALL: u64 = 1 << 1 | 1 << 2;
const WRITES_ALL: u64 = 1 << 1;

impl Process {
    /// Whether it could read `path`, as it names it, when it was started. None where that is not known; a
    /// file that is not there is nobody's secret.
    pub fn could_read(&self, path: &Path) -> Option<bool> {
        let identity = self.identity_at_start()?;
        let path = self.view().resolve(path);
        Some(self.enters(&identity, &path) && self.look_at(&path).is_none_or(|file| identity.may(&file, 0o4)))
    }

    /// Whether it can make files in a folder, as it names it, with the rights that it has now. None where that is not
    /// known.
    pub fn can_make_files_in(&self, folder: &Path) -> Option<bool> {
        let identity = self.identity_now()?;
        let path = self.view().resolve(folder);
        let makes =
            |folder: Metadata| folder.is_dir() && identity.may(&folder, 0o2) && identity.may(&folder, 0o1);
        Some(self.enters(&identity, &path) && self.look_at(&path).is_some_and(makes))
    }

    fn look_at(&self, path: &Path) -> Option<Metadata> {
        fs::metadata(self.view().path(path)).ok()
    }

    /// Whether it may go through all folders above; everybody may enter the root.
    fn enters(&self, identity: &Identity, path: &Path) -> bool {
        let mut folders = path.ancestors().skip(1).filter(|folder| folder.parent().is_some());
        folders.all(|folder| self.look_at(folder).is_none_or(|folder| identity.may(&folder, 0o1)))
    }

    fn id_now(&self, name: &str) -> Option<u32> {
        self.status(name)?.split_ascii_whitespace().nth(3)?.parse().ok()
    }

    fn identity_now(&self) -> Option<Identity> {
        let (user, group) = (self.id_now("Uid")?, self.id_now("Gid")?);
        Some(self.identity(user, group, "CapEff", WRITES_ALL))
    }

    fn identity(&self, user: u32, group: u32, set: &str, all: u64) -> Identity {
        let more = self.status("Groups").unwrap_or_default();
        let more = more.split_ascii_whitespace().filter_map(|group| group.parse().ok());
        let set = self.status(set).and_then(|set| u64::from_str_radix(&set, 16).ok());
        // Without the line, as on the oldest kernels, root is taken for root.
        let may_all = set.map_or(user == 0, |set| set & all != 0);
        Identity { user, groups: std::iter::once(group).chain(more).collect(), may_all }
    }

    /// Daemons give up rights once they run, and the library has read its file before that: what is known of
    /// the start comes first, then what holds now.
    fn identity_at_start(&self) -> Option<Identity> {
        // The auxiliary vector has the numbers of the process's own user namespace.
        let at_start = |kind| self.at_start(kind).filter(|_| self.shares_our_users()).map(|id| id as u32);
        let user = at_start(libc::AT_EUID).or_else(|| self.id_now("Uid"))?;
        let group = at_start(libc::AT_EGID).or_else(|| self.id_now("Gid"))?;
        // At exec root gets what its bounding set allows.
        let set = if user == 0 { "CapBnd" } else { "CapEff" };
        Some(self.identity(user, group, set, READS_ALL))
    }

    fn shares_our_users(&self) -> bool {
        let own = self.root().path("/proc/self/ns/user");
        fs::read_link(self.file("ns/user")).ok() == fs::read_link(own).ok()
    }
}

impl Identity {
    /// The owner's bits hold for the owner alone, even where the group or the others have more.
    fn may(&self, file: &Metadata, bit: u32) -> bool {
        let shift = if file.uid() == self.user {
            6
        } else if self.groups.contains(&file.gid()) {
            3
        } else {
            0
        };
        self.may_all || file.mode() >> shift & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Root;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn owner_group_others_and_capabilities_decide_in_this_order() {
        let own = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        let (_folder, root) = Root::with_files(&[("/etc/file", "x")]);
        root.link("mnt:[1]", "/proc/7/ns/mnt");
        root.link("mnt:[1]", "/proc/self/ns/mnt");
        root.link("/", "/proc/7/root");
        let set_mode = |path: &str, mode| {
            fs::set_permissions(root.path(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        let process = Process::in_root(&root, 7);
        assert_eq!(process.could_read(Path::new("/etc/file")), None);
        // A new file's group may be its folder's; here both are ours.
        let other = (own.0 + 1, own.1 + 1);
        for (mode, user, group, groups, capabilities, expected) in [
            (0o600, own.0, other.1, "", "0", true),
            (0o600, other.0, own.1, "", "0", false),
            (0o640, other.0, own.1, "", "0", true),
            (0o640, other.0, other.1, "", "0", false),
            (0o640, other.0, other.1, &own.1.to_string(), "0", true),
            (0o644, other.0, other.1, "", "0", true),
            (0o044, own.0, other.1, "", "0", false),
            (0o000, other.0, other.1, "", "2", true),
            (0o000, other.0, other.1, "", "4", true),
            (0o000, other.0, other.1, "", "8", false),
        ] {
            set_mode("/etc/file", mode);
            let ids = |id: u32| format!("{id}\t{id}\t{id}\t{id}");
            let capabilities = format!("CapEff:\t{capabilities}\nCapBnd:\t{capabilities}\n");
            let status = format!("Uid:\t{}\nGid:\t{}\nGroups:\t{groups}\n", ids(user), ids(group));
            root.write("/proc/7/status", &(status + &capabilities));
            let may = process.could_read(Path::new("/etc/file"));
            assert_eq!(may, Some(expected), "{mode:o} {user} {group} {groups} {capabilities}");
        }
        set_mode("/etc/file", 0o644);
        set_mode("/etc", 0o700);
        assert_eq!(process.could_read(Path::new("/etc/file")), Some(false));
        assert_eq!(process.could_read(Path::new("/none")), Some(true));
    }
}
