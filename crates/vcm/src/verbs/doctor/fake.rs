//! A machine in a folder, for the checks' tests: /proc, /sys and /etc as files, and small libraries that have
//! the symbols by which allocators are known.

use super::check::{self, Check};
use super::survey::{Survey, daemons_on};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use vcm_inspect::process;
use vcm_inspect::root::Root;

pub const TCMALLOC: &str = "/usr/lib/libtcmalloc.so.4";
pub const OURS: &str = "/usr/lib/libvcmalloc.so";
pub const STAND_IN: &str = "/usr/lib/vcmalloc/libtcmalloc.so.4";
pub const JEMALLOC: &str = "/usr/lib/libjemalloc.so.2";
pub const JEMALLOC_STAND_IN: &str = "/usr/lib/vcmalloc/jemalloc/libjemalloc.so.2";

/// Name, soname, source, what it is linked with.
const KIT: [(&str, &str, &str, &[&str]); 14] = [
    (
        "libc",
        "libc.so.6",
        "void *malloc(void) { return 0; } const char *gnu_get_libc_version(void) { return \"x release version 2.36.\"; }",
        &[],
    ),
    ("tcmalloc", "libtcmalloc.so.4", "TC(\"gperftools 2.10\") void HeapProfilerStart(void) {}", &["libc"]),
    ("tcmalloc-2.1", "libtcmalloc.so.4", "TC(\"gperftools 2.1\") void HeapProfilerStart(void) {}", &["libc"]),
    ("minimal", "libtcmalloc_minimal.so.4", "TC(\"gperftools 2.10\")", &["libc"]),
    ("ours", "libvcmalloc.so", "void *malloc(void) { return 0; } void vcm_version(void) {}", &["libc"]),
    (
        "stand-in",
        "libtcmalloc.so.4",
        "void *malloc(void) { return 0; } void vcm_version(void) {} void _ZN15MallocExtension8instanceEv(void) {}",
        &["libc"],
    ),
    (
        "jemalloc",
        "libjemalloc.so.2",
        "void *malloc(void) { return 0; } const char *mallctl(void) { return \"5.3.0-0-g54\"; }",
        &["libc"],
    ),
    (
        "jemalloc-stand-in",
        "libjemalloc.so.2",
        "void *malloc(void) { return 0; } void vcm_version(void) {} void mallctl(void) {}",
        &["libc"],
    ),
    (
        "osd-linked",
        "",
        "void _ZN15MallocExtension8instanceEv(void); void *use = _ZN15MallocExtension8instanceEv;",
        &["tcmalloc", "libc"],
    ),
    ("loader", "ld-linux-x86-64.so.2", "void *malloc(void) { return 0; }", &[]),
    ("linked-jemalloc", "", "int nothing;", &["jemalloc", "libc"]),
    ("osd-plain", "", "int nothing;", &["libc"]),
    ("static-tcmalloc", "", "TC(\"gperftools 2.10\")", &[]),
    ("stripped", "", "const char *name = \"<jemalloc>: Error\";", &[]),
];

const TC: &str = "-DTC(v)=void *malloc(void) { return 0; } const char *tc_version(void) { return v; } \
                  void tc_malloc(void) {} void _ZN15MallocExtension8instanceEv(void) {}";

/// The libraries, made once and kept beside the tests' own program.
fn kit() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        (KIT, TC).hash(&mut hasher);
        let beside = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
        let folder = beside.join(format!("doctor-kit-{:x}", hasher.finish()));
        if !folder.exists() {
            let building = beside.join(format!("doctor-kit-{}", std::process::id()));
            make_kit(&building);
            // Another process of the tests may have been faster.
            if fs::rename(&building, &folder).is_err() {
                fs::remove_dir_all(&building).unwrap();
            }
        }
        folder
    })
}

fn make_kit(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for (name, soname, source, linked) in KIT {
        let file = folder.join(format!("{name}.c"));
        fs::write(&file, source).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-w", "-shared", "-nostdlib", "-fPIC", "-Wl,--no-as-needed", TC]);
        gcc.arg(format!("-Wl,-soname,{soname}")).arg("-o").arg(folder.join(name)).arg(file);
        gcc.args(linked.iter().map(|name| folder.join(name)));
        assert!(gcc.status().unwrap().success(), "{name}");
    }
}

pub struct Fake {
    _folder: tempfile::TempDir,
    pub root: Root,
}

