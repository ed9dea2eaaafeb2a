//! `vcm compare`: what it finds, and what it says of runs that do not count.

mod support;

use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Done, Place, done, text, vcm};

/// Holds 40 MB and says how many steps its allocator took.
const PROGRAM: &str = "#include <malloc.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
    #include <unistd.h>\n\
    extern long allocator_steps(void) __attribute__((weak));\n\
    int main(void) {\n\
        for (int block = 0; block < 10000; block++) {\n\
            char *kept = malloc(4000);\n\
            memset(kept, 1, malloc_usable_size(kept));\n\
        }\n\
        printf(\"steps: %ld\\n\", allocator_steps ? allocator_steps() : 1);\n\
        fflush(stdout); usleep(300000); return 0;\n\
    }";

fn compare(allocators: &str, arguments: &[&str], command: &[&str]) -> Command {
    let mut words = vec!["compare", "--allocators", allocators];
    words.extend_from_slice(arguments);
    words.push("--");
    words.extend_from_slice(command);
    vcm(&words)
}

/// Of one measure of one allocator: by how much it differs, and whether that is shown.
fn comparison(json: &Value, allocator: &str, measure: &str) -> (f64, bool) {
    let all = json["comparisons"].as_array().unwrap();
    let found = all.iter().find(|one| one["allocator"] == allocator && one["measure"] == measure);
    let found = found.unwrap_or_else(|| panic!("no {measure} of {allocator} in {json:#}"));
    (found["by"].as_f64().unwrap(), found["is_shown"].as_bool().unwrap())
}

#[test]
fn a_planted_slowdown_and_growth_are_found_and_the_same_twice_is_the_same() {
    let place = Place::new();
    let program = place.program("program", PROGRAM, &[]);
    let (quick, slow) =
        (place.allocator("quick.so", 10, 10, false), place.allocator("slow.so", 12, 12, false));
    let names = format!("{},{},{}", text(&quick), text(&quick), text(&slow));
    let arguments = ["--cost", "steps: ([0-9]+)", "--json"];
    let result = done(&mut compare(&names, &arguments, &[text(&program)]));
    assert_eq!(result.code, Some(0), "{}", result.err);
    let json: Value = serde_json::from_str(&result.out).unwrap();
    assert_eq!(comparison(&json, "quick.so (2)", "steps"), (0.0, false));
    assert!(comparison(&json, "quick.so (2)", "peak RSS").0.abs() < 0.05, "{}", result.out);
    for measure in ["steps", "peak RSS"] {
        let (by, is_shown) = comparison(&json, "slow.so", measure);
        assert!((0.15..0.25).contains(&by) && is_shown, "{measure}: {by}\n{}", result.out);
    }
    let stamp = &json["allocators"][2]["stamp"];
    assert_eq!(stamp["file"], text(&slow.canonicalize().unwrap()));
    assert!(stamp["build_id"].as_str().is_some_and(|id| id.len() >= 16), "{stamp}");
    assert_eq!(
        (&stamp["loaded_by"], &stamp["environment"]["LD_PRELOAD"]),
        (&"preloaded".into(), &stamp["file"])
    );
    assert_eq!(json["recommendation"]["advice"], "stay");
}

#[test]
fn what_is_better_is_recommended_with_its_drop_in_and_its_proof() {
    let place = Place::new();
    let program = place.program("program", PROGRAM, &[]);
    let (quick, slow) =
        (place.allocator("quick.so", 10, 10, false), place.allocator("slow.so", 12, 12, false));
    let names = format!("{},{}", text(&slow), text(&quick));
    let result = done(&mut compare(&names, &["--cost", "steps: ([0-9]+)"], &[text(&program)]));
    assert_eq!(result.code, Some(0), "{}", result.err);
    let preload = format!("LD_PRELOAD={}", text(&quick.canonicalize().unwrap()));
    for expected in [
        "5 rounds of 2 allocators",
        "mean of pairs\n",
        "Recommended",
        "better",
        &format!("Environment=\"{preload}\""),
        "grep -m1",
    ] {
        assert!(result.out.contains(expected), "{expected}\n{}", result.out);
    }
}

#[test]
fn the_page_has_the_recommendation_the_values_and_what_was_typed_as_text() {
    let place = Place::new();
    let program = place.program("program", PROGRAM, &[]);
    let (quick, slow) =
        (place.allocator("quick.so", 10, 10, false), place.allocator("slow.so", 12, 12, false));
    let names = format!("{},{}", text(&slow), text(&quick));
    let page = place.path("page.html");
    let arguments = ["--cost", "steps: ([0-9]+)", "--html", text(&page)];
    let result = done(&mut compare(&names, &arguments, &[text(&program), "</script><b onclick='x'>"]));
    assert_eq!(result.code, Some(0), "{}", result.err);
    let html = std::fs::read_to_string(&page).unwrap();
    for expected in [
        "Recommended",
        "the mean of its differences",
        "steps against peak RSS",
        "LD_PRELOAD",
        "build-id",
        "Memory over time",
        "&lt;/script&gt;",
    ] {
        assert!(html.contains(expected), "{expected} is not in {html}");
    }
    assert!(!html.contains("<b onclick"));
    let nowhere = done(&mut compare(
        &names,
        &["--html", "/no/such/folder/x.html"],
        &["touch", text(&place.path("ran"))],
    ));
    assert_eq!(nowhere.code, Some(1), "{}", nowhere.err);
    assert!(!place.path("ran").exists(), "nothing runs for a page that cannot be written");
}

/// A run that does not count: the code is 1, and `why` is said.
fn assert_left_out(result: &Done, why: &str) {
    assert_eq!(result.code, Some(1), "{}{}", result.out, result.err);
    assert!(result.out.contains(why), "{why}\n{}", result.out);
    assert!(result.out.contains("is left out"), "{}", result.out);
    assert!(!result.err.contains("is left out"), "it is told once: {}", result.err);
}

#[test]
fn a_command_that_drops_the_preload_does_not_count() {
    let place = Place::new();
    let program = place.program("program", PROGRAM, &[]);
    let fixed = place.program("fixed", PROGRAM, &["-static"]);
    let quick = place.allocator("quick.so", 10, 10, false);
    let names = format!("glibc,{}", text(&quick));
    let clears = done(&mut compare(&names, &["--repeat", "1"], &["env", "-i", text(&program)]));
    assert_left_out(&clears, "does not run on quick.so but on glibc malloc");
    let below = place.script("below", &format!("#!/bin/sh\nenv -i {}\n", text(&program)));
    assert_left_out(&done(&mut compare(&names, &["--repeat", "1"], &[text(&below)])), "program (pid");
    let fixed = done(&mut compare(&names, &["--repeat", "1"], &[text(&fixed)]));
    assert_eq!(fixed.code, Some(1), "{}", fixed.err);
    assert!(fixed.out.contains("quick.so is left out: fixed (pid "), "{}", fixed.out);
}

#[test]
fn a_command_that_fails_crashes_or_hangs_does_not_count() {
    let place = Place::new();
    let quick = place.allocator("quick.so", 10, 10, false);
    let names = format!("glibc,{}", text(&quick));
    let run = |script: &str| done(&mut compare(&names, &["--limit", "1s"], &["sh", "-c", script]));
    assert_left_out(
        &run("sleep 0.2; echo no such device >&2; exit 3"),
        "ended with code 3; it said last: no such device",
    );
    assert_left_out(&run("sleep 0.2; kill -SEGV $$"), "was killed by signal 11");
    let pid = place.path("pid");
    assert_left_out(&run(&format!("echo $$ >> {}; exec sleep 600", text(&pid))), "it did not end within 1s");
    assert_all_gone(&pid);
}

#[test]
fn what_forks_away_is_named_and_ended() {
    let place = Place::new();
    let pid = place.path("pid");
    let script = format!("setsid sleep 600 & echo $! >> {}; sleep 0.2", text(&pid));
    let result = done(&mut compare("glibc,glibc", &[], &["sh", "-c", &script]));
    assert_left_out(&result, "left sleep running");
    assert!(result.out.contains("foreground"), "{}", result.out);
    assert_all_gone(&pid);
}

/// The processes whose ids are in a file do not live.
fn assert_all_gone(file: &std::path::Path) {
    let ids = std::fs::read_to_string(file).unwrap();
    assert!(!ids.is_empty());
    for id in ids.lines() {
        let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        assert!(!state.contains("(sleep)") && !state.contains("(sh)"), "{state}");
    }
}

const SERVER: &str = "echo listening; while :; do sleep 0.05; done";

#[test]
fn a_server_is_measured_under_load_and_idle() {
    let load = ["--load", "sleep 0.3; echo 'Requests/sec:  1000'", "--ready", "listening", "--idle", "200ms"];
    let arguments = [&load[..], &["--repeat", "2", "--json"]].concat();
    let result = done(&mut compare("glibc,glibc", &arguments, &["sh", "-c", SERVER]));
    assert_eq!(result.code, Some(0), "{}", result.err);
    let json: Value = serde_json::from_str(&result.out).unwrap();
    let measures = json["allocators"][1]["measures"].as_array().unwrap();
    for name in
        ["requests", "CPU time", "peak RSS", "peak PSS", "steady RSS", "steady PSS", "idle RSS", "idle PSS"]
    {
        let found = measures.iter().find(|measure| measure["name"] == name);
        assert_eq!(
            found.map(|found| found["values"].as_array().unwrap().len()),
            Some(2),
            "{name}\n{}",
            result.out
        );
    }
}

#[test]
fn a_server_that_is_never_ready_or_ends_is_said_so() {
    let run = |ready: &str, load: &str, server: &str| {
        let arguments =
            ["--repeat", "1", "--ready", ready, "--load", load, "--limit", "2s", "--idle", "100ms"];
        done(&mut compare("glibc,glibc", &arguments, &["sh", "-c", server]))
    };
    assert_left_out(&run("never said", "true", SERVER), "it was not ready within 2s");
    assert_left_out(&run("listening", "true", "echo bad port; exit 1"), "code 1; it said last: bad port");
    assert_left_out(&run("listening", "sleep 1", "echo listening; sleep 0.3"), "the server ended under load");
    assert_left_out(&run("listening", "echo refused; exit 7", SERVER), "the load program ended with code 7");
    assert_left_out(&run("listening", "sleep 600", SERVER), "the load program did not end within 2s");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    assert_left_out(&run(&port, "true", SERVER), "something listens at port");
}

#[test]
fn an_interrupt_leaves_no_process_and_reports_the_rounds_that_finished() {
    let place = Place::new();
    let (runs, pid) = (place.path("runs"), place.path("pid"));
    // Two whole rounds, then one that does not end.
    let script = format!(
        "echo run >> {runs}; sleep 0.3; [ $(wc -l < {runs}) -lt 5 ] || {{ echo $$ >> {pid}; exec sleep 600; }}",
        runs = text(&runs),
        pid = text(&pid)
    );
    let mut command = compare("glibc,glibc", &[], &["sh", "-c", &script]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    while !pid.exists() && begin.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(20));
    }
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), nix::sys::signal::Signal::SIGINT)
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!((output.status.code(), output.status.signal()), (Some(130), None), "{out}");
    assert!(out.contains("2 rounds of 2 allocators"), "{out}");
    assert_all_gone(&pid);
}

