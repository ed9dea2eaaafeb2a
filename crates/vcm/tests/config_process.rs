//! `vcm config PID` and `vcm doctor PID` on processes that do not show all of what they were started with.

mod support;

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Place, Sleeper, done, only_root_can, text, vcm};

const NOBODY: u32 = 65534;
/// Does what it is compiled for, says so, and sleeps.
const PROGRAM: &str = "#include <stdio.h>\n#include <sys/prctl.h>\n#include <unistd.h>\n\
                       int main(void) { AT_START; puts(\"1\"); fflush(stdout); sleep(60); }";

fn program(place: &Place, name: &str, at_start: &str) -> PathBuf {
    place.program(name, PROGRAM, &[&format!("-DAT_START={at_start}")])
}

fn config_file(place: &Place, content: &str) -> PathBuf {
    let file = place.path("vcmalloc.conf");
    std::fs::write(&file, content).unwrap();
    file
}

/// Started on the stub with this config file.
fn started(place: &Place, program: &Path, file: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("VCM_CONFIG", file).env("LD_PRELOAD", &place.stub);
    command
}

fn config(arguments: &[&str]) -> Value {
    let result = done(vcm(&["config", "--json"]).args(arguments));
    assert_eq!(result.code, Some(0), "{}", result.err);
    serde_json::from_str(&result.out).unwrap()
}

fn doctor(id: &str) -> Value {
    serde_json::from_str(&done(&mut vcm(&["doctor", "--json", id])).out).unwrap()
}

/// Value and origin of the option, in the answer of either verb.
fn option<'a>(options: &'a Value, name: &str) -> (&'a Value, &'a Value) {
    let option = options.as_array().unwrap().iter().find(|option| option["name"] == name).unwrap();
    (&option["value"], &option["origin"])
}

#[test]
fn a_config_file_that_the_process_may_not_read_is_not_in_force() {
    if !only_root_can("start a process of another user") {
        return;
    }
    let place = Place::new();
    let file = config_file(&place, "cache_limit = 1M\n");
    let program = program(&place, "plain", "");
    let process = Sleeper::start(started(&place, &program, &file).uid(NOBODY).gid(NOBODY));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let answer = config(&[&process.id()]);
    assert_eq!(option(&answer["options"], "cache_limit"), (&"auto".into(), &"default".into()));
    assert_eq!(answer["file_read"], false);
    assert!(answer["warnings"][0].as_str().unwrap().contains("the process may not read it"), "{answer:#}");
    let daemon = &doctor(&process.id())["daemons"][0];
    assert_eq!(option(&daemon["settings"], "cache_limit"), (&"auto".into(), &"default".into()));
    // A file that is tried before it is installed counts as if it could be read.
    let tried = config(&[&process.id(), "--file", text(&file)]);
    assert_eq!(option(&tried["options"], "cache_limit").0, "1M");
    // By its group.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::chown(&file, None, Some(NOBODY)).unwrap();
    assert_eq!(option(&config(&[&process.id()])["options"], "cache_limit").0, "1M");
}

#[test]
fn a_process_that_gave_up_its_rights_since_has_read_its_config_file() {
    if !only_root_can("become another user") {
        return;
    }
    let place = Place::new();
    let file = config_file(&place, "cache_limit = 1M\n");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let program = program(&place, "drops", "setgid(65534);setuid(65534)");
    let process = Sleeper::start(&mut started(&place, &program, &file));
    assert_eq!(option(&config(&[&process.id()])["options"], "cache_limit").0, "1M");
}

#[test]
fn the_section_is_that_of_the_name_at_the_start() {
    let place = Place::new();
    let file = config_file(
        &place,
        "[original]\nretain = 1M\n[renamed]\nretain = 2M\n[script]\nretain = 3M\n[averyverylongpr]\nretain = 4M\n",
    );
    let renamed = "prctl(PR_SET_NAME,\"renamed\")";
    let original = program(&place, "original", renamed);
    let long = program(&place, "averyverylongprogramname", renamed);
    let script = place.script("script", &format!("#!{}\n", original.display()));
    for (program, name, value) in
        [(original, "original", "1M"), (script, "script", "3M"), (long, "averyverylongpr", "4M")]
    {
        let process = Sleeper::start(&mut started(&place, &program, &file));
        let answer = config(&[&process.id()]);
        assert_eq!((&answer["name"], option(&answer["options"], "retain").0), (&name.into(), &value.into()));
        let warning = answer["warnings"][0].as_str().unwrap();
        assert!(warning.contains("'renamed'") && warning.contains(&format!("'{name}'")), "{warning}");
        let daemon = &doctor(&process.id())["daemons"][0];
        let (shown, origin) = option(&daemon["settings"], "retain");
        assert_eq!(shown, value, "{daemon:#}");
        assert!(origin.as_str().unwrap().contains(&format!("its name at the start: {name}")), "{origin}");
    }
}

