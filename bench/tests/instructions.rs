//! The instruction counter, on the allocator that is always there.

use std::process::Command;

#[test]
fn glibc_takes_a_plausible_and_repeatable_number_of_instructions() {
    let count = || {
        // Beside each other in cargo's directory, so the harness finds the load program.
        assert!(std::path::Path::new(env!("CARGO_BIN_EXE_vcm-load")).exists());
        let mut command = Command::new(env!("CARGO_BIN_EXE_vcm-bench"));
        let output =
            command.args(["instructions", "--allocators", "glibc"]).env_remove("CARGO").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = count();
    let line = text.lines().find(|line| line.trim_start().starts_with("64 ")).unwrap();
    let counts: Vec<u64> = line.split_whitespace().skip(1).map(|number| number.parse().unwrap()).collect();
    assert!(counts.iter().all(|count| (5..500).contains(count)), "{text}");
    assert_eq!(text, count());
}