#[test]
fn what_is_typed_wrongly_is_said_before_anything_runs() {
    let ends = |code: i32, arguments: &[&str], why: &str| {
        let result = done(&mut vcm(&[&["compare"], arguments].concat()));
        assert_eq!(result.code, Some(code), "{arguments:?}\n{}", result.err);
        assert!(result.err.contains(why), "{why}\n{}", result.err);
    };
    ends(2, &["--allocators", "jemaloc,glibc", "--", "true"], "did you mean 'jemalloc'");
    ends(2, &["--allocators", "glibc", "--", "true"], "at least two");
    ends(1, &["--allocators", "glibc,/nowhere/lib.so", "--", "true"], "/nowhere/lib.so");
    let unknown = done(&mut vcm(&["compare", "--allocators", "nosuch,glibc", "--", "true"]));
    let named = |name: &str| unknown.err.split([' ', ',', ';', '\n']).filter(|word| *word == name).count();
    assert_eq!(
        ["glibc", "plain", "google-new", "gperftools-new"].map(named),
        [1, 1, 0, 0],
        "{}",
        unknown.err
    );
    assert!(named("vcmalloc-hardened") < 2, "{}", unknown.err);
    for port in ["99999", "0"] {
        ends(2, &["--ready", port, "--load", "true", "--", "true"], "ports are 1 to 65535");
    }
    ends(2, &["--metric", "rate", "--", "true"], "one group");
    ends(2, &["--load", "true", "--", "true"], "--ready");
    ends(2, &["--ready", "(", "--load", "true", "--", "true"], "neither a port nor a regular expression");
    ends(2, &["--sweep", "no_such=1", "--allocators", "glibc,glibc", "--", "true"], "no_such");
    ends(1, &["--allocators", "glibc,glibc", "--", "no-such-command"], "no-such-command");
    ends(2, &["--repeat", "0", "--", "true"], "--repeat");
    ends(2, &[], "COMMAND");
}

#[test]
fn a_pattern_that_finds_nothing_is_no_silence() {
    let result = done(&mut compare("glibc,glibc", &["--metric", "rate: ([0-9]+)"], &["sleep", "0.2"]));
    assert_left_out(&result, "no number for 'rate: ([0-9]+)'");
}
