//! Breaks the code on purpose, one mistake at a time, and asks the test that must notice it.
//!
//! ```text
//!   cargo run -p vcmalloc-tests --example breaks [WORD...]      those whose name has one of the words
//! ```
//!
//! Works on a copy of the tree in `target/breaks`, with a target folder of its own that stays, so that each break costs
//! one narrow build. A test is first asked on the copy as it is: a test that fails there notices nothing. Ends with a
//! table, and with 1 where a break was not noticed or did not apply.

#[path = "core_breaks.rs"]
mod core_breaks;
#[path = "hardened_breaks.rs"]
mod hardened_breaks;
#[path = "outer_breaks.rs"]
mod outer_breaks;
#[path = "planted.rs"]
mod planted;
#[path = "process_breaks.rs"]
mod process_breaks;
#[path = "tenant_breaks.rs"]
mod tenant_breaks;
#[path = "tree.rs"]
mod tree;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use planted::{Break, Test};
use vcmalloc_tests::{child, library};

/// Of a build, and of a test: both take seconds, the first build some minutes.
const BUILD_LIMIT: Duration = Duration::from_secs(1200);
const TEST_LIMIT: Duration = Duration::from_secs(300);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_chosen =
        |planted: &&Break| words.is_empty() || words.iter().any(|word| planted.name.contains(word));
    let chosen: Vec<&Break> = planted::all().filter(is_chosen).collect();
    if chosen.is_empty() {
        eprintln!(
            "no break's name has {}; core_breaks.rs, tenant_breaks.rs, hardened_breaks.rs and outer_breaks.rs in tests/breaks list them",
            words.join(" or ")
        );
        return ExitCode::FAILURE;
    }
    match Copy::new().and_then(|copy| copy.try_all(&chosen)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The fate of a break.
enum Outcome {
    Noticed,
    /// By its limit of time only.
    Hung,
    Unnoticed,
    /// It could not be planted or does not compile.
    Void(String),
}

impl Outcome {
    fn is_good(&self) -> bool {
        matches!(self, Outcome::Noticed | Outcome::Hung)
    }

    fn name(&self) -> &'static str {
        match self {
            Outcome::Noticed => "noticed",
            Outcome::Hung => "hung",
            Outcome::Unnoticed => "NOT NOTICED",
            Outcome::Void(_) => "DOES NOT APPLY",
        }
    }
}

/// The copy in which breaks are planted.
struct Copy {
    tree: PathBuf,
    target: PathBuf,
}

impl Copy {
    fn new() -> Result<Copy, String> {
        let folder = library::target_directory().join("breaks");
        let copy = Copy { tree: folder.join("tree"), target: folder.join("target") };
        tree::copy(library::repository(), &copy.tree)?;
        Ok(copy)
    }

    /// Whether all were noticed.
    fn try_all(&self, chosen: &[&Break]) -> Result<bool, String> {
        let (mut rows, mut asked) = (Vec::new(), BTreeSet::new());
        for (number, planted) in chosen.iter().enumerate() {
            let (tests, _) = planted.noticed_by.split();
            if asked.insert(tests) {
                self.try_unbroken(tests, chosen)?;
            }
            let start = Instant::now();
            let outcome = self.try_one(planted);
            let seconds = start.elapsed().as_secs();
            println!("{}/{} {}: {}, {seconds} s", number + 1, chosen.len(), planted.name, outcome.name());
            if let Outcome::Void(reason) = &outcome {
                println!("{reason}");
            }
            rows.push((planted, outcome, seconds));
        }
        println!("\n| break | outcome | asked | seconds |\n|---|---|---|---|");
        for (planted, outcome, seconds) in &rows {
            println!(
                "| {} | {} | {} | {seconds} |",
                planted.name,
                outcome.name(),
                planted.noticed_by.shown()
            );
        }
        let bad = rows.iter().filter(|(_, outcome, _)| !outcome.is_good()).count();
        println!("\n{} breaks, {bad} not noticed", rows.len());
        Ok(bad == 0)
    }

    /// All of these tests that the chosen breaks ask must pass where nothing is broken.
    fn try_unbroken(&self, tests: Test, chosen: &[&Break]) -> Result<(), String> {
        let asked = chosen.iter().map(|planted| planted.noticed_by.split()).filter(|(of, _)| *of == tests);
        let words: BTreeSet<&str> = asked.map(|(_, word)| word).collect();
        let words: Vec<&str> = words.into_iter().collect();
        println!("as it is: {}, {} tests", tests.shown(), words.len());
        self.build(tests)?;
        // Those suites take one word.
        let words_at_a_time = if matches!(tests, Test::On(..)) { 1 } else { words.len() };
        for some in words.chunks(words_at_a_time) {
            match self.ask(tests, some)? {
                Some(0) => {}
                _ => return Err(format!("{} fails although nothing is broken", tests.shown())),
            }
        }
        Ok(())
    }

