//! Orders from outside (`vcm set`, `vcm release`): done by processes that sleep, and told where they wait; and what `vcm
//! config` and `vcm doctor` say of a process afterwards.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use vcm_inspect::process::Process;
use vcm_inspect::window::orders::{Answer, Order, Refusal, Why, give};
use vcm_inspect::window::{Giver, Seen};
use vcmalloc_tests::{Ground, compile, library, machine};

struct Idle(Child);

impl Idle {
    /// With one thread, or with a janitor beside two.
    fn start(ground: Ground, threads: usize, release_delay: &str) -> Idle {
        let mut command = command("idle.c", ground);
        command.args((1..threads).map(|_| "thread")).env("VCM_RELEASE_DELAY", release_delay);
        Self::of(&mut command)
    }

    fn of(command: &mut Command) -> Idle {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Idle(child)
    }

    fn id(&self) -> i32 {
        self.0.id() as i32
    }

    fn seen(&self) -> Seen {
        Seen::open(Process::new(self.id())).unwrap_or_else(|why| panic!("{} {why}", self.id()))
    }

    fn cache_limit(&self) -> Option<u64> {
        let snapshot = self.seen().snapshot().unwrap();
        snapshot.settings.iter().find(|setting| setting.name == "cache_limit").map(|setting| setting.value)
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: sends a signal to a child of our own that was not waited for.
        unsafe { libc::kill(self.id(), signal) };
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(source: &str, ground: Ground) -> Command {
    let source = library::repository().join("tests/orders").join(source);
    let program = compile::program(&source, ground, &["-pthread".into()]).unwrap();
    let mut command = machine::command(&program);
    ground.prepare(&mut command).unwrap();
    command
}

fn done(answer: Result<Answer, String>) -> bool {
    matches!(answer, Ok(Answer::Done(_)))
}

/// An order that waits on a busy machine is done a moment later.
fn set_at_last(idle: &Idle, bytes: u64) {
    give(&idle.seen(), &Order::Set(&format!("cache_limit={bytes}"))).unwrap();
    for _ in 0..400 {
        if idle.cache_limit() == Some(bytes) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("cache_limit is {:?} after 20 s", idle.cache_limit());
}

#[test]
fn a_janitor_that_sleeps_without_a_timer_does_what_it_is_told() {
    for ground in [Ground::Preload, Ground::Hardened] {
        let idle = Idle::start(ground, 2, "10ms");
        // Quiet for ten ticks of 2.5 ms it sleeps until it is rung.
        std::thread::sleep(Duration::from_millis(500));
        for bytes in [1 << 20, 2 << 20] {
            set_at_last(&idle, bytes);
        }
        assert!(done(give(&idle.seen(), &Order::Release(None))));
    }
}

#[test]
fn a_janitor_between_two_ticks_a_quarter_of_an_hour_apart_does_what_it_is_told() {
    let idle = Idle::start(Ground::Preload, 2, "1h");
    for bytes in [1 << 20, 2 << 20] {
        set_at_last(&idle, bytes);
    }
    assert!(done(give(&idle.seen(), &Order::Release(Some(1 << 20)))));
}

#[test]
fn what_cannot_be_done_is_refused_with_the_reason() {
    let idle = Idle::start(Ground::Preload, 2, "10ms");
    for (text, refusal) in [
        ("no_such_option=1", Refusal::UnknownOption),
        ("cache_limit=many", Refusal::BadValue),
        ("front=locked", Refusal::ReadOnce),
    ] {
        assert_eq!(give(&idle.seen(), &Order::Set(text)), Ok(Answer::Refused(refusal)), "{text}");
    }
    let long = format!("cache_limit={}", "1".repeat(500));
    assert!(give(&idle.seen(), &Order::Set(&long)).is_err());
}

#[test]
fn an_order_waits_for_a_process_that_is_stopped_or_has_no_janitor_and_says_why() {
    let stopped = Idle::start(Ground::Preload, 2, "10ms");
    let seen = stopped.seen();
    assert_eq!(seen.snapshot().unwrap().giver, Giver::Janitor);
    stopped.signal(libc::SIGSTOP);
    let answer = give(&seen, &Order::Set("cache_limit=1M"));
    assert!(matches!(&answer, Ok(Answer::Waits(Why::Stopped))), "{answer:?}");
    let second = give(&seen, &Order::Set("retain=2M"));
    let Ok(Answer::Full(earlier)) = second else { panic!("{second:?}") };
    assert_eq!((earlier.name.as_str(), earlier.why), ("cache_limit=1M", Why::Stopped));
    let third = give(&seen, &Order::Set("cache_limit=2M"));
    assert!(matches!(&third, Ok(Answer::Waits(Why::Stopped))), "{third:?}");
    stopped.signal(libc::SIGCONT);
    set_at_last(&stopped, 3 << 20);

    let single = Idle::start(Ground::Preload, 1, "10ms");
    let answer = give(&single.seen(), &Order::Set("cache_limit=1M"));
    assert!(matches!(&answer, Ok(Answer::Waits(Why::NoJanitor))), "{answer:?}");
}

#[test]
fn a_busy_process_of_one_thread_obeys() {
    for ground in [Ground::Preload, Ground::Locked, Ground::Hardened, Ground::Static] {
        let busy = Idle::of(&mut command("busy.c", ground));
        let answer = give(&busy.seen(), &Order::Set("cache_limit=1M"));
        assert!(done(answer) && busy.cache_limit() == Some(1 << 20), "{ground:?}");
        assert!(matches!(busy.seen().snapshot().unwrap().giver, Giver::Itself { .. }), "{ground:?}");
        assert!(done(give(&busy.seen(), &Order::Release(None))), "{ground:?}");
    }
}

#[test]
fn two_who_order_at_once_take_turns() {
    let idle = Idle::start(Ground::Preload, 2, "10ms");
    std::thread::scope(|scope| {
        for bytes in [1 << 20, 2 << 20] {
            let idle = &idle;
            scope.spawn(move || {
                let text = format!("cache_limit={bytes}");
                for _ in 0..20 {
                    let answer = give(&idle.seen(), &Order::Set(&text));
                    assert!(matches!(answer, Ok(Answer::Done(_) | Answer::Waits(_))), "{answer:?}");
                }
            });
        }
    });
    set_at_last(&idle, 5 << 20);
}

#[test]
fn a_process_that_ended_takes_no_order() {
    let mut idle = Idle::start(Ground::Preload, 2, "10ms");
    let seen = idle.seen();
    idle.0.kill().unwrap();
    idle.0.wait().unwrap();
    assert!(give(&seen, &Order::Release(None)).is_err());
}

/// The answer of `vcm config` or `vcm doctor` about an option: value and origin.
fn told(answer: &serde_json::Value, name: &str) -> (String, String) {
    let options = answer.as_array().expect("options");
    let option = options.iter().find(|option| option["name"] == name).expect("this option");
    let text = |field: &str| option[field].as_str().unwrap_or_default().to_owned();
    (text("value"), text("origin"))
}

/// The answer of a verb about a process.
fn asked(arguments: &[&str], of: &Idle) -> serde_json::Value {
    let tool = library::tool().unwrap_or_else(|error| panic!("{error}"));
    let output = Command::new(tool).args(arguments).arg(of.id().to_string()).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn doctor_finds_memory_that_is_held_and_says_who_would_give_it_back() {
    let held = |set: &[(&str, &str)]| {
        let idle = Idle::of(command("peak.c", Ground::Preload).envs(set.iter().copied()));
        let answer = asked(&["doctor", "--json"], &idle);
        let findings = answer["findings"].as_array().cloned().unwrap_or_default();
        let mut found = findings.into_iter().filter(|finding| finding["check"] == "memory-held");
        found.next().map(|finding| (finding["what"].to_string(), finding["mend"].to_string()))
    };
    assert_eq!(held(&[]), None, "what stays after a peak is little");
    assert_eq!(held(&[("VCM_RETAIN", "1G"), ("VCM_RELEASE_DELAY", "10ms"), ("VCM_JANITOR", "always")]), None);
    let (what, mend) = held(&[("VCM_RETAIN", "1G"), ("VCM_RELEASE_DELAY", "1h")]).expect("a finding");
    assert!(what.contains("MiB free and not given back; it has no janitor"), "{what}");
    assert!(mend.contains("vcm release ") && mend.contains("VCM_JANITOR=always"), "{mend}");
}

#[test]
fn config_and_doctor_tell_what_is_in_effect_whoever_set_it_and_without_the_environment() {
    let source = library::repository().join("tests/orders/idle.c");
    let program = compile::program(&source, Ground::Preload, &["-pthread".into()]).unwrap();
    // By a file that is gone since, and with an environment that the process has taken away.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vcmalloc.conf");
    std::fs::write(&file, "retain = 3M\ncache_limit = 4M\n").unwrap();
    let mut command = machine::command(&program);
    Ground::Preload.prepare(&mut command).unwrap();
    command.args(["thread", "clear"]).env("VCM_CONFIG", &file).env("VCM_RELEASE_DELAY", "10ms");
    let idle = Idle::of(&mut command);
    std::fs::remove_file(&file).unwrap();
    set_at_last(&idle, 2 << 20);
    let asked = |arguments: &[&str]| asked(arguments, &idle);
    let config = asked(&["config", "--json"]);
    assert_eq!(config["in_effect"], true, "{config:#}");
    let daemon = &asked(&["doctor", "--json"])["daemons"][0];
    let expected = [
        ("cache_limit", "2M", "API"),
        ("retain", "3M", "config file"),
        ("release_delay", "10ms", "environment"),
        ("janitor", "on", "default"),
    ];
    for (name, value, origin) in expected {
        assert_eq!(told(&config["options"], name), (value.into(), origin.into()), "config: {name}");
        let (of_doctor, from) = told(&daemon["settings"], name);
        assert_eq!(of_doctor, value, "doctor: {name}");
        assert!(from.starts_with(origin), "doctor: {name}: {from}");
    }
    // A file that is tried is in effect nowhere.
    std::fs::write(&file, "cache_limit = 9M\n").unwrap();
    let tried = asked(&["config", "--json", "--file", file.to_str().unwrap()]);
    assert_eq!((&tried["in_effect"], told(&tried["options"], "cache_limit").0), (&false.into(), "9M".into()));
}
