//! The tool on a program that is linked with jemalloc's library: it runs on ours in its place, and mallctl is ours.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Place, Sleeper, done, text, vcm};

/// Says which jemalloc answers, and stays for as many seconds as it is asked to.
const ASKS: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
    #include <jemalloc/jemalloc.h>\n\
    int main(int count, char **words) {\n\
        const char *version = \"none\"; size_t length = sizeof version;\n\
        free(malloc(9)); mallctl(\"version\", &version, &length, 0, 0);\n\
        printf(\"%s\\n\", version); fflush(stdout);\n\
        return count > 1 ? sleep(atoi(words[1])) : 0; }";

/// The finished libraries, ours in jemalloc's place beside libvcmalloc.so, and the program.
struct Case {
    place: Place,
    program: PathBuf,
    stand_in: PathBuf,
}

impl Case {
    fn new() -> Option<Case> {
        let library = support::real_library()?;
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/libjemalloc.so.2");
        let built =
            [library.with_file_name("libjemalloc.so.2"), beside].into_iter().find(|path| path.is_file());
        let is_installed = Path::new("/usr/include/jemalloc/jemalloc.h").is_file();
        let Some(built) = built.filter(|_| is_installed) else {
            vcmalloc_tests::skip!("our libjemalloc.so.2 is not built, or libjemalloc-dev is not installed");
            return None;
        };
        let place = Place::new();
        let program = place.program("asks", ASKS, &["-ljemalloc"]);
        // As they are installed: ours under jemalloc's name in a folder that no program searches.
        std::fs::create_dir_all(place.path("lib/vcmalloc/jemalloc")).unwrap();
        std::fs::copy(library, place.path("lib/libvcmalloc.so")).unwrap();
        let stand_in = place.path("lib/vcmalloc/jemalloc/libjemalloc.so.2");
        std::fs::copy(built, &stand_in).unwrap();
        Some(Case { place, program, stand_in })
    }

    fn library(&self) -> PathBuf {
        self.place.path("lib/libvcmalloc.so")
    }

    fn vcm(&self, arguments: &[&str]) -> Command {
        let mut command = vcm(arguments);
        command.env("VCM_LIBRARY", self.library()).env_remove("LD_PRELOAD").env_remove("MALLOC_CONF");
        command
    }

    fn start(&self, preload: Option<&Path>, conf: &str) -> Sleeper {
        let mut command = Command::new(&self.program);
        command.arg("600").env_remove("LD_PRELOAD").env("MALLOC_CONF", conf);
        preload.map(|path| command.env("LD_PRELOAD", path));
        Sleeper::start(&mut command)
    }

    fn doctor(&self, sleeper: &Sleeper) -> Value {
        let result = done(&mut vcm(&["doctor", "--json", &sleeper.id()]));
        assert!(matches!(result.code, Some(0 | 1)), "{}", result.err);
        serde_json::from_str(&result.out).unwrap()
    }
}

fn system_jemalloc() -> String {
    format!("/usr/lib/{}-linux-gnu/libjemalloc.so.2", std::env::consts::ARCH)
}

/// The text of the check's finding.
fn finding(answer: &Value, check: &str) -> Option<String> {
    let found = answer["findings"].as_array()?.iter().find(|finding| finding["check"] == check)?;
    found["what"].as_str().map(str::to_string)
}

#[test]
fn a_linked_jemalloc_runs_on_ours_and_mallctl_is_ours() {
    let Some(case) = Case::new() else { return };
    let program = text(&case.program);
    let run = done(&mut case.vcm(&["run", "--strict", "-v", "--", program]));
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.starts_with("5.3.0-0-gvcmalloc-"), "{}{}", run.out, run.err);
    assert!(run.err.contains(text(&case.stand_in)) && !run.err.contains("note:"), "{}", run.err);
    // A user who names a library gets that one, and learns what that means.
    let named = done(&mut case.vcm(&["run", "--library", text(&case.library()), "--", program]));
    assert_eq!(named.code, Some(0), "{}", named.err);
    assert!(!named.out.contains("vcmalloc"), "{}", named.out);
    assert!(named.err.contains("note:") && named.err.contains("idle jemalloc"), "{}", named.err);
}

