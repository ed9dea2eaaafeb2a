//! `vcm run`: whether the preload took effect, and why not.

mod support;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use support::{Done, Place, done, filtered, install, only_root_can, real_library, text, vcm};

const USES_MALLOC: &str = "#include <stdlib.h>\nint main(void) { return malloc(9) == 0; }";
const OWN_MALLOC: &str = "#include <stddef.h>\nstatic char room[1 << 20]; static size_t used;\n\
     void *malloc(size_t size) { used += 64; return room + used; } void free(void *block) {}\n\
     int main(void) { return malloc(9) == 0; }";

fn assert_not_in_effect(place: &Place, program: &Path, why: &str) -> Done {
    let result = done(&mut place.run(&["--", text(program)]));
    assert_eq!(result.code, Some(0), "{}", result.err);
    assert!(result.err.contains("does not run on vcmalloc"), "{}", result.err);
    assert!(result.err.contains(why), "{why}\n{}", result.err);
    assert_eq!(result.err.lines().count(), 1, "one line says it all: {}", result.err);
    let strict = done(&mut place.run(&["--strict", "--", text(program)]));
    assert_eq!(strict.code, Some(125), "{}", strict.err);
    assert!(strict.err.contains(why), "{why}\n{}", strict.err);
    result
}

#[test]
fn success_is_silent_and_said_with_verbose() {
    let place = Place::new();
    let program = place.program("plain", USES_MALLOC, &[]);
    assert_eq!(done(&mut place.run(&["--strict", "--", text(&program)])).err, "");
    let verbose = done(&mut place.run(&["-v", "--", text(&program)]));
    assert!(verbose.err.contains("runs on vcmalloc 0.0-stub, front locked, from "), "{}", verbose.err);
    assert!(verbose.err.ends_with("/libvcmalloc.so\n"), "{}", verbose.err);
}

#[test]
fn a_program_with_vcmalloc_linked_into_it_needs_no_preload() {
    let place = Place::new();
    // Reports as libvcmalloc.a does from a static program, which cannot ask whose malloc is called.
    let source = "#include <fcntl.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
        const char *volatile name = \"VCM_CONFIG\";\n\
        int main(void) {\n\
            dprintf(atoi(getenv(\"VCM_RUN_PROOF\")), \"vcmalloc 0.0-stub pid %d malloc unknown front locked\\n\",\n\
                    (int)getpid());\n\
            free(malloc(9)); return sleep(PAUSE) + (name == 0);\n\
        }";
    for pause in ["-DPAUSE=3", "-DPAUSE=0"] {
        let program = place.program("carrier", source, &["-static", "-s", pause]);
        let result = done(&mut place.run(&["--strict", "-v", "--", text(&program)]));
        assert_eq!(result.code, Some(0), "{}", result.err);
        assert!(result.err.contains("front locked, from "), "{}", result.err);
        assert!(result.err.ends_with("/carrier\n"), "{}", result.err);
    }
}

#[test]
fn a_static_program_is_told() {
    let place = Place::new();
    let program = place.program("static", USES_MALLOC, &["-static"]);
    assert_not_in_effect(&place, &program, "is linked statically");
}

#[test]
fn a_static_interpreter_of_a_script_is_told() {
    let place = Place::new();
    let program = place.program("interpreter", USES_MALLOC, &["-static-pie"]);
    let script = place.script("script", &format!("#!{}\n", program.display()));
    assert_not_in_effect(&place, &script, "interpreter is linked statically");
}

#[test]
fn a_setuid_program_is_told() {
    if !only_root_can("give a file to another user") {
        return;
    }
    let place = Place::new();
    let program = place.path("setuid");
    install(Path::new("/bin/true"), &program);
    // As root only another owner makes the kernel distrust the starter.
    std::os::unix::fs::chown(&program, Some(65534), Some(65534)).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    assert_not_in_effect(&place, &program, "is setuid");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o2755)).unwrap();
    assert_not_in_effect(&place, &program, "is setgid");
}

