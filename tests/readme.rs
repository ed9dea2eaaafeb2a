//! README.md's commands are run as they are written. Of those that need root, a network or many minutes, the target is in the
//! Makefile, or the verb takes the options. A command without a row in `COMMANDS` fails.
//!
//! In a line that is run `vcm` is the built tool, `/path/to/libvcmalloc.so` the built library, and `redis-server`, `program` and
//! `daemon` are a small program of ours.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use vcmalloc_tests::{Ground, compile, library, run};

/// How a command of the README is tested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// Its targets are in the Makefile, its packages among those that `make deb` builds.
    Known,
    /// Run; it ends with one of these codes and prints this.
    Run(&'static [i32], &'static str),
    /// Run with these further arguments, for a machine in a folder.
    RunWith(&'static str, &'static str),
    /// Run with the id of the server in place of its name.
    OnServer(&'static str),
    /// Runs until SIGTERM, in a separate test.
    Serves,
}

const COMMANDS: &[(&str, How)] = &[
    ("make demo", How::Known),
    ("make test", How::Known),
    (
        "make deb && sudo apt install ./target/packages/{libvcmalloc0,libvcmalloc-hardened0,vcmalloc-tools,\
         vcmalloc-tcmalloc-compat,vcmalloc-jemalloc-compat}_*.deb",
        How::Known,
    ),
    // Findings of the machine that runs the test are no failure.
    ("sudo vcm doctor", How::Run(&[0, 1], "")),
    ("sudo vcm enable ceph-osd@3", How::RunWith("--root machine", "vcmalloc.conf")),
    ("sudo vcm disable ceph-osd@3", How::RunWith("--root machine", "vcmalloc.conf")),
    ("vcm compare -- ./program", How::Run(&[0], "vcmalloc")),
    ("vcm run -v --cache-limit 64M --stats -- redis-server --port 7000", How::Serves),
    ("vcm stat redis-server", How::OnServer("RSS")),
    ("vcm release redis-server", How::OnServer("")),
    ("vcm top", How::Run(&[0], "RSS")),
    ("vcm profile redis-server", How::OnServer("")),
    ("vcm serve", How::Serves),
    ("vcm record -o trace.vct -- ./program", How::Run(&[0], "on another allocator")),
    ("LD_PRELOAD=/path/to/libvcmalloc.so VCM_CACHE_LIMIT=64M ./daemon", How::Run(&[0], "on vcmalloc")),
];

fn readme() -> String {
    fs::read_to_string(library::repository().join("README.md")).expect("the README can be read")
}

/// Each line of code of a page, fenced or indented, without its comment.
fn commands(page: &str) -> Vec<String> {
    let (mut inside, mut found) = (false, Vec::new());
    for line in page.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if inside || line.starts_with("    ") {
            let command = if line.trim_start().starts_with('#') { "" } else { line };
            let command = command.split(" # ").next().unwrap_or_default().trim();
            found.extend((!command.is_empty()).then(|| command.to_owned()));
        }
    }
    found
}

