//! The operator's request, as the tool hands it over.

use super::understood::{self, NotUnderstood};
use anyhow::{Context, Result, anyhow, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct Request {
    /// The words typed, for the results.
    pub command: String,
    /// An experiment of the lab, or `up`, `run`, `down`.
    pub action: String,
    pub quick: bool,
    pub repetitions: Option<u32>,
    /// Empty: those of the experiment.
    pub allocators: Vec<String>,
    pub no_install: bool,
    /// Print what would be run and is needed; nothing is run.
    pub plan: bool,
    /// Print the results as JSON on stdout.
    pub json: bool,
    /// The folder for the pages; none: only a table on stdout.
    pub out: Option<PathBuf>,
    /// The JSON of an earlier run, to be judged and drawn again; nothing is run.
    pub from: Option<PathBuf>,
    /// Undo journals.
    pub state: PathBuf,
    /// The folder for the cluster's files while it runs.
    pub work: PathBuf,
    /// The folder for what is kept between runs, such as other systems' packages.
    pub cache: PathBuf,
    /// libvcmalloc.so, or why it was not found.
    pub library: Result<PathBuf, String>,
    /// The library that takes TCMalloc's place in a daemon that is linked with it, or why it was not found.
    pub stand_in: Result<PathBuf, String>,
    /// The versions of library and tool, as they say it, each with the commit that it was made from.
    pub library_version: Option<String>,
    pub tool_version: String,
    /// Packages may be installed without a question.
    pub yes: bool,
    /// Values for the lab's own settings, by name.
    pub settings: BTreeMap<String, String>,
}

impl Request {
    /// This request with places that do not depend on where it is read: `down` may be typed elsewhere, and what a
    /// lab starts has another working directory.
    pub fn grounded(self) -> Result<Request> {
        let whole = |path: &Path| {
            std::path::absolute(path).with_context(|| format!("where is '{}'?", path.display()))
        };
        let (state, work, cache) = (whole(&self.state)?, whole(&self.work)?, whole(&self.cache)?);
        Ok(Request { state, work, cache, ..self })
    }
}

/// That no flag was given which has no effect on a cluster by itself (`up`, `run`, `down`).
pub fn check_flags(request: &Request) -> Result<(), NotUnderstood> {
    let action = request.action.as_str();
    let given = [
        ("--full", !request.quick),
        ("--repeat", request.repetitions.is_some()),
        ("--out", request.out.is_some()),
        ("--from", request.from.is_some()),
        ("--plan", request.plan),
        ("--allocators", !request.allocators.is_empty() && action != "up"),
        ("--json", request.json && action != "run"),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => {
            Err(NotUnderstood(format!("{flag} is for experiments; `{action}` does not take it")))
        }
        None => Ok(()),
    }
}

/// That directories are there or can be made below what is there.
pub fn check_places(request: &Request) -> Result<()> {
    let places = [("--state", &request.state), ("--work", &request.work), ("--cache", &request.cache)];
    for (flag, place) in places {
        let there = place.ancestors().find(|above| above.exists());
        if let Some(file) = there.filter(|there| !there.is_dir()) {
            bail!("{flag} {}: {} is not a directory", place.display(), file.display());
        }
    }
    Ok(())
}

/// That our library is there if one of these allocators is ours.
pub fn check_library(request: &Request, allocators: &[&str]) -> Result<()> {
    for name in allocators {
        if understood::allocator(name)?.is_ours() {
            request.library.as_ref().map_err(|why| anyhow!("{why}"))?;
        }
    }
    Ok(())
}

/// That what takes TCMalloc's place is there if one of these allocators is ours.
pub fn check_stand_in(request: &Request, allocators: &[&str]) -> Result<()> {
    check_library(request, allocators)?;
    for name in allocators {
        if understood::allocator(name)?.is_ours() {
            request.stand_in.as_ref().map_err(|why| anyhow!("{why}"))?;
        }
    }
    Ok(())
}

pub const DEFAULT_STATE: &str = "/var/lib/vcmalloc-labs";
pub const DEFAULT_WORK: &str = "/var/tmp";
pub const DEFAULT_CACHE: &str = "/var/cache/vcmalloc-labs";

impl Default for Request {
    fn default() -> Self {
        Request {
            command: String::new(),
            action: String::new(),
            quick: true,
            repetitions: None,
            allocators: Vec::new(),
            no_install: false,
            plan: false,
            json: false,
            out: None,
            from: None,
            state: DEFAULT_STATE.into(),
            work: DEFAULT_WORK.into(),
            cache: DEFAULT_CACHE.into(),
            library: Err("not looked for".to_owned()),
            stand_in: Err("not looked for".to_owned()),
            library_version: None,
            tool_version: String::new(),
            yes: false,
            settings: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_without_effect_is_named_and_one_with_effect_is_taken() {
        let plain = |action: &str| Request { action: action.to_owned(), ..Request::default() };
        let glibc = vec!["glibc".to_owned()];
        let refused = |request: Request| check_flags(&request).err().map(|error| error.0);
        for action in ["up", "run", "down"] {
            assert_eq!(refused(plain(action)), None);
            let full = refused(Request { quick: false, ..plain(action) });
            assert_eq!(full, Some(format!("--full is for experiments; `{action}` does not take it")));
            assert!(refused(Request { repetitions: Some(2), ..plain(action) }).is_some());
            let named = refused(Request { allocators: glibc.clone(), ..plain(action) });
            assert_eq!(named.is_none(), action == "up");
            let json = refused(Request { json: true, ..plain(action) });
            assert_eq!(json.is_none(), action == "run");
        }
    }
}