#[test]
fn a_program_with_its_own_malloc_is_told() {
    let place = Place::new();
    let exported = place.program("exported", OWN_MALLOC, &["-rdynamic"]);
    assert_not_in_effect(&place, &exported, "has its own malloc built in.");
    let hidden = place.program("hidden", OWN_MALLOC, &["-fvisibility=hidden"]);
    assert_not_in_effect(&place, &hidden, "does not export it");
}

#[test]
fn another_malloc_that_only_the_process_shows_is_told_by_its_proof() {
    let place = Place::new();
    let library = place.path("libown.so");
    std::fs::write(place.path("own.c"), OWN_MALLOC.replace("main", "other_main")).unwrap();
    support::gcc(&["-w", "-shared", "-fPIC", "-o", text(&library), text(&place.path("own.c"))]);
    // The shell runs on ours and proves it; the program that it becomes has another malloc before ours.
    for pause in [0, 3] {
        let source =
            format!("#include <unistd.h>\n{}", USES_MALLOC.replace("malloc(9)", "sleep(PAUSE) + malloc(9)"));
        let program = place.program("late", &source, &[&format!("-DPAUSE={pause}")]);
        let start = format!(
            "#!/bin/sh\nsleep 0.5\nLD_PRELOAD={}:$LD_PRELOAD exec {}\n",
            library.display(),
            program.display()
        );
        let script = place.script("wrapper", &start);
        let result = done(&mut place.run(&["--strict", "--", text(&script)]));
        assert_eq!(result.code, Some(125), "{pause}: {}", result.err);
        assert!(result.err.contains("its malloc comes from"), "{pause}: {}", result.err);
        assert!(result.err.contains("libown.so"), "{pause}: {}", result.err);
    }
}

#[test]
fn a_private_copy_under_another_name_is_noted() {
    let place = Place::new();
    let source = format!("#include <stddef.h>\nvoid *je_malloc(size_t size) {{ return 0; }}\n{USES_MALLOC}");
    let program = place.program("redis-like", &source, &[]);
    let result = done(&mut place.run(&["--strict", "--", text(&program)]));
    assert_eq!(result.code, Some(0), "{}", result.err);
    assert!(result.err.contains("contains jemalloc as je_malloc"), "{}", result.err);
}

/// A library of this soname that does nothing, and a program linked with it through another library.
fn linked_with(place: &Place, soname: &str, source: &str) -> PathBuf {
    let library = place.path(soname);
    std::fs::write(place.path("inner.c"), source).unwrap();
    let soname_flag = format!("-Wl,-soname,{soname}");
    support::gcc(&["-shared", "-fPIC", &soname_flag, "-o", text(&library), text(&place.path("inner.c"))]);
    let middle = place.program(
        "libmiddle.so",
        "extern int inner(void); int middle(void) { return inner(); }",
        &["-shared", "-fPIC", text(&library), "-Wl,-rpath,$ORIGIN"],
    );
    let main = "extern int middle(void); int main(void) { return middle(); }";
    place.program("linked", main, &[text(&middle), "-Wl,-rpath,$ORIGIN"])
}

#[test]
fn a_linked_tcmalloc_is_refused_unless_forced() {
    let place = Place::new();
    let program = linked_with(&place, "libtcmalloc.so.4", "int inner(void) { return 0; }");
    let refused = done(&mut place.run(&["--", text(&program)]));
    assert_eq!(refused.code, Some(125));
    for words in
        ["is not started", "libmiddle.so is linked with libtcmalloc.so.4", "MallocExtension", "--force"]
    {
        assert!(refused.err.contains(words), "{words}\n{}", refused.err);
    }
    let forced = done(&mut place.run(&["--force", "--", text(&program)]));
    assert_eq!(forced.code, Some(0), "{}", forced.err);
    assert!(forced.err.contains("warning"), "{}", forced.err);
}

