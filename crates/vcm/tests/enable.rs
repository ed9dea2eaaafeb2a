//! `vcm enable` and `vcm disable` on a machine in a folder, as they are typed.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use support::{Done, Place, done, text, vcm};

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
        (&["enable", "a b"], "that cannot be the name of a service"),
        (&["disable", "a b"], "that cannot be the name of a service"),
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
        assert!(nowhere.err.contains("/no/such/folder: there is no such folder"), "{}", nowhere.err);
    }
}
