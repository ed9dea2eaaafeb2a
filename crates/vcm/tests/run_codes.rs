//! `vcm run`: exit codes, signals, and what the command inherits.

mod support;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Stdio;
use support::{Place, done, text, vcm};

#[test]
fn the_exit_code_of_the_command_is_passed_through() {
    let place = Place::new();
    for code in [0, 1, 7, 255] {
        let result = done(&mut place.run(&["--", "sh", "-c", &format!("exit {code}")]));
        assert_eq!((result.code, result.err.as_str()), (Some(code), ""));
    }
}

#[test]
fn vcm_dies_by_the_signal_that_killed_the_command() {
    let place = Place::new();
    for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV] {
        let script = format!("ulimit -c 0; kill -{signal} $$");
        let result = done(&mut place.run(&["--", "sh", "-c", &script]));
        assert_eq!(result.output.status.signal(), Some(signal));
    }
}

#[test]
fn a_signal_to_vcm_reaches_the_command() {
    let place = Place::new();
    let script = "trap 'echo told; exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = place.run(&["--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    // SAFETY: the child is ours and has not been waited for, so its id is its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("told\n", Some(9)));
}

#[test]
fn the_command_starts_with_the_signals_that_vcm_was_started_with() {
    let place = Place::new();
    let report = ["-E", "^Sig(Blk|Ign)", "/proc/self/status"];
    let without = done(std::process::Command::new("grep").args(report));
    assert_eq!(done(place.run(&["--", "grep"]).args(report)).out, without.out);
    let mut ignoring = place.run(&["--", "grep"]);
    ignoring.args(report);
    // SAFETY: signal is async-signal-safe and installs no code.
    unsafe {
        ignoring.pre_exec(|| {
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            Ok(())
        })
    };
    let result = done(&mut ignoring);
    let ignored = result.out.trim().rsplit('\t').next().unwrap();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    for signal in [libc::SIGPIPE, libc::SIGCHLD, libc::SIGHUP] {
        assert!(ignored & (1 << (signal - 1)) != 0, "{signal} in {}", result.out);
    }
    assert_eq!(result.code, Some(0), "an ignored SIGCHLD must not hide the exit code");
}

#[test]
fn a_mistyped_flag_is_refused_with_the_nearest_one() {
    let place = Place::new();
    let mistyped = done(&mut place.run(&["--cache-limt", "5", "--", "true"]));
    assert_eq!(mistyped.code, Some(125), "{}", mistyped.err);
    assert!(
        mistyped.err.contains("'--cache-limit'") && mistyped.err.contains("vcm run --help"),
        "{}",
        mistyped.err
    );
}

#[test]
fn own_failures_have_the_codes_of_env_and_timeout() {
    let place = Place::new();
    let absent = done(&mut place.run(&["--", "no-such-command-anywhere"]));
    assert_eq!(absent.code, Some(127));
    assert!(absent.err.contains("no-such-command-anywhere: no such command"), "{}", absent.err);
    std::fs::write(place.path("data"), "x").unwrap();
    let data = place.path("data");
    for path in [text(&data), text(place.folder.path())] {
        assert_eq!(done(&mut place.run(&["--", path])).code, Some(126), "{path}");
    }
    let orphan = place.script("orphan", "#!/no/such/interpreter\n");
    let result = done(&mut place.run(&["--", text(&orphan)]));
    assert_eq!(result.code, Some(127));
    assert!(result.err.contains("interpreter"), "{}", result.err);
    assert_eq!(done(&mut vcm(&["run"])).code, Some(125));
    assert_eq!(done(&mut vcm(&["run", "--no-such-flag", "--", "true"])).code, Some(125));
    assert_eq!(done(&mut vcm(&["no-such-verb"])).code, Some(2));
    assert_eq!(done(&mut vcm(&["run", "--help"])).code, Some(0));
}

#[test]
fn the_command_gets_its_arguments_name_and_input() {
    let place = Place::new();
    let mut echo = place.run(&["--", "sh", "-c", "cat; echo \"$0 $1\"", "zero", "--one"]);
    let mut child = echo.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"input\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"input\nzero --one\n");
}

#[test]
fn the_library_is_first_in_a_preload_that_was_there() {
    let place = Place::new();
    let other = place.program("other.so", "int vcm_other;", &["-shared", "-fPIC"]);
    let result = done(
        place
            .run(&["--stats", "--", "printenv", "LD_PRELOAD", "VCM_STATS_AT_EXIT"])
            .env("LD_PRELOAD", &other),
    );
    assert_eq!(result.out, format!("{}:{}\n1\n", place.stub.display(), other.display()));
}
