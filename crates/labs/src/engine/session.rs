//! The session of a lab while it runs: the only way to start, make or wait for something.
//!
//! Owns the run's directory, journal, progress and notes. Promises that all that was made through it is
//! undone when it ends, in whatever way. Given to every function of a declaration; `ground`,
//! `process` and `packages` add what can be made, started and installed.

use super::journal::Journal;
use super::namespaces::Outside;
use super::request::Request;
use super::understood;
use super::undo::{Lasting, Undo};
use anyhow::{Context, Result, anyhow, bail};
use std::any::Any;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vcm_measure::allocators::{Places, Ready};
use vcm_measure::progress::Progress;
use vcm_measure::stop::Stop;

pub struct Session {
    lab: &'static str,
    lives_here: Option<String>,
    outside: Outside,
    request: Request,
    stop: Stop,
    journal: Journal,
    progress: Progress,
    directory: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    fixture: Option<Fixture>,
    scopes: u32,
    notes: Vec<String>,
    versions: BTreeMap<String, String>,
}

struct Fixture {
    key: String,
    place: usize,
    value: Arc<dyn Any + Send + Sync>,
}

impl Session {
    /// `lives_here` says what of the lab's kind is on this machine and not the lab's.
    pub fn begin(
        lab: &'static str,
        lives_here: Option<String>,
        request: Request,
        (journal, outside): (Journal, Outside),
        stop: Stop,
    ) -> Result<Session> {
        stop.check()?;
        let directory = request.work.join(format!("vcm-lab-{}", journal.mark()));
        let session = Session {
            lab,
            lives_here,
            outside,
            request,
            stop,
            journal,
            progress: Progress::new(),
            directory: directory.clone(),
            state: Mutex::default(),
        };
        session.ensure_shared_directory(&session.request.work)?;
        session.make_directory(&directory)?;
        Ok(session)
    }

