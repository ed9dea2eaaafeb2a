use super::*;
use std::fs;
use std::path::PathBuf;

const OSD: &str = "[Service]\nEnvironment=CLUSTER=ceph\nEnvironmentFile=-/etc/default/ceph\n\
                   ExecStart=/usr/bin/ceph-osd -f --id %i\nProtectHome=true\nPrivateTmp=true\n";
const DROP_IN: &str = "/etc/systemd/system/ceph-osd@3.service.d/vcmalloc.conf";

/// Names a loader, as a program that is not static does.
const PROGRAM: &str =
    "const char loader[] __attribute__((section(\".interp\"))) = \"/lib64/ld-linux-x86-64.so.2\";";

/// A machine in a folder with a program linked like ceph-osd, and the libraries.
struct Machine {
    _folder: tempfile::TempDir,
    root: Root,
}

impl Machine {
    fn new(linked_with_tcmalloc: bool) -> Self {
        let (_folder, root) = Root::with_files(&[]);
        let machine = Machine { root, _folder };
        machine.write("/lib/systemd/system/ceph-osd@.service", OSD);
        // On every machine with systemd.
        fs::create_dir_all(machine.root.path("/etc/systemd/system")).unwrap();
        machine.library(
            "/usr/local/lib/libvcmalloc.so",
            "libvcmalloc.so",
            "void malloc(void) {} void vcm_version(void) {}",
        );
        machine.library(
            "/usr/local/lib/vcmalloc/libtcmalloc.so.4",
            "libtcmalloc.so.4",
            "void malloc(void) {} void vcm_version(void) {} void _ZN15MallocExtension8instanceEv(void) {}",
        );
        machine.library(
            "/usr/lib/libtcmalloc.so.4",
            "libtcmalloc.so.4",
            "void malloc(void) {} void tc_malloc(void) {}",
        );
        let linked = if linked_with_tcmalloc { "/usr/lib/libtcmalloc.so.4" } else { "" };
        machine.compile("/usr/bin/ceph-osd", PROGRAM, "ceph-osd", linked);
        machine
    }

    fn write(&self, path: &str, text: &str) {
        self.root.write(path, text);
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.path(path)).unwrap()
    }

    fn library(&self, path: &str, soname: &str, source: &str) {
        self.compile(path, source, soname, "");
    }

    fn compile(&self, path: &str, source: &str, soname: &str, linked: &str) {
        let source_file = format!("/src/{}.c", path.replace('/', "_"));
        self.write(&source_file, source);
        self.write(path, "");
        let mut gcc = std::process::Command::new("gcc");
        gcc.args([
            "-w",
            "-shared",
            "-nostdlib",
            "-fPIC",
            "-Wl,--no-as-needed",
            &format!("-Wl,-soname,{soname}"),
            "-o",
        ]);
        gcc.arg(self.root.path(path)).arg(self.root.path(source_file));
        if !linked.is_empty() {
            gcc.arg(self.root.path(linked));
        }
        assert!(gcc.status().unwrap().success());
    }

    fn enable(&self, unit: &str, settings: &[&str]) -> Result<u8, Failure> {
        self.enable_with(unit, settings, "/usr/local/lib/libvcmalloc.so")
    }

    /// With the library that is found.
    fn enable_found(&self, unit: &str) -> Result<u8, Failure> {
        let (unit, root) = (unit.into(), Some(self.root.path("/")));
        enable(&Enable { unit, settings: Vec::new(), library: None, hardened: false, dry_run: false, root })
    }

    fn enable_with(&self, unit: &str, settings: &[&str], library: &str) -> Result<u8, Failure> {
        enable(&Enable {
            unit: unit.into(),
            settings: settings.iter().map(|set| (*set).to_string()).collect(),
            library: Some(self.root.path(library)),
            hardened: false,
            dry_run: false,
            root: Some(self.root.path("/")),
        })
    }

    fn disable(&self, unit: &str) -> Result<u8, Failure> {
        disable(&Disable { unit: unit.into(), dry_run: false, root: Some(self.root.path("/")) })
    }

    /// Every file below /etc, with its text.
    fn etc(&self) -> Vec<(PathBuf, String)> {
        let mut open = vec![self.root.path("/etc")];
        let mut all = Vec::new();
        while let Some(path) = open.pop() {
            match fs::read_dir(&path) {
                Ok(entries) => {
                    all.push((path.clone(), String::new()));
                    open.extend(entries.flatten().map(|entry| entry.path()));
                }
                Err(_) => all.push((path.clone(), fs::read_to_string(&path).unwrap_or_default())),
            }
        }
        all.sort();
        all
    }

    /// The variables that the service would get, the strongest of each name.
    fn variable(&self, unit: &str, name: &str) -> Option<String> {
        let unit = systemd::find(&self.root, unit).unwrap();
        unit.assignments(&self.root).into_iter().rev().find(|set| set.name == name).map(|set| set.value)
    }
}

