//! The allocator's options as this tool reads and writes them.
//!
//! Owns the bridge to `vcmalloc_core::options` (names of variables, ranges in words, effective values) and
//! knows no option by name: an option declared there is listed, checked and explained here.

use crate::config_file::{self, ConfigFile, MAY_NOT_READ};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use vcm_foreign::Shown;
use vcm_inspect::process::Process;
use vcm_inspect::window::Seen;
use vcmalloc_core::base::text::Sink;
use vcmalloc_core::options::{
    FILE_ROOM, Kind, NAME_BYTES, OptionId, Options, Origin, Refused, Setting, Spec, TOOL_VARIABLES,
    UNCHANGED, VARIABLE_PREFIX, each_setting, part_to_read, put_refusal, put_value,
};

pub const PROOF_VARIABLE: &str = "VCM_RUN_PROOF";
pub const STATS_VARIABLE: &str = "VCM_STATS_AT_EXIT";

/// The origin where a variable may have set an option and the environment cannot be read.
pub const NOT_KNOWN: &str = "not known";
/// Of a setuid or otherwise privileged start.
const OBEYS_NOTHING: &str = "it was started with more privileges than its caller (setuid, setgid or file \
 capabilities): it reads no variables and no config file";
/// Behind the origin of a value from the file, which a variable would outweigh.
pub const UNLESS_SET: &str = ", unless a variable overrides it";

/// Text that grows; the allocator itself writes into fixed buffers.
struct Text(Vec<u8>);

impl Sink for Text {
    fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

fn text_of(write: impl FnOnce(&mut Text)) -> String {
    let mut text = Text(Vec::new());
    write(&mut text);
    text.0.trim_ascii_end().shown().printed()
}

/// A value as a user would write it.
pub fn value(kind: Kind, value: u64) -> String {
    text_of(|sink| put_value(sink, kind, value))
}

/// The environment variable of an option.
pub fn variable(name: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", name.to_ascii_uppercase())
}

/// The values that may be written: a range, or the words of a choice.
pub fn range(spec: &Spec) -> String {
    const MOST_CHOICES: u64 = 8;
    let auto = if spec.kind.allows_auto() { ", or auto" } else { "" };
    if spec.greatest - spec.least < MOST_CHOICES {
        let words: Vec<String> =
            (spec.least..=spec.greatest).map(|number| value(spec.kind, number)).collect();
        return format!("{}{auto}", words.join(" or "));
    }
    format!("{} to {}{auto}", value(spec.kind, spec.least), value(spec.kind, spec.greatest))
}

/// The library's own words for a setting that it would not take.
pub fn refusal(prefix: &str, name: &[u8], text: &[u8], refused: Refused) -> String {
    text_of(|sink| put_refusal(sink, prefix, name, text, refused))
}

/// The variables for settings written NAME=VALUE; else all that is wrong with them, in the library's words.
pub fn variables_of(settings: &[String]) -> Result<Vec<(String, String)>, Vec<String>> {
    let options = Options::new();
    let mut wrong = Vec::new();
    let mut variables = Vec::new();
    for setting in settings {
        let Some((name, text)) = setting.split_once('=') else {
            wrong.push(format!("vcm: --option {setting}: give NAME=VALUE"));
            continue;
        };
        let (name, text) = (name.trim(), text.trim());
        // A newline would begin a second line of the unit's drop-in.
        if setting.contains(char::is_control) {
            let shown = setting.escape_debug();
            wrong.push(format!("vcm: --option {shown}: it contains a control character"));
            continue;
        }
        match options.set(name.as_bytes(), text.as_bytes(), Origin::Environment) {
            Ok(_) => variables.push((variable(name), text.to_string())),
            Err(refused) => {
                let words = refusal("", name.as_bytes(), text.as_bytes(), refused);
                // Of a program that is not started there is no value before.
                wrong.push(words.trim_end_matches(UNCHANGED).to_string());
            }
        }
    }
    if wrong.is_empty() { Ok(variables) } else { Err(wrong) }
}

/// The values that a program gets, as the library would read them.
pub struct Effective {
    pub options: Options,
    pub file: PathBuf,
    pub file_read: bool,
    pub warnings: Vec<String>,
}

impl Effective {
    /// Reads `file` and then `environment` for the program called `program`.
    pub fn read(environment: &[(OsString, OsString)], file: ConfigFile, program: &[u8]) -> Self {
        let ConfigFile { path, asked_for, may_be_read } = file;
        let mut effective =
            Effective { options: Options::new(), file: path, file_read: false, warnings: Vec::new() };
        match config_file::read(&effective.file) {
            Ok(_) if !may_be_read => {
                effective.warnings.push(format!("{}: {MAY_NOT_READ}", effective.file.shown()));
            }
            Ok(content) => effective.take_file(&content, program),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !asked_for => {}
            Err(error) => {
                effective.warnings.push(format!("{}: cannot be read: {error}", effective.file.shown()));
            }
        }
        for (variable, text) in environment {
            effective.take_variable(variable.as_bytes(), text.as_bytes());
        }
        effective
    }

