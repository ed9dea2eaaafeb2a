//! `scripts/figures-age` and `scripts/release-check`, on repositories made for the test: figures that are too old, numbers that differ and
//! entries without a date are noticed, and nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use vcmalloc_tests::library::repository;

/// A repository with a copy of a script, at the script's place.
struct Made {
    folder: TempDir,
    script: &'static str,
}

impl Made {
    fn with(script: &'static str) -> Self {
        let made = Self { folder: TempDir::new().expect("a folder"), script };
        made.git(&["init", "--quiet"]);
        made.copy(script);
        fs::set_permissions(made.path(script), fs::Permissions::from_mode(0o755)).expect("a script");
        made
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn git(&self, words: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]).args(words);
        let output = git.current_dir(self.folder.path()).output().expect("git");
        assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn copy(&self, name: &str) {
        let text =
            fs::read_to_string(repository().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        self.write(name, &text);
    }

    fn replace(&self, name: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(name)).expect("a file");
        assert!(text.contains(from), "{name} has no '{from}'");
        self.write(name, &text.replacen(from, to, 1));
    }

    /// Commits a change of `name`, `times` times; the last commit.
    fn commit(&self, name: &str, times: usize) -> String {
        for time in 0..times {
            let before = fs::read_to_string(self.path(name)).unwrap_or_default();
            self.write(name, &format!("{before}{time}\n"));
            self.git(&["add", "--all"]);
            self.git(&["commit", "--quiet", "--message", "a"]);
        }
        self.git(&["rev-parse", "--short=10", "HEAD"])
    }

    /// The exit code of the script and what it printed.
    fn run(&self, words: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(self.path(self.script));
        command.args(words).env("CARGO_TARGET_DIR", self.path("target")).env_remove("GIT_DIR");
        let output = command.output().expect("a script");
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.code(), said.into_owned())
    }
}

const CORE: &str = "crates/core/lib.rs";

fn measured(library: &str) -> String {
    format!("# A page\n\n**Measured.** 2026-11-23; 2 x AMD; library {library}.\n")
}

#[test]
fn figures_are_too_old_from_61_commits_to_the_core_on() {
    let made = Made::with("scripts/figures-age");
    let library = made.commit(CORE, 1);
    made.write("page.md", &measured(&library));
    made.commit(CORE, 60);
    assert_eq!(made.run(&["page.md"]), (Some(0), String::new()));
    // Commits elsewhere change no figure.
    made.commit("docs/a.md", 3);
    assert_eq!(made.run(&["page.md"]), (Some(0), String::new()));
    made.commit(CORE, 1);
    let (code, said) = made.run(&["page.md"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("page.md: library {library} is 61 commits to crates/core old")), "{said}");
}

#[test]
fn the_oldest_library_of_a_page_counts() {
    let made = Made::with("scripts/figures-age");
    let old = made.commit(CORE, 1);
    let new = made.commit(CORE, 61);
    made.write("page.md", &measured(&format!("0.1.0+{new}+changes, others {old}")));
    let (code, said) = made.run(&["page.md"]);
    assert!(code == Some(1) && said.contains(&format!("library {old} is 61")), "{said}");
    made.write("README.md", &format!("# Front\n\n| a |\n\nLibraries: {new} (a), {old} (b).\n"));
    let (code, said) = made.run(&["README.md"]);
    assert!(code == Some(1) && said.contains(&format!("README.md: library {old} is 61")), "{said}");
    made.write("README.md", &format!("# Front\n\n| a |\n\nLibrary: {new}, 2026-11-29 to 2026-12-01.\n"));
    let (code, said) = made.run(&["README.md"]);
    assert!(code == Some(0), "{said}");
}