#[test]
fn a_musl_program_is_refused_unless_forced() {
    let place = Place::new();
    // Its loader need not be there: the program is not started.
    let loader = format!("-Wl,--dynamic-linker=/lib/ld-musl-{}.so.1", std::env::consts::ARCH);
    let program = place.program("musl", USES_MALLOC, &[&loader]);
    let refused = done(&mut place.run(&["--", text(&program)]));
    assert_eq!(refused.code, Some(125), "{}", refused.err);
    for words in ["is not started", "is a musl program", "glibc", "ends"] {
        assert!(refused.err.contains(words), "{words}\n{}", refused.err);
    }
    let forced = done(&mut place.run(&["--force", "--", text(&program)]));
    assert!(forced.code != Some(125) && forced.err.contains("warning"), "{}", forced.err);
}

#[test]
fn a_program_with_a_sanitizer_that_must_come_first_is_refused_unless_forced() {
    let place = Place::new();
    let libraries = [("libasan.so.8", "AddressSanitizer"), ("libtsan.so.2", "ThreadSanitizer")];
    for (soname, name) in libraries {
        let program = linked_with(&place, soname, "int inner(void) { return 0; }");
        let refused = done(&mut place.run(&["--", text(&program)]));
        assert_eq!(refused.code, Some(125), "{soname}: {}", refused.err);
        let what = format!("libmiddle.so is linked with {soname} ({name})");
        assert!(refused.err.contains(&what) && refused.err.contains("a build without it"), "{}", refused.err);
        assert_eq!(done(&mut place.run(&["--force", "--", text(&program)])).code, Some(0));
    }
    let built_in = "void __tsan_init(void) {} int main(void) { return 0; }";
    let program = place.program("built-in", built_in, &["-rdynamic"]);
    let refused = done(&mut place.run(&["--", text(&program)]));
    assert_eq!(refused.code, Some(125), "{}", refused.err);
    assert!(refused.err.contains("has ThreadSanitizer built in"), "{}", refused.err);
}

#[test]
fn a_leak_sanitizer_that_sees_no_block_is_noted() {
    let place = Place::new();
    let program = linked_with(&place, "liblsan.so.0", "int inner(void) { return 0; }");
    let result = done(&mut place.run(&["--", text(&program)]));
    assert_eq!(result.code, Some(0), "{}", result.err);
    assert!(result.err.contains("note:") && result.err.contains("LeakSanitizer"), "{}", result.err);
}

#[test]
fn our_stand_in_for_tcmalloc_is_no_obstacle() {
    let place = Place::new();
    let program = linked_with(&place, "libtcmalloc.so.4", "int inner(void) { return 0; }");
    let stand_in = stand_in(&place, "libtcmalloc.so.4");
    let result = done(&mut vcm(&["run", "--strict", "--library", text(&stand_in), "--", text(&program)]));
    assert_eq!((result.code, result.err.as_str()), (Some(0), ""));
}

/// A stub that takes the place of gperftools' library of that name.
fn stand_in(place: &Place, name: &str) -> PathBuf {
    let _ = std::fs::create_dir(place.path("vcmalloc"));
    let stub = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/stub.c");
    let path = place.path("vcmalloc").join(name);
    let interface = "-D_STAND_IN=_ZN15MallocExtension8instanceEv";
    let soname = format!("-Wl,-soname,{name}");
    // The function that the program asks of gperftools' library.
    let inner = place.path("inner.c");
    std::fs::write(&inner, "int inner(void) { return 0; }").unwrap();
    support::gcc(&["-shared", "-fPIC", interface, &soname, "-o", text(&path), text(&stub), text(&inner)]);
    path
}

