//! The archive in a static program of another C library, musl (x86_64-unknown-linux-musl).

#[cfg(target_arch = "x86_64")]
mod tests {
    use std::process::Command;
    use std::time::Duration;
    use vcmalloc_tests::{library, machine, run};

    #[test]
    fn threads_of_a_static_program_are_registered_and_end_in_any_way() {
        if machine::is_other() || library::is_foreign() {
            return;
        }
        let archive = library::archive().unwrap_or_else(|error| panic!("{error}"));
        let program = library::work_directory("musl").join("threads");
        let source = library::repository().join("tests/musl/threads.c");
        let mut compiler = Command::new("musl-gcc");
        compiler.args(["-static", "-O1", "-g", "-pthread", "-o"]).arg(&program).arg(source).arg(archive);
        let compiled = compiler.output().expect("musl-gcc, of the package musl-tools (scripts/setup test)");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let finished = run(&mut Command::new(&program), Duration::from_secs(120)).expect("it runs");
        finished.succeeded().unwrap_or_else(|error| panic!("{error}"));
    }
}