pub struct FakeProcess<'a> {
    fake: &'a Fake,
    id: i32,
}

impl Fake {
    /// A machine on which no check finds anything, with no process.
    pub fn new() -> Self {
        let (_folder, root) = Root::with_files(&[]);
        let fake = Fake { root, _folder };
        fake.write("/proc/meminfo", "MemTotal:       67108864 kB\nSwapTotal:       0 kB\n");
        fake.write("/proc/stat", "cpu 1\ncpu0 1\ncpu1 1\ncpu2 1\ncpu3 1\nbtime 1700000000\n");
        fake.write("/proc/sys/vm/max_map_count", "65530\n");
        fake.write("/proc/sys/fs/nr_open", "1048576\n");
        fake.write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        fake.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
        fake.link("mnt:[1]", "/proc/self/ns/mnt");
        fake.write("/sys/devices/sda/queue/rotational", "1\n");
        fake.write("/sys/devices/sda/sda1/partition", "1\n");
        fake.write("/sys/devices/nvme0n1/queue/rotational", "0\n");
        fake.write("/sys/devices/nvme0n1/size", "41943040\n");
        fake.link("/sys/devices/nvme0n1", "/sys/class/block/nvme0n1");
        fake.link("/sys/devices/sda", "/sys/class/block/sda");
        fake.link("/sys/devices/sda/sda1", "/sys/dev/block/8:1");
        fake.link("/sys/devices/nvme0n1", "/sys/dev/block/259:0");
        fake
    }

    pub fn write(&self, path: &str, text: &str) {
        self.root.write(path, text);
    }

    pub fn remove(&self, path: &str) {
        fs::remove_file(self.root.path(path)).unwrap();
    }

    pub fn link(&self, target: &str, path: &str) {
        self.root.link(target, path);
    }

    /// osd.3, process 103, of the systemd unit ceph-osd@3, linked with TCMalloc 2.10.
    pub fn osd(&self) -> FakeProcess<'_> {
        let osd = self.process(103, "/usr/bin/ceph-osd -f --cluster ceph --id 3", "osd-linked");
        osd.load(TCMALLOC, "tcmalloc");
        osd
    }

    /// osd.3 as Debian 12 has it: linked with no allocator.
    pub fn plain_osd(&self) -> FakeProcess<'_> {
        self.process(103, "/usr/bin/ceph-osd -f --cluster ceph --id 3", "osd-plain")
    }

    /// A process of glusterd that serves bricks.
    pub fn brick(&self) -> FakeProcess<'_> {
        self.process(104, "/usr/sbin/glusterfsd -s host --brick-name /bricks/1", "osd-plain")
    }

    pub fn process(&self, id: i32, command: &str, program: &str) -> FakeProcess<'_> {
        let process = FakeProcess { fake: self, id };
        let path = command.split(' ').next().unwrap();
        let folder = format!("/proc/{id}");
        self.write(&format!("{folder}/cmdline"), &(command.replace(' ', "\0") + "\0"));
        self.write(&format!("{folder}/comm"), path.rsplit('/').next().unwrap());
        self.link(path, &format!("{folder}/exe"));
        self.link("mnt:[1]", &format!("{folder}/ns/mnt"));
        self.link("/", &format!("{folder}/root"));
        self.write(&format!("{folder}/net/unix"), "");
        fs::create_dir_all(self.root.path(format!("{folder}/fd"))).unwrap();
        self.write(&format!("{folder}/mountinfo"), "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
        let unit = match path.rsplit('/').next().unwrap() {
            "ceph-osd" => format!("ceph-osd@{}.service", command.split("--id ").nth(1).unwrap_or("3")),
            _ => "glusterd.service".into(),
        };
        self.write(&format!("{folder}/cgroup"), &format!("0::/system.slice/{unit}\n"));
        self.write(
            "/lib/systemd/system/ceph-osd@.service",
            "[Service]\nEnvironmentFile=-/etc/default/ceph\n",
        );
        self.write(
            "/lib/systemd/system/glusterd.service",
            "[Service]\nEnvironmentFile=-/etc/default/glusterd\n",
        );
        self.write(&format!("{folder}/maps"), "");
        process.load(path, program);
        process.load("/usr/lib/libc.so.6", "libc");
        process.threads(40);
        process.environment(&[("PATH", "/usr/bin")]);
        process.file_limit("1048576", "1048576");
        process
    }

    pub fn survey(&self) -> Survey {
        let recognised: Vec<i32> = daemons_on(&self.root).into_iter().map(|(id, _)| id).collect();
        let ids = if recognised.is_empty() { process::all(&self.root) } else { recognised };
        Survey::of(self.root.clone(), &ids)
    }

    fn run(&self, check: &'static Check) -> check::Findings {
        let list: &'static [&'static Check] = Box::leak(Box::new([check]));
        check::run(list, &self.survey())
    }

    /// The lines that mend what the check finds.
    pub fn mend(&self, check: &'static Check) -> Vec<String> {
        self.run(check).found.into_iter().flat_map(|finding| finding.mend).collect()
    }

    /// Why the check could not be made.
    pub fn not_seen(&self, check: &'static Check) -> Vec<String> {
        let findings = self.run(check);
        assert!(findings.found.is_empty());
        findings.not_seen.iter().map(|unseen| unseen.line()).collect()
    }

    /// The check's findings about this machine.
    pub fn findings(&self, check: &'static Check) -> Vec<String> {
        let findings = self.run(check);
        assert!(findings.not_seen.is_empty(), "{:?}", findings.not_seen);
        findings.found.into_iter().map(|finding| finding.what).collect()
    }

    /// The one thing that the check says.
    pub fn finding(&self, check: &'static Check) -> String {
        let mut all = self.findings(check);
        assert_eq!(all.len(), 1, "{}: {all:?}", check.id);
        all.remove(0)
    }

    pub fn assert_fine(&self, check: &'static Check) {
        assert_eq!(self.findings(check), Vec::<String>::new(), "{}", check.id);
    }
}