fn message(result: Result<u8, Failure>) -> String {
    result.unwrap_err().message
}

#[test]
fn a_unit_gets_the_preload_and_the_options_and_loses_them_without_a_trace() {
    let machine = Machine::new(false);
    machine.write("/etc/hostname", "x");
    machine.write("/etc/systemd/system/other.service", "");
    let before = machine.etc();
    machine.enable("ceph-osd@3", &["cache_limit=64M"]).unwrap();
    let library = "/usr/local/lib/libvcmalloc.so";
    let text = machine.read(DROP_IN);
    assert!(
        text.contains(&format!(
            "Environment=\"LD_PRELOAD={library}\"\nEnvironment=\"VCM_CACHE_LIMIT=64M\"\n"
        )),
        "{text}"
    );
    assert_eq!(machine.variable("ceph-osd@3", "LD_PRELOAD").as_deref(), Some(library));
    assert_eq!(machine.variable("ceph-osd@4", "LD_PRELOAD"), None);
    machine.disable("ceph-osd@3").unwrap();
    assert_eq!(machine.etc(), before);
}

#[test]
fn a_folder_that_was_there_stays() {
    let machine = Machine::new(false);
    machine.write("/etc/systemd/system/ceph-osd@3.service.d/own.conf", "[Service]\nNice=1\n");
    let before = machine.etc();
    machine.enable("ceph-osd@3", &[]).unwrap();
    machine.enable("ceph-osd@3", &["cache_limit=1G"]).unwrap();
    machine.disable("ceph-osd@3").unwrap();
    assert_eq!(machine.etc(), before);
}

#[test]
fn a_template_is_enabled_for_all_its_instances() {
    let machine = Machine::new(false);
    machine.enable("ceph-osd@", &[]).unwrap();
    assert!(machine.variable("ceph-osd@4", "LD_PRELOAD").is_some());
    assert!(not_enabled(&machine.root, "ceph-osd@4.service").contains("vcm disable ceph-osd@"));
}

#[test]
fn a_program_linked_with_tcmalloc_gets_the_stand_in_or_nothing() {
    let machine = Machine::new(true);
    let refusal = message(machine.enable("ceph-osd@3", &[]));
    assert!(refusal.contains("does not replace it"), "{refusal}");
    assert!(!machine.root.path(DROP_IN).exists(), "nothing is written");
    let stand_in = "/usr/local/lib/vcmalloc/libtcmalloc.so.4";
    machine.enable_with("ceph-osd@3", &[], stand_in).unwrap();
    assert_eq!(machine.variable("ceph-osd@3", "LD_PRELOAD").as_deref(), Some(stand_in));
}

#[test]
fn an_existing_preload_is_kept_behind_ours() {
    let machine = Machine::new(false);
    machine.write(
        "/etc/systemd/system/ceph-osd@3.service.d/a.conf",
        "[Service]\nEnvironment=LD_PRELOAD=/a.so:/b.so\n",
    );
    machine.enable("ceph-osd@3", &[]).unwrap();
    let wanted = "/usr/local/lib/libvcmalloc.so:/a.so:/b.so";
    assert_eq!(machine.variable("ceph-osd@3", "LD_PRELOAD").as_deref(), Some(wanted));
    // Again, with our own drop-in there: it is not joined to itself.
    machine.enable("ceph-osd@3", &["cache_limit=1G"]).unwrap();
    assert_eq!(machine.variable("ceph-osd@3", "LD_PRELOAD").as_deref(), Some(wanted));
}

