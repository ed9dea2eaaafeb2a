//! The real sshd on each library: logins, a copy, and the proof that its child before the login, which is
//! shut in by a system call filter, runs on the library too.

#[path = "sandboxed/on.rs"]
mod on;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use on::On;
use tempfile::TempDir;
use vcmalloc_tests::{child, library, machine, run};

const SSHD: &str = "/usr/sbin/sshd";
const MINUTE: Duration = Duration::from_secs(60);
const LOGINS: u32 = 5;
const COPIED_BYTES: usize = 20_000_000;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = missing();
    if let Some(what) = &missing {
        eprintln!("sshd is left out: {what}");
    }
    let trial = |on: On| {
        Trial::test(format!("five_logins_and_a_copy::{}", on.name()), move || Ok(prove(on)?))
            .with_ignored_flag(missing.is_some())
    };
    let trials = std::iter::once(On::Glibc).chain(On::OURS).map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The thing that this machine lacks. sshd gives up privileges before a login, so it needs some.
fn missing() -> Option<&'static str> {
    // SAFETY: the call has no arguments and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    match () {
        () if machine::is_other() => Some("it is not for another machine"),
        () if !is_root => Some("only root can start it with its separation of privileges"),
        () if !has_sshd() => Some("openssh-server is neither installed nor unpacked (scripts/setup test)"),
        () if !may_mount() => Some("a mount namespace with an overlay cannot be made here"),
        () => None,
    }
}

fn has_sshd() -> bool {
    [Path::new(SSHD), &machine::unpacked().join(&SSHD[1..])].iter().any(|place| place.exists())
}

/// In a container without rights of its own it may not.
fn may_mount() -> bool {
    let mut unshare = Command::new("unshare");
    unshare.arg("--mount").arg(library::repository().join("tests/sshd/in_a_namespace"));
    unshare.arg(machine::unpacked()).arg("true");
    unshare.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A server on a free port of the loopback, with keys and files of its own, ended when dropped.
struct Server {
    process: Child,
    port: u16,
    folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        child::end_group(&self.process);
        let _ = self.process.wait();
    }
}

