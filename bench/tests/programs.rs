//! A run of whole programs, on the C library and on preloads that do not take, and one that a signal stops.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const BENCH: &str = env!("CARGO_BIN_EXE_vcm-bench");

fn programs(words: &[&str], out: &Path) -> Output {
    let mut command = Command::new(BENCH);
    command.arg("programs").args(words).arg("--output").arg(out).env_remove("CARGO").output().unwrap()
}

#[test]
fn a_run_whose_preload_did_not_take_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let (source, broken) = (folder.path().join("broken.c"), folder.path().join("broken"));
    // The loader refuses to preload a program, and goes on without it.
    let text = "int main(void) { return 0; } void *malloc(unsigned long n) { return n ? 0 : &main; }";
    std::fs::write(&source, text).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-w", "-pie", "-fPIE", "-rdynamic", "-o"]).arg(&broken).arg(&source);
    assert!(gcc.status().unwrap().success());
    let words =
        ["--only", "perl, a hash", "--rounds", "1", "--allocators", "glibc", "--against", "glibc", "--add"];
    let done = programs(&[&words[..], &[&format!("broken={}", broken.display())]].concat(), folder.path());
    let (said, page) = (String::from_utf8_lossy(&done.stderr), String::from_utf8_lossy(&done.stdout));
    assert!(done.status.success(), "{said}");
    assert!(
        page.contains("perl, a hash on broken does not count") && page.contains("does not run on broken"),
        "{page}"
    );
    assert!(page.contains("| best peer | glibc |\n"), "it has no column: {page}");
    assert!(page.contains("| glibc | **1.00** |\n"), "{page}");
}

#[test]
fn a_run_that_a_signal_stops_says_in_which_round_and_fails() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(BENCH);
    command.args([
        "programs",
        "--only",
        "perl, a hash",
        "--rounds",
        "500",
        "--allocators",
        "glibc",
        "--output",
    ]);
    command.arg(folder.path()).env_remove("CARGO").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut bench = command.spawn().unwrap();
    let mut lines = BufReader::new(bench.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("round 2 of 500")), "it ended before its second round");
    let pid = bench.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let said: Vec<String> = lines.collect();
    assert!(!bench.wait().unwrap().success(), "{said:?}");
    assert!(said.iter().any(|line| line.contains("stopped; the page has")), "{said:?}");
    let mut runs = std::fs::read_dir(folder.path().join("runs")).unwrap();
    let page = std::fs::read_to_string(runs.next().unwrap().unwrap().path().join("README.md")).unwrap();
    assert!(page.contains("Stopped in round ") && !page.contains("Medians of 500"), "{page}");
}

#[test]
fn what_cannot_be_meant_is_refused_and_a_program_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |words: &[&str]| {
        let done = programs(words, folder.path());
        assert!(!done.status.success(), "{words:?} was accepted");
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    assert!(refusal(&["--only", "no such program"]).contains("no program is called so"));
    assert!(refusal(&["--allocators", "jemaloc"]).contains("did you mean 'jemalloc'"));
    assert!(refusal(&["--rounds", "0"]).contains("--rounds 0"));
    let mut command = Command::new(BENCH);
    command
        .args(["programs", "--only", "lua", "--rounds", "1", "--allocators", "glibc", "--output"])
        .arg(folder.path());
    let done = command.env("PATH", "/nonexistent").env_remove("CARGO").output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && said.contains("without lua: there is no lua5.4 here"), "{said}");
}
