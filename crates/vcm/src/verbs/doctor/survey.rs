//! The survey that the checks look at: the daemons, each with its allocator and settings, and the machine.
//!
//! Owns the looking: everything is read once, before the first check, and what could not be read is noted
//! with the daemon.

use super::settings::{self, AllocatorSetting, Own, Started};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use vcm_foreign::{Shown, Text, file};
use vcm_inspect::allocator::{self, Answer};
use vcm_inspect::ceph::{self, Settings as CephSettings, Source, conf, socket};
use vcm_inspect::daemon::{self, Role};
use vcm_inspect::elf::{self, Depth, Look};
use vcm_inspect::process::{self, Process};
use vcm_inspect::root::Root;
use vcm_inspect::{dependencies, loaded, privileges, systemd, window};
use vcmalloc_core::options::OptionId;

const NO_ENVIRONMENT: &str =
    "it is empty, in its memory too: the process was started without one, or cleared it";

/// The folder where an OSD keeps its data unless it is told otherwise.
pub const OSD_DATA: &str = "/var/lib/ceph/osd/$cluster-$id";

pub struct Survey {
    pub root: Root,
    pub daemons: Vec<Daemon>,
}

pub struct Daemon {
    pub process: Process,
    pub role: Role,
    /// The name that operators give it.
    pub label: String,
    pub unit: Option<systemd::Unit>,
    pub unit_name: Option<String>,
    /// Variables that its unit sets, and where.
    pub settings_files: Vec<(String, PathBuf)>,
    pub program: Option<PathBuf>,
    pub command: Vec<OsString>,
    /// None where it may not be read, or the process has written over it and its memory has none either.
    pub environment: Option<Vec<(OsString, OsString)>>,
    /// The process has written over that of its start, so this one is out of its memory.
    pub is_environment_of_now: bool,
    pub allocator: Answer,
    /// Entries of LD_PRELOAD that are not in the process.
    pub refused_preloads: Vec<Text>,
    pub settings: Vec<AllocatorSetting>,
    /// The faults in the settings of our own library.
    pub setting_warnings: Vec<String>,
    pub ceph: Option<CephSettings>,
    /// Bricks in this process, by the volumes that were attached to it.
    pub bricks: Option<u64>,
    /// In a container or a chroot.
    pub is_contained: bool,
    pub not_seen: Vec<String>,
}

impl Survey {
    pub fn of(root: Root, ids: &[i32]) -> Self {
        let daemons = ids.iter().filter_map(|id| Daemon::look(&root, *id)).collect();
        Survey { root, daemons }
    }

    /// Those of which it could not be seen which allocator serves them.
    pub fn without_allocator(&self) -> impl Iterator<Item = &Daemon> {
        self.daemons.iter().filter(|daemon| daemon.allocator.serving.is_none())
    }

    pub fn with_role(&self, role: Role) -> impl Iterator<Item = &Daemon> {
        self.daemons.iter().filter(move |daemon| daemon.role == role)
    }
}

/// The storage daemons that run here, in the order of their ids.
pub fn daemons_on(root: &Root) -> Vec<(i32, Role)> {
    let of = |id: &i32| Role::of_process(&Process::in_root(root, *id));
    let all = process::all(root).into_iter().map(|id| (id, of(&id)));
    all.filter(|(_, role)| *role != Role::Other).collect()
}

impl Daemon {
    /// None when there is no such process any more.
    pub fn look(root: &Root, id: i32) -> Option<Self> {
        let process = Process::in_root(root, id);
        let command = process.command_line().ok()?;
        let role = Role::of_process(&process);
        let mut not_seen = Vec::new();
        let environment = note(&mut not_seen, "its environment", process.variables());
        let is_of_now = environment.as_ref().is_some_and(|environment| environment.is_of_now);
        let environment = environment.map(|environment| environment.pairs);
        let environment = environment.filter(|environment| {
            if environment.is_empty() && !command.is_empty() {
                not_seen.push(format!("its environment: {NO_ENVIRONMENT}"));
            }
            !environment.is_empty()
        });
        let program = note(&mut not_seen, "its program", process.program());
        let unit_name = process.unit();
        let unit = unit_name.as_deref().and_then(|name| systemd::find(root, name).ok());
        let assignments = unit.as_ref().map(|unit| unit.assignments(root)).unwrap_or_default();
        let mut daemon = Daemon {
            settings_files: assignments.into_iter().map(|set| (set.name, set.file)).collect(),
            label: daemon::label(role, &command).printed(),
            allocator: Answer::unknown("not inspected yet"),
            refused_preloads: Vec::new(),
            settings: Vec::new(),
            setting_warnings: Vec::new(),
            ceph: None,
            bricks: None,
            is_contained: program.is_some() && !process.has_our_root(),
            is_environment_of_now: is_of_now,
            process,
            role,
            unit,
            unit_name,
            program,
            command,
            environment,
            not_seen,
        };
        daemon.look_at_allocator(root);
        let started = Started {
            answer: &daemon.allocator,
            process: &daemon.process,
            environment: daemon.environment.as_deref(),
            unit: daemon.unit.as_ref(),
        };
        (daemon.settings, daemon.setting_warnings) = settings::of(root, started);
        if role.is_ceph() {
            daemon.ceph = Some(daemon.read_ceph_settings());
        }
        if role == Role::Glusterfsd {
            daemon.bricks = bricks_of(&daemon.process, &daemon.command);
        }
        Some(daemon)
    }