#[test]
fn a_program_gets_the_stand_in_under_the_name_that_it_needs() {
    let place = Place::new();
    let program = linked_with(&place, "libtcmalloc_minimal.so.4", "int inner(void) { return 0; }");
    let run = || {
        let mut command = vcm(&["run", "--strict", "-v", "--", text(&program)]);
        command.env("VCM_LIBRARY", &place.stub);
        done(&mut command)
    };
    let other = stand_in(&place, "libtcmalloc.so.4");
    let refused = run();
    assert_eq!(refused.code, Some(125), "{}", refused.err);
    for words in
        ["is not started", "linked with libtcmalloc_minimal.so.4", "vcmalloc's own libtcmalloc_minimal.so.4"]
    {
        assert!(refused.err.contains(words), "{words}\n{}", refused.err);
    }
    let named = done(&mut vcm(&["run", "--library", text(&other), "--", text(&program)]));
    assert_eq!(named.code, Some(125), "{}", named.err);
    assert!(named.err.contains("replaces libtcmalloc.so.4 only"), "{}", named.err);
    stand_in(&place, "libtcmalloc_minimal.so.4");
    let result = run();
    assert_eq!(result.code, Some(0), "{}", result.err);
    assert!(result.err.contains("libtcmalloc_minimal.so.4\n"), "{}", result.err);
}

#[test]
fn the_stand_in_beside_the_library_is_used_for_a_linked_tcmalloc() {
    let place = Place::new();
    let program = linked_with(&place, "libtcmalloc.so.4", "int inner(void) { return 0; }");
    let run = || {
        let mut command = support::vcm(&["run", "--strict", "-v", "--", text(&program)]);
        command.env("VCM_LIBRARY", &place.stub);
        done(&mut command)
    };
    // The file beside the library under that name so far is somebody else's.
    assert_eq!(run().code, Some(125));
    stand_in(&place, "libtcmalloc.so.4");
    let result = run();
    assert_eq!(result.code, Some(0), "{}", result.err);
    // A user who names a library gets that one.
    assert_eq!(done(&mut place.run(&["--", text(&program)])).code, Some(125));
}

#[test]
fn a_linked_jemalloc_is_noted() {
    let place = Place::new();
    let program = linked_with(&place, "libjemalloc.so.2", "int inner(void) { return 0; }");
    let result = done(&mut place.run(&["--", text(&program)]));
    assert_eq!(result.code, Some(0));
    assert!(result.err.contains("note:") && result.err.contains("mallctl"), "{}", result.err);
}

#[test]
fn a_wrapper_that_clears_the_environment_is_told() {
    let place = Place::new();
    let direct = done(&mut place.run(&["--", "env", "-i", "/bin/true"]));
    assert_eq!(direct.code, Some(0));
    assert!(direct.err.contains("clears the environment"), "{}", direct.err);
    let script = place.script("by-line", "#!/usr/bin/env -S -i /bin/true\n");
    assert_not_in_effect(&place, &script, "clears the environment");
}

#[test]
fn a_script_that_loses_the_preload_is_told_while_it_runs() {
    let place = Place::new();
    let script = place.script("wrapper", "#!/bin/sh\nexec env -i /bin/cat\n");
    let mut command = place.run(&["--strict", "--", text(&script)]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("does not run on vcmalloc") && line.contains("cat"), "{line}");
    assert!(child.try_wait().unwrap().is_none(), "it is told before its end");
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(125));
}

#[test]
fn a_library_that_does_not_report_is_told_with_what_may_be_wrong() {
    let place = Place::new();
    let source = "extern void *__libc_malloc(unsigned long n); int vcm_version;\n\
                  void *malloc(unsigned long n) { return __libc_malloc(n); }";
    let mute = place.program("mute.so", source, &["-shared", "-fPIC"]);
    let result = done(&mut vcm(&["run", "--library", text(&mute), "--", "/bin/true"]));
    assert!(result.err.contains("did not report"), "{}", result.err);
    assert!(result.err.contains("env -i"), "{}", result.err);
}

