//! `vcm compare --systemd` on a machine in a folder, whose systemctl starts the units' commands.

#[path = "crossover/machine.rs"]
mod machine;
mod support;

use machine::Machine;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Done, done, text, vcm};

/// Of one measure of one arm: by how much it differs, and whether that is shown.
fn comparison(json: &Value, arm: &str, measure: &str) -> (f64, bool) {
    let all = json["comparisons"].as_array().unwrap();
    let found = all.iter().find(|one| one["allocator"] == arm && one["measure"] == measure);
    let found = found.unwrap_or_else(|| panic!("no {measure} of {arm} in {json:#}"));
    (found["by"].as_f64().unwrap(), found["is_shown"].as_bool().unwrap())
}

const STEPS: &str = "steps: cat $FAKE_ROOT/steps.$MAINPID";

#[test]
fn a_planted_arm_is_found_and_the_same_twice_is_the_same_and_the_units_are_left_as_they_were() {
    let machine = Machine::new(3);
    let quick = machine.place.allocator("planted-quick.so", 10, 10, false);
    let slow = machine.place.allocator("planted-slow.so", 12, 12, false);
    let arms = format!("{},{},{}", text(&quick), text(&quick), text(&slow));
    let page = machine.place.path("report.html");
    let arguments = [
        "--for",
        "15s",
        "--periods",
        "6",
        "--washout",
        "1s",
        "--cost",
        STEPS,
        "--yes",
        "--json",
        "--html",
        text(&page),
    ];
    let result = done(&mut machine.compare("a@{0..2}", &arms, &arguments));
    assert_eq!(result.code, Some(0), "{}", result.err);
    let json: Value = serde_json::from_str(&result.out).unwrap();
    assert_eq!(comparison(&json, "planted-quick.so (2)", "steps"), (0.0, false));
    assert!(comparison(&json, "planted-quick.so (2)", "RSS").0.abs() < 0.05, "{}", result.out);
    for measure in ["steps", "RSS"] {
        let (by, is_shown) = comparison(&json, "planted-slow.so", measure);
        assert!((0.15..0.25).contains(&by) && is_shown, "{measure}: {by}\n{}", result.out);
    }
    for arm in json["allocators"].as_array().unwrap() {
        let steps =
            arm["measures"].as_array().unwrap().iter().find(|measure| measure["name"] == "steps").unwrap();
        assert_eq!(steps["values"].as_array().unwrap().len(), 6, "each unit sees each arm in both cycles");
    }
    assert_eq!(json["allocators"][2]["stamp"]["file"], text(&slow.canonicalize().unwrap()));
    assert!(fs::read_to_string(&page).unwrap().contains("Which allocator for a@0, a@1, a@2"));
    // 18 and one more of each; never two at once, since each call ends before the next.
    assert_eq!(machine.calls().matches("restart a@").count(), 21);
    machine.is_as_before();
    machine.is_forgotten();
}

#[test]
fn without_yes_the_plan_is_shown_and_nothing_is_touched() {
    let machine = Machine::new(3);
    let planted = machine.place.allocator("planted.so", 1, 10, false);
    let before = machine.calls();
    let pids: Vec<i32> = machine.units.iter().map(|unit| machine.pid(unit)).collect();
    let result =
        done(&mut machine.compare("a@{0,1,2}", &format!("system,{}", text(&planted)), &["--for", "24h"]));
    assert_eq!(result.code, Some(0), "{}", result.err);
    for words in [
        "3 units, 2 arms, 8 periods of 3h: 1day plus restarts",
        "24 restarts",
        "10m after the last restart are not measured, then 2h 50m are",
        "1    +0s              system      planted.so  system",
        "2    +3h              planted.so  system      planted.so",
        "Nothing was changed",
        text(&planted),
    ] {
        assert!(result.out.contains(words), "{words}\n{}", result.out);
    }
    let calls = machine.calls();
    let new = calls.strip_prefix(&before).unwrap();
    assert!(new.lines().all(|call| call.starts_with("show ")), "{new}");
    assert_eq!(pids, machine.units.iter().map(|unit| machine.pid(unit)).collect::<Vec<_>>());
    machine.is_as_before();
    machine.is_forgotten();
}

