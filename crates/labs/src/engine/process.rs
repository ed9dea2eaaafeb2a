//! Starting programs: short errands that are waited for, and daemons.
//!
//! Owns how a lab's child is set up: a clean environment with the lab's mark, a session of its own (Ctrl-C at
//! the terminal reaches only the lab), no stdin, and, where asked for, a chroot, the machine's network, an
//! allocator. Promises that a stop ends an errand at once. Made by `Session::command`.

use super::identity::Identity;
use super::marked::MARK_VARIABLE;
use super::session::Session;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vcm_measure::allocators::Ready;
use vcm_measure::child::{text_of, try_wait, unnamed_file};

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program to be started. Setters as in `std::process::Command`.
pub struct Program<'a> {
    session: &'a Session,
    program: OsString,
    arguments: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    root: Option<PathBuf>,
    network: Option<Arc<File>>,
    own_mounts: Vec<PathBuf>,
    open_files: Option<u64>,
    limit: Duration,
    called: Option<String>,
    needs: Option<Process>,
}

/// The status and the output of an errand.
#[derive(Clone, Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// A daemon that was started here.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    pub name: String,
    pub identity: Identity,
    /// Its stdout and stderr.
    pub log: PathBuf,
}

impl Session {
    pub fn command(&self, program: impl AsRef<OsStr>) -> Program<'_> {
        Program::new(self, program.as_ref())
    }
}

impl<'a> Program<'a> {
    fn new(session: &'a Session, program: &OsStr) -> Self {
        let clean = [("PATH", PATH), ("LC_ALL", "C"), ("HOME", "/root"), ("TERM", "dumb")];
        Program {
            session,
            program: program.to_owned(),
            arguments: Vec::new(),
            environment: clean.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            root: None,
            network: None,
            own_mounts: Vec::new(),
            open_files: None,
            limit: Duration::from_secs(120),
            called: None,
            needs: None,
        }
    }

    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.insert(name.as_ref().to_owned(), value.as_ref().to_owned());
        self
    }

    /// Runs the program itself, nothing around it, on this allocator.
    pub fn allocator(self, allocator: &Ready) -> Self {
        allocator.environment().fold(self, |program, (name, value)| program.env(name, value))
    }

    /// The program and its files are those of another system below this directory.
    pub fn root(mut self, root: Option<&Path>) -> Self {
        self.root = root.map(Path::to_owned);
        self
    }

    /// In the machine's network, where the run has another: for what fetches something.
    pub fn outside(mut self) -> Self {
        self.network = self.session.outside().cloned();
        self
    }

    /// The program and its children see an empty directory of their own here, which must be there; it goes when they
    /// go.
    pub fn own_mount(mut self, path: impl Into<PathBuf>) -> Self {
        self.own_mounts.push(path.into());
        self
    }

    /// Raises the limit of open files as far as it can be raised up to this.
    pub fn open_files(mut self, wanted: u64) -> Self {
        self.open_files = Some(wanted);
        self
    }

    /// How long an errand may take.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// In messages, where the command line says nothing to a reader.
    pub fn called(mut self, name: impl Into<String>) -> Self {
        self.called = Some(name.into());
        self
    }

    /// An errand that waits for this daemon ends when the daemon does, with the daemon's reason.
    pub fn needs(mut self, daemon: Option<&Process>) -> Self {
        self.needs = daemon.cloned();
        self
    }

    /// Runs an errand to its end and fails, with what it said, if it failed.
    pub fn run(self) -> Result<Output> {
        let shown = self.shown();
        let output = self.output()?;
        if !output.status.success() {
            let said = format!("{}{}", tail(&output.stdout), tail(&output.stderr));
            bail!("`{shown}` failed ({}): {}", output.status, said.trim());
        }
        Ok(output)
    }

    /// Runs an errand to its end, whatever that is.
    pub fn output(self) -> Result<Output> {
        let shown = self.shown();
        let (session, needs) = (self.session, self.needs.clone());
        let (stop, limit) = (session.stop().clone(), self.limit);
        stop.check()?;
        let (mut stdout, mut stderr) = (unnamed_file()?, unnamed_file()?);
        let mark = self.session.journal().errand_mark();
        let identity = self.spawn(&mark, stdout.try_clone()?, stderr.try_clone()?)?;
        let begin = Instant::now();
        let status = loop {
            if let Some((status, _)) = try_wait(identity.pid as u32)? {
                break status;
            }
            // Looks often at first: most errands take a few milliseconds.
            let pause = begin.elapsed().min(Duration::from_millis(50)).max(Duration::from_millis(1));
            if let Err(error) = stop.sleep(pause) {
                identity.end(Duration::from_secs(1));
                return Err(error.context(format!("during `{shown}`")));
            }
            session.progress().still(brief(&shown));
            if let Some(Err(error)) = needs.as_ref().map(Process::check) {
                identity.end(Duration::from_secs(1));
                return Err(error.context(format!("during `{shown}`")));
            }
            if begin.elapsed() > limit {
                identity.end(Duration::from_secs(1));
                bail!("`{shown}` did not end within {} s", limit.as_secs());
            }
        };
        Ok(Output { status, stdout: text_of(&mut stdout)?, stderr: text_of(&mut stderr)? })
    }

    /// Starts a daemon. It, and all that it starts, is ended when the session's scope ends.
    pub fn start(self, name: &str) -> Result<Process> {
        self.session.check()?;
        let session = self.session;
        let log = session.directory().join(format!("{name}.out"));
        let open = || File::options().create(true).append(true).open(&log);
        let (stdout, stderr) = (open()?, open()?);
        let mark = session.journal().add_part()?;
        let identity = self.spawn(&mark, stdout, stderr)?;
        Ok(Process { name: name.to_owned(), identity, log })
    }

    /// The words that are typed to run it.
    fn shown(&self) -> String {
        if let Some(called) = &self.called {
            return called.clone();
        }
        let words = std::iter::once(&self.program).chain(&self.arguments);
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    fn spawn(self, mark: &str, stdout: File, stderr: File) -> Result<Identity> {
        let shown = self.shown();
        // Mounted before the root is changed.
        let outside = |path: &PathBuf| match &self.root {
            Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.clone(),
        };
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().envs(&self.environment).env(MARK_VARIABLE, mark);
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let setup = Setup {
            root: self.root.as_deref().map(c_path).transpose()?,
            network: self.network,
            own_mounts: self.own_mounts.iter().map(|path| c_path(&outside(path))).collect::<Result<_>>()?,
            open_files: self.open_files,
        };
        // SAFETY: between fork and exec `apply` makes system calls only, on memory that was prepared here.
        unsafe { command.pre_exec(move || setup.apply()) };
        let child = command.spawn().with_context(|| format!("cannot start `{shown}`"))?;
        Identity::of(child.id() as i32).with_context(|| format!("`{shown}` ended before it was seen"))
    }
}

