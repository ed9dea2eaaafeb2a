//! `vcm serve`, asked as Prometheus, as pprof, and as whoever means no good asks it.

#[path = "serve/agent.rs"]
mod agent;
#[path = "serve/limits.rs"]
mod limits;
#[path = "serve/profiles.rs"]
mod profiles;
#[path = "serve/prometheus.rs"]
mod prometheus;

use agent::{Agent, Program, value_in, when};
use serde_json::Value;
use vcmalloc_tests::Ground;

fn told(program: &Program) -> Value {
    serde_json::from_str(&program.line).unwrap_or_else(|error| panic!("{error}: {}", program.line))
}

#[test]
fn the_figures_of_each_process_are_those_that_it_tells() {
    let grounds = [(Ground::Preload, "default"), (Ground::Hardened, "hardened"), (Ground::Static, "linked")];
    let programs = grounds.map(|(ground, _)| Program::start("steady.c", ground));
    let agent = Agent::start(&["--processes", "steady*"]);
    let metrics = agent.get("/metrics").text();
    for (program, (_, library)) in programs.iter().zip(grounds) {
        let pid = program.id().to_string();
        let value = |metric: &str, more: &[(&str, &str)]| {
            let labels = [&[("pid", pid.as_str()), ("library", library)], more].concat();
            value_in(&metrics, metric, &labels).unwrap_or_else(|| panic!("{metric} {labels:?}\n{metrics}"))
        };
        let told = told(program);
        let number = |name: &str| told[name].as_f64().expect(name);
        for (metric, name) in [
            ("vcmalloc_live_bytes", "live"),
            ("vcmalloc_mapped_bytes", "mapped"),
            ("vcmalloc_large_bytes", "large"),
            ("vcmalloc_cache_room_bytes", "cache_room"),
        ] {
            assert_eq!(value(metric, &[]), number(name), "{library} {metric}");
        }
        assert_eq!(value("vcmalloc_cached_bytes", &[]), number("vcpu_caches") + number("transfer"));
        assert_eq!(value("vcmalloc_limit_bytes", &[("limit", "cache_limit")]), number("cache_limit"));
        assert_eq!(value("vcmalloc_cache_misses_total", &[("call", "malloc")]), number("underflows"));
        let tiers =
            ["requested", "waste", "quarantine", "vcpu_caches", "transfer", "free_in_spans", "span_tails"];
        let tiers = tiers
            .iter()
            .chain(&["dirty_free", "metadata"])
            .map(|tier| value("vcmalloc_tier_bytes", &[("tier", tier)]));
        let sum: f64 = tiers.sum::<f64>() - value("vcmalloc_not_in_memory_bytes", &[]);
        let resident = value("vcmalloc_resident_bytes", &[]);
        assert!((sum - resident).abs() <= resident / 50.0, "{library}: {sum} of {resident}");
        assert_eq!(value("vcmalloc_look_is_torn", &[]), 0.0);
    }
    // Other tests have some too.
    assert!(value_in(&metrics, "vcmalloc_agent_processes", &[]) >= Some(3.0), "{metrics}");
    let page = agent.get("/");
    let id = programs[0].id();
    assert!(page.text().contains(&format!("href=\"debug/pprof/heap?pid={id}\"")), "{}", page.text());
}

#[test]
fn daemons_have_the_labels_that_their_command_lines_tell() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = Program::compiled("steady.c", Ground::Preload);
    let daemon = |name: &str, arguments: &[&str]| {
        let path = folder.path().join(name);
        std::fs::copy(&program, &path).expect("copied");
        Program::run(&path, Ground::Preload, arguments)
    };
    let osd = daemon("ceph-osd", &["-f", "--cluster", "ceph", "--id", "17"]);
    let brick = daemon("glusterfsd", &["-s", "host", "--brick-name", "/bricks/\"one\""]);
    let agent = Agent::start(&["--processes", "osd.17", "--processes", "glusterfs*"]);
    let live = |program: &Program, labels: &[(&str, &str)]| {
        let pid = program.id().to_string();
        agent.value("vcmalloc_live_bytes", &[&[("pid", pid.as_str())], labels].concat())
    };
    assert!(
        live(&osd, &[("command", "ceph-osd"), ("role", "ceph-osd"), ("ceph_daemon", "osd.17")]).is_some()
    );
    assert!(live(&brick, &[("role", "glusterfsd"), ("brick", "/bricks/\\\"one\\\"")]).is_some());
    assert_eq!(agent.value("vcmalloc_agent_processes", &[]), Some(2.0));
}

#[test]
fn a_process_on_the_stand_in_is_labelled_so() {
    let program = Program::on_stand_in();
    let agent = Agent::start(&["--processes", "keeps*"]);
    let pid = program.id().to_string();
    let live = agent.value("vcmalloc_live_bytes", &[("pid", &pid), ("library", "stand-in")]);
    assert!(live > Some(1e6), "{live:?}");
}

#[test]
fn a_process_that_ends_is_gone_from_the_next_scrape_and_the_others_stay() {
    let (stays, goes) =
        (Program::start("steady.c", Ground::Preload), Program::start("steady.c", Ground::Preload));
    let agent = Agent::start(&["--processes", "steady*"]);
    let (stays, pid) = (stays.id().to_string(), goes.id().to_string());
    let is_shown = |pid: &str| agent.value("vcmalloc_live_bytes", &[("pid", pid)]).is_some();
    assert!(is_shown(&stays) && is_shown(&pid));
    drop(goes);
    when("it is gone", || (!is_shown(&pid)).then_some(()));
    assert!(is_shown(&stays));
}

#[test]
fn a_process_that_comes_later_is_found_and_counters_outlive_an_exec() {
    // The second is the name that the kernel gives it after its exec.
    let agent = Agent::start(&["--processes", "begins_anew*", "--processes", "exe"]);
    assert_eq!(agent.get("/metrics").status, 200);
    let program = Program::start("begins_anew.c", Ground::Preload);
    let pid = program.id().to_string();
    let labels = [("pid", pid.as_str()), ("call", "malloc")];
    let misses = || agent.value("vcmalloc_cache_misses_total", &labels);
    let before = when("it is found", misses);
    assert!(before > 0.0);
    program.child.signal(libc::SIGUSR1);
    // It does the same again, so it ends at twice as many.
    when("both are counted", || {
        let now = misses()?;
        assert!(now >= before, "{now}, was {before}");
        (now >= before * 1.9).then_some(())
    });
}

#[test]
fn a_program_whose_file_is_replaced_counts_on_as_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("steady-upgraded");
    std::fs::copy(Program::compiled("steady.c", Ground::Preload), &path).expect("copied");
    let program = Program::run(&path, Ground::Preload, &[]);
    let agent = Agent::start(&["--processes", "steady-upgraded"]);
    let pid = program.id().to_string();
    let labels = [("pid", pid.as_str()), ("call", "malloc")];
    let misses = || agent.value("vcmalloc_cache_misses_total", &labels).expect("it is shown");
    let before = misses();
    std::fs::remove_file(&path).expect("removed");
    // Beyond the time in which the same round is shown.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(misses(), before);
}