#[test]
fn a_unit_that_fails_under_an_arm_ends_the_run_and_all_are_left_as_they_were() {
    let machine = Machine::new(2);
    let bad = machine.place.allocator("planted-bad.so", 1, 10, true);
    let arguments = ["--for", "12s", "--periods", "4", "--washout", "1s", "--yes"];
    let result = done(&mut machine.compare("a@{0,1}", &format!("system,{}", text(&bad)), &arguments));
    assert_eq!(result.code, Some(1), "{}", result.out);
    assert!(result.err.contains("under planted-bad.so: a@1 does not stay active"), "{}", result.err);
    assert!(result.err.contains("the units are as they were before; 0 of 4 periods"), "{}", result.err);
    machine.is_as_before();
    machine.is_forgotten();
}

#[test]
fn an_arm_that_is_not_really_used_ends_the_run() {
    let machine = Machine::with(1, &["-static"]);
    let planted = machine.place.allocator("planted.so", 1, 10, false);
    let arguments = ["--for", "12s", "--periods", "4", "--washout", "1s", "--yes"];
    let result = done(&mut machine.compare("a@0", &format!("{},system", text(&planted)), &arguments));
    assert_eq!(result.code, Some(1), "{}", result.out);
    assert!(result.err.contains("a@0 is not on planted.so"), "{}", result.err);
    machine.is_as_before();
    machine.is_forgotten();
}

