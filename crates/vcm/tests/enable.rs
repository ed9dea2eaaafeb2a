//! `vcm enable` and `vcm disable` on a machine in a folder, as they are typed.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use support::{Done, Place, done, only_root_can, text, vcm};

/// A machine with a service `foo` and without the library.
fn machine(place: &Place) -> PathBuf {
    let root = place.path("machine");
    for (path, content) in [
        ("lib/systemd/system/foo.service", "[Service]\nExecStart=/usr/bin/foo\n"),
        ("lib/systemd/system/fio.service", "[Service]\nExecStart=/usr/bin/fio\n"),
        ("usr/bin/foo", "#!/bin/true\n"),
    ] {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), content).unwrap();
    }
    root
}

fn in_root(root: &Path, arguments: &[&str]) -> Done {
    done(vcm(arguments).args(["--root", text(root)]))
}

#[test]
fn the_library_of_a_machine_in_a_folder_is_looked_for_there() {
    let place = Place::new();
    let root = machine(&place);
    let absent = in_root(&root, &["enable", "foo"]);
    assert_eq!(absent.code, Some(1), "{}", absent.out);
    assert!(absent.err.contains("was not found in the machine below"), "{}", absent.err);
    let elsewhere = in_root(&root, &["enable", "foo", "--library", text(&place.stub)]);
    assert_eq!(elsewhere.code, Some(1), "{}", elsewhere.out);
    assert!(elsewhere.err.contains("is not below"), "{}", elsewhere.err);
    fs::create_dir_all(root.join("usr/local/lib")).unwrap();
    fs::copy(&place.stub, root.join("usr/local/lib/libvcmalloc.so")).unwrap();
    let drop_in = root.join("etc/systemd/system/foo.service.d/vcmalloc.conf");
    for library in [&[][..], &["--library", "/usr/local/lib/libvcmalloc.so"]] {
        let written = in_root(&root, &[&["enable", "foo"], library].concat());
        assert_eq!(written.code, Some(0), "{}", written.err);
        let file = fs::read_to_string(&drop_in).unwrap();
        assert!(file.contains("LD_PRELOAD=/usr/local/lib/libvcmalloc.so"), "{file}");
        assert!(written.out.contains(text(&drop_in)), "{}", written.out);
        assert!(!written.out.contains("systemctl"), "{}", written.out);
        assert!(
            written.out.contains(&format!("vcm disable foo --root {}", root.display())),
            "{}",
            written.out
        );
    }
    let removed = in_root(&root, &["disable", "foo"]);
    assert!(removed.out.contains(text(&drop_in)) && !removed.out.contains("systemctl"), "{}", removed.out);
    assert!(!drop_in.exists());
}

#[test]
fn wrong_arguments_have_a_code_of_their_own() {
    let place = Place::new();
    let root = machine(&place);
    for (arguments, words) in [
        (&["enable", "foo", "--option", "cache_limt=3"][..], "did you mean cache_limit?"),
        (&["enable", "a b"], "not a valid service name"),
        (&["disable", "a b"], "not a valid service name"),
        (&["enable", "foo.socket"], "only services have a program"),
    ] {
        let result = in_root(&root, arguments);
        assert_eq!(result.code, Some(2), "{arguments:?}: {}", result.err);
        assert!(result.err.contains(words), "{words}\n{}", result.err);
        assert!(!result.err.contains("fio"), "{}", result.err);
    }
    for verb in ["enable", "disable"] {
        let nowhere = done(&mut vcm(&[verb, "foo", "--root", "/no/such/folder"]));
        assert_eq!(nowhere.code, Some(2));
        assert!(nowhere.err.contains("/no/such/folder: no such folder"), "{}", nowhere.err);
    }
}

/// The answer of `vcm enable` about a service with this program.
fn enable_program(place: &Place, root: &Path, program: &Path) -> Done {
    fs::create_dir_all(root.join("usr/local/lib")).unwrap();
    fs::copy(&place.stub, root.join("usr/local/lib/libvcmalloc.so")).unwrap();
    let target = root.join("usr/bin/foo");
    let _ = fs::remove_file(&target);
    fs::copy(program, &target).unwrap();
    in_root(root, &["enable", "foo"])
}

