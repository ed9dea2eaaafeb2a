//! The undo journal: the files that a run makes, on disk before they are made, and the processes that go first.
//!
//! Owns one file a run in the state directory, written whole. Namespaces undo all else when their first process ends;
//! where the system refuses them, processes are found by the run's mark. Promises that what `add` returned for is
//! undone in reverse order by `undo_to`, or, of what outlives processes, by `replay` if this one was killed. The file
//! is gone when nothing is left to undo. `session` is the only writer of a live journal.

use super::identity::Identity;
use super::marked;
use super::undo::{Lasting, Undo};
use anyhow::{Context, Error, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vcm_measure::replace::replace;

/// The text of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    #[serde(skip)]
    path: PathBuf,
    /// Everything that the run starts carries it.
    mark: String,
    /// The process that waits for the run; while it lives nobody else may undo its things.
    pub owner: Identity,
    /// The first process of the run's namespaces, as the machine sees it. None where they are refused.
    pub holder: Option<Identity>,
    /// Processes do not outlive the boot they were started in.
    boot: String,
    /// The numbers of processes are those of this PID namespace.
    namespace: PathBuf,
    /// The run in words, for messages.
    pub what: String,
    /// The things are to stay when the run ends (`up`): only `down` undoes them.
    pub kept: bool,
    lasting: Vec<Lasting>,
}

/// That of a run, with what it undoes itself while it lives.
pub struct Journal {
    path: PathBuf,
    mark: String,
    inner: Mutex<Inner>,
}

struct Inner {
    record: Record,
    /// With what could not be undone yet.
    made: Vec<Undo>,
    parts: u64,
    ended: bool,
}

impl Journal {
    /// A new journal; its first step ends all that carries the mark.
    pub fn begin(state: &Path, lab: &str, what: &str) -> Result<Journal> {
        fs::create_dir_all(state).map_err(|error| refused(error, "cannot make", state))?;
        let mark = format!("{lab}-{}", random_word()?);
        let path = state.join(format!("{mark}.journal"));
        let record = Record {
            path: path.clone(),
            mark: mark.clone(),
            owner: Identity::own(),
            holder: None,
            boot: boot(),
            namespace: namespace(),
            what: what.to_owned(),
            kept: false,
            lasting: Vec::new(),
        };
        record.write().map_err(|error| refused(error, "cannot write the undo journal", &path))?;
        let made = vec![Undo::EndMarked(mark.clone())];
        Ok(Journal { path, mark, inner: Mutex::new(Inner { record, made, parts: 0, ended: false }) })
    }

    pub fn mark(&self) -> &str {
        &self.mark
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn holder(&self) -> Option<Identity> {
        self.lock().record.holder
    }

    pub fn set_holder(&self, holder: Identity) -> Result<()> {
        let mut inner = self.lock();
        inner.record.holder = Some(holder);
        inner.save()
    }

    /// From now on the things outlive this process.
    pub fn keep(&self) -> Result<()> {
        let mut inner = self.lock();
        inner.record.kept = true;
        inner.save()
    }

    /// To be called before the thing is made.
    pub fn add(&self, undo: Undo) -> Result<()> {
        let mut inner = self.lock();
        inner.made.push(undo);
        let done = inner.renew();
        if done.is_err() {
            inner.made.pop();
        }
        done
    }

    /// The thing that was added last was not made after all.
    pub fn forget_last(&self) -> Result<()> {
        let mut inner = self.lock();
        inner.made.pop();
        inner.renew()
    }

    /// The mark of one started process and all that it starts; noted, so it may be started now.
    pub fn add_part(&self) -> Result<String> {
        let mut inner = self.lock();
        inner.parts += 1;
        let part = format!("{}.{}", self.mark, inner.parts);
        inner.made.push(Undo::EndMarked(part.clone()));
        Ok(part)
    }

    /// The mark of commands that somebody waits for.
    pub fn errand_mark(&self) -> String {
        format!("{}.errand", self.mark)
    }

    /// A place in the journal to come back to with `undo_to`.
    pub fn place(&self) -> usize {
        self.lock().made.len()
    }

    /// Undoes what was added since `place`, latest first, and goes on over failures: the end of the run tries again.
    pub fn undo_to(&self, place: usize) -> Result<()> {
        let mut inner = self.lock();
        let place = place.min(inner.made.len());
        let (mut stuck, mut failures) = (Vec::new(), Vec::new());
        for undo in inner.made.split_off(place).into_iter().rev() {
            if let Err(error) = undo.act() {
                stuck.insert(0, undo);
                failures.push(error);
            }
        }
        inner.made.append(&mut stuck);
        // A file that is named and gone already does no harm, so a full disk does none.
        let _ = inner.renew();
        complain(failures)
    }

    /// Undoes everything. The file stays if something could not be undone, for `down`.
    pub fn end(&self) -> Result<()> {
        // They have no step of their own, and must not hold what is undone first.
        let _ = marked::end(&self.errand_mark());
        self.lock().ended = true;
        self.undo_to(0)?;
        self.lock().record.forget();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let inner = self.lock();
        let is_over = inner.record.kept || inner.ended;
        drop(inner);
        if !is_over {
            let _ = self.end();
        }
    }
}

impl Inner {
    /// Writes what outlives processes, if that is not what is written already. A file in a directory that goes
    /// whole needs no line of its own.
    fn renew(&mut self) -> Result<()> {
        let mut lasting: Vec<Lasting> = Vec::new();
        for undo in &self.made {
            let Undo::Remove(one) = undo else { continue };
            let holds =
                |above: &Lasting| matches!(above, Lasting::Directory(path) if one.path().starts_with(path));
            if !lasting.iter().any(holds) {
                lasting.push(one.clone());
            }
        }
        if lasting == self.record.lasting {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.record.lasting, lasting);
        self.save().inspect_err(|_| self.record.lasting = before)
    }

