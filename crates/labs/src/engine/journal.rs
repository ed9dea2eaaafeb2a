//! The undo journal: what has to be undone, on disk, before it is made.
//!
//! Owns one file a run in the state directory, a JSON object a line: the header, then `Made` and `Undone`. It
//! has its name once the header is in it, so that nobody finds one without. Promises that what `add` returned
//! for is undone in reverse order by `undo_to`, by the panic hook, or by a later `replay` if this process was
//! killed. The file is gone when nothing is left to undo. `session` is the only writer of a live journal;
//! `replay` reads those of runs that are dead.

use super::identity::Identity;
use super::undo::Undo;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The first line: whose journal this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub lab: String,
    pub mark: String,
    /// The run that writes it; while it lives nobody else may undo its things.
    pub owner: Identity,
    /// Processes and mounts do not outlive the boot they were made in.
    pub boot: String,
    /// The run in words, for messages.
    pub what: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Header(Header),
    Made {
        number: u64,
        undo: Undo,
    },
    Undone {
        number: u64,
    },
    /// The things are to stay when the run ends (`up`): only `down` undoes them.
    Kept,
}

pub struct Journal {
    path: PathBuf,
    header: Header,
    inner: Mutex<Inner>,
}

struct Inner {
    file: File,
    made: Vec<(u64, Undo)>,
    /// Could not be undone; the end of the run tries again.
    stuck: Vec<(u64, Undo)>,
    next: u64,
    kept: bool,
    ended: bool,
}

/// The steps that could not be undone, and why.
pub type Leftovers = Vec<(Undo, anyhow::Error)>;

impl Journal {
    /// A new journal; its first entry ends all that carries the mark.
    pub fn begin(state: &Path, lab: &str, what: &str) -> Result<Journal> {
        make_state_directory(state)?;
        let mark = format!("{lab}-{}", random_word()?);
        let path = state.join(format!("{mark}.journal"));
        let unfinished = state.join(format!("{mark}.new"));
        let file = OpenOptions::new().create_new(true).append(true).open(&unfinished);
        let file = file.map_err(|error| refused(error, "cannot write the undo journal", &path))?;
        let header = Header {
            lab: lab.to_owned(),
            mark: mark.clone(),
            owner: Identity::own(),
            boot: boot(),
            what: what.to_owned(),
        };
        let (made, stuck) = (Vec::new(), Vec::new());
        let inner = Inner { file, made, stuck, next: 0, kept: false, ended: false };
        let journal = Journal { path, header: header.clone(), inner: Mutex::new(inner) };
        let begun = journal.lock().write(&Line::Header(header));
        let begun = begun.and_then(|()| Ok(fs::rename(&unfinished, &journal.path)?));
        if let Err(error) = begun {
            let _ = fs::remove_file(&unfinished);
            return Err(error).with_context(|| format!("cannot write {}", journal.path.display()));
        }
        journal.add(Undo::EndMarked { mark })?;
        Ok(journal)
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// To be called before the thing is made. The number names the entry.
    pub fn add(&self, undo: Undo) -> Result<u64> {
        let mut inner = self.lock();
        let number = inner.next;
        inner.write(&Line::Made { number, undo: undo.clone() })?;
        if undo.outlives_boot() {
            // The thing may be on the disk after a crash of the machine; so must be what undoes it.
            inner.file.sync_data().context("cannot write the undo journal")?;
        }
        inner.next += 1;
        inner.made.push((number, undo));
        Ok(number)
    }

    /// The thing was not made after all, or was undone by other means.
    pub fn forget(&self, number: u64) -> Result<()> {
        let mut inner = self.lock();
        inner.made.retain(|(made, _)| *made != number);
        inner.write(&Line::Undone { number })
    }

    /// The mark of one started process and all that it starts; registered, so it may be started now.
    pub fn add_part(&self) -> Result<String> {
        let part = format!("{}.{}", self.header.mark, self.place());
        self.add(Undo::EndMarked { mark: part.clone() })?;
        Ok(part)
    }

    /// The mark of commands that somebody waits for.
    pub fn errand_mark(&self) -> String {
        errand_mark(&self.header)
    }

    /// A place in the journal to come back to with `undo_to`.
    pub fn place(&self) -> u64 {
        self.lock().next
    }

    /// Undoes what was added since `place`, latest first, and goes on over failures.
    pub fn undo_to(&self, place: u64) -> Leftovers {
        let mut leftovers = Leftovers::new();
        loop {
            let last = self.lock().made.pop_if(|(number, _)| *number >= place);
            let Some((number, undo)) = last else { return leftovers };
            match undo.act() {
                Ok(()) => drop(self.lock().write(&Line::Undone { number })),
                Err(error) => {
                    self.lock().stuck.push((number, undo.clone()));
                    leftovers.push((undo, error));
                }
            }
        }
    }

    /// From now on the things outlive this process.
    pub fn keep(&self) -> Result<()> {
        let mut inner = self.lock();
        inner.kept = true;
        inner.write(&Line::Kept)
    }

    /// Undoes everything. The file stays if something could not be undone, for `down`.
    pub fn end(&self) -> Leftovers {
        end_errands(&self.header);
        let mut inner = self.lock();
        let stuck = std::mem::take(&mut inner.stuck);
        inner.made.extend(stuck);
        inner.made.sort_by_key(|(number, _)| *number);
        inner.ended = true;
        drop(inner);
        let leftovers = self.undo_to(0);
        if leftovers.is_empty() {
            let _ = fs::remove_file(&self.path);
        }
        leftovers
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let inner = self.lock();
        let is_over = inner.kept || inner.ended;
        drop(inner);
        if !is_over {
            self.end();
        }
    }
}

impl Inner {
    fn write(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        let whole = self.file.metadata()?.len();
        let written = self.file.write_all(text.as_bytes());
        if written.is_err() {
            // Half a line on a full disk would spoil the next, which is written when there is room again.
            let _ = self.file.set_len(whole);
        }
        written.context("cannot write the undo journal")
    }
}

/// A journal that another run has left.
#[derive(Debug)]
pub struct Found {
    pub path: PathBuf,
    pub header: Header,
    pub kept: bool,
    pub made: Vec<(u64, Undo)>,
}

impl Found {
    pub fn read(path: &Path) -> Result<Found> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Found::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Found> {
        // A last line without an end was being written when the run was killed: its thing was not made yet.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let mut lines = whole.lines();
        let Some(Ok(Line::Header(header))) = lines.next().map(serde_json::from_str) else {
            bail!("{} is not an undo journal", path.display());
        };
        let mut found = Found { path: path.to_owned(), header, kept: false, made: Vec::new() };
        for line in lines {
            let damaged =
                || format!("{} is damaged; undo what it names by hand and remove it", path.display());
            match serde_json::from_str(line).with_context(damaged)? {
                Line::Made { number, undo } => found.made.push((number, undo)),
                Line::Undone { number } => found.made.retain(|(made, _)| *made != number),
                Line::Kept => found.kept = true,
                Line::Header(_) => bail!("{} has two headers", path.display()),
            }
        }
        Ok(found)
    }

