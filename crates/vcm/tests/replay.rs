//! `vcm replay`: what it keeps of a trace, and what it says of traces and allocators that cannot be used.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use support::{Done, Place, done, gcc, text, vcm};
use vcm_trace::{Event, Header, Object, Writer};

const MIB: f64 = (1 << 20) as f64;

/// Two threads that free each other's blocks, and a third that keeps 16 MiB from the middle on; a second in all.
fn write(path: &Path, rounds: u64, header: &Header, resident: impl Fn(u64) -> Option<u64>) {
    let mut writer = Writer::new(std::fs::File::create(path).unwrap(), header).unwrap();
    for round in 0..rounds {
        let now = round * 1_000_000_000 / rounds;
        for stream in [1, 2] {
            writer.event(stream, now, &Event::Malloc { bytes: 64 + round % 100 }).unwrap();
        }
        if round >= 5 {
            for (stream, other) in [(1, 2), (2, 1)] {
                let object = Object { stream: other, ordinal: round - 5 };
                writer.event(stream, now, &Event::Free { object }).unwrap();
            }
        }
        if round == rounds / 2 {
            (0..256).for_each(|_| writer.event(3, now, &Event::Calloc { bytes: 65536 }).unwrap());
        }
        if round.is_multiple_of(rounds / 8)
            && let Some(resident) = resident(round * 8 / rounds)
        {
            writer.event(0, now, &Event::Memory { resident, minor_faults: 0, major_faults: 0 }).unwrap();
        }
    }
    writer.finish().unwrap();
}

fn trace(place: &Place, rounds: u64) -> PathBuf {
    let path = place.path("trace.vct");
    write(&path, rounds, &Header::default(), |_| None);
    path
}

fn replay(path: &Path, arguments: &[&str]) -> Done {
    done(&mut vcm(&[&["replay", text(path), "--repeat", "1"], arguments].concat()))
}

fn json(done: &Done) -> Value {
    serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {}{}", done.out, done.err))
}

fn value(json: &Value, allocator: usize, measure: &str) -> f64 {
    let all = json["allocators"][allocator]["measures"].as_array().unwrap();
    all.iter().find(|one| one["name"] == measure).unwrap()["values"][0].as_f64().unwrap()
}

fn library(place: &Place, name: &str, malloc: &str) -> PathBuf {
    let (path, source) = (place.path(name), place.path(&format!("{name}.c")));
    let code = format!(
        "#include <stddef.h>\n#include <unistd.h>\nextern void *__libc_malloc(size_t);\n\
         void *malloc(size_t size) {{ {malloc} return __libc_malloc(size); }}\n"
    );
    std::fs::write(&source, code).unwrap();
    gcc(&["-shared", "-fPIC", "-O1", "-o", text(&path), text(&source)]);
    path
}

#[test]
fn every_block_is_held_as_long_as_in_the_trace_whoever_frees_it() {
    let place = Place::new();
    let result = replay(&trace(&place, 20_000), &["--allocators", "glibc", "--json"]);
    assert_eq!(result.code, Some(0), "{}", result.err);
    let json = json(&result);
    assert_eq!((&json["trace"]["unknown"], &json["given_up"]), (&0.into(), &0.into()));
    let course = json["allocators"][0]["course"].as_array().unwrap();
    // At the end: 16 MiB, and ten blocks of 64 to 163 bytes.
    let live = course.last().unwrap()[1].as_f64().unwrap() - 16.0 * MIB;
    assert!((640.0..=1630.0).contains(&live), "{live}");
    let memory = value(&json, 0, "memory at the end") / MIB;
    assert!((15.9..20.0).contains(&memory), "every page is touched, and no other: {memory}");
    assert!(json["fidelity_unknown"].as_str().unwrap().contains("no samples"), "{json:#}");
}

