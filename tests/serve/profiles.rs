//! Profiles by HTTP: what is in them, and that the process is as it was before, however the asking ends.

use std::io::Write;
use std::process::{Command, Stdio};

use super::agent::{Agent, Ended, Program, Reply, when};
use vcm_inspect::process::Process;
use vcm_inspect::window::Seen;
use vcm_profile::{Measure, Profile, chains};
use vcmalloc_tests::Ground;

const AGENT: [&str; 2] = ["--processes", "keeps*"];

fn is_profiling(pid: u32) -> bool {
    let seen = Seen::open(Process::new(pid as i32)).unwrap_or_else(|why| panic!("{pid} {why}"));
    seen.is_profiling().expect("it tells")
}

/// The bytes that the profile has for the function that allocates.
fn bytes_of(reply: &Reply, measure: Measure) -> f64 {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let profile = Profile::from_pprof(&reply.body).expect("a profile");
    let all = chains(&profile, measure);
    let ours = all.iter().filter(|chain| chain.calls.iter().any(|call| call.function == "keep_a_block"));
    ours.map(|chain| chain.amount.bytes).sum()
}

#[test]
fn a_profile_names_who_allocates_and_the_process_is_as_it_was() {
    let program = Program::busy(Ground::Preload);
    let (agent, pid) = (Agent::start(&AGENT), program.id());
    assert!(!is_profiling(pid));
    let heap = agent.get(&format!("/debug/pprof/heap?pid={pid}&seconds=2"));
    assert!(!is_profiling(pid));
    assert!(heap.head.contains(&format!("filename=\"heap-{pid}.pb.gz\"")), "{}", heap.head);
    // It keeps 38 MB, and at one sample in 512 KiB the error is a tenth.
    let live = bytes_of(&heap, Measure::Live);
    assert!((15e6..75e6).contains(&live), "{live}");
    let allocs = agent.get(&format!("/debug/pprof/allocs?pid={pid}&seconds=1"));
    assert!(bytes_of(&allocs, Measure::Allocated) > 1e6);
    assert!(!is_profiling(pid));
}

#[test]
fn a_profile_that_the_process_takes_anyway_is_read_at_once_and_goes_on() {
    let program = Program::busy(Ground::Watched);
    let (agent, pid) = (Agent::start(&AGENT), program.id());
    when("it has samples", || {
        let heap = agent.get(&format!("/debug/pprof/heap?pid={pid}"));
        (bytes_of(&heap, Measure::Live) > 1e6).then_some(())
    });
    let allocs = agent.get(&format!("/debug/pprof/allocs?pid={pid}&seconds=1"));
    assert!(bytes_of(&allocs, Measure::Allocated) > 1e6);
    assert!(is_profiling(pid));
}

#[test]
fn what_cannot_be_profiled_gets_a_line_and_the_code_for_it() {
    let (agent, program) = (Agent::start(&AGENT), Program::start("steady.c", Ground::Preload));
    let other = Ended(Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().expect("starts"));
    let gone = Ended(Command::new("true").spawn().expect("starts"));
    let gone = { gone.id() };
    let cases = [
        (String::new(), 400),
        ("?pid=abc".into(), 400),
        (format!("?pid={}&seconds=x", program.id()), 400),
        // Another name than those that are served, another allocator, and one that has ended.
        (format!("?pid={}", program.id()), 404),
        (format!("?pid={}", other.id()), 404),
        (format!("?pid={gone}"), 404),
    ];
    for (query, status) in cases {
        for kind in ["heap", "allocs"] {
            let reply = agent.get(&format!("/debug/pprof/{kind}{query}"));
            assert_eq!(reply.status, status, "{kind}{query}: {}", reply.text());
            assert_eq!(reply.text().lines().count(), 1, "{}", reply.text());
        }
    }
    // Of all processes: it is on glibc, which is said.
    let agent = Agent::start(&[]);
    let reply = agent.get(&format!("/debug/pprof/heap?pid={}", other.id()));
    assert!(reply.status == 404 && reply.text().contains("glibc"), "{}", reply.text());
}

/// Asks for a profile of five minutes and does not wait for it.
fn ask(agent: &Agent, pid: u32) -> Box<dyn super::agent::Stream> {
    let mut stream = agent.place.connect();
    let request =
        format!("GET /debug/pprof/allocs?pid={pid}&seconds=300 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    stream
}

#[test]
fn too_many_profiles_are_refused_and_metrics_are_still_served() {
    let programs: Vec<Program> = (0..5).map(|_| Program::busy(Ground::Preload)).collect();
    let agent = Agent::start(&AGENT);
    let path = |program: &Program| format!("/debug/pprof/heap?pid={}&seconds=300", program.id());
    let waiting: Vec<_> = programs[..4].iter().map(|program| ask(&agent, program.id())).collect();
    programs[..4].iter().for_each(|program| when("it is on", || is_profiling(program.id()).then_some(())));
    let reply = agent.get(&path(&programs[4]));
    assert_eq!(reply.status, 429, "{}", reply.text());
    assert!(reply.head.contains("retry-after") && reply.text().contains("4 profiles"), "{}", reply.text());
    assert!(!is_profiling(programs[4].id()));
    assert_eq!(agent.get("/metrics").status, 200);
    // They go, and their profiles with them. One of a process at a time.
    drop(waiting);
    programs[..4]
        .iter()
        .for_each(|program| when("it is off", || (!is_profiling(program.id())).then_some(())));
    // A process has its turn for a moment after its profile was seen to be off: a client is refused then, and asks again.
    let _waiting = when("it is on", || {
        let waiting = ask(&agent, programs[0].id());
        let mut looks = 0..20;
        let is_on = |_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            is_profiling(programs[0].id())
        };
        looks.any(is_on).then_some(waiting)
    });
    let reply = agent.get(&path(&programs[0]));
    assert!(reply.status == 429 && reply.text().contains("a profile of"), "{}", reply.text());
}

#[test]
fn a_signal_ends_a_profile_that_is_taken_and_switches_it_off() {
    let program = Program::busy(Ground::Preload);
    let (agent, pid) = (Agent::start(&AGENT), program.id());
    let waiting = ask(&agent, pid);
    when("it is on", || is_profiling(pid).then_some(()));
    assert_eq!(agent.end(libc::SIGTERM), Some(0));
    assert!(!is_profiling(pid));
    let reply = Reply::read(waiting);
    assert_eq!((reply.status, reply.text().as_str()), (503, "the agent ends\n"));
}

#[test]
fn a_process_that_ends_meanwhile_is_an_answer() {
    let program = Program::busy(Ground::Preload);
    let (agent, pid) = (Agent::start(&AGENT), program.id());
    let waiting = ask(&agent, pid);
    when("it is on", || is_profiling(pid).then_some(()));
    drop(program);
    let reply = Reply::read(waiting);
    assert_eq!(reply.status, 404, "{}", reply.text());
    assert!(reply.text().contains("has ended"), "{}", reply.text());
}