#[test]
fn a_preload_in_an_environment_file_or_a_later_drop_in_does_not_win() {
    let later = "/etc/systemd/system/ceph-osd@3.service.d/zz.conf";
    for (path, text) in
        [("/etc/default/ceph", "LD_PRELOAD=/a.so\n"), (later, "[Service]\nEnvironment=LD_PRELOAD=/a.so\n")]
    {
        let machine = Machine::new(false);
        machine.write(path, text);
        let before = machine.etc();
        machine.enable("ceph-osd@3", &["cache_limit=1G"]).unwrap();
        let wanted = Some("/usr/local/lib/libvcmalloc.so:/a.so");
        assert_eq!(machine.variable("ceph-osd@3", "LD_PRELOAD").as_deref(), wanted, "{path}");
        assert_eq!(machine.variable("ceph-osd@3", "VCM_CACHE_LIMIT").as_deref(), Some("1G"));
        machine.disable("ceph-osd@3").unwrap();
        assert_eq!(machine.etc(), before);
    }
}

#[test]
fn files_of_others_and_edited_ones_are_left_alone() {
    let machine = Machine::new(false);
    machine.write(DROP_IN, "[Service]\nNice=1\n");
    for result in [machine.enable("ceph-osd@3", &[]), machine.disable("ceph-osd@3")] {
        assert!(message(result).contains("was not written by vcm"));
    }
    assert_eq!(machine.read(DROP_IN), "[Service]\nNice=1\n");
    fs::remove_file(machine.root.path(DROP_IN)).unwrap();
    machine.enable("ceph-osd@3", &[]).unwrap();
    let edited = machine.read(DROP_IN) + "Nice=1\n";
    machine.write(DROP_IN, &edited);
    for result in [machine.enable("ceph-osd@3", &[]), machine.disable("ceph-osd@3")] {
        assert!(message(result).contains("was edited after"));
    }
    assert_eq!(machine.read(DROP_IN), edited);
}

#[test]
fn wrong_units_options_and_containers_are_refused_with_what_to_do() {
    let machine = Machine::new(false);
    machine.write(
        "/lib/systemd/system/ceph-f00d@.service",
        "[Service]\nExecStart=/bin/bash /var/lib/ceph/f00d/%i/unit.run\n",
    );
    machine.write("/lib/systemd/system/gone.service", "[Service]\nExecStart=/usr/sbin/gone\n");
    let refusal = |unit: &str| message(machine.enable(unit, &[]));
    assert!(refusal("ceph-osd").contains("'vcm enable ceph-osd@0'"));
    assert!(refusal("ceph-ods@3").contains("did you mean ceph-osd@3?"));
    assert!(refusal("ceph-f00d@osd.3").contains("'Containers'"));
    assert!(refusal("gone").contains("/usr/sbin/gone, which is not installed"));
    assert!(message(machine.enable("ceph-osd@3", &["cache_limt=1"])).contains("nothing was written"));
    assert!(message(machine.disable("zzz")).contains("no such service"));
    assert_eq!(machine.disable("ceph-osd@9").unwrap(), 0);
}

#[test]
fn a_library_that_the_units_sandbox_hides_is_refused() {
    let machine = Machine::new(false);
    machine.library(
        "/home/me/libvcmalloc.so",
        "libvcmalloc.so",
        "void malloc(void) {} void vcm_version(void) {}",
    );
    let refusal = message(machine.enable_with("ceph-osd@3", &[], "/home/me/libvcmalloc.so"));
    assert!(refusal.contains("hidden from ceph-osd@3.service by its ProtectHome="), "{refusal}");
}

#[test]
fn a_drop_in_that_outlived_its_unit_can_be_removed() {
    let machine = Machine::new(false);
    machine.enable("ceph-osd@3", &[]).unwrap();
    fs::remove_file(machine.root.path("/lib/systemd/system/ceph-osd@.service")).unwrap();
    machine.disable("ceph-osd@3").unwrap();
    assert!(machine.root.path(DROP_IN).symlink_metadata().is_err());
}