#[test]
fn a_paced_replay_takes_the_time_of_the_trace() {
    let place = Place::new();
    let path = trace(&place, 2000);
    for (speed, least) in [("1", 0.99), ("4", 0.24)] {
        let begin = Instant::now();
        let result = replay(&path, &["--allocators", "glibc", "--paced", "--speed", speed, "--json"]);
        assert_eq!(result.code, Some(0), "{}", result.err);
        // With the run that takes off what replaying costs: twice.
        assert!(begin.elapsed().as_secs_f64() >= 2.0 * least, "{speed}: {:?}", begin.elapsed());
        assert!(json(&result)["allocators"][0]["course"].as_array().unwrap().len() >= 10);
    }
}

#[test]
fn memory_is_read_while_the_threads_rest_after_the_trace() {
    let place = Place::new();
    let result = replay(&trace(&place, 2000), &["--allocators", "glibc", "--rest", "1200ms", "--json"]);
    assert_eq!(result.code, Some(0), "{}", result.err);
    let json = json(&result);
    let end = value(&json, 0, "memory at the end");
    for name in ["memory after 1 s at rest", "memory after 1.2 s at rest"] {
        let rest = value(&json, 0, name);
        // glibc keeps what it has.
        assert!((rest - end).abs() < 0.5 * MIB, "{name}: {rest} of {end}");
    }
}

#[test]
fn a_replay_near_the_recording_is_ranked_and_one_far_from_it_is_not() {
    let place = Place::new();
    let path = place.path("trace.vct");
    let header = Header { allocator: Some("glibc malloc 2.36".to_owned()), ..Header::default() };
    for (after, is_near) in [(16, true), (64, false)] {
        let grown = |eighth: u64| Some((100 << 20) + if eighth > 4 { after << 20 } else { 0 });
        write(&path, 8000, &header, grown);
        let result = replay(&path, &["--allocators", "glibc"]);
        assert_eq!(result.code, Some(0), "{}", result.err);
        assert!(result.out.contains("of the recorded peak"), "{}", result.out);
        assert_eq!(result.out.contains("In order of"), is_near, "{}", result.out);
        assert_eq!(result.out.contains("No ranking"), !is_near, "{}", result.out);
    }
}

#[test]
fn allocators_that_do_not_differ_are_not_ranked_on_any_page() {
    let place = Place::new();
    let path = place.path("trace.vct");
    let header = Header { allocator: Some("glibc malloc 2.36".to_owned()), ..Header::default() };
    write(&path, 8000, &header, |eighth| Some((100 << 20) + if eighth > 4 { 16 << 20 } else { 0 }));
    let same = library(&place, "same.so", "");
    let (allocators, page) = (format!("glibc,{}", text(&same)), place.path("page.html"));
    // Of one round nothing can be shown.
    let result = replay(&path, &["--allocators", &allocators, "--html", text(&page)]);
    assert_eq!(result.code, Some(0), "{}", result.err);
    let page = std::fs::read_to_string(page).unwrap();
    for measure in ["time in the allocator", "peak memory", "mean memory"] {
        let line = format!("{measure}: no significant difference");
        assert!(result.out.contains(&line) && page.contains(&line), "{measure}\n{}", result.out);
    }
    assert!(!page.contains("those that no other beats"), "the picture ranks");
}

#[test]
fn a_trace_that_contradicts_itself_ends_and_is_told() {
    let place = Place::new();
    let path = place.path("trace.vct");
    let mut writer = Writer::new(std::fs::File::create(&path).unwrap(), &Header::default()).unwrap();
    // Each frees what the other will allocate after it.
    for (stream, other) in [(1, 2), (2, 1)] {
        writer.event(stream, 0, &Event::Free { object: Object { stream: other, ordinal: 0 } }).unwrap();
        writer.event(stream, 0, &Event::Malloc { bytes: 100 }).unwrap();
    }
    writer.finish().unwrap();
    let result = replay(&path, &["--allocators", "glibc", "--json"]);
    assert_eq!(result.code, Some(0), "{}", result.err);
    assert!(json(&result)["given_up"].as_u64().unwrap() >= 1, "{}", result.out);
}