#[test]
fn children_that_lost_the_preload_are_named_with_verbose() {
    let place = Place::new();
    let script = place.script("parent", "#!/bin/sh\nenv -i /bin/sleep 3\ntrue\n");
    let result = done(&mut place.run(&["-v", "--", text(&script)]));
    assert_eq!(result.code, Some(0));
    assert!(result.err.contains("its child process") && result.err.contains("sleep"), "{}", result.err);
}

#[test]
fn the_real_library_takes_effect() {
    let Some(library) = real_library() else { return };
    let result =
        done(&mut vcm(&["run", "-v", "--strict", "--library", text(&library), "--", "/bin/ls", "/"]));
    assert_eq!(result.code, Some(0), "{}", result.err);
    assert!(result.err.contains("runs on vcmalloc"), "{}", result.err);
}

#[test]
fn a_file_that_took_the_descriptors_place_stays_untouched() {
    let place = Place::new();
    let file = place.path("victim");
    let script =
        format!("exec {{fd}}>'{}'; eval \"exec $VCM_RUN_PROOF>&$fd\"; /bin/true; exit 3", file.display());
    for library in [Some(place.stub.clone()), real_library()].into_iter().flatten() {
        let result = done(&mut vcm(&["run", "--library", text(&library), "--", "bash", "-c", &script]));
        assert_eq!((result.code, result.err.as_str()), (Some(3), ""));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "");
    }
}

#[test]
fn where_a_filter_ends_who_asks_for_the_fence_the_program_gets_the_locked_caches() {
    let place = Place::new();
    let source = "#include <stdio.h>\n#include <stdlib.h>\n\
        int main(void) { const char *front = getenv(\"VCM_FRONT\"); puts(front ? front : \"none\"); free(malloc(9)); }";
    let program = place.program("says", source, &[]);
    let front = |command: &mut std::process::Command| {
        let result = done(command);
        assert_eq!(result.code, Some(0), "{}", result.err);
        (result.out, result.err)
    };
    let (out, err) = front(filtered(
        &mut place.run(&["--", text(&program)]),
        libc::SYS_membarrier,
        libc::SECCOMP_RET_KILL_PROCESS,
    ));
    assert_eq!(out, "locked\n");
    assert!(err.contains("kills callers of membarrier: started with front=locked"), "{err}");
    let (out, err) = front(filtered(
        &mut place.run(&["--", text(&program)]),
        libc::SYS_sethostname,
        libc::SECCOMP_RET_KILL_PROCESS,
    ));
    assert_eq!((out.as_str(), err.as_str()), ("none\n", ""), "another filter changes nothing");
    let mut chosen = place.run(&["--option", "front=auto", "--", text(&program)]);
    assert_eq!(
        front(filtered(&mut chosen, libc::SYS_membarrier, libc::SECCOMP_RET_KILL_PROCESS)),
        ("auto\n".into(), String::new())
    );
    assert_eq!(front(&mut place.run(&["--", text(&program)])).0, "none\n");
}

#[test]
fn a_program_at_a_fixed_place_that_takes_mallocs_address_is_told_the_truth() {
    // Debian's python3 and node: the address is a place in the program, which leads to ours.
    let source = "#include <stdlib.h>\nvoid *(*volatile taken)(size_t);\n\
        int main(void) { taken = malloc; return taken(9) == 0; }";
    let place = Place::new();
    let Some(library) = real_library() else { return };
    let program = place.program("fixed", source, &["-no-pie", "-fno-pic"]);
    let words = ["run", "--strict", "-v", "--library", text(&library), "--", text(&program)];
    let strict = done(&mut vcm(&words));
    assert_eq!(strict.code, Some(0), "{}", strict.err);
    assert!(strict.err.contains("runs on vcmalloc"), "{}", strict.err);
    let mut check = vcm(&["check", "--", text(&program)]);
    let checked = done(check.env("LD_PRELOAD", &library));
    assert_eq!(checked.code, Some(0), "{}", checked.err);
}