#[test]
fn a_page_without_a_library_or_with_an_unknown_commit_is_too_old() {
    let made = Made::with("scripts/figures-age");
    let known = made.commit(CORE, 1);
    made.write("none.md", "# A\n\n**Measured.** 2026-11-22; 2 x AMD 1234567; library of that day.\n");
    made.write("silent.md", "# A\n\nNothing was measured.\n");
    made.write("unknown.md", &measured(&format!("{known}, 0dd0dd0")));
    made.write("date.md", "# A\n\n**Measured.** 2026-11-22; run 1234567.\n");
    let (code, said) = made.run(&["none.md", "silent.md", "unknown.md", "date.md", "gone.md"]);
    assert_eq!(code, Some(1));
    for line in [
        "none.md: no library is named",
        "silent.md: no library is named",
        "unknown.md: library 0dd0dd0 is no commit of this repository",
        "date.md: no library is named",
        "gone.md: no such page",
    ] {
        assert!(said.contains(line), "no line '{line}' in\n{said}");
    }
}

#[test]
fn a_page_that_is_too_old_carries_a_mark_and_another_one_carries_none() {
    let made = Made::with("scripts/figures-age");
    let library = made.commit(CORE, 1);
    let mark = "\n> Measured on library 87da0f7; to be measured again for 0.1.0.\n";
    made.write("page.md", &(measured(&library) + mark));
    let (code, said) = made.run(&["page.md"]);
    assert!(code == Some(1) && said.contains("page.md: the mark is no longer right"), "{said}");
    made.commit(CORE, 61);
    let (_, said) = made.run(&["page.md"]);
    assert!(!said.contains("the mark"), "{said}");
    made.write("page.md", &measured(&library));
    let (_, said) = made.run(&["page.md"]);
    assert!(said.contains("page.md: the mark is missing"), "{said}");
}

#[test]
fn without_git_the_age_of_figures_is_unknown() {
    let made = Made::with("scripts/figures-age");
    fs::remove_dir_all(made.path(".git")).expect("a repository");
    let (code, said) = made.run(&["page.md"]);
    assert!(code == Some(2) && said.contains("there is no git repository here"), "{said}");
}

#[test]
fn each_page_with_headline_figures_is_looked_at() {
    let made = Made::with("scripts/figures-age");
    made.commit(CORE, 1);
    let (_, said) = made.run(&[]);
    let pages =
        ["README.md", "results/daemons.md", "results/behind.md", "results/speed.md", "results/memory.md"];
    for page in pages {
        assert!(said.contains(&format!("{page}: no such page")), "{said}");
        assert!(repository().join(page).exists(), "{page}");
    }
}

/// A repository with all that has the version's number.
fn released() -> Made {
    let made = Made::with("scripts/release-check");
    let output = Command::new("git")
        .args(["ls-files", "Cargo.lock", "*/Cargo.lock", "man/*.1"])
        .current_dir(repository())
        .output()
        .expect("git");
    for name in String::from_utf8_lossy(&output.stdout).lines() {
        made.copy(name);
    }
    for name in ["Cargo.toml", "CHANGELOG.md", "README.md", "SECURITY.md", "packaging/debian/changelog"] {
        made.copy(name);
    }
    made.copy(&format!("packaging/tags/v{}", env!("CARGO_PKG_VERSION")));
    made.write(".gitignore", "/target\n");
    made.commit("a", 1);
    made
}

#[test]
fn one_number_everywhere_passes_and_each_place_with_another_is_named() {
    let made = released();
    let parts = ["tree", "versions", "changelog", "tag"];
    let (code, said) = made.run(&parts);
    assert_eq!((code, said.matches("ok ").count()), (Some(0), parts.len()), "{said}");
    let number = env!("CARGO_PKG_VERSION");
    let quoted = format!("\"{number}\"");
    for (name, from) in [
        ("Cargo.toml", format!("crates/core\", version = {quoted}")),
        ("Cargo.lock", format!("name = \"vcm\"\nversion = {quoted}")),
        ("fuzz/Cargo.lock", format!("name = \"vcmalloc-core\"\nversion = {quoted}")),
        ("man/vcm.1", format!("\"vcm {number}\"")),
        ("packaging/debian/changelog", format!("vcmalloc ({number}-")),
        ("README.md", format!("version {number}")),
        ("SECURITY.md", format!("version now is {number}")),
    ] {
        made.replace(name, &from, &from.replace(number, "9.8.7"));
        let (code, said) = made.run(&["versions"]);
        assert!(code == Some(1) && said.contains(&format!("{name}:")), "{name}: {said}");
        made.replace(name, &from.replace(number, "9.8.7"), &from);
    }
    assert_eq!(made.run(&["versions"]).0, Some(0));
}