    pub fn owner_is_alive(&self) -> bool {
        self.header.boot == boot() && self.header.owner.is_alive()
    }

    /// A run that is still going on, or a cluster that was left up. After another boot there is neither.
    pub fn is_live(&self) -> bool {
        self.owner_is_alive() || self.is_up()
    }

    pub fn is_up(&self) -> bool {
        self.kept && self.header.boot == boot()
    }

    /// Another user's processes could not be seen by their mark, let alone ended.
    pub fn check_rights(&self) -> Result<()> {
        let user = nix::unistd::geteuid();
        let owner = fs::metadata(&self.path).map_or(user.as_raw(), |metadata| metadata.uid());
        if !user.is_root() && owner != user.as_raw() {
            bail!("`{}` was started by another user; run this as root to undo it", self.header.what);
        }
        Ok(())
    }

    /// Undoes all of it and removes the file, unless something stays.
    pub fn replay(&self) -> Leftovers {
        self.replay_telling(|_| {})
    }

    /// Undoes all of it as `replay` does, and says each thing before: a daemon may take its time to end.
    pub fn replay_telling(&self, tell: impl Fn(&Undo)) -> Leftovers {
        let same_boot = self.header.boot == boot();
        if same_boot {
            end_errands(&self.header);
        }
        let mut leftovers = Leftovers::new();
        for (_, undo) in self.made.iter().rev() {
            if !same_boot && !undo.outlives_boot() {
                continue;
            }
            tell(undo);
            if let Err(error) = undo.act() {
                leftovers.push((undo.clone(), error));
            }
        }
        if leftovers.is_empty() {
            let _ = fs::remove_file(&self.path);
        }
        leftovers
    }
}

/// The journals of a lab that are in the state directory; an empty file is one that a power failure has
/// emptied.
pub fn found(state: &Path, lab: &str) -> Result<Vec<Found>> {
    let mut journals = Vec::new();
    for entry in fs::read_dir(state).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with(&format!("{lab}-")) {
            continue;
        }
        if name.ends_with(".new") && Found::read(&path).is_ok_and(|found| !found.owner_is_alive()) {
            // Killed before it had its name; nothing was made yet.
            let _ = fs::remove_file(&path);
        }
        if !name.ends_with(".journal") {
            continue;
        }
        match fs::read_to_string(&path) {
            Ok(text) if text.contains('\n') => journals.push(Found::parse(&path, &text)?),
            Ok(_) => drop(fs::remove_file(&path)),
            // Its run has just ended.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            // It may be whole: another user's, of a run that goes on.
            Err(error) => return Err(refused(error, "cannot read", &path)),
        }
    }
    Ok(journals)
}

fn make_state_directory(state: &Path) -> Result<()> {
    fs::create_dir_all(state).map_err(|error| refused(error, "cannot make", state))
}

fn refused(error: std::io::Error, what: &str, path: &Path) -> anyhow::Error {
    let hint = match error.kind() {
        ErrorKind::PermissionDenied => "; run it as root, or name another place with --state DIR",
        _ => "",
    };
    anyhow::Error::new(error).context(format!("{what} {}{hint}", path.display()))
}

fn errand_mark(header: &Header) -> String {
    format!("{}.errand", header.mark)
}

/// They have no entry of their own, and must not hold what is undone first. An errand that stays is found by
/// the last entry.
fn end_errands(header: &Header) {
    let _ = Undo::EndMarked { mark: errand_mark(header) }.act();
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn random_word() -> Result<String> {
    let word =
        fs::read_to_string("/proc/sys/kernel/random/uuid").context("no /proc/sys/kernel/random/uuid")?;
    Ok(word.trim().replace('-', "")[..12].to_owned())
}

#[cfg(test)]
mod tests;