/// The text between single backticks.
fn inline(page: &str) -> Vec<&str> {
    page.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

fn makefile() -> String {
    fs::read_to_string(library::repository().join("Makefile")).expect("the Makefile can be read")
}

/// The targets in `make A && make B`, also behind `sudo`.
fn targets(text: &str) -> BTreeSet<&str> {
    let words: Vec<&str> = text.split(|letter: char| !(letter.is_alphanumeric() || letter == '-')).collect();
    let pairs = words.windows(2).filter(|pair| pair[0] == "make");
    pairs.map(|pair| pair[1]).filter(|target| !target.is_empty()).collect()
}

/// A folder with the tool and a small program under every name of the README, and a machine with ceph-osd@.service.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Self { folder };
        let tool = library::tool().unwrap_or_else(|error| panic!("{error}"));
        library::interposer().and_then(|_| library::our_shared()).unwrap_or_else(|error| panic!("{error}"));
        symlink(tool, place.path("vcm")).expect("a link to the tool");
        let source = library::repository().join("tests/readme/program.c");
        let program =
            compile::program(&source, Ground::Preload, &[]).unwrap_or_else(|error| panic!("{error}"));
        for name in ["program", "daemon", "redis-server"] {
            fs::copy(&program, place.path(name)).expect("a copy of the program");
        }
        // The tests run without privileges of their own.
        place.script("sudo", "exec \"$@\"");
        let machine = place.path("machine");
        for (path, content) in [
            ("lib/systemd/system/ceph-osd@.service", "[Service]\nExecStart=/usr/bin/ceph-osd -f --id %i\n"),
            ("usr/bin/ceph-osd", "#!/bin/true\n"),
        ] {
            fs::create_dir_all(machine.join(path).parent().expect("a folder")).expect("a folder");
            fs::write(machine.join(path), content).expect("a file");
        }
        fs::create_dir_all(machine.join("usr/local/lib")).expect("a folder");
        fs::copy(shared(), machine.join("usr/local/lib/libvcmalloc.so")).expect("a copy of the library");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn script(&self, name: &str, line: &str) {
        use std::os::unix::fs::PermissionsExt;
        fs::write(self.path(name), format!("#!/bin/sh\n{line}\n")).expect("a script");
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).expect("a script");
    }

    /// A line for the shell, in the folder.
    fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        Ground::Glibc.prepare(&mut command).unwrap_or_else(|error| panic!("{error}"));
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(["-c", &line.replace("/path/to/libvcmalloc.so", &shared().to_string_lossy())])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", self.folder.path().display()));
        command
    }

    fn runs(&self, line: &str, codes: &[i32], says: &str) {
        let finished = run(&mut self.shell(line), Duration::from_secs(300))
            .unwrap_or_else(|error| panic!("{line}: {error}"));
        let text = format!("{}{}", finished.text(), finished.complaints);
        let code = finished.status.code().unwrap_or(-1);
        assert!(
            codes.contains(&code) && text.contains(says),
            "{line}\nended with {code}, not {codes:?} and '{says}':\n{text}"
        );
    }
}

fn shared() -> PathBuf {
    library::our_shared().unwrap_or_else(|error| panic!("{error}"))
}

/// A command that runs until it is ended, by `exec` so that the signal reaches it.
struct Serving(Child);