/// As redis does: keeps a copy of the environment, and writes over that of the start.
const TITLE: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
    extern char **environ;\n\
    int main(void) {\n\
        int count = 0; while (environ[count]) count++;\n\
        char *from = environ[0], *to = strchr(environ[count - 1], 0), **copy = calloc(count + 1, sizeof *copy);\n\
        for (int at = 0; KEEPS && at < count; at++) copy[at] = strdup(environ[at]);\n\
        environ = copy; memset(from, 0, to - from); strcpy(from, \"title\");\n\
        puts(\"1\"); fflush(stdout); sleep(60); }";

#[test]
fn a_title_over_the_environment_hides_no_variable_that_the_process_still_has() {
    let place = Place::new();
    let file = config_file(&place, "retain = 1M\n");
    // With a copy of the variable in the program itself, and with the C library's.
    for flags in
        [&["-DKEEPS=1", "-no-pie"][..], &["-DKEEPS=1", "-fPIE", "-pie"], &["-DKEEPS=1", "-fPIC", "-rdynamic"]]
    {
        let program = place.program("title", TITLE, flags);
        let variables = [("VCM_CACHE_LIMIT", "1M"), ("VCM_JANITR", "off")];
        let process = Sleeper::start(started(&place, &program, &file).envs(variables));
        let answer = config(&[&process.id()]);
        assert_eq!(
            option(&answer["options"], "cache_limit"),
            (&"1M".into(), &"environment".into()),
            "{flags:?}"
        );
        assert_eq!(option(&answer["options"], "retain"), (&"1M".into(), &"config file".into()));
        assert!(answer["warnings"].to_string().contains("these are its present variables"), "{answer:#}");
        let answer = doctor(&process.id());
        let daemon = &answer["daemons"][0];
        assert_eq!(daemon["allocator"]["certainty"], "certain", "{answer:#}");
        assert_eq!(option(&daemon["settings"], "cache_limit"), (&"1M".into(), &"environment".into()));
        let found = answer["findings"].to_string();
        assert!(found.contains("own-settings") && found.contains("cache-limit"), "{answer:#}");
        assert_eq!(answer["not_seen"], serde_json::json!([]));
    }
}

#[test]
fn where_its_memory_has_no_environment_either_nothing_is_said_to_be_right() {
    let place = Place::new();
    let program = place.program("cleared", TITLE, &["-DKEEPS=0"]);
    let process = Sleeper::start(&mut started(&place, &program, Path::new("/nonexistent")));
    assert_eq!(
        option(&config(&[&process.id()])["options"], "cache_limit"),
        (&Value::Null, &"not known".into())
    );
    let not_seen = doctor(&process.id())["not_seen"].to_string();
    for check in ["own-settings", "cache-limit", "variables-ignored"] {
        assert!(not_seen.contains(check), "{not_seen}");
    }
}

#[test]
fn what_a_variable_may_have_set_is_not_known_without_the_environment() {
    let place = Place::new();
    let file = config_file(&place, "retain = 1M\n");
    let program = program(&place, "plain", "");
    let process = Sleeper::start(Command::new(&program).env_clear());
    let answer = config(&[&process.id(), "--file", text(&file)]);
    let options = &answer["options"];
    assert_eq!(option(options, "cache_limit"), (&Value::Null, &"not known".into()));
    assert_eq!(options[0]["comes_to"], Value::Null);
    let unless = "config file, unless a variable overrides it";
    assert_eq!(option(options, "retain"), (&"1M".into(), &unless.into()));
    let shown = done(&mut vcm(&["config", &process.id(), "--file", text(&file)]));
    let line = |name: &str| shown.out.lines().find(|line| line.starts_with(name)).unwrap().to_string();
    assert!(line("cache_limit ").ends_with("= not known"), "{}", shown.out);
    assert!(line("retain ").ends_with(unless), "{}", shown.out);
}

#[test]
fn a_process_that_gained_rights_at_its_start_obeys_neither_variable_nor_file() {
    if !only_root_can("start a process of another user") {
        return;
    }
    let place = Place::new();
    let file = config_file(&place, "retain = 1M\n");
    let program = program(&place, "privileged", "");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let mut command = started(&place, &program, &file);
    let process = Sleeper::start(command.env("VCM_CACHE_LIMIT", "9M").uid(NOBODY).gid(NOBODY));
    let answer = config(&[&process.id()]);
    for name in ["cache_limit", "retain"] {
        assert_eq!(option(&answer["options"], name).1, "default");
    }
    assert!(answer["warnings"][0].as_str().unwrap().contains("reads no variables and no config file"));
}
