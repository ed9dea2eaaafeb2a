//! The drop-in's files: `vcmalloc.conf`, and where it must be so `vcmalloc.env`.
//!
//! Owns their text. The first lines say who wrote them and carry a sum of the rest, so that a file of
//! somebody else, or one that was edited, is recognised and left alone. A file is there whole or not at
//! all: it is written beside its place and renamed.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use vcm_inspect::root::Root;
use vcm_inspect::systemd::{ETC, file::quoted};
use vcm_measure::replace::replace;

pub const NAME: &str = "vcmalloc.conf";
const ENVIRONMENT: &str = "vcmalloc.env";
const MARK: &str = "# Written by 'vcm enable ";
const SUM: &str = "# sum: ";
/// Says that the folder was made for it, and goes with it.
const MADE_FOLDER: &str = "# the folder was made for it";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// As the machine names it.
    pub path: PathBuf,
    pub text: String,
}

/// The folder of a unit's drop-ins.
pub struct Place {
    root: Root,
    folder: PathBuf,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    Ours(Vec<File>),
    Edited(PathBuf),
    Foreign(PathBuf),
}

impl Place {
    pub fn of(root: &Root, unit: &str) -> Self {
        Place { root: root.clone(), folder: Path::new(ETC).join(format!("{unit}.d")) }
    }

    pub fn shown(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// The drop-in's path on this machine, below the root that is looked at.
    pub fn file(&self) -> PathBuf {
        self.root.path(self.shown())
    }

    fn paths(&self) -> [PathBuf; 2] {
        [self.folder.join(ENVIRONMENT), self.folder.join(NAME)]
    }

    pub fn look(&self) -> io::Result<Found> {
        let mut files = Vec::new();
        for path in self.paths() {
            let text = match fs::read(self.root.path(&path)) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            match is_ours(&text) {
                Some(true) => files.push(File { path, text }),
                Some(false) => return Ok(Found::Edited(path)),
                None => return Ok(Found::Foreign(path)),
            }
        }
        Ok(if files.is_empty() { Found::Nothing } else { Found::Ours(files) })
    }

    /// Writes all files, the drop-in last: until then systemd does not know of the others. A file of ours
    /// that is no longer wanted goes.
    pub fn write(&self, files: &[File]) -> io::Result<()> {
        fs::create_dir_all(self.root.path(&self.folder))?;
        for file in files {
            self.write_whole(file)?;
        }
        for path in self.paths().iter().filter(|path| files.iter().all(|file| file.path != **path)) {
            ignore_absence(fs::remove_file(self.root.path(path)))?;
        }
        Ok(())
    }

    fn write_whole(&self, file: &File) -> io::Result<()> {
        replace(&self.root.path(&file.path), file.text.as_bytes())
    }

    /// The files that `remove` takes away.
    pub fn ours(&self) -> io::Result<Vec<PathBuf>> {
        match self.look()? {
            Found::Ours(files) => Ok(files.into_iter().map(|file| file.path).rev().collect()),
            _ => Ok(Vec::new()),
        }
    }

    /// Takes our files away, the drop-in first, and the folder where it was made for them and is empty.
    pub fn remove(&self) -> io::Result<Vec<PathBuf>> {
        let made = fs::read_to_string(self.file()).unwrap_or_default().contains(MADE_FOLDER);
        let mut removed = self.ours()?;
        for path in &removed {
            ignore_absence(fs::remove_file(self.root.path(path)))?;
        }
        if made && fs::remove_dir(self.root.path(&self.folder)).is_ok() {
            removed.push(self.folder.clone());
        }
        Ok(removed)
    }

    /// True when the folder is not there, or was made by us before.
    fn makes_folder(&self) -> bool {
        let before = fs::read_to_string(self.file()).unwrap_or_default();
        !self.root.path(&self.folder).exists() || before.contains(MADE_FOLDER)
    }
}

fn ignore_absence(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Why a file is left alone, in words.
pub fn foreign(path: &Path, found: &Found) -> String {
    let shown = path.display();
    match found {
        Found::Edited(_) => {
            format!("{shown} was edited after vcm wrote it; move it, or put your changes into another file")
        }
        _ => format!("{shown} was not written by vcm and is not changed; move it first"),
    }
}

/// The files that give these variables to the unit.
pub fn files(place: &Place, unit: &str, variables: &[(String, String)], by_file: bool) -> Vec<File> {
    let note = if place.makes_folder() { format!("{MADE_FOLDER}\n") } else { String::new() };
    let mut body = format!("{note}[Service]\n");
    let mut files = Vec::new();
    if by_file {
        let path = place.folder.join(ENVIRONMENT);
        let lines: String = variables.iter().map(|(name, value)| format!("{name}=\"{value}\"\n")).collect();
        files.push(File { path: path.clone(), text: marked(unit, &lines) });
        // A percent sign begins a specifier here.
        let path = path.display().to_string().replace('%', "%%");
        body.push_str(&format!("EnvironmentFile={path}\n"));
    } else {
        for (name, value) in variables {
            body.push_str(&format!("Environment={}\n", quoted(&format!("{name}={value}"))));
        }
    }
    files.push(File { path: place.folder.join(NAME), text: marked(unit, &body) });
    files
}

fn marked(unit: &str, body: &str) -> String {
    format!("{MARK}{unit}'; 'vcm disable {unit}' removes it.\n{SUM}{:016x}\n{body}", sum(body))
}

/// None: not ours; false: edited since.
fn is_ours(text: &str) -> Option<bool> {
    let rest = text.strip_prefix(MARK)?;
    let (_, rest) = rest.split_once('\n')?;
    let Some((line, body)) = rest.split_once('\n') else { return Some(false) };
    let noted = line.strip_prefix(SUM).and_then(|sum| u64::from_str_radix(sum, 16).ok());
    Some(noted == Some(sum(body)))
}

/// Whether a file that gives a variable is one of ours.
pub fn is_own(root: &Root, path: &Path) -> bool {
    let is_named_so = path.file_name().is_some_and(|name| name == NAME || name == ENVIRONMENT);
    is_named_so && fs::read_to_string(root.path(path)).is_ok_and(|text| text.starts_with(MARK))
}

/// FNV-1a: tells an edited file, not a forged one.
fn sum(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