/// The steps that the child takes before it becomes the program.
struct Setup {
    root: Option<CString>,
    network: Option<Arc<File>>,
    own_mounts: Vec<CString>,
    open_files: Option<u64>,
}

impl Setup {
    fn apply(&self) -> std::io::Result<()> {
        use nix::mount::{MsFlags, mount};
        use nix::sched::{CloneFlags, setns, unshare};
        nix::unistd::setsid()?;
        keep_no_descriptors();
        if let Some(network) = &self.network {
            setns(network.as_ref(), CloneFlags::CLONE_NEWNET)?;
        }
        if !self.own_mounts.is_empty() {
            let none = None::<&str>;
            unshare(CloneFlags::CLONE_NEWNS)?;
            mount(none, c"/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
            for path in &self.own_mounts {
                mount(Some(c"vcm-lab"), path.as_c_str(), Some(c"tmpfs"), MsFlags::empty(), none)?;
            }
        }
        if let Some(root) = &self.root {
            nix::unistd::chroot(root.as_c_str())?;
        }
        nix::unistd::chdir(c"/")?;
        if let Some(wanted) = self.open_files {
            raise_open_files(wanted);
        }
        Ok(())
    }
}

/// A daemon outlives the command that started it; with what the caller of `vcm` had open it would hold his
/// locks and keep his pipes from ending. They are closed by exec, as the network's descriptor is still needed
/// until then.
fn keep_no_descriptors() {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    // SAFETY: marks descriptors of this process, which is about to become another program. Kernels before
    // 5.11 refuse.
    unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, CLOSE_RANGE_CLOEXEC) };
}

/// Root may raise the hard limit up to fs.nr_open; everybody the soft one up to the hard one.
fn raise_open_files(wanted: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let both = |limit| Rlimit { current: Some(limit), maximum: Some(limit) };
    if setrlimit(Resource::Nofile, both(wanted)).is_err() {
        let hard = getrlimit(Resource::Nofile).maximum;
        let _ = setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard });
    }
}

/// The limit of open files that a child may be given, if so many are wanted.
pub fn open_files_possible(wanted: u64) -> u64 {
    use rustix::process::{Resource, getrlimit};
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    if hard >= wanted {
        return hard;
    }
    // Raising the hard limit takes a capability that root in a container may lack: a trial in a child tells.
    let trial = std::process::Command::new("sh").args(["-c", &format!("ulimit -Hn {wanted}")]).output();
    if trial.is_ok_and(|trial| trial.status.success()) { wanted } else { hard }
}

impl Process {
    pub fn pid(&self) -> i32 {
        self.identity.pid
    }

    /// An error with the end of its log if it is gone.
    pub fn check(&self) -> Result<()> {
        self.identity.reap();
        if self.identity.is_alive() {
            return Ok(());
        }
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        bail!("{} exited; the end of its log:\n{}", self.name, tail(&log));
    }

    /// Ends it: asks, and insists after `patience`.
    pub fn end(&self, patience: Duration) -> Result<()> {
        match self.identity.end(patience) {
            true => Ok(()),
            false => bail!("{} (pid {}) does not end", self.name, self.identity.pid),
        }
    }
}

/// Enough of a command to know it by.
fn brief(shown: &str) -> &str {
    const MOST: usize = 48;
    let blanks = shown.match_indices(' ').map(|(at, _)| at);
    if shown.len() <= MOST {
        shown
    } else {
        &shown[..blanks.take_while(|at| *at <= MOST).last().unwrap_or(shown.len())]
    }
}

fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).with_context(|| format!("{} holds a null byte", path.display()))
}

/// The last lines of what a program said: the reason is at the end.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(15);
    lines[from..].iter().map(|line| format!("{line}\n")).collect()
}
