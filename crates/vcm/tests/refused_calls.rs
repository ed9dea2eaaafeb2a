//! If the system refuses what the caches of virtual CPUs need, by a filter (EPERM) or as an old kernel (ENOSYS), the
//! program runs, and `vcm run -v` and `vcm stat` say on which caches and why. On the finished library.

mod support;

use std::process::Command;
use support::{Place, Sleeper, done, filtered, real_library, text, vcm};

const PROGRAM: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
    int main(int count, char **words) { free(malloc(9)); puts(\"1\"); fflush(stdout); if (count > 1) sleep(60); }";

/// With one of the calls answered by an error, from before the command starts.
fn refused(command: &mut Command, number: libc::c_long, error: i32) -> &mut Command {
    filtered(command, number, libc::SECCOMP_RET_ERRNO | error as u32)
}

#[test]
fn a_refused_call_is_named_by_run_and_by_stat_and_the_program_runs() {
    let Some(library) = real_library() else { return };
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
    let Some(library) = real_library() else { return };
    let place = Place::new();
    let program = place.program("allocates", PROGRAM, &[]);
    let mut run = vcm(&["run", "-v", "--library", text(&library), "--", text(&program)]);
    let result = done(refused(&mut run, libc::SYS_sethostname, libc::EPERM));
    assert_eq!(result.code, Some(0), "{}", result.err);
    assert!(!result.err.contains("refused"), "{}", result.err);
}