impl FakeProcess<'_> {
    fn path(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.id)
    }

    /// Maps a file of the kit at a path.
    pub fn load(&self, path: &str, of_kit: &str) -> &Self {
        let target = self.fake.root.path(path.trim_end_matches(" (deleted)"));
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(kit().join(of_kit), target).unwrap();
        let maps = self.fake.root.path(self.path("maps"));
        let mut text = fs::read_to_string(&maps).unwrap();
        let start = 0x1000 * (text.lines().count() + 1);
        text.push_str(&format!("{start:x}-{:x} r-xp 00000000 08:01 7    {path}\n", start + 0x1000));
        fs::write(maps, text).unwrap();
        self
    }

    pub fn environment(&self, pairs: &[(&str, &str)]) -> &Self {
        let text: String = pairs.iter().map(|(name, value)| format!("{name}={value}\0")).collect();
        self.fake.write(&self.path("environ"), &text);
        self
    }

    pub fn threads(&self, count: u64) -> &Self {
        let (before, behind) = ("0 ".repeat(15), "0 ".repeat(24));
        let stat = format!("{} (x) S 1 {before}{count} {behind}", self.id);
        self.fake.write(&self.path("stat"), &stat);
        self.status("VmRSS:\t 1048576 kB\nVmSwap:\t 0 kB\nTHP_enabled:\t1\n")
    }

    pub fn status(&self, text: &str) -> &Self {
        self.fake.write(&self.path("status"), text);
        self
    }

    pub fn file_limit(&self, soft: &str, hard: &str) -> &Self {
        self.fake.write(&self.path("limits"), &format!("Max open files    {soft}    {hard}    files\n"));
        self
    }

    /// Opens the first folder of each of so many bricks.
    pub fn bricks(&self, count: usize) -> &Self {
        for brick in 0..count {
            self.fake
                .link(&format!("/bricks/{brick}/.glusterfs/00"), &self.path(&format!("fd/{}", brick + 10)));
        }
        self
    }

    /// Settings that the daemon's own socket tells; those in `changed` were set by the monitors.
    pub fn socket(&self, shown: serde_json::Value, changed: &[&str]) -> &Self {
        let levels: serde_json::Map<String, serde_json::Value> =
            changed.iter().map(|name| ((*name).to_string(), serde_json::json!({ "mon": "x" }))).collect();
        self.fake.write("/run/ceph/.keep", "");
        let path = self.fake.root.path("/run/ceph/osd.asok");
        vcm_inspect::testing::serve(&path, shown, serde_json::json!({ "diff": levels }));
        self.fake.link("socket:[77]", &self.path("fd/9"));
        let table =
            "Num RefCount Protocol Flags Type St Inode Path\n0: 2 0 10000 0001 01 77 /run/ceph/osd.asok\n";
        self.fake.write(&self.path("net/unix"), table);
        self
    }
}