#[test]
fn a_folder_that_cannot_be_written_leaves_nothing_behind() {
    let machine = Machine::new(false);
    // A file where the folder should be.
    machine.write("/etc/systemd/system/ceph-osd@3.service.d", "");
    let refusal = message(machine.enable("ceph-osd@3", &[]));
    assert!(refusal.contains("nothing was changed"), "{refusal}");
    assert_eq!(machine.etc().len(), 4);
}

/// The outcome of enabling a unit with these lines beside the OSD's own; asserts that a refusal wrote nothing.
fn with_lines(lines: &str) -> (Machine, Result<u8, String>) {
    let machine = Machine::new(false);
    let unit = format!("[Service]\nExecStart=/usr/bin/ceph-osd -f\n{lines}\n");
    machine.write("/lib/systemd/system/some.service", &unit);
    let before = machine.etc();
    let result = machine.enable("some", &[]).map_err(|failure| failure.message);
    if result.is_err() {
        assert_eq!(machine.etc(), before, "{lines}");
    }
    (machine, result)
}

#[test]
fn a_unit_whose_sandbox_leaves_the_preload_without_effect_is_refused_and_nothing_written() {
    for (lines, why) in [
        (
            "NoExecPaths=/\nExecPaths=/usr/bin/ceph-osd /usr/lib /lib",
            "may execute nothing in /usr/local/lib/libvcmalloc.so",
        ),
        ("InaccessiblePaths=-/usr/local", "hidden from some.service by its InaccessiblePaths=/usr/local"),
        ("TemporaryFileSystem=/usr/local/lib:ro", "hidden from some.service by its TemporaryFileSystem="),
        ("RootDirectory=/srv/other", "another root (RootDirectory=/srv/other)"),
        ("RootImage=/srv/other.raw", "another root (RootImage=/srv/other.raw)"),
        ("UnsetEnvironment=HOME LD_PRELOAD", "removes LD_PRELOAD from the environment"),
        ("SystemCallFilter=@basic-io @file-system @signal", "kills it for madvise mremap prctl sysinfo"),
        ("SystemCallFilter=~madvise\nSystemCallErrorNumber=EPERM", "may not call madvise"),
    ] {
        let (_machine, result) = with_lines(lines);
        let message = result.unwrap_err();
        assert!(message.contains(why), "{lines}: {message}");
    }
}

#[test]
fn a_unit_whose_filter_ends_it_for_what_vcmalloc_can_do_without_gets_the_option() {
    let redis =
        "SystemCallFilter=@system-service\nSystemCallFilter=~ @privileged @resources\nRestrictRealtime=true";
    let few = ("VCM_SYSTEM_CALLS", "few");
    let locked = ("VCM_FRONT", "locked");
    for (lines, set, not_set) in [
        (redis, None, vec![few, locked]),
        ("SystemCallFilter=@system-service\nSystemCallFilter=~close_range", Some(few), vec![locked]),
        ("SystemCallFilter=~membarrier", Some(locked), vec![few]),
        ("SystemCallFilter=~membarrier close_range\nSystemCallErrorNumber=EPERM", None, vec![few, locked]),
        ("RootDirectory=/\nNoExecPaths=/\nExecPaths=/usr", None, vec![few, locked]),
    ] {
        let (machine, result) = with_lines(lines);
        result.unwrap();
        if let Some((name, value)) = set {
            assert_eq!(machine.variable("some", name).as_deref(), Some(value), "{lines}");
        }
        for (name, _) in not_set {
            assert_eq!(machine.variable("some", name), None, "{lines}");
        }
        // Again, with the drop-in there: as it is.
        machine.enable("some", &[]).unwrap();
    }
}

#[test]
fn programs_that_a_preload_does_not_serve_are_refused() {
    let machine = Machine::new(false);
    let refusal = |name: &str, program: &str| {
        machine.write(
            &format!("/lib/systemd/system/{name}.service"),
            &format!("[Service]\nExecStart={program}\n"),
        );
        message(machine.enable(name, &[]))
    };
    assert!(
        refusal("postgresql@15-main", "/usr/bin/pg_ctlcluster 15-main start")
            .contains("/etc/postgresql/VERSION/CLUSTER/environment")
    );
    assert!(refusal("postgresql", "/bin/true").contains("starts /bin/true, which is not a daemon"));
    let go = format!("{PROGRAM} const char go[] __attribute__((section(\".go.buildinfo\"))) = \"go\";");
    machine.compile("/usr/bin/prometheus", &go, "prometheus", "");
    assert!(refusal("prometheus", "/usr/bin/prometheus").contains("is made by Go"));
}

