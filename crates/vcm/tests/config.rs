//! `vcm config`, `vcm man`, `vcm completions`.

mod support;

use support::{Place, done, text, vcm};
use vcmalloc_core::options::SPECS;

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// `vcm` without any of the allocator's variables.
fn clean(arguments: &[&str]) -> std::process::Command {
    let mut command = vcm(arguments);
    for spec in &SPECS {
        command.env_remove(format!("VCM_{}", spec.name.to_ascii_uppercase()));
        spec.alias.map(|alias| command.env_remove(alias));
    }
    command
}

#[test]
fn the_version_has_the_commit_where_there_is_a_repository() {
    let shown = done(&mut vcm(&["--version"])).out;
    let version = shown.trim().strip_prefix("vcm ").unwrap();
    let (number, commit) =
        version.split_once('+').map_or((version, None), |(number, rest)| (number, Some(rest)));
    assert_eq!(number, env!("CARGO_PKG_VERSION"));
    let is_repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.git").exists();
    assert_eq!(commit.is_some(), is_repository, "{version}");
    assert!(commit.is_none_or(|commit| commit.trim_end_matches("+changes").len() == 10), "{version}");
}

#[test]
fn every_option_is_listed_with_its_variable_and_default() {
    let listed = done(&mut clean(&["config"]));
    let entries = json(&done(&mut clean(&["config", "--json"])).out);
    assert_eq!(entries.as_array().unwrap().len(), SPECS.len());
    for (spec, entry) in SPECS.iter().zip(entries.as_array().unwrap()) {
        assert!(listed.out.contains(&format!("{} = {}\n", spec.name, spec.default)), "{}", listed.out);
        assert!(listed.out.contains(spec.help));
        assert_eq!(entry["name"], spec.name);
        assert_eq!(entry["variable"], format!("VCM_{}", spec.name.to_ascii_uppercase()));
        assert_eq!(entry["live"], spec.live);
    }
}

#[test]
fn what_cannot_be_shown_is_refused_with_what_to_write() {
    let name = done(&mut clean(&["config", "ceph-osd"]));
    assert_eq!(name.code, Some(2));
    assert!(name.err.contains("--program NAME"), "{}", name.err);
    for arguments in
        [vec!["config", "--file", "/no/such/file"], vec!["config", "--file", "/no/such/file", "1"]]
    {
        let missing = done(&mut clean(&arguments));
        assert!(missing.code != Some(0) && missing.out.is_empty(), "{arguments:?}: {}", missing.out);
        assert!(missing.err.contains("/no/such/file: cannot be read"), "{}", missing.err);
    }
}

#[test]
fn a_config_file_that_is_no_regular_one_neither_hangs_nor_is_read_without_end() {
    let place = Place::new();
    let pipe = place.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let ask = |file: &str, by_flag: bool| {
        let mut command = std::process::Command::new("timeout");
        command.args(["10", env!("CARGO_BIN_EXE_vcm"), "config", "--program", "x"]);
        if by_flag {
            command.args(["--file", file]);
        }
        done(command.env("VCM_CONFIG", file))
    };
    for file in [text(&pipe), "/dev/zero", "/tmp"] {
        let named = ask(file, true);
        assert_eq!(named.code, Some(1), "{file}: {}", named.err);
        assert!(named.err.contains("it is not a regular file"), "{}", named.err);
        let by_variable = ask(file, false);
        assert_eq!(by_variable.code, Some(0), "{file}: {}", by_variable.err);
        assert!(by_variable.err.contains("it is not a regular file"), "{}", by_variable.err);
        assert!(by_variable.out.contains("(not read)"), "{}", by_variable.out);
    }
    // The usual way to name no file at all.
    assert_eq!(ask("/dev/null", false).err, "");
}

#[test]
fn help_is_a_verb_too() {
    let help = done(&mut clean(&["help", "run"]));
    assert_eq!(help.code, Some(0), "{}", help.err);
    assert!(help.out.contains("--cache-limit"), "{}", help.out);
}