impl Server {
    fn start(on: On) -> Result<Server, String> {
        let folder = TempDir::new().map_err(|error| error.to_string())?;
        let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr());
        let port = port.map_err(|error| error.to_string())?.port();
        configure(folder.path(), port)?;
        let log = File::create(folder.path().join("log")).map_err(|error| error.to_string())?;
        let mut command = Command::new("unshare");
        command.arg("--mount").arg(library::repository().join("tests/sshd/in_a_namespace"));
        command
            .arg(machine::unpacked())
            .args([SSHD, "-D", "-e", "-f"])
            .arg(folder.path().join("sshd_config"));
        on.prepare(&mut command)?;
        let output = log.try_clone().map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stdout(output).stderr(log);
        let process = child::apart(&mut command).spawn().map_err(|error| format!("{SSHD}: {error}"))?;
        let server = Server { process, port, folder };
        server.greeting()?;
        Ok(server)
    }

    fn log(&self) -> String {
        child::tail(&fs::read_to_string(self.folder.path().join("log")).unwrap_or_default())
    }

    /// A connection that has been greeted and says nothing.
    fn greeting(&self) -> Result<TcpStream, String> {
        let start = Instant::now();
        loop {
            let mut word = [0; 4];
            if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
                let _ = stream.set_read_timeout(Some(MINUTE));
                if stream.read_exact(&mut word).is_ok() && word == *b"SSH-" {
                    return Ok(stream);
                }
            }
            if start.elapsed() > Duration::from_secs(30) {
                return Err(format!("sshd does not greet:\n{}", self.log()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A client's command, on glibc, with the options that all have.
    fn client(&self, program: &str, port_flag: &str, arguments: &[&str]) -> Result<String, String> {
        let place = |name: &str| self.folder.path().join(name).display().to_string();
        let mut command = machine::debians(program);
        command.args(["-F", "/dev/null", port_flag, &self.port.to_string(), "-i", &place("key")]);
        for option in ["BatchMode=yes", "StrictHostKeyChecking=no", "IdentitiesOnly=yes", "LogLevel=ERROR"] {
            command.args(["-o", option]);
        }
        command.args(["-o", &format!("UserKnownHostsFile={}", place("known_hosts"))]).args(arguments);
        let finished = run(&mut command, MINUTE)?;
        finished.succeeded().map_err(|error| format!("{program}: {error}\nsshd says:\n{}", self.log()))?;
        Ok(finished.text())
    }
}

fn configure(folder: &Path, port: u16) -> Result<(), String> {
    for name in ["host_key", "key"] {
        let mut command = machine::debians("ssh-keygen");
        command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(name));
        run(&mut command, MINUTE)?.succeeded()?;
    }
    let place = folder.display();
    let text = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {place}/host_key\nPidFile {place}/pid\n\
         AuthorizedKeysFile {place}/key.pub\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n\
         PermitRootLogin prohibit-password\nUseDNS no\nSubsystem sftp internal-sftp\n"
    );
    let written = fs::write(folder.join("sshd_config"), text);
    let open = || fs::set_permissions(folder, fs::Permissions::from_mode(0o755));
    written.and_then(|()| open()).map_err(|error| format!("{place}: {error}"))
}

fn prove(on: On) -> Result<(), String> {
    let server = Server::start(on)?;
    every_process_runs_on(&server, on)?;
    for login in 1..=LOGINS {
        let said = server.client("ssh", "-p", &["127.0.0.1", "echo answer $((6 * 7))"])?;
        if said != "answer 42\n" {
            return Err(format!("login {login} of {LOGINS} answers {said:?}"));
        }
    }
    let bytes: Vec<u8> =
        (0..COPIED_BYTES as u64).map(|at| (at.wrapping_mul(2654435761) >> 13) as u8).collect();
    let (from, to) = (server.folder.path().join("from"), server.folder.path().join("to"));
    fs::write(&from, &bytes).map_err(|error| error.to_string())?;
    let there = format!("127.0.0.1:{}", to.display());
    server.client("scp", "-P", &[&from.display().to_string(), &there])?;
    match fs::read(&to) {
        Ok(copied) if copied == bytes => Ok(()),
        Ok(copied) => Err(format!("the copy differs; it has {} bytes of {COPIED_BYTES}", copied.len())),
        Err(error) => Err(format!("there is no copy: {error}")),
    }
}

/// sshd starts itself again for each connection. The child that waits for the login must have the library as
/// well, or the test would show nothing.
fn every_process_runs_on(server: &Server, on: On) -> Result<(), String> {
    let mut waiting = server.greeting()?;
    waiting.write_all(b"SSH-2.0-waits\r\n").map_err(|error| format!("cannot greet sshd: {error}"))?;
    let start = Instant::now();
    loop {
        let family = descendants(server.process.id());
        let shut_in = family.iter().find(|pid| status_of(**pid).contains("Seccomp:\t2"));
        if let Some(pid) = shut_in {
            let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
            let library = on.library()?.map(|path| fs::canonicalize(&path).unwrap_or(path));
            return match library {
                Some(library) if !maps.contains(&*library.to_string_lossy()) => {
                    Err(format!("the child before the login does not run on {}", library.display()))
                }
                _ => Ok(()),
            };
        }
        if start.elapsed() > Duration::from_secs(30) {
            return Err(format!("no child before the login in a filter:\n{}", server.log()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn status_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()
}

/// By the parents that every process names: not every kernel lists a process's children.
fn descendants(of: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = processes.filter_map(|pid| Some((pid, parent_of(pid)?))).collect();
    let mut family = vec![of];
    let mut looked_at = 0;
    while looked_at < family.len() {
        let parent = family[looked_at];
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        looked_at += 1;
    }
    family
}

fn parent_of(pid: u32) -> Option<u32> {
    status_of(pid).lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}