    /// The settings that a process was started with: a process that gained rights obeys none of them.
    pub fn of_process(
        process: &Process,
        environment: &[(OsString, OsString)],
        file: ConfigFile,
        program: &[u8],
    ) -> Self {
        if !process.was_privileged() {
            return Effective::read(environment, file, program);
        }
        let warnings = vec![OBEYS_NOTHING.to_owned()];
        Effective { options: Options::new(), file: file.path, file_read: false, warnings }
    }

    /// Takes the values in effect in the process's heap, in the place of computed ones; false where its memory
    /// does not tell: no right to read it, another allocator or an older library of ours, nothing allocated yet.
    pub fn take_from(&mut self, process: &Process) -> bool {
        let seen = Seen::open(process.clone()).ok();
        let Some(found) = seen.and_then(|seen| seen.settings().ok()?) else { return false };
        self.options = Options::new();
        for setting in found {
            // Of a newer library.
            let Some(id) = vcmalloc_core::options::find(setting.name.as_bytes()) else { continue };
            // A path that is set is a place of the heap, not a number.
            let number = || value(vcmalloc_core::options::spec(id).kind, setting.value).into();
            let text: vcm_foreign::Text = setting.path.unwrap_or_else(number);
            if self.options.set(setting.name.as_bytes(), text.as_bytes(), setting.origin).is_err() {
                self.warnings.push(format!(
                    "{} = {text} is in effect and unknown to this vcm: use the vcm of the same build",
                    setting.name
                ));
            }
        }
        true
    }

    fn take_file(&mut self, content: &[u8], program: &[u8]) {
        self.file_read = true;
        let file = self.file.clone();
        let (content, cut) = part_to_read(content);
        if cut {
            let most = FILE_ROOM - 1;
            let words = format!("{}: longer than {most} bytes; the rest is not read", file.shown());
            self.warnings.push(words);
        }
        // The library knows the program by the kernel's name for it.
        let program = program.get(..NAME_BYTES).unwrap_or(program);
        each_setting(content, program, |setting| match setting {
            Setting::Value { name, text, origin, number } => {
                if let Some(words) = self.take("", name, text, origin) {
                    self.warnings.push(format!("{}:{number}: {words}", file.shown()));
                }
            }
            Setting::BadLine { number } => self.warnings.push(bad_line(&file, number)),
        });
    }

    fn take_variable(&mut self, variable: &[u8], text: &[u8]) {
        let refused = if let Some(outcome) = self.options.set_foreign(variable, text) {
            outcome.err().map(|refused| refusal("", variable, text, refused))
        } else if TOOL_VARIABLES.iter().any(|name| name.as_bytes() == variable) {
            None
        } else if let Some(name) = variable.strip_prefix(VARIABLE_PREFIX.as_bytes()) {
            self.take(VARIABLE_PREFIX, &name.to_ascii_lowercase(), text, Origin::Environment)
        } else {
            None
        };
        self.warnings.extend(refused);
    }

    /// The refusal in words, if the setting is not taken.
    fn take(&mut self, prefix: &str, name: &[u8], text: &[u8], origin: Origin) -> Option<String> {
        let refused = self.options.set(name, text, origin).err()?;
        Some(refusal(prefix, name, text, refused))
    }

