//! A run of whole programs, on the C library and on preloads that do not take.

use std::path::Path;
use std::process::{Command, Output};

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