    /// `osd.3 (pid 4711)`.
    pub fn title(&self) -> String {
        format!("{} (pid {})", self.label, self.process.id)
    }

    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        let environment = self.environment.as_ref()?;
        environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }

    /// The setting of an option of ours, and its value where that is known; none where the allocator is another.
    pub fn own_setting(&self, id: OptionId) -> Option<(&AllocatorSetting, Option<u64>)> {
        self.settings.iter().find_map(|set| {
            let Own { id: own, value } = set.own?;
            (own == id).then_some((set, value))
        })
    }

    pub fn ceph_id(&self) -> &str {
        self.label.split_once('.').map_or("", |(_, id)| id)
    }

    /// The store in which an OSD keeps its data, by the data's own note, else by the setting.
    pub fn object_store(&self) -> Option<String> {
        let note = self.process.as_seen_by_it(&self.data_folder().join("type"));
        let set = || self.ceph.as_ref()?.get("osd_objectstore").map(|set| set.value);
        file::text(&note).ok().map(|kind| kind.trim().shown().printed()).or_else(set)
    }

    pub fn data_folder(&self) -> PathBuf {
        self.ceph_path("osd_data", OSD_DATA)
    }

    /// The file of its unit that sets a variable.
    pub fn settings_file_of(&self, variable: &str) -> Option<String> {
        let set = self.settings_files.iter().find(|(name, _)| name == variable);
        set.map(|(_, file)| file.shown().to_string())
    }

    fn look_at_allocator(&mut self, root: &Root) {
        match loaded::of(&self.process, self.environment.as_deref()) {
            Ok(objects) if !objects.objects.is_empty() => {
                self.allocator = allocator::of(&objects);
                let is_ours = self.allocator.kind().is_some_and(|kind| kind.is_ours());
                if let Some(build) = (!is_ours).then(|| window::rust_half(&self.process)).flatten() {
                    self.allocator.evidence.push(format!("its Rust half runs on vcmalloc {build}"));
                }
                self.refused_preloads = objects.refused_preloads;
            }
            Ok(_) => self.allocator = Answer::unknown(self.why_nothing_is_mapped("/proc/PID/maps is empty")),
            Err(error) => {
                self.not_seen.push(format!("its mapped files (/proc/{}/maps): {error}", self.process.id));
                self.allocator = Answer::unknown(match error.kind() {
                    io::ErrorKind::PermissionDenied => self.what_its_file_says(root),
                    _ => self.why_nothing_is_mapped(&format!("its mapped files cannot be read ({error})")),
                });
            }
        }
    }

    /// A process may end while it is looked at.
    fn why_nothing_is_mapped(&self, seen: &str) -> String {
        let why = self.process.condition().why_not_seen();
        why.map_or(seen.to_string(), |why| format!("the process {why}"))
    }

    /// The answer without a look into the process: what its program is linked with.
    fn what_its_file_says(&self, root: &Root) -> String {
        let why = format!("its mapped files may not be read ({})", privileges::how_to_see_more());
        let named = self.command.first().map(|word| root.path(Path::new(word)));
        let Some(path) = named.filter(|path| path.is_absolute() && path.is_file()) else { return why };
        let Ok(Look::Elf(elf)) = elf::look(&path, Depth::Loading) else { return why };
        let linked = dependencies::of_in(root, &path, &elf, "");
        let known = ["libtcmalloc", "libjemalloc", "libmimalloc", "libvcmalloc"];
        let allocator = linked.iter().find(|library| known.iter().any(|name| library.name.starts_with(name)));
        match allocator {
            Some(library) => {
                format!("{why}; its program is linked with {}, without a preload that is it", library.name)
            }
            None => format!("{why}; its program is linked with no allocator but libc's"),
        }
    }

    fn read_ceph_settings(&mut self) -> CephSettings {
        let mut why_not = None;
        for path in socket::of(&self.process) {
            match socket::settings(&self.process.as_seen_by_it(&path)) {
                Ok(values) => return CephSettings::new(Source::Socket(path), values),
                Err(error) => why_not = Some(format!("{}: {error}", path.shown())),
            }
        }
        let why_not = why_not.unwrap_or_else(|| "it has no admin socket that can be seen".into());
        let mut settings = self.read_ceph_conf();
        settings.not_seen = Some(format!("settings from the monitors and at run time ({why_not})"));
        self.not_seen.extend(settings.not_seen.clone());
        settings
    }

    fn cluster(&self) -> String {
        daemon::argument(&self.command, &["--cluster"]).map_or_else(|| "ceph".into(), |name| name.printed())
    }

    fn read_ceph_conf(&self) -> CephSettings {
        let cluster = self.cluster();
        let named = daemon::argument(&self.command, &["-c", "--conf"])
            .or_else(|| self.variable("CEPH_CONF").map(|path| path.shown()));
        let path = named.unwrap_or_else(|| format!("/etc/ceph/{cluster}.conf").into()).as_path().to_owned();
        let asker = conf::Asker { cluster: &cluster, kind: self.role.ceph_kind(), id: self.ceph_id() };
        match file::text(&self.process.as_seen_by_it(&path)) {
            Ok(text) => CephSettings::new(Source::File(path.clone()), conf::read(&text, &path, &asker)),
            Err(_) => CephSettings::new(Source::Nothing, BTreeMap::new()),
        }
    }

    /// A setting that is a path, with Ceph's default where nobody set it.
    pub fn ceph_path(&self, name: &str, default: &str) -> PathBuf {
        let cluster = self.cluster();
        let asker = conf::Asker { cluster: &cluster, kind: self.role.ceph_kind(), id: self.ceph_id() };
        let set =
            self.ceph.as_ref().and_then(|settings| settings.get(name)).map(|set: ceph::Setting| set.value);
        PathBuf::from(conf::expand(set.as_deref().filter(|path| !path.is_empty()).unwrap_or(default), &asker))
    }
}

