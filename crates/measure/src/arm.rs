//! An allocator with its settings, as one side of a comparison: of the table, a library by its path, or none.

use crate::allocators::{self, Ready};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use vcm_inspect::elf::{self, Depth, Look};
use vcm_inspect::process::Process;

/// Whose malloc a program on this arm must get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// That of this file.
    File(PathBuf),
    Glibc,
    /// Nothing is preloaded, and the program has what it was built with.
    Anything,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    pub name: String,
    pub library: Option<PathBuf>,
    /// Besides LD_PRELOAD.
    pub settings: Vec<(String, String)>,
    pub expected: Expected,
    pub is_ours: bool,
}

impl Arm {
    pub fn of(ready: &Ready) -> Arm {
        let settings =
            ready.allocator.environment.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Arm {
            name: ready.name().to_owned(),
            library: ready.library.clone(),
            settings: settings.collect(),
            expected: ready.library.clone().map_or(Expected::Glibc, Expected::File),
            is_ours: ready.allocator.is_ours(),
        }
    }

    /// The same where a program may be linked with another allocator: the C library is preloaded too, and another library is
    /// a copy in `folder`, which nobody replaces meanwhile and every user may read.
    pub fn fixed(self, folder: &Path) -> std::io::Result<Arm> {
        let Some(library) = &self.library else {
            let library = (self.expected == Expected::Glibc).then(own_libc).flatten();
            return Ok(Arm { library, ..self });
        };
        let folder = folder.join(&self.name);
        std::fs::create_dir_all(&folder)?;
        let copy = folder.join(library.file_name().unwrap_or_default());
        std::fs::copy(library, &copy)?;
        let copy = copy.canonicalize()?;
        Ok(Arm { library: Some(copy.clone()), expected: Expected::File(copy), ..self })
    }

    /// The program as it is.
    pub fn plain() -> Arm {
        let (name, expected) = ("plain".to_owned(), Expected::Anything);
        Arm { name, library: None, settings: Vec::new(), expected, is_ours: false }
    }

    /// A library by its path, called by its file's name; an error if it cannot be one.
    pub fn preloading(path: &Path) -> Result<Arm, String> {
        let shown = path.display();
        let file = path.canonicalize().map_err(|error| format!("{shown}: {error}"))?;
        let is_bare = |byte: u8| !byte.is_ascii_whitespace() && byte != b':';
        if !file.as_os_str().as_encoded_bytes().iter().all(|byte| is_bare(*byte)) {
            return Err(format!("{shown}: LD_PRELOAD cannot carry a path with a blank or a colon"));
        }
        let library = match elf::look(&file, Depth::ExportedSymbols) {
            Ok(Look::Elf(library)) => library,
            Ok(_) => return Err(format!("{shown}: it is no shared library for this machine")),
            Err(error) => return Err(format!("{shown}: {error}")),
        };
        if !library.exports("malloc") {
            return Err(format!("{shown}: it exports no malloc, so preloading it would change nothing"));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_ours = library.exports(elf::OWN_INTERFACE);
        let (expected, library) = (Expected::File(file.clone()), Some(file));
        Ok(Arm { name, library, settings: Vec::new(), expected, is_ours })
    }

    /// The same with one more setting, and called by it.
    pub fn with(&self, called: &str, variable: &str, value: &str) -> Arm {
        let mut settings = self.settings.clone();
        settings.push((variable.to_owned(), value.to_owned()));
        Arm { name: format!("{} {called}", self.name), settings, ..self.clone() }
    }

    /// LD_PRELOAD and the settings.
    pub fn environment(&self) -> Vec<(String, String)> {
        let preload = self.library.iter().map(|path| ("LD_PRELOAD".to_owned(), path.display().to_string()));
        preload.chain(self.settings.iter().cloned()).collect()
    }

    /// A command on this arm, which takes no setting of an allocator from the caller's environment.
    pub fn command(&self, program: &OsStr) -> Command {
        let mut command = allocators::without_settings(program);
        command.envs(self.environment());
        command
    }
}

/// The C library that this program runs on.
fn own_libc() -> Option<PathBuf> {
    let files = Process::new(std::process::id() as i32).mapped_files().ok()?;
    files
        .into_iter()
        .find(|file| file.to_string_lossy().contains("/libc.so") || file.to_string_lossy().contains("/libc-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_allocator_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text.so");
        std::fs::write(&text, "text").unwrap();
        assert!(Arm::preloading(&text).unwrap_err().contains("no shared library"));
        assert!(Arm::preloading(Path::new("/nowhere.so")).unwrap_err().contains("No such file"));
        let own = std::env::current_exe().unwrap();
        assert!(Arm::preloading(&own).unwrap_err().contains("exports no malloc"));
        let spaced = folder.path().join("a b.so");
        std::fs::write(&spaced, "").unwrap();
        assert!(Arm::preloading(&spaced).unwrap_err().contains("blank"));
    }

    #[test]
    fn a_swept_arm_has_its_setting_in_name_and_environment() {
        let arm = Arm::plain().with("cache_limit=1M", "VCM_CACHE_LIMIT", "1M");
        assert_eq!(arm.name, "plain cache_limit=1M");
        assert_eq!(arm.environment(), [("VCM_CACHE_LIMIT".to_owned(), "1M".to_owned())]);
    }
}
