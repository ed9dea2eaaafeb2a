//! Where the system refuses what the caches of virtual CPUs need, by a filter (EPERM) or as an old kernel (ENOSYS): the program runs,
//! and `vcm run -v` and `vcm stat` say on which caches and why. On the finished library.

mod support;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Place, Sleeper, done, text, vcm};

const PROGRAM: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
    int main(int count, char **words) { free(malloc(9)); puts(\"1\"); fflush(stdout); if (count > 1) sleep(60); }";

fn library() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/libvcmalloc.so");
    let found = path.canonicalize().ok();
    if found.is_none() {
        eprintln!("not tested: target/release/libvcmalloc.so is not built");
    }
    found
}

/// A filter, there before the command starts, that answers one of the calls with an error.
fn refused(command: &mut Command, number: libc::c_long, error: i32) -> &mut Command {
    let line = |code: u32, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut lines = [
        line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        line(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, number as u32),
        line(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | error as u32),
        line(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog { len: 4, filter: lines.as_mut_ptr() };
            let refused = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0;
            if refused { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        })
    }
}

#[test]
fn a_refused_call_is_named_by_run_and_by_stat_and_the_program_runs() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let program = place.program("allocates", PROGRAM, &[]);
    let calls = [(libc::SYS_rseq, "rseq is refused"), (libc::SYS_membarrier, "membarrier is refused")];
    for (call, why) in calls {
        for error in [libc::EPERM, libc::ENOSYS] {
            // The C library's own registration, and ours.
            for registers in ["1", "0"] {
                let tunable = format!("glibc.pthread.rseq={registers}");
                let mut run = vcm(&["run", "-v", "--library", text(&library), "--", text(&program)]);
                let result = done(refused(run.env("GLIBC_TUNABLES", &tunable), call, error));
                assert_eq!((result.code, result.out.as_str()), (Some(0), "1\n"), "{}", result.err);
                assert!(result.err.contains(&format!("front locked ({why})")), "{tunable}: {}", result.err);

                let mut alone = Command::new(&program);
                alone.arg("stays").env("GLIBC_TUNABLES", &tunable).env("LD_PRELOAD", &library);
                let process = Sleeper::start(refused(&mut alone, call, error));
                let result = done(&mut vcm(&["stat", &process.id()]));
                assert_eq!(result.code, Some(0), "{}", result.err);
                let front = result.out.lines().find(|line| line.starts_with("front")).unwrap_or("no front");
                assert!(front.ends_with(why), "{tunable}: {front}");
                assert!(result.out.contains("of locked"), "{}", result.out);
            }
        }
    }
}

#[test]
fn where_nothing_is_refused_no_refusal_is_named() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let program = place.program("allocates", PROGRAM, &[]);
    let mut run = vcm(&["run", "-v", "--library", text(&library), "--", text(&program)]);
    let result = done(refused(&mut run, libc::SYS_sethostname, libc::EPERM));
    assert_eq!(result.code, Some(0), "{}", result.err);
    assert!(!result.err.contains("refused"), "{}", result.err);
}
