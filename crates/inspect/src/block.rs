//! On which disks a path lies.
//!
//! Owns the way from a path through the mount table, symbolic links, partitions and stacked devices to whole
//! disks, all by files of procfs and sysfs.

use super::process::Process;
use super::root::Root;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The disks under a path's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The whole disks, by the kernel's names; empty where it cannot be found out.
    pub disks: BTreeSet<String>,
    /// True when any of the disks turns; none where none of them says, and where a virtual one says so: the
    /// disk behind it is not known.
    pub rotational: Option<bool>,
    /// In memory only.
    pub in_memory: bool,
    /// Bytes, when the path is a whole block device or partition.
    pub device_bytes: Option<u64>,
}

/// The disks under the bytes of `path`, as `process` sees it.
pub fn place_of(root: &Root, process: &Process, path: &Path) -> Place {
    let real = process.view().resolve(path);
    if let Ok(device) = real.strip_prefix("/dev") {
        return device.file_name().map_or(Place::default(), |name| {
            let folder = root.resolve(Path::new("/sys/class/block").join(name));
            let sectors = root.number(folder.join("size"));
            Place { device_bytes: sectors.map(|sectors| sectors << 9), ..place_of_device(root, &folder) }
        });
    }
    let Some(mount) = mount_of(process, &real) else { return Place::default() };
    if matches!(mount.kind.as_str(), "tmpfs" | "ramfs") {
        return Place { in_memory: true, ..Place::default() };
    }
    let by_number = root.path("/sys/dev/block").join(&mount.device);
    if by_number.symlink_metadata().is_ok() {
        let folder = root.resolve(Path::new("/sys/dev/block").join(&mount.device));
        return place_of_device(root, &folder);
    }
    // File systems with several devices have a number of their own, but name one of the devices.
    match root.resolve(&mount.source).strip_prefix("/dev").ok().and_then(Path::file_name) {
        Some(name) => place_of_device(root, &root.resolve(Path::new("/sys/class/block").join(name))),
        None => Place::default(),
    }
}

struct Mount {
    device: String,
    point: PathBuf,
    kind: String,
    source: PathBuf,
}

/// The mount that holds `path`: the longest point above it, the last of equals.
fn mount_of(process: &Process, path: &Path) -> Option<Mount> {
    let text = vcm_foreign::file::text_of_kernel(&process.file("mountinfo")).ok()?;
    let mounts = text.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let before: Vec<&str> = before.split(' ').collect();
        let mut after = after.split(' ');
        Some(Mount {
            device: (*before.get(2)?).to_string(),
            // Blanks in names are written as octal numbers.
            point: PathBuf::from(before.get(4)?.replace("\\040", " ")),
            kind: after.next()?.to_string(),
            source: PathBuf::from(after.next()?),
        })
    });
    mounts.filter(|mount| path.starts_with(&mount.point)).max_by_key(|mount| mount.point.as_os_str().len())
}

/// The disks below a device, given by its folder in sysfs.
fn place_of_device(root: &Root, folder: &Path) -> Place {
    let mut place = Place::default();
    let mut open = vec![folder.to_path_buf()];
    let mut seen = BTreeSet::new();
    while let Some(folder) = open.pop() {
        if !seen.insert(folder.clone()) || !root.path(&folder).exists() {
            continue;
        }
        let below: Vec<PathBuf> = fs::read_dir(root.path(folder.join("slaves")))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| root.resolve(folder.join("slaves").join(entry.file_name())))
            .collect();
        if !below.is_empty() {
            open.extend(below);
        } else if root.path(folder.join("partition")).exists() {
            open.extend(folder.parent().map(Path::to_path_buf));
        } else if let Some(name) = folder.file_name() {
            place.disks.insert(name.to_string_lossy().into_owned());
            let turns = root.number(folder.join("queue/rotational")).map(|value| value == 1);
            let turns = turns.filter(|turns| !turns || !is_virtual(root, &folder));
            place.rotational = match (place.rotational, turns) {
                (Some(one), Some(other)) => Some(one || other),
                (one, other) => one.or(other),
            };
        }
    }
    place
}