    fn save(&self) -> Result<()> {
        self.record.write().context("cannot write the undo journal")
    }
}

/// The steps that could not be undone, as an error that says how to go on.
pub fn complain(failures: Vec<Error>) -> Result<()> {
    if failures.is_empty() {
        return Ok(());
    }
    let list: String = failures.iter().map(|error| format!("\n    {error:#}")).collect();
    bail!("could not undo everything; `vcm lab ... down` tries again:{list}")
}

impl Record {
    pub fn read(path: &Path) -> Result<Record> {
        let text = fs::read(path).map_err(|error| refused(error, "cannot read", path))?;
        let record = serde_json::from_slice(&text).with_context(|| {
            format!("{} is not an undo journal; find and remove the lab's files manually", path.display())
        })?;
        Ok(Record { path: path.to_owned(), ..record })
    }

    /// Whole or as before, also on a full disk and after a power failure.
    fn write(&self) -> std::io::Result<()> {
        replace(&self.path, &serde_json::to_vec(self)?)
    }

    fn forget(&self) {
        let _ = fs::remove_file(&self.path);
    }

    /// Seen from another namespace, in a container or by nsenter, nobody can be known to have ended.
    fn is_elsewhere(&self) -> bool {
        self.namespace != namespace()
    }

    pub fn owner_is_alive(&self) -> bool {
        self.boot == boot() && (self.is_elsewhere() || self.owner.is_alive())
    }

    /// A run that is still going on, or a cluster that was left up. After another boot there is neither.
    pub fn is_live(&self) -> bool {
        self.owner_is_alive() || self.is_up()
    }

    /// With its namespaces a cluster is gone.
    pub fn is_up(&self) -> bool {
        let holds = |holder: Identity| self.is_elsewhere() || holder.is_alive();
        self.kept && self.boot == boot() && self.holder.is_none_or(holds)
    }

    /// Another user's processes could not be seen by their mark, let alone ended, nor those of another namespace.
    pub fn check_rights(&self) -> Result<()> {
        if self.boot == boot() && self.is_elsewhere() {
            bail!("`{}` was started in another PID namespace; undo it there", self.what);
        }
        let user = nix::unistd::geteuid();
        let owner = fs::metadata(&self.path).map_or(user.as_raw(), |metadata| metadata.uid());
        if !user.is_root() && owner != user.as_raw() {
            bail!("`{}` was started by another user; run this as root to undo it", self.what);
        }
        Ok(())
    }

    /// Undoes all of it and removes the file, unless something stays.
    pub fn replay(&self) -> Vec<Error> {
        let mut failures = Vec::new();
        if self.boot == boot() {
            // All in the namespaces end with their first process.
            if self.holder.is_some_and(|holder| !holder.end(Duration::ZERO)) {
                failures.push(anyhow!("the first process of the lab's namespaces does not end"));
            }
            failures.extend(marked::end(&self.mark).err());
        }
        failures.extend(self.lasting.iter().rev().filter_map(|lasting| lasting.remove().err()));
        if failures.is_empty() {
            self.forget();
        }
        failures
    }
}

/// The journals of a lab that are in the state directory.
pub fn found(state: &Path, lab: &str) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for entry in fs::read_dir(state).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_unfinished = name.starts_with(&format!(".{lab}-")) && name.contains(".journal.new-");
        if is_unfinished && Record::read(&path).is_ok_and(|record| !record.owner_is_alive()) {
            // Killed before it had its name.
            let _ = fs::remove_file(&path);
        } else if name.starts_with(&format!("{lab}-")) && name.ends_with(".journal") {
            match Record::read(&path) {
                // Its run has just ended.
                Err(_) if !path.exists() => {}
                record => records.push(record?),
            }
        }
    }
    Ok(records)
}

fn refused(error: std::io::Error, what: &str, path: &Path) -> Error {
    let hint = match error.kind() {
        ErrorKind::PermissionDenied => "; run it as root, or choose another folder with --state DIR",
        _ => "",
    };
    Error::new(error).context(format!("{what} {}{hint}", path.display()))
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn namespace() -> PathBuf {
    fs::read_link("/proc/self/ns/pid").unwrap_or_default()
}

fn random_word() -> Result<String> {
    let word =
        fs::read_to_string("/proc/sys/kernel/random/uuid").context("no /proc/sys/kernel/random/uuid")?;
    Ok(word.trim().replace('-', "")[..12].to_owned())
}

#[cfg(test)]
mod tests;