#[test]
fn a_profile_of_apparmor_lets_libraries_be_mapped_from_below_usr_lib_alone() {
    let machine = Machine::new(false);
    machine.write("/lib/systemd/system/some.service", "[Service]\nExecStart=/usr/bin/ceph-osd -f\n");
    machine.write("/etc/apparmor.d/usr.bin.ceph-osd", "/usr/bin/ceph-osd {\n}\n");
    let refusal = message(machine.enable("some", &[]));
    assert!(
        refusal.contains(
            "the line '/usr/local/lib/libvcmalloc.so mr,' to /etc/apparmor.d/local/usr.bin.ceph-osd"
        ),
        "{refusal}"
    );
    machine.write("/etc/apparmor.d/local/usr.bin.ceph-osd", "/usr/local/lib/libvcmalloc.so mr,\n");
    machine.enable("some", &[]).unwrap();
}

#[test]
fn an_option_cannot_write_a_line_of_its_own_into_the_drop_in() {
    let machine = Machine::new(false);
    let refusal = message(machine.enable("ceph-osd@3", &["last_words=/var/x\nExecStartPre=/bin/evil"]));
    assert!(refusal.contains("nothing was written") && !machine.root.path(DROP_IN).exists(), "{refusal}");
}

const JEMALLOCS_UNIT: &str = "/lib/systemd/system/redis.service";
const JEMALLOC_STAND_IN: &str = "/usr/local/lib/vcmalloc/jemalloc/libjemalloc.so.2";

/// A machine with a service that is linked with jemalloc, and with ours in its place.
fn machine_with_jemalloc() -> Machine {
    let machine = Machine::new(false);
    let jemalloc = "/usr/lib/libjemalloc.so.2";
    machine.library(jemalloc, "libjemalloc.so.2", "void malloc(void) {} void mallctl(void) {}");
    machine.library(
        JEMALLOC_STAND_IN,
        "libjemalloc.so.2",
        "void malloc(void) {} void vcm_version(void) {} void mallctl(void) {}",
    );
    machine.compile("/usr/bin/redis-server", PROGRAM, "redis-server", jemalloc);
    machine.write(JEMALLOCS_UNIT, "[Service]\nExecStart=/usr/bin/redis-server\n");
    machine
}

#[test]
fn a_program_linked_with_jemalloc_gets_ours_in_its_place_where_it_is_there() {
    let machine = machine_with_jemalloc();
    let preload = || machine.variable("redis", "LD_PRELOAD");
    machine.enable_found("redis").unwrap();
    assert_eq!(preload().as_deref(), Some(JEMALLOC_STAND_IN));
    // A library that was chosen stays.
    machine.enable("redis", &[]).unwrap();
    assert_eq!(preload().as_deref(), Some("/usr/local/lib/libvcmalloc.so"));
    fs::remove_file(machine.root.path(JEMALLOC_STAND_IN)).unwrap();
    machine.enable_found("redis").unwrap();
    assert_eq!(preload().as_deref(), Some("/usr/local/lib/libvcmalloc.so"));
}

#[test]
fn ours_takes_the_place_of_a_jemalloc_that_the_unit_preloads() {
    let machine = machine_with_jemalloc();
    let unit =
        "[Service]\nExecStart=/usr/bin/ceph-osd\nEnvironment=LD_PRELOAD=/usr/lib/libjemalloc.so.2:/a.so\n";
    machine.write("/lib/systemd/system/mariadb.service", unit);
    let before = machine.etc();
    machine.enable_found("mariadb").unwrap();
    let wanted = format!("{JEMALLOC_STAND_IN}:/a.so");
    assert_eq!(machine.variable("mariadb", "LD_PRELOAD"), Some(wanted));
    machine.disable("mariadb").unwrap();
    assert_eq!(machine.etc(), before);
}
