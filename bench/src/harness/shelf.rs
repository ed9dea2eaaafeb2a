//! The folder of a run, `runs/DATE-MACHINE-COMMIT-KIND`: what was measured and where (`README.md`), all tables
//! (`summary.md`), a picture, and the rows (`raw.csv.zst`; `raw.csv` while the run goes on).

use super::surroundings::{own_bench, replace};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use vcm_measure::machine::Machine;

pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// A new one in `place`, else in `results/` of the repository around the working directory, else there. That of
    /// another run of the same minute is left alone.
    pub fn new(place: Option<&Path>, library: &Path, kind: &str) -> Result<(Folder, File)> {
        let results = || own_bench().map(|bench| bench.with_file_name("results"));
        let runs = place.map(Path::to_owned).or_else(results).unwrap_or_default().join("runs");
        let date = chrono::Local::now().format("%Y-%m-%d-%H%M");
        let name =
            format!("{date}-{}-{}-{kind}", machine_name(&Machine::this().to_string()), commit_of(library));
        Folder::named(&runs, &name)
    }

    fn named(runs: &Path, name: &str) -> Result<(Folder, File)> {
        fs::create_dir_all(runs).with_context(|| format!("cannot make {}", runs.display()))?;
        for attempt in 1.. {
            let path = runs.join(if attempt == 1 { name.to_owned() } else { format!("{name}-{attempt}") });
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made.with_context(|| format!("cannot make {}", path.display()))?,
            }
            let folder = Folder { path };
            let rows = folder.rows();
            let file = File::create_new(&rows).with_context(|| format!("cannot write {}", rows.display()))?;
            eprintln!("raw data goes to {}", rows.display());
            return Ok((folder, file));
        }
        unreachable!("numbers do not end")
    }

    /// The one that these rows are in.
    pub fn around(rows: &Path) -> Folder {
        Folder { path: rows.parent().unwrap_or(Path::new("")).to_owned() }
    }

    pub fn rows(&self) -> PathBuf {
        self.path.join("raw.csv")
    }

    pub fn picture(&self) -> PathBuf {
        self.path.join("picture.svg")
    }

    /// The page's text today; nothing if there is none.
    pub fn page(&self) -> String {
        fs::read_to_string(self.path.join("README.md")).unwrap_or_default()
    }

    /// Writes and prints the pages, and packs the rows. `picture`: what is to be seen in it, if there is one.
    pub fn write(&self, about: &str, picture: Option<&str>, tables: &str) -> Result<()> {
        let name = self.path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let seen = picture.map_or_else(String::new, |seen| format!("![{seen}](picture.svg)\n\n"));
        let readme = format!(
            "# {name}\n\n{}\n\n{seen}[All tables](summary.md). [The rows](raw.csv.zst): `zstd -dc raw.csv.zst`.\n",
            about.trim_end()
        );
        let summary = format!("# All tables of [{name}](README.md)\n\n{}\n", tables.trim_end());
        replace(&self.path.join("README.md"), &readme)?;
        replace(&self.path.join("summary.md"), &summary)?;
        self.pack()?;
        println!("{}\n\n{}\n\nThe run is in {}", about.trim_end(), tables.trim_end(), self.path.display());
        Ok(())
    }

    fn pack(&self) -> Result<()> {
        let (rows, packed) = (self.rows(), self.path.join("raw.csv.zst"));
        if !rows.exists() {
            return Ok(());
        }
        let pack = || {
            zstd::stream::copy_encode(File::open(&rows)?, File::create(&packed)?, 19)?;
            fs::remove_file(&rows)
        };
        pack().with_context(|| format!("cannot pack {}", rows.display()))
    }
}

/// Rows as they were written, packed or not.
pub fn open_rows(rows: &Path) -> Result<Box<dyn Read>> {
    let file = File::open(rows).with_context(|| format!("cannot read {}", rows.display()))?;
    match rows.extension().is_some_and(|extension| extension == "zst") {
        true => Ok(Box::new(zstd::Decoder::new(file)?)),
        false => Ok(Box::new(file)),
    }
}