#[test]
fn a_preload_of_jemallocs_path_is_replaced_by_ours() {
    let Some(case) = Case::new() else { return };
    let sleeps = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
        int main(void) { free(malloc(9)); puts(getenv(\"LD_PRELOAD\")); return 0; }";
    let program = case.place.program("plain", sleeps, &[]);
    let mut command = case.vcm(&["run", "--strict", "--", text(&program)]);
    let run = done(command.env("LD_PRELOAD", system_jemalloc()));
    assert_eq!((run.code, run.out.trim()), (Some(0), text(&case.stand_in)), "{}", run.err);
}

#[test]
fn check_says_which_library_answers_mallctl() {
    let Some(case) = Case::new() else { return };
    let check = |preload: &Path, target: &[&str]| {
        done(case.vcm(&[&["check"], target].concat()).env("LD_PRELOAD", preload))
    };
    let program = text(&case.program);
    for (preload, words) in [
        (case.stand_in.clone(), format!("; mallctl is answered by {}", text(&case.stand_in))),
        (case.library(), "; mallctl and MALLOC_CONF reach ".into()),
    ] {
        let command = check(&preload, &["--", program]);
        assert_eq!(command.code, Some(0), "{}", command.err);
        assert!(command.out.contains(&words), "{words}\n{}", command.out);
    }
    let ours = case.start(Some(&case.stand_in), "");
    let running = done(&mut vcm(&["check", &ours.id()]));
    assert_eq!(running.code, Some(0), "{}", running.err);
    assert!(running.out.contains("vcmalloc, standing in for jemalloc"), "{}", running.out);
    assert!(running.out.contains("; mallctl is answered by the same file"), "{}", running.out);
    let beside = case.start(Some(&case.library()), "");
    let running = done(&mut vcm(&["check", &beside.id()]));
    assert!(
        running.out.contains("reach") && running.out.contains("serves no malloc here"),
        "{}",
        running.out
    );
}

#[test]
fn doctor_tells_whose_jemalloc_serves_its_options_and_what_would_change() {
    let Some(case) = Case::new() else { return };
    let conf = "dirty_decay_ms:5000,narenas:2,prof_prefix:x";
    let debians = case.start(None, conf);
    let answer = case.doctor(&debians);
    let daemon = &answer["daemons"][0];
    assert_eq!(daemon["allocator"]["name"], "jemalloc", "{answer:#}");
    assert!(daemon["allocator"]["evidence"].to_string().contains("the system's jemalloc"), "{answer:#}");
    let set = daemon["settings"].as_array().unwrap().iter().find(|set| set["name"] == "MALLOC_CONF");
    assert_eq!(set.unwrap()["value"], conf);
    let what = finding(&answer, "jemalloc-options").unwrap();
    assert!(what.contains("becomes release_delay") && what.contains("narenas:2"), "{what}");
    let ours = case.start(Some(&case.stand_in), conf);
    let answer = case.doctor(&ours);
    assert_eq!(answer["daemons"][0]["allocator"]["name"], "vcmalloc, standing in for jemalloc");
    let what = finding(&answer, "jemalloc-options").unwrap();
    assert!(what.starts_with("narenas:2 (MALLOC_CONF) has no effect"), "{what}");
    assert!(finding(&answer, "mixed-allocators").is_none() && finding(&answer, "idle-allocator").is_none());
}

#[test]
fn doctor_reads_the_options_that_are_written_into_the_program() {
    let Some(case) = Case::new() else { return };
    let own = format!("const char *malloc_conf = \"narenas:3,tcache:false\";\n{ASKS}");
    let program = case.place.program("own", &own, &["-ljemalloc"]);
    for preload in [None, Some(&case.stand_in)] {
        let mut command = Command::new(&program);
        command.arg("600").env_remove("LD_PRELOAD").env("MALLOC_CONF", "tcache:true");
        preload.map(|path| command.env("LD_PRELOAD", path));
        let sleeper = Sleeper::start(&mut command);
        let what = finding(&case.doctor(&sleeper), "jemalloc-options").unwrap();
        assert!(what.contains("narenas:3 (malloc_conf)"), "{what}");
        assert!(!what.contains("tcache"), "the variable wins: {what}");
    }
}

#[test]
fn doctor_tells_a_copy_of_the_programs_own() {
    let Some(case) = Case::new() else { return };
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
        const char *je_malloc_conf = \"narenas:3\";\n\
        void *je_malloc(size_t size) { return malloc(size); }\n\
        int main(void) { free(je_malloc(9)); puts(\"1\"); fflush(stdout); return sleep(600); }";
    let program = case.place.program("carries", source, &[]);
    let sleeper = Sleeper::start(Command::new(&program).env("JE_MALLOC_CONF", "lg_tcache_max:12"));
    let what = finding(&case.doctor(&sleeper), "jemalloc-options").unwrap();
    for words in [
        "own copy of jemalloc (je_malloc)",
        "narenas:3 (je_malloc_conf)",
        "lg_tcache_max:12 (JE_MALLOC_CONF)",
    ] {
        assert!(what.contains(words), "{words}\n{what}");
    }
}

#[test]
fn compare_puts_jemalloc_with_its_options_beside_ours_in_its_place() {
    let Some(case) = Case::new() else { return };
    let program = text(&case.program);
    let mut command = case.vcm(&[
        "compare",
        "--json",
        "--allocators",
        "jemalloc,vcmalloc",
        "--repeat",
        "2",
        "--",
        program,
        "1",
    ]);
    let result = done(command.env("MALLOC_CONF", "narenas:1"));
    assert_eq!(result.code, Some(0), "{}", result.err);
    assert!(result.err.contains("vcmalloc/jemalloc/libjemalloc.so.2"), "{}", result.err);
    assert!(result.err.contains("'MALLOC_CONF=narenas:1' is set for jemalloc, vcmalloc"), "{}", result.err);
    let answer: Value = serde_json::from_str(&result.out).unwrap();
    assert!(answer.to_string().contains("narenas:1"), "{answer:#}");
}