    pub fn value(&self, id: OptionId) -> String {
        text_of(|sink| self.options.put(sink, id))
    }
}

/// The library takes the section of the config file by the name at the start.
pub fn renamed(at_start: &[u8], now: &[u8]) -> String {
    let (at_start, now) = (at_start.shown(), now.shown());
    format!(
        "it was started as '{at_start}' and renamed itself to '{now}'; the section [{at_start}] of the config \
         file applies"
    )
}

fn bad_line(file: &Path, number: usize) -> String {
    format!("{}:{number}: invalid line; use 'name = value', '[program]' or '# comment'", file.shown())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vcmalloc_core::options::SPECS;

    fn environment(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn every_default_lies_in_the_range_that_is_shown() {
        for spec in &SPECS {
            let shown = range(spec);
            assert!(
                shown.contains(" to ") || shown.split(" or ").any(|word| word == spec.default),
                "{shown}"
            );
        }
    }

    #[test]
    fn variables_that_are_not_options_are_no_mistake() {
        let given = environment(&[
            ("VCM_CONFIG", "/none"),
            ("VCM_LIBRARY", "x"),
            ("VCM_RUN_PROOF", "3"),
            ("VCM_LAB", "x"),
        ]);
        let effective = Effective::read(&given, ConfigFile::found("/nonexistent"), b"x");
        assert!(effective.warnings.is_empty(), "{:?}", effective.warnings);
        assert!(OptionId::ALL.into_iter().all(|id| effective.options.origin(id) == Origin::Default));
    }

    fn read_file(content: &str, program: &str) -> Effective {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("vcmalloc.conf");
        std::fs::write(&file, content).unwrap();
        Effective::read(&[], ConfigFile::named(file), program.as_bytes())
    }

    #[test]
    fn the_file_ends_where_the_librarys_room_ends() {
        let filled = format!("{}\n", "#".repeat(79)).repeat(102);
        let fits = read_file(&(filled.clone() + "cache_limit = 1M\n"), "x");
        assert_eq!((fits.value(OptionId::cache_limit).as_str(), fits.warnings.len()), ("1M", 0));
        let long = read_file(&(filled + &"\n".repeat(32) + "cache_limit = 1M\n"), "x");
        assert_eq!(long.value(OptionId::cache_limit), "auto");
        assert!(long.warnings[0].ends_with(": longer than 8191 bytes; the rest is not read"));
    }

    #[test]
    fn a_section_of_fifteen_bytes_holds_for_a_longer_name() {
        for section in ["averyverylongpr", "averyverylongprogramname"] {
            let read = read_file(&format!("[{section}]\ncache_limit = 1M\n"), "averyverylongprogramname");
            assert_eq!(read.value(OptionId::cache_limit), "1M", "{section}");
        }
    }

    #[test]
    fn a_wrong_name_or_value_is_told_with_its_line() {
        let read = read_file("# x\ncache_limt = 1M\n\n  retain = lots\n", "x");
        for (warning, line) in read.warnings.iter().zip([2, 4]) {
            assert!(warning.contains(&format!("vcmalloc.conf:{line}: ")), "{warning}");
        }
        assert_eq!(read.warnings.len(), 2);
    }

    #[test]
    fn a_missing_file_is_a_warning_only_when_it_was_asked_for() {
        let file = ConfigFile::of(&environment(&[("VCM_CONFIG", "/nonexistent/file")]));
        assert!(file.asked_for);
        assert_eq!(Effective::read(&[], file, b"x").warnings.len(), 1);
        assert_eq!(Effective::read(&[], ConfigFile::found("/nonexistent/file"), b"x").warnings.len(), 0);
    }

    #[test]
    fn an_alias_is_weaker_than_our_own_variable() {
        for spec in &SPECS {
            let Some(alias) = spec.alias else { continue };
            let own = variable(spec.name);
            let greatest = value(spec.kind, spec.greatest);
            let least = value(spec.kind, spec.least);
            let given = environment(&[(&own, &greatest), (alias, &least)]);
            let effective = Effective::read(&given, ConfigFile::found("/nonexistent"), b"x");
            let id = vcmalloc_core::options::find(spec.name.as_bytes()).unwrap();
            assert_eq!((effective.value(id), effective.options.origin(id)), (greatest, Origin::Environment));
        }
    }
}