/// Waits until the state says that so many periods have finished.
fn await_periods(machine: &Machine, periods: usize) {
    let begin = Instant::now();
    let finished = || {
        let state: Value = serde_json::from_str(&fs::read_to_string(machine.state()).ok()?).ok()?;
        Some(state["finished"].as_array()?.len())
    };
    while finished().unwrap_or(0) < periods {
        assert!(begin.elapsed() < Duration::from_secs(120), "{periods} periods did not finish");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn ended(command: &mut Command, act: impl FnOnce(i32)) -> Done {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    act(child.id() as i32);
    let output = child.wait_with_output().unwrap();
    Done {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
        output,
    }
}

#[test]
fn a_stopped_run_leaves_the_units_as_they_were_and_is_resumed_to_its_end() {
    let machine = Machine::new(2);
    let planted = machine.place.allocator("planted.so", 7, 12, false);
    let arguments = ["--for", "12s", "--periods", "4", "--washout", "1s", "--cost", STEPS, "--yes"];
    let arms = format!("{},{}", text(&planted), text(&planted));
    let mut command = machine.compare("a@{0,1}", &arms, &arguments);
    let result = ended(&mut command, |id| {
        await_periods(&machine, 1);
        std::thread::sleep(Duration::from_millis(700));
        kill(Pid::from_raw(id), Signal::SIGINT).unwrap();
    });
    assert_eq!(result.code, Some(130), "{}", result.err);
    assert!(result.err.contains("'vcm compare --resume' continues"), "{}", result.err);
    machine.is_as_before();
    let again = done(&mut machine.compare("a@{0,1}", &arms, &arguments));
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("was interrupted, 1 of 4 periods had finished. "), "{}", again.err);
    let resumed = done(&mut machine.bare(&["--resume", "--json"]));
    assert_eq!(resumed.code, Some(0), "{}", resumed.err);
    let json: Value = serde_json::from_str(&resumed.out).unwrap();
    assert_eq!(json["allocators"][1]["measures"][0]["values"].as_array().unwrap().len(), 4);
    assert_eq!(comparison(&json, "planted.so (2)", "steps"), (0.0, false));
    machine.is_as_before();
    machine.is_forgotten();
}

#[test]
fn on_the_way_back_it_says_what_it_waits_for_and_restarts_nothing_before() {
    let machine = Machine::new(1);
    let sick = "if [ -e $FAKE_ROOT/notes/sick ]; then echo ailing; touch $FAKE_ROOT/notes/asked; false; fi";
    // Only while it is measured: nobody asks for health then.
    let measured = "measured: touch $FAKE_ROOT/notes/measured; echo 1";
    let arguments = [
        ["--for", "60s"],
        ["--periods", "2"],
        ["--washout", "1s"],
        ["--health", sick],
        ["--metric", measured],
    ];
    let arguments = [&arguments.concat()[..], &["--yes"]].concat();
    let mut command = machine.compare("a@0", "system,system", &arguments);
    let asked = machine.note("asked");
    let mut running = 0;
    let result = ended(&mut command, |id| {
        let begin = Instant::now();
        while !machine.note("measured").exists() {
            assert!(begin.elapsed() < Duration::from_secs(60), "a@0 was never measured");
            std::thread::sleep(Duration::from_millis(50));
        }
        fs::write(machine.note("sick"), "").unwrap();
        running = machine.pid("a@0");
        kill(Pid::from_raw(id), Signal::SIGINT).unwrap();
        while !asked.exists() {
            assert!(begin.elapsed() < Duration::from_secs(60), "health was not asked on the way back");
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(machine.pid("a@0"), running, "it was restarted in spite of its health");
        fs::remove_file(machine.note("sick")).unwrap();
    });
    assert_eq!(result.code, Some(130), "{}", result.err);
    let waits = "a@0 is restarted as it was before when health allows: ";
    let (waits, back) = (result.err.find(waits), result.err.find("a@0 is as it was before, and restarted"));
    assert!(waits.is_some() && waits < back, "{}", result.err);
    assert!(result.err.contains("ailing"), "{}", result.err);
    machine.is_as_before();
}

fn wait_for_the_arm(machine: &Machine) {
    let begin = Instant::now();
    while !machine.maps("a@0").contains("planted.so") {
        assert!(begin.elapsed() < Duration::from_secs(60), "a@0 was never put on the arm");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_killed_run_is_told_of_and_put_back() {
    let machine = Machine::new(2);
    let planted = machine.place.allocator("planted.so", 7, 12, false);
    let arguments = ["--for", "40s", "--periods", "2", "--washout", "1s", "--yes"];
    let arms = format!("{},system", text(&planted));
    let mut command = machine.compare("a@{0,1}", &arms, &arguments);
    ended(&mut command, |id| {
        wait_for_the_arm(&machine);
        let meanwhile = done(&mut machine.bare(&["--resume"]));
        assert!(meanwhile.err.contains(&format!("is in progress (process {id}")), "{}", meanwhile.err);
        kill(Pid::from_raw(id), Signal::SIGKILL).unwrap();
    });
    assert!(machine.drop_in("a@0").exists());
    let again = done(&mut machine.compare("a@{0,1}", &arms, &arguments));
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("its drop-ins may still lie there"), "{}", again.err);
    let back = done(&mut machine.bare(&["--put-back"]));
    assert_eq!(back.code, Some(0), "{}", back.err);
    assert!(back.out.contains("a@0, a@1 are as they were before; the run is discarded"), "{}", back.out);
    machine.is_as_before();
    machine.is_forgotten();
    let nothing = done(&mut machine.bare(&["--put-back"]));
    assert!(nothing.code == Some(0) && nothing.out.contains("nothing to restore"), "{}", nothing.out);
    let none = done(&mut machine.bare(&["--resume"]));
    assert!(none.code == Some(1) && none.err.contains("no run to resume"), "{}", none.err);
}

#[test]
fn a_killed_run_over_a_unit_that_was_removed_since_can_be_put_back() {
    let machine = Machine::new(1);
    let planted = machine.place.allocator("planted.so", 7, 12, false);
    let arguments = ["--for", "40s", "--periods", "2", "--washout", "1s", "--yes"];
    let arms = format!("{},system", text(&planted));
    ended(&mut machine.compare("a@0", &arms, &arguments), |id| {
        wait_for_the_arm(&machine);
        kill(Pid::from_raw(id), Signal::SIGKILL).unwrap();
    });
    let unit = fs::read(machine.unit("a@0")).unwrap();
    fs::remove_file(machine.unit("a@0")).unwrap();
    let back = done(&mut machine.bare(&["--put-back"]));
    assert_eq!(back.code, Some(0), "{}", back.err);
    assert!(back.err.contains("a@0 is not installed any more; its files are as before"), "{}", back.err);
    assert!(!machine.drop_in("a@0").exists());
    machine.is_forgotten();
    fs::write(machine.unit("a@0"), unit).unwrap();
}

#[test]
fn what_cannot_be_put_back_is_named_with_the_commands_and_has_a_code_of_its_own() {
    let machine = Machine::new(1);
    let planted = machine.place.allocator("planted.so", 7, 12, false);
    let breaking = "broken: touch $FAKE_ROOT/notes/broken; echo 1";
    let arguments = ["--for", "6s", "--periods", "2", "--washout", "1s", "--metric", breaking, "--yes"];
    let result = done(&mut machine.compare("a@0", &format!("{},system", text(&planted)), &arguments));
    assert_eq!(result.code, Some(3), "{}", result.err);
    assert!(result.err.contains("not every unit could be restored:\n  a@0: "), "{}", result.err);
    assert!(
        result.err.contains("sudo systemctl daemon-reload && sudo systemctl restart a@0"),
        "{}",
        result.err
    );
    fs::remove_file(machine.note("broken")).unwrap();
    let back = done(&mut machine.bare(&["--put-back"]));
    assert_eq!(back.code, Some(0), "{}", back.err);
    machine.is_as_before();
    machine.is_forgotten();
}

#[test]
fn a_unit_that_ends_while_it_is_measured_ends_the_run() {
    let machine = Machine::new(2);
    let killing = "gone: kill $MAINPID; echo 1";
    let arguments = ["--for", "12s", "--periods", "2", "--washout", "1s", "--metric", killing, "--yes"];
    let result = done(&mut machine.compare("a@{0,1}", "system,system", &arguments));
    assert_eq!(result.code, Some(1), "{}", result.out);
    assert!(result.err.contains("ended: it is inactive"), "{}", result.err);
    machine.is_as_before();
    machine.is_forgotten();
}

#[test]
fn without_health_nothing_is_restarted_and_a_metric_must_be_a_number() {
    let machine = Machine::new(1);
    let arguments = ["--for", "6s", "--periods", "2", "--washout", "1s", "--limit", "1s", "--yes"];
    let sick = done(
        machine.compare("a@0", "system,system", &arguments).args(["--health", "echo ailing $UNIT; false"]),
    );
    assert_eq!(sick.code, Some(1), "{}", sick.out);
    assert!(sick.err.contains("no health within 1s") && sick.err.contains("ailing a@0"), "{}", sick.err);
    assert!(!machine.calls().contains("restart"), "{}", machine.calls());
    let words =
        done(machine.compare("a@0", "system,system", &arguments).args(["--metric", "lag: echo none"]));
    assert!(
        words.code == Some(1) && words.err.contains("'lag' printed no number for a@0: none"),
        "{}",
        words.err
    );
    machine.is_as_before();
    machine.is_forgotten();
}

#[test]
fn a_drop_in_that_was_there_is_there_again() {
    let machine = Machine::new(1);
    let planted = machine.place.allocator("planted.so", 7, 12, false);
    let library = machine.root.join("usr/local/lib/libvcmalloc.so");
    fs::create_dir_all(library.parent().unwrap()).unwrap();
    fs::copy(&machine.place.stub, &library).unwrap();
    let enabled =
        done(vcm(&["enable", "a@0", "--root", text(&machine.root)]).args(["--library", text(&library)]));
    assert_eq!(enabled.code, Some(0), "{}", enabled.err);
    let before = fs::read_to_string(machine.drop_in("a@0")).unwrap();
    let arguments = ["--for", "6s", "--periods", "2", "--washout", "1s", "--yes"];
    let result = done(&mut machine.compare("a@0", &format!("system,{}", text(&planted)), &arguments));
    assert_eq!(result.code, Some(0), "{}", result.err);
    assert_eq!(fs::read_to_string(machine.drop_in("a@0")).unwrap(), before);
    machine.is_forgotten();
}

#[test]
fn what_cannot_be_compared_is_refused_in_words_before_anything_is_touched() {
    let machine = Machine::new(2);
    let planted = machine.place.allocator("planted.so", 7, 12, false);
    let arms = &format!("system,{}", text(&planted));
    fs::write(machine.unit("idle"), fs::read_to_string(machine.unit("a@0")).unwrap()).unwrap();
    fs::write(machine.unit("t@"), "[Service]\nExecStart=/bin/true\n").unwrap();
    std::os::unix::fs::symlink("/dev/null", machine.unit("masked")).unwrap();
    let foreign = machine.drop_in("a@1");
    fs::create_dir_all(foreign.parent().unwrap()).unwrap();
    fs::write(&foreign, "[Service]\nNice=1\n").unwrap();
    let refused = |units: &str, arms: &str, more: &[&str], code: i32, words: &str| {
        let result = done(&mut machine.compare(units, arms, &[more, &["--yes"][..]].concat()));
        assert_eq!(result.code, Some(code), "{units}: {}", result.err);
        assert!(result.err.contains(words), "{units}: {words}\n{}", result.err);
        assert!(result.out.is_empty(), "{}", result.out);
    };
    refused("b", arms, &[], 1, "no such service");
    refused("masked", arms, &[], 1, "is masked");
    refused("idle", arms, &[], 1, "idle is not active: inactive");
    refused("t", arms, &[], 1, "is a template");
    refused("a@0.socket", arms, &[], 2, "only services");
    refused("a@{0", arms, &[], 2, "unmatched opening brace");
    refused("a@0,a@1", arms, &[], 1, "was not written by vcm");
    refused("a@0", "system", &[], 2, "name at least two");
    refused("a@0", "system,nonsense", &[], 2, "there is no allocator 'nonsense'");
    refused("a@0", "system,/no/such.so", &[], 1, "/no/such.so");
    refused("a@0", arms, &["--for", "20m", "--washout", "10m"], 2, "is not longer than the washout");
    refused("a@0", arms, &["--periods", "3"], 2, "a multiple of 2");
    fs::write(machine.note("a@0.refuses"), "").unwrap();
    refused("a@0", arms, &[], 1, "may not be started or stopped manually");
    fs::remove_file(machine.note("a@0.refuses")).unwrap();
    // A file where the folder of drop-ins would be.
    let folder = machine.drop_in("a@0").parent().unwrap().to_path_buf();
    fs::write(&folder, "").unwrap();
    refused("a@0", arms, &[], 1, "a@0.service.d");
    fs::remove_file(&folder).unwrap();
    fs::remove_dir(machine.root.join("run/systemd/system")).unwrap();
    refused("a@0", arms, &[], 1, "systemd does not run here");
    assert!(!machine.calls().contains("restart"), "{}", machine.calls());
    machine.is_forgotten();
    fs::remove_dir_all(foreign.parent().unwrap()).unwrap();
    machine.is_as_before();
}

#[test]
fn a_damaged_state_is_told_and_left_alone() {
    let machine = Machine::new(1);
    fs::create_dir_all(machine.state().parent().unwrap()).unwrap();
    fs::write(machine.state(), "{\"format\":1,").unwrap();
    fs::set_permissions(machine.state(), fs::Permissions::from_mode(0o600)).unwrap();
    for arguments in [&["--resume"][..], &["--put-back"]] {
        let result = done(&mut machine.bare(arguments));
        assert!(result.code == Some(1) && result.err.contains("is not the state of a run"), "{}", result.err);
    }
    assert_eq!(fs::read_to_string(machine.state()).unwrap(), "{\"format\":1,");
    machine.is_as_before();
}