fn note<T>(not_seen: &mut Vec<String>, what: &str, result: io::Result<T>) -> Option<T> {
    result.map_err(|error| not_seen.push(format!("{what}: {error}"))).ok()
}

/// The bricks in a process: each keeps its folder `.glusterfs` open.
fn bricks_of(process: &Process, command: &[OsString]) -> Option<u64> {
    let open = process.open_paths()?;
    let mut bricks: Vec<&Path> = open
        .iter()
        .filter_map(|path| {
            let at = path.iter().position(|part| part == ".glusterfs")?;
            path.ancestors().nth(path.iter().count() - at)
        })
        .collect();
    bricks.sort_unstable();
    bricks.dedup();
    let by_name = u64::from(daemon::argument(command, &["--brick-name"]).is_some());
    Some((bricks.len() as u64).max(by_name))
}

#[cfg(test)]
mod tests {
    use crate::verbs::doctor::fake::Fake;

    #[test]
    fn a_command_that_another_user_chose_is_quoted_before_root_pastes_it() {
        let fake = Fake::new();
        fake.process(103, "/usr/bin/ceph-mon -i a;reboot", "osd-plain");
        fake.write("/proc/103/cgroup", "0::/user.slice\n");
        let enabling = fake.survey().daemons[0].enabling();
        assert_eq!(enabling[1], "vcm run -- /usr/bin/ceph-mon -i 'a;reboot'");
    }

    #[test]
    fn mounts_of_its_own_alone_make_no_container() {
        let fake = Fake::new();
        fake.osd();
        fake.link("mnt:[2]", "/proc/103/ns/mnt");
        assert!(!fake.survey().daemons[0].is_contained);
        fake.write("/container/etc/hostname", "x");
        fake.link("/container", "/proc/103/root");
        assert!(fake.survey().daemons[0].is_contained);
    }

    #[test]
    fn the_malloc_of_glibcs_loader_is_no_allocator() {
        let fake = Fake::new();
        fake.osd().load("/usr/lib/ld-2.31.so", "loader");
        let allocator = &fake.survey().daemons[0].allocator;
        let names: Vec<&str> = allocator.all().map(|found| found.kind.name()).collect();
        assert_eq!(names, ["TCMalloc (gperftools, full)", "glibc malloc"]);
    }
}