#[test]
fn an_entry_without_a_date_a_missing_text_of_the_tag_and_a_changed_tree_are_noticed() {
    let made = released();
    let number = env!("CARGO_PKG_VERSION");
    let text = fs::read_to_string(made.path("CHANGELOG.md")).expect("a changelog");
    let head = text.lines().find(|line| line.starts_with("## ")).expect("an entry").to_owned();
    for wrong in [
        "## [Unreleased]",
        &format!("## [{number}]"),
        &format!("## [{number}] - soon"),
        "## [9.8.7] - 2026-11-28",
    ] {
        made.replace("CHANGELOG.md", &head, wrong);
        let (code, said) = made.run(&["changelog"]);
        assert!(code == Some(1) && said.contains(wrong), "{said}");
        made.replace("CHANGELOG.md", wrong, &head);
    }
    let (code, said) = made.run(&["tree"]);
    assert!(code == Some(0), "{said}");
    let tag = format!("packaging/tags/v{number}");
    made.write(&tag, "vcmalloc 9.8.7\n\nText.\n");
    let (code, said) = made.run(&["tag", "tree"]);
    assert!(
        code == Some(1) && said.contains("its first line is not") && said.contains("uncommitted"),
        "{said}"
    );
    fs::remove_file(made.path(&tag)).expect("a text");
    assert!(made.run(&["tag"]).1.contains("no such file"));
}

#[test]
fn placeholders_of_addresses_are_noticed() {
    let made = released();
    made.replace("Cargo.toml", "repository = \"", "repository = \"https://example.org/x\"\n# \"");
    made.write("packaging/debian/changelog", " -- a <a@example.org>  Wed, 25 Nov 2026 04:00:00 +0000\n");
    let (code, said) = made.run(&["placeholders"]);
    assert!(code == Some(1) && said.matches("placeholder").count() >= 3, "{said}");
    made.replace("Cargo.toml", "https://example.org/x", "https://a.b/c");
    made.write("packaging/debian/changelog", " -- a <a@a.b>  Wed, 25 Nov 2026 04:00:00 +0000\n");
    assert_eq!(made.run(&["placeholders"]).0, Some(0));
}

#[test]
fn each_part_of_the_check_is_listed_and_an_unknown_one_is_refused() {
    let made = Made::with("scripts/release-check");
    made.copy("Cargo.toml");
    let (code, said) = made.run(&["--list"]);
    assert_eq!((code, said.lines().count()), (Some(0), 11), "{said}");
    assert!(said.lines().all(|line| line.split('\t').count() == 2), "{said}");
    assert_eq!(made.run(&["everything"]).0, Some(2));
}

#[test]
fn the_plan_of_results_names_each_page_once_at_least() {
    let output = Command::new(repository().join("scripts/results"))
        .arg("--list")
        .env("PATH", "/usr/bin:/bin")
        .output();
    let said = String::from_utf8_lossy(&output.expect("scripts/results").stdout).into_owned();
    let planned: Vec<&str> = said
        .lines()
        .filter_map(|line| line.split_once(" for ")?.1.split(':').next())
        .flat_map(|pages| pages.split(", "))
        .collect();
    for entry in fs::read_dir(repository().join("results")).expect("results").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(page) =
            Path::new(&name).file_stem().filter(|_| name.ends_with(".md") && name != "README.md")
        else {
            continue;
        };
        assert!(
            planned.contains(&page.to_string_lossy().as_ref()),
            "no step of scripts/results is for {name}"
        );
    }
    for page in planned {
        assert!(
            repository().join(format!("results/{page}.md")).exists(),
            "a step is for {page}, which is no page"
        );
    }
}