    fn try_one(&self, planted: &Break) -> Outcome {
        let (path, text) = match tree::find(&self.tree, planted) {
            Ok(found) => found,
            Err(reason) => return Outcome::Void(reason),
        };
        let written = fs::write(&path, text.replacen(planted.before, planted.after, 1));
        let (tests, word) = planted.noticed_by.split();
        let outcome = match written.map_err(|error| error.to_string()).and_then(|()| self.build(tests)) {
            Err(reason) => Outcome::Void(reason),
            Ok(()) => match self.ask(tests, &[word]) {
                Ok(Some(0)) => Outcome::Unnoticed,
                Ok(Some(_)) => Outcome::Noticed,
                Ok(None) => Outcome::Hung,
                Err(reason) => Outcome::Void(reason),
            },
        };
        match fs::write(&path, text) {
            Ok(()) => outcome,
            Err(error) => Outcome::Void(format!("{} stays broken: {error}", path.display())),
        }
    }

    fn build(&self, tests: Test) -> Result<(), String> {
        for mut arguments in tests.builds() {
            arguments.push("--quiet");
            let finished = vcmalloc_tests::run(self.cargo(tests).args(&arguments), BUILD_LIMIT)?;
            finished.succeeded().map_err(|error| format!("it does not compile\n{error}"))?;
        }
        Ok(())
    }

    /// The tests' exit code, 1 where a signal ended them; none where they took too long.
    fn ask(&self, tests: Test, words: &[&str]) -> Result<Option<i32>, String> {
        let mut cargo = self.cargo(tests);
        let mut started = child::Started::new(cargo.args(tests.command()).arg("--").args(words))?;
        let status = child::wait(&mut started.child, TEST_LIMIT);
        let (output, _) = started.end()?;
        let said = String::from_utf8_lossy(&output);
        // A word that no test's name has would let every break pass.
        let is_asked =
            said.lines().any(|line| line.starts_with("running ") && !line.starts_with("running 0 "));
        if !is_asked {
            return Err(format!("{}: no test is called {}", tests.shown(), words.join(" or ")));
        }
        Ok(status.map(|status| status.code().unwrap_or(1)))
    }

    /// Without optimising what is tested in debug builds: that would cost more than it saves. Line tables neither.
    fn cargo(&self, tests: Test) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        cargo.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo.env("RUST_BACKTRACE", "0");
        if matches!(tests, Test::Loom(_)) {
            cargo.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", self.target.join("loom"));
        }
        cargo
    }
}

impl Test {
    /// The tests without the word, and the word.
    fn split(self) -> (Test, &'static str) {
        match self {
            Test::Core(word) => (Test::Core(""), word),
            Test::Loom(word) => (Test::Loom(""), word),
            Test::Of(package, word) => (Test::Of(package, ""), word),
            Test::Tool(suite, word) => (Test::Tool(suite, ""), word),
            Test::On(package, suite, word) => (Test::On(package, suite, ""), word),
        }
    }

    fn command(self) -> Vec<&'static str> {
        match self {
            Test::Core(_) => vec!["test", "-p", "vcmalloc-core", "--lib"],
            Test::Loom(_) => vec!["test", "--release", "-p", "vcmalloc-core", "--lib"],
            Test::Of(package, _) => vec!["test", "-p", package, "--no-fail-fast"],
            Test::Tool(suite, _) => vec!["test", "-p", "vcm", "--test", suite],
            Test::On(_, suite, _) => vec!["test", "-p", "vcmalloc-tests", "--test", suite],
        }
    }

    /// The builds before the tests: a break that does not compile would else be noticed by anything.
    fn builds(self) -> Vec<Vec<&'static str>> {
        let tests = [self.command(), vec!["--no-run"]].concat();
        match self {
            Test::On(package, ..) => vec![vec!["build", "--release", "-p", package], tests],
            Test::Tool(..) => vec![vec!["build", "--release", "-p", "vcmalloc-shared"], tests],
            _ => vec![tests],
        }
    }

    fn shown(self) -> String {
        let (Test::Core(word)
        | Test::Loom(word)
        | Test::Of(_, word)
        | Test::Tool(_, word)
        | Test::On(_, _, word)) = self;
        let tests = match self {
            Test::Core(_) => "core",
            Test::Loom(_) => "loom",
            Test::Of(package, _) => package,
            Test::Tool(suite, _) | Test::On(_, suite, _) => suite,
        };
        format!("{tests} {word}").trim_end().to_string()
    }
}