/// The build of ours in a file, as the library says it: `0.1.0+d5f9679b8f`.
pub fn version_of(library: &Path) -> Option<String> {
    const MARK: &[u8] = b"vcmalloc version ";
    let bytes = fs::read(library).ok()?;
    let begin = bytes.windows(MARK.len()).position(|place| place == MARK)? + MARK.len();
    let version = bytes.get(begin..)?.split(|&byte| byte == 0).next()?;
    String::from_utf8(version.to_vec()).ok()
}

/// Lines for the page: our library, and the command that is running.
pub fn origin(program: &str, library: &Path) -> Vec<String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let version = version_of(library).map(|version| format!("- vcmalloc: {version}"));
    version.into_iter().chain([format!("- `{program} {}`", words.join(" "))]).collect()
}

/// Seven digits, as git shows them.
fn commit_of(library: &Path) -> String {
    let version = version_of(library);
    let commit =
        version.as_deref().and_then(|version| version.split('+').nth(1)).and_then(|hash| hash.get(..7));
    commit.unwrap_or("unknown").to_owned()
}

/// `2 x AMD EPYC, Linux 6.18` is `amd-epyc`.
fn machine_name(machine: &str) -> String {
    let model = machine.split_once(" x ").map_or(machine, |parts| parts.1);
    let model = model.split([',', '@']).next().unwrap_or_default().replace("(R)", "").replace("(TM)", "");
    let says_little = |word: &&str| {
        let word = word.to_lowercase();
        word == "processor" || word == "cpu" || word.ends_with("-core")
    };
    let words: Vec<String> =
        model.split_whitespace().filter(|word| !says_little(word)).take(3).map(str::to_lowercase).collect();
    words.join("-").replace(|letter: char| !letter.is_ascii_alphanumeric(), "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_of_a_minute_leaves_the_first_ones_rows() {
        let place = tempfile::tempdir().unwrap();
        let (first, _) = Folder::named(place.path(), "2026-11-22-1908-full").unwrap();
        fs::write(first.rows(), "rows").unwrap();
        let (second, _) = Folder::named(place.path(), "2026-11-22-1908-full").unwrap();
        assert!(second.path.ends_with("2026-11-22-1908-full-2"));
        assert_eq!(fs::read_to_string(first.rows()).unwrap(), "rows");
    }

    #[test]
    fn rows_are_packed_at_the_end_and_can_be_read_again() {
        let place = tempfile::tempdir().unwrap();
        let (folder, _) = Folder::named(place.path(), "run").unwrap();
        fs::write(folder.rows(), "pass,allocator\n").unwrap();
        folder.write("On a machine.\n", Some("bars"), "| a |\n").unwrap();
        assert!(!folder.rows().exists());
        let mut text = String::new();
        open_rows(&place.path().join("run/raw.csv.zst")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "pass,allocator\n");
        assert!(folder.page().starts_with("# run\n\nOn a machine.\n\n![bars](picture.svg)\n"));
    }

    #[test]
    fn a_machine_has_a_short_name_and_a_library_its_commit() {
        assert_eq!(machine_name("2 x AMD EPYC, Linux 6.18.44"), "amd-epyc");
        assert_eq!(machine_name("8 x Intel(R) Xeon(R) Processor @ 2.10GHz, Linux 6.18"), "intel-xeon");
        assert_eq!(machine_name("64 x AMD EPYC 7763 64-Core Processor, Linux 6.1"), "amd-epyc-7763");
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(commit_of(file.path()), "unknown");
        fs::write(file.path(), b"\x7fELF..vcmalloc version 0.1.0+d5f9679b8f+changes\0..").unwrap();
        assert_eq!(version_of(file.path()).as_deref(), Some("0.1.0+d5f9679b8f+changes"));
        assert_eq!(commit_of(file.path()), "d5f9679");
    }
}