#[test]
fn what_cannot_be_written_is_a_failure() {
    for arguments in [&["--help"][..], &["config"], &["help", "doctor"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let result = vcm(arguments).stdout(full).output().unwrap();
        assert_eq!(result.status.code(), Some(1), "{arguments:?}");
        assert!(String::from_utf8_lossy(&result.stderr).contains("cannot write the result"));
    }
}

#[test]
fn a_reader_that_stops_early_is_no_failure() {
    let script = format!("set -o pipefail; {} config | true", env!("CARGO_BIN_EXE_vcm"));
    let result = done(std::process::Command::new("bash").args(["-c", &script]));
    assert_eq!((result.code, result.err.as_str()), (Some(0), ""));
}

#[test]
fn the_values_for_a_program_come_with_their_origin() {
    let place = Place::new();
    let file = place.path("vcmalloc.conf");
    std::fs::write(&file, "cache_limit = 1M\n[ceph-osd]\ncache_limit = 2M\n").unwrap();
    let ask = |program: &str| {
        let mut command = clean(&["config", "--json", "--file", text(&file), "--program", program]);
        json(&done(command.env("VCM_STATS_AT_EXIT", "1")).out)
    };
    let of = |answer: &serde_json::Value, name: &str| {
        let options = answer["options"].as_array().unwrap();
        let option = options.iter().find(|option| option["name"] == name).unwrap();
        (option["value"].as_str().unwrap().to_string(), option["origin"].as_str().unwrap().to_string())
    };
    let pair = |value: &str, origin: &str| (value.to_string(), origin.to_string());
    assert_eq!(of(&ask("other"), "cache_limit"), pair("1M", "config file"));
    assert_eq!(of(&ask("ceph-osd"), "cache_limit"), pair("2M", "config file, program section"));
    assert_eq!(of(&ask("ceph-osd"), "stats_at_exit"), pair("on", "environment"));
    assert_eq!(of(&ask("/usr/bin/ceph-osd"), "cache_limit"), pair("2M", "config file, program section"));
    let nobody = done(&mut clean(&["config", "--program", ""]));
    assert_eq!(nobody.code, Some(2), "{}", nobody.out);
    assert!(nobody.err.contains("give the name of a program"), "{}", nobody.err);
    let auto = ask("other")["options"].as_array().unwrap()[0].clone();
    assert_eq!((auto["name"].as_str(), auto["comes_to"].as_str()), (Some("cache_limit"), None), "1M is set");
    let auto = done(clean(&["config", "--program", "other"]).env("VCM_CONFIG", ""));
    assert!(auto.out.contains("auto (") && auto.out.contains(" CPU"), "{}", auto.out);
    let text = done(&mut clean(&["config", "--file", text(&file), "--program", "ceph-osd"]));
    assert!(text.out.contains("= 2M") && text.out.contains("'ceph-osd'"), "{}", text.out);
}

#[test]
fn bad_lines_and_settings_are_warned_of() {
    let place = Place::new();
    let file = place.path("bad.conf");
    std::fs::write(&file, "what is this\ncache_limt = 1M\ncache_limit = lots\n").unwrap();
    let result =
        done(clean(&["config", "--program", "x"]).env("VCM_CONFIG", &file).env("VCM_STATS_AT_EXT", "1"));
    assert_eq!(result.code, Some(0));
    for words in [
        "bad.conf:1: invalid line",
        "bad.conf:2:",
        "did you mean cache_limit?",
        "bad.conf:3:",
        "'lots'",
        "VCM_STATS_AT_EXIT?",
    ] {
        assert!(result.err.contains(words), "{words}\n{}", result.err);
    }
    let absent = done(&mut clean(&["config", "--program", "x", "--file", "/nonexistent"]));
    assert!(absent.err.contains("/nonexistent: cannot be read"), "{}", absent.err);
}

#[test]
fn a_running_process_shows_what_it_was_started_with() {
    let place = Place::new();
    let mut child = std::process::Command::new("sleep")
        .arg("30")
        .env("LD_PRELOAD", &place.stub)
        .env("VCM_CACHE_LIMIT", "3M")
        .env_remove("VCM_CONFIG")
        .spawn()
        .unwrap();
    // The answer is about the program only once exec is done.
    let comm = format!("/proc/{}/maps", child.id());
    while !std::fs::read_to_string(&comm).unwrap().contains("libvcmalloc.so") {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let id = child.id().to_string();
    let result = done(&mut clean(&["config", &id]));
    let answer = json(&done(&mut clean(&["config", "--json", &id])).out);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(result.out.contains("3M") && result.out.contains("environment"), "{}{}", result.out, result.err);
    assert_eq!(answer["name"], "sleep");
    assert_eq!(answer["library"], text(&place.stub.canonicalize().unwrap()));
}

#[test]
fn a_static_program_without_symbols_is_known_to_run_on_it() {
    let place = Place::new();
    let source = "#include <stdlib.h>\n#include <unistd.h>\nconst char *volatile name = \"VCM_CONFIG\";\n\
                  int main(void) { free(malloc(9)); puts(name); fflush(stdout); return sleep(30); }";
    let program = place.program("static", &format!("#include <stdio.h>\n{source}"), &["-static", "-s"]);
    let mut child =
        std::process::Command::new(&program).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 1];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let answer = json(&done(&mut clean(&["config", "--json", &child.id().to_string()])).out);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(answer["library"], text(&program.canonicalize().unwrap()));
}

#[test]
fn a_process_without_vcmalloc_or_no_process_is_said() {
    let own = done(&mut clean(&["config", &std::process::id().to_string()]));
    assert!(own.out.contains("does not run on vcmalloc"), "{}{}", own.out, own.err);
    let absent = done(&mut clean(&["config", "2147483647"]));
    assert_eq!(absent.code, Some(1));
    assert!(absent.err.contains("no such process"), "{}", absent.err);
    assert_eq!(done(&mut clean(&["config", "zero"])).code, Some(2));
}

#[test]
fn pages_and_completions_know_every_verb() {
    let place = Place::new();
    let folder = place.path("man");
    assert_eq!(done(&mut vcm(&["man", "--dir", text(&folder)])).code, Some(0));
    for page in ["vcm.1", "vcm-run.1", "vcm-config.1"] {
        assert!(std::fs::read_to_string(folder.join(page)).unwrap().contains(".SH SYNOPSIS"), "{page}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let result = done(&mut vcm(&["completions", shell]));
        assert!(result.out.contains("config") && result.out.contains("strict"), "{shell}");
    }
}