/// Disks of a virtual machine, of a network or of a file: the kernel calls them turning where nobody told it
/// otherwise. No NVMe device turns.
fn is_virtual(root: &Root, folder: &Path) -> bool {
    const NAMES: [&str; 8] = ["vd", "xvd", "ubd", "nbd", "rbd", "loop", "drbd", "nvme"];
    // By the words of SCSI's INQUIRY.
    const MAKERS: [&str; 7] = ["QEMU", "VMware", "Virtual", "VBOX", "Msft", "Google", "IET"];
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let said = ["device/vendor", "device/model"].map(|file| root.text(folder.join(file)).unwrap_or_default());
    NAMES.iter().any(|start| name.starts_with(start))
        || folder.iter().any(|part| part.to_string_lossy().starts_with("virtio"))
        || MAKERS.iter().any(|maker| said.iter().any(|words| words.contains(maker)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// sda: turns, with a partition; dm-0 on sda1 and nvme0n1.
    fn machine() -> (tempfile::TempDir, Root, Process) {
        let (folder, root) = Root::with_files(&[
            ("/sys/devices/sda/queue/rotational", "1\n"),
            ("/sys/devices/sda/sda1/partition", "1\n"),
            ("/sys/devices/nvme0n1/queue/rotational", "0\n"),
            ("/sys/devices/nvme0n1/size", "2048\n"),
        ]);
        let link = |target, path| root.link(target, path);
        link("../../../sda/sda1", "/sys/devices/virtual/dm-0/slaves/sda1");
        link("/sys/devices/nvme0n1", "/sys/devices/virtual/dm-0/slaves/nvme0n1");
        link("../../devices/sda/sda1", "/sys/dev/block/8:1");
        link("../../devices/virtual/dm-0", "/sys/class/block/dm-0");
        link("../../devices/nvme0n1", "/sys/class/block/nvme0n1");
        link("../../dev/nvme0n1", "/data/journal/device");
        link("/dev/dm-0", "/dev/mapper/fast");
        link("/", "/proc/7/root");
        root.write(
            "/proc/7/mountinfo",
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:9 / /run rw - tmpfs tmpfs rw\n\
             3 1 0:44 / /pool rw - btrfs /dev/mapper/fast rw\n",
        );
        let process = Process::in_root(&root, 7);
        (folder, root, process)
    }

    fn disks(place: &Place) -> Vec<&str> {
        place.disks.iter().map(String::as_str).collect()
    }

    #[test]
    fn a_file_lies_on_the_disk_of_its_partition() {
        let (_folder, root, process) = machine();
        let place = place_of(&root, &process, Path::new("/var/lib/ceph"));
        assert_eq!((disks(&place), place.rotational), (vec!["sda"], Some(true)));
    }

    #[test]
    fn a_link_to_a_device_is_that_device() {
        let (_folder, root, process) = machine();
        let place = place_of(&root, &process, Path::new("/data/journal/device"));
        assert_eq!((disks(&place), place.rotational), (vec!["nvme0n1"], Some(false)));
        assert_eq!(place.device_bytes, Some(1 << 20));
    }

    #[test]
    fn a_stacked_device_lies_on_all_disks_below_it() {
        let (_folder, root, process) = machine();
        let place = place_of(&root, &process, Path::new("/pool/x"));
        assert_eq!((disks(&place), place.rotational), (vec!["nvme0n1", "sda"], Some(true)));
    }

    #[test]
    fn a_virtual_disk_is_not_known_to_turn() {
        let (_folder, root, process) = machine();
        let turns = |disk: &str| {
            root.write(&format!("/sys/devices/{disk}/queue/rotational"), "1\n");
            root.link(&format!("/sys/devices/{disk}"), "/sys/class/block/disk");
            root.link("/dev/disk", "/data/disk");
            place_of(&root, &process, Path::new("/data/disk")).rotational
        };
        assert_eq!(turns("ata1/sdc"), Some(true));
        for disk in ["pci/virtio1/block/vda", "pci/virtio2/host2/block/sdd", "xen/xvda", "nvme7n1", "rbd0"] {
            assert_eq!(turns(disk), None, "{disk}");
        }
        root.write("/sys/devices/ata1/sdc/device/vendor", "VMware  \n");
        assert_eq!(turns("ata1/sdc"), None);
        root.write("/sys/devices/vdb/queue/rotational", "0\n");
        root.link("/sys/devices/vdb", "/sys/class/block/disk");
        assert_eq!(place_of(&root, &process, Path::new("/data/disk")).rotational, Some(false));
    }

    #[test]
    fn a_file_system_in_memory_has_no_disk() {
        let (_folder, root, process) = machine();
        let place = place_of(&root, &process, Path::new("/run/journal"));
        assert!(place.in_memory && place.disks.is_empty());
    }
}