#[test]
fn bad_traces_and_arguments_are_refused_with_the_reason() {
    let place = Place::new();
    let good = std::fs::read(trace(&place, 2000)).unwrap();
    let path = place.path("bad.vct");
    let refused = |bytes: &[u8], words: &str| {
        std::fs::write(&path, bytes).unwrap();
        let result = replay(&path, &["--allocators", "glibc"]);
        assert!(result.code == Some(1) && result.err.contains(words), "{words}: {}", result.err);
        result
    };
    refused(b"something else", "not a trace");
    refused(&[&good[..8], &[9, 0], &good[10..]].concat(), "version 9");
    let mut damaged = good.clone();
    damaged[100] ^= 1;
    refused(&damaged, "damaged");
    // Its index is missing: the part that is there is replayed.
    let cut = refused(&good[..good.len() - 60], "cut off");
    assert!(cut.out.contains("time in the allocator"), "{}", cut.out);
    refused(&Vec::from(&good[..30]), "cut off");
    assert_eq!(replay(Path::new("/nowhere"), &[]).code, Some(1));
    let wrong = replay(&path, &["--allocators", "jemaloc"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("jemalloc"), "{}", wrong.err);
    assert_eq!(replay(&path, &["--asap", "--paced"]).code, Some(2));
    assert_eq!(replay(&path, &["--speed", "0"]).code, Some(2));
    assert_eq!(replay(&path, &["--allocators", "/nowhere.so"]).code, Some(1));
}

#[test]
fn an_allocator_that_crashes_hangs_or_refuses_is_left_out_with_the_reason() {
    let place = Place::new();
    let path = trace(&place, 2000);
    // Of a size that the program asks for only when it replays.
    let when = "if (size == 131)";
    for (name, malloc, words) in [
        ("crashes.so", format!("{when} *(volatile int *)8 = 1;"), "killed by signal 11"),
        ("refuses.so", format!("{when} return 0;"), "refused"),
        ("hangs.so", format!("{when} pause();"), "do not come to an end"),
    ] {
        let library = library(&place, name, &malloc);
        let result = replay(&path, &["--allocators", &format!("glibc,{}", text(&library)), "--limit", "2s"]);
        let is_told = result.out.contains(&format!("{name} is left out")) && result.out.contains(words);
        assert!(result.code == Some(1) && is_told, "{name}: {}{}", result.out, result.err);
        assert!(result.out.contains("  glibc "), "the other is reported: {}", result.out);
    }
}

#[test]
fn stopped_by_a_signal_it_leaves_no_process() {
    let place = Place::new();
    let path = trace(&place, 2000);
    let mut command = vcm(&["replay", text(&path), "--allocators", "glibc", "--speed", "0.01"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = nix::unistd::Pid::from_raw(child.id() as i32);
    let replayers = || vcm_inspect::process::descendants(id.as_raw()).len();
    let begin = Instant::now();
    while replayers() == 0 && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let left = vcm_inspect::process::descendants(id.as_raw());
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!left.is_empty());
    assert!(left.iter().all(|id| !vcm_inspect::process::Process::new(*id).is_alive()), "{left:?}");
}

#[test]
fn the_tools_memory_does_not_grow_with_the_trace() {
    let place = Place::new();
    let peak = |rounds| {
        let result = replay(&trace(&place, rounds), &["--allocators", "glibc", "--json"]);
        json(&result)["tool_peak_bytes"].as_f64().unwrap() / MIB
    };
    // The short one, too, has more epochs than are on their way from the file to the replayer at once.
    let (short, long) = (peak(400_000), peak(1_600_000));
    assert!(long < short + 16.0 && long < 256.0, "{short} MiB, four times as many events {long} MiB");
}