    /// The name of the lab.
    pub fn lab(&self) -> &'static str {
        self.lab
    }

    pub fn lives_here(&self) -> Option<&str> {
        self.lives_here.as_deref()
    }

    /// The machine's network, where the run has another.
    pub fn outside(&self) -> Option<&Arc<File>> {
        self.outside.as_ref()
    }

    /// The words before a command that is to see what the run sees; none where it sees what everybody does.
    pub fn entering(&self) -> String {
        let holder = self.journal.holder();
        holder.map_or(String::new(), |holder| format!("nsenter -t {} -a ", holder.pid))
    }

    pub fn request(&self) -> &Request {
        &self.request
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The run's own directory; it goes when the run ends.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Telling

    /// A line that stays on the terminal.
    pub fn say(&self, text: &str) {
        self.progress.say(text);
    }

    /// Tells what is being done now; also a place where a run can be stopped.
    pub fn step(&self, text: &str) -> Result<()> {
        self.progress.step(text);
        self.check()
    }

    /// A sentence for the reader of the results; the same sentence is noted once.
    pub fn note(&self, text: impl Into<String>) {
        let text = text.into();
        let mut state = self.state();
        if !state.notes.contains(&text) {
            state.notes.push(text);
        }
    }

    pub fn notes(&self) -> Vec<String> {
        self.state().notes.clone()
    }

    /// Puts a version among the results.
    pub fn version(&self, what: &str, version: impl Into<String>) {
        self.state().versions.insert(what.to_owned(), version.into());
    }

    pub fn versions(&self) -> BTreeMap<String, String> {
        self.state().versions.clone()
    }

    // Waiting

    pub fn check(&self) -> Result<()> {
        self.stop.check()
    }

    pub fn sleep(&self, time: Duration) -> Result<()> {
        self.stop.sleep(time)
    }

    pub fn wait_for<T>(
        &self,
        what: &str,
        limit: Duration,
        look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        self.stop.wait_for(what, limit, look)
    }

    // The request

    /// A setting of the lab; `run` has filled in the defaults.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.request.settings.get(name).map(String::as_str)
    }

    pub fn number(&self, name: &str) -> Result<u64> {
        let text = self.setting(name).with_context(|| format!("--{name} is not set"))?;
        text.parse().with_context(|| format!("--{}: '{text}' is not a number", name.replace('_', "-")))
    }

    /// An allocator for a daemon of this system.
    pub fn allocator(&self, name: &str) -> Result<Ready> {
        self.allocator_in(name, None, None)
    }

    /// An allocator for a daemon of the system below `root`; `ours` in place of libvcmalloc.so, as seen
    /// there.
    pub fn allocator_in(&self, name: &str, root: Option<&Path>, ours: Option<&Path>) -> Result<Ready> {
        let allocator = understood::allocator(name)?;
        let ours = match ours {
            Some(ours) => ours,
            None if allocator.is_ours() => self.library()?,
            None => Path::new(""),
        };
        let root = root.map(Path::to_owned);
        Places { ours: ours.to_owned(), root, for_daemons: true, ..Places::default() }.find(allocator)
    }

    /// libvcmalloc.so.
    pub fn library(&self) -> Result<&Path> {
        self.request.library.as_deref().map_err(|why| anyhow!("{why}"))
    }

    /// The library that takes TCMalloc's place.
    pub fn stand_in(&self) -> Result<&Path> {
        self.request.stand_in.as_deref().map_err(|why| anyhow!("{why}"))
    }

    // Scopes

    /// Undoes, at its end, what was made and started in it.
    pub fn scope<T>(&self, work: impl FnOnce(&Session) -> Result<T>) -> Result<T> {
        let place = self.journal.place();
        self.state().scopes += 1;
        let done = work(self);
        self.state().scopes -= 1;
        let undone = self.journal.undo_to(place);
        let done = done?;
        undone?;
        Ok(done)
    }

    /// A cluster that stays for as long as cells ask for the same key. Another key ends it first.
    pub fn fixture<T: Send + Sync + 'static>(
        &self,
        key: &str,
        make: impl FnOnce(&Session) -> Result<T>,
    ) -> Result<Arc<T>> {
        if self.state().scopes > 0 {
            bail!("a fixture cannot be made in a scope: it would outlive what it is made of");
        }
        let present =
            self.state().fixture.as_ref().filter(|fixture| fixture.key == key).map(|one| one.value.clone());
        if let Some(Ok(value)) = present.map(Arc::downcast) {
            return Ok(value);
        }
        self.end_fixture()?;
        let place = self.journal.place();
        match make(self) {
            Ok(value) => {
                let value = Arc::new(value);
                self.state().fixture = Some(Fixture { key: key.to_owned(), place, value: value.clone() });
                Ok(value)
            }
            Err(error) => {
                let _ = self.journal.undo_to(place);
                Err(error)
            }
        }
    }

    pub fn end_fixture(&self) -> Result<()> {
        let fixture = self.state().fixture.take();
        let Some(Fixture { place, value, .. }) = fixture else { return Ok(()) };
        // It may know a quicker way to end what it is made of than to ask each part.
        drop(value);
        self.journal.undo_to(place)
    }

    /// Leaves everything as it is, for `run` and `down`; `cluster` is what `kept` gives back.
    pub fn keep<T: serde::Serialize>(&self, cluster: &T) -> Result<()> {
        let path = self.cluster_file();
        self.journal.add(Undo::Remove(Lasting::File(path.clone())))?;
        std::fs::write(&path, serde_json::to_vec(cluster)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        self.journal.keep()
    }

    /// The cluster that `up` left.
    pub fn kept<T: serde::de::DeserializeOwned>(&self) -> Result<Option<T>> {
        let Ok(text) = std::fs::read(self.cluster_file()) else { return Ok(None) };
        Ok(Some(serde_json::from_slice(&text)?))
    }

    fn cluster_file(&self) -> PathBuf {
        self.request.state.join(format!("{}.cluster", self.lab))
    }

    /// Undoes everything. To be called once, at the end.
    pub fn end(&self) -> Result<()> {
        self.progress.end();
        self.state().fixture = None;
        self.journal.end()
    }
}