impl Serving {
    fn start(place: &Place, line: &str) -> Serving {
        let mut command = place.shell(&format!("exec {line}"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).env("VCM_PROFILE", "on");
        Serving(command.spawn().unwrap_or_else(|error| panic!("{line}: {error}")))
    }

    /// Lines of stdout up to the one that begins so.
    fn until(&mut self, begin: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let mut output = BufReader::new(self.0.stdout.take().expect("a pipe"));
        let mut line = String::new();
        while output.read_line(&mut line).expect("a line") > 0 {
            lines.push(line.trim_end().to_owned());
            if line.starts_with(begin) {
                return lines;
            }
            line.clear();
        }
        panic!("no line begins with '{begin}': {lines:?}");
    }

    /// Code and stderr, after SIGTERM.
    fn end(mut self) -> (Option<i32>, String) {
        // SAFETY: sends a signal to a child of our own that was not waited for.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        let mut said = String::new();
        self.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        (self.0.wait().expect("an end").code(), said)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_command_has_a_class_and_every_class_a_command() {
    let found = commands(&readme());
    let unknown: Vec<&String> =
        found.iter().filter(|line| !COMMANDS.iter().any(|(known, _)| known == line)).collect();
    assert!(unknown.is_empty(), "give these commands of README.md a row in tests/readme.rs: {unknown:#?}");
    let gone: Vec<&str> = COMMANDS
        .iter()
        .map(|(known, _)| *known)
        .filter(|known| !found.iter().any(|line| line == known))
        .collect();
    assert!(gone.is_empty(), "no longer in README.md: {gone:#?}");
}

#[test]
fn every_target_and_package_that_is_named_exists() {
    let (readme, makefile) = (readme(), makefile());
    let named = targets(&readme);
    let missing: Vec<&&str> = named
        .iter()
        .filter(|target| !makefile.lines().any(|line| line.starts_with(&format!("{target}:"))))
        .collect();
    assert!(named.len() > 5 && missing.is_empty(), "not in the Makefile: {missing:?}");
    for (line, _) in COMMANDS.iter().filter(|(_, how)| *how == How::Known) {
        let packages = line.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        let control =
            fs::read_to_string(library::repository().join("packaging/debian/control")).expect("the packages");
        for package in packages.map_or("", |(names, _)| names).split(',').filter(|name| !name.is_empty()) {
            assert!(
                control.lines().any(|line| line == format!("Package: {package}")),
                "no package {package}"
            );
        }
    }
}

#[test]
fn every_verb_in_the_text_takes_its_options() {
    let place = Place::new();
    let readme = readme();
    let lines = commands(&readme);
    let typed = lines.iter().map(String::as_str).chain(inline(&readme));
    for line in typed.filter_map(|line| line.trim_start_matches("sudo ").strip_prefix("vcm ")) {
        let own: Vec<&str> = line.split(" -- ").next().unwrap_or_default().split_whitespace().collect();
        let Some(verb) = own.first().filter(|verb| **verb != "lab") else { continue };
        let help = run(&mut place.shell(&format!("vcm {verb} --help")), Duration::from_secs(60));
        let help = help.unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(help.status.code(), Some(0), "vcm {verb} --help: {}", help.text());
        for flag in own.iter().filter(|word| word.starts_with("-")) {
            let has = |text: &str| {
                text.split(|letter: char| letter.is_whitespace() || letter == ',').any(|word| word == *flag)
            };
            assert!(has(&help.text()), "vcm {verb} has no {flag}");
        }
    }
}

#[test]
fn commands_that_end_run_as_they_are_written() {
    let place = Place::new();
    for (line, how) in COMMANDS {
        match how {
            How::Run(codes, says) => place.runs(line, codes, says),
            How::RunWith(more, says) => place.runs(&format!("{line} {more}"), &[0], says),
            How::Known | How::OnServer(_) | How::Serves => {}
        }
    }
    assert!(!place.path("machine/etc/systemd/system/ceph-osd@3.service.d/vcmalloc.conf").exists());
    place.runs("vcm bounds trace.vct", &[0], "live");
}

#[test]
fn commands_for_a_running_process_run_on_the_one_that_vcm_run_starts() {
    let place = Place::new();
    let (line, _) =
        COMMANDS.iter().find(|(line, _)| line.starts_with("vcm run ")).expect("the README has vcm run");
    let mut server = Serving::start(&place, line);
    let said = server.until("ready");
    assert_eq!(said[0], "on vcmalloc");
    let pid = child_of(server.0.id());
    for (line, how) in COMMANDS {
        if let How::OnServer(says) = how {
            place.runs(&line.replace("redis-server", &pid), &[0], says);
        }
    }
    // vcm passes the signal on.
    let (code, told) = server.end();
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("runs on vcmalloc") && told.contains("at most 67108864 (environment)"), "{told}");
}

/// The process that `vcm run` started.
fn child_of(parent: u32) -> String {
    let children =
        fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).expect("its children");
    let is_server = |id: &&str| {
        fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.trim() == "redis-server")
    };
    children
        .split_whitespace()
        .find(is_server)
        .unwrap_or_else(|| panic!("vcm {parent}: {children}"))
        .to_owned()
}

#[test]
fn the_server_of_metrics_listens_and_ends_at_a_signal() {
    let place = Place::new();
    let (line, _) = COMMANDS.iter().find(|(line, _)| *line == "vcm serve").expect("the README has vcm serve");
    // The default port may be in use here.
    let mut agent = Serving::start(&place, &format!("{line} --listen 127.0.0.1:0"));
    agent.until("listening on ");
    assert_eq!(agent.end().0, Some(0));
}

#[test]
fn commands_are_found_in_every_form() {
    let page = "text `make one`\n\n    make two && sudo make three   # why\n      # only a comment\n```sh\nvcm top # live\n```\nend\n";
    assert_eq!(commands(page), ["make two && sudo make three", "vcm top"]);
    assert_eq!(targets(page), BTreeSet::from(["one", "two", "three"]));
    assert_eq!(inline("a `b c` d `e`\n"), ["b c", "e"]);
}