#[test]
fn a_program_that_a_preload_cannot_serve_is_refused_with_what_to_do() {
    let place = Place::new();
    let root = machine(&place);
    let plain = "#include <stdlib.h>\nint main(void) { return malloc(9) == 0; }";
    let own =
        "void *malloc(unsigned long n) { return 0; } void free(void *p) {} int main(void) { return 0; }";
    let tsan = "void __tsan_init(void) {} int main(void) { return 0; }";
    let musl = format!("-Wl,--dynamic-linker=/lib/ld-musl-{}.so.1", std::env::consts::ARCH);
    for (source, flags, words) in [
        (plain, &["-static"][..], ["is linked statically", "link libvcmalloc.a into it"]),
        (plain, &[&musl], ["is a musl program", "for glibc"]),
        (own, &["-rdynamic"], ["has its own malloc built in", "a build without it"]),
        (tsan, &["-rdynamic"], ["has ThreadSanitizer built in", "a build without it"]),
    ] {
        let program = place.program("case", source, flags);
        let result = enable_program(&place, &root, &program);
        assert_eq!(result.code, Some(1), "{words:?}: {}", result.out);
        assert!(result.err.contains("foo.service is not enabled: "), "{}", result.err);
        assert!(words.iter().all(|part| result.err.contains(part)), "{words:?}: {}", result.err);
        assert!(!root.join("etc/systemd/system/foo.service.d").exists());
    }
    // The interpreter of a script is looked at on that machine, not on this one.
    fs::copy(place.program("case", plain, &["-static"]), root.join("usr/bin/own-interpreter")).unwrap();
    let script = place.script("script", "#!/usr/bin/own-interpreter\n");
    let result = enable_program(&place, &root, &script);
    assert!(result.err.contains("usr/bin/own-interpreter is linked statically"), "{}", result.err);
}

#[test]
fn a_program_that_allocates_past_the_preload_is_enabled_with_a_note() {
    let place = Place::new();
    let root = machine(&place);
    let source = "void *je_malloc(unsigned long n) { return 0; } int main(void) { return 0; }";
    let result = enable_program(&place, &root, &place.program("case", source, &[]));
    assert_eq!(result.code, Some(0), "{}", result.err);
    assert!(
        result.out.contains("note: ") && result.out.contains("contains jemalloc as je_malloc"),
        "{}",
        result.out
    );
}

#[test]
fn a_setuid_program_is_refused_where_its_user_would_change() {
    if !only_root_can("give a file to another user") {
        return;
    }
    let place = Place::new();
    let root = machine(&place);
    let program = place.program("case", "int main(void) { return 0; }", &[]);
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/passwd"), "root:x:0:0::/:\ndaemon:x:7:7::/:\n").unwrap();
    let unit = root.join("lib/systemd/system/foo.service");
    for (owner, settings, is_refused) in [
        (7, "", true),
        (0, "", false),
        (0, "User=root\n", false),
        (0, "User=daemon\n", true),
        (7, "User=daemon\n", false),
        (0, "User=daemon\nNoNewPrivileges=yes\n", false),
    ] {
        fs::write(&unit, format!("[Service]\nExecStart=/usr/bin/foo\n{settings}")).unwrap();
        assert_eq!(enable_program(&place, &root, &program).code, Some(0));
        std::os::unix::fs::chown(root.join("usr/bin/foo"), Some(owner), Some(0)).unwrap();
        let set_user = fs::Permissions::from_mode(0o4755);
        fs::set_permissions(root.join("usr/bin/foo"), set_user).unwrap();
        let result = in_root(&root, &["enable", "foo"]);
        assert_eq!(result.err.contains("is setuid"), is_refused, "{owner} {settings}: {}", result.err);
        assert_eq!(result.code, Some(i32::from(is_refused)));
    }
}
