//! The archives as a developer links them: one object each, beside other runtimes, by other linkers, in other orders.

#[cfg(target_arch = "x86_64")]
mod tests {
    use object::{Object, ObjectSymbol};
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::time::Duration;
    use vcmalloc_tests::{library, machine, run};

    /// Elsewhere the archive is linked by `packaging/linking/run`.
    fn is_not_here() -> bool {
        machine::is_other() || library::is_foreign()
    }

    fn archive() -> PathBuf {
        library::archive().unwrap_or_else(|error| panic!("{error}"))
    }

    fn source(name: &str) -> PathBuf {
        library::repository().join("tests/archive").join(name)
    }

    /// Links with these words and returns what the program says; none where the linker is not there.
    fn said(name: &str, words: &[&str]) -> Option<String> {
        let program = library::work_directory("archive").join(name);
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-fno-builtin", "-o"]).arg(&program).args(words).env("LC_ALL", "C");
        let linked = gcc.output().expect("gcc");
        let complaints = String::from_utf8_lossy(&linked.stderr).into_owned();
        if complaints.contains("fatal error: cannot find 'ld'") {
            eprintln!("not tried: {name}");
            return None;
        }
        assert!(linked.status.success(), "{name}: {complaints}");
        let finished = run(Command::new(&program).env("VCM_STATS_AT_EXIT", "1"), Duration::from_secs(60))
            .expect("it runs");
        finished.succeeded().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(finished.complaints.contains("front:"), "{name} is not on it: {}", finished.complaints);
        Some(String::from_utf8_lossy(&finished.output).into_owned())
    }

    fn text(path: &Path) -> &str {
        path.to_str().expect("a name in plain characters")
    }

    #[test]
    fn an_archive_shows_the_names_that_the_shared_library_exports_and_no_other() {
        if is_not_here() {
            return;
        }
        let golden = library::repository().join("tests/golden");
        let reviewed = |list: &str| fs::read_to_string(golden.join(list)).expect("the reviewed list");
        let (plain, hardened) = (reviewed("exports.txt"), reviewed("hardened-exports.txt"));
        let hardened_archive = library::hardened_archive().unwrap_or_else(|error| panic!("{error}"));
        for (archive, more) in [(archive(), ""), (hardened_archive, hardened.as_str())] {
            let exported = plain.lines().chain(more.lines()).filter(|line| !line.starts_with('#'));
            let exported: BTreeSet<&str> = exported.collect();
            let name = archive.file_stem().expect("a name").to_string_lossy().replace("lib", "");
            let data = fs::read(archive.with_file_name(format!("{name}.o"))).expect("the object beside it");
            let object = object::File::parse(&*data).expect("an object");
            let shown = object.symbols().filter(|symbol| symbol.is_global() && symbol.is_definition());
            let shown: BTreeSet<String> =
                shown.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect();
            let strange: Vec<&String> = shown
                .iter()
                .filter(|name| {
                    !exported.contains(name.as_str())
                        && !name.starts_with("DW.ref.")
                        && name.as_str() != "_.stapsdt.base"
                })
                .collect();
            assert!(strange.is_empty(), "{name}: {strange:?}");
            for promised in ["malloc", "free", "_Znwm", "vcm_janitor_start", "vcm_stats_get"] {
                assert!(shown.contains(promised), "{name} lacks {promised}");
            }
        }
    }

    #[test]
    fn every_linker_takes_it_beside_the_compilers_own_runtime() {
        if is_not_here() {
            return;
        }
        let (archive, divides) = (archive(), source("divides.c"));
        let (archive, divides) = (text(&archive), text(&divides));
        let calls_it = source("calls_malloc.c");
        let calls_it = text(&calls_it);
        let throws = source("throws.cc");
        let throws = text(&throws);
        let object = archive.replace("libvcmalloc.a", "vcmalloc.o");
        let ways: [(&str, &[&str]); 13] = [
            ("bfd", &["-fuse-ld=bfd", divides, archive]),
            ("gold", &["-fuse-ld=gold", divides, archive]),
            ("lld", &["-fuse-ld=lld", divides, archive]),
            ("static", &["-static", divides, archive]),
            ("whole", &[divides, "-Wl,--whole-archive", archive, "-Wl,--no-whole-archive"]),
            ("collected", &["-ffunction-sections", "-Wl,--gc-sections", divides, archive]),
            ("optimised-at-link-time", &["-flto", divides, archive]),
            ("first", &[&object, divides]),
            ("wanted", &["-Wl,-u,malloc", archive, divides]),
            // Its library has probes of its own, counted from the one place that all share.
            ("probes", &["-fuse-ld=gold", "-static", "-Wl,-u,vcm_version", throws, archive, "-lstdc++"]),
            ("behind-libc", &["-fuse-ld=bfd", "-Wl,-u,vcm_version", divides, "-lc", archive, "-lm"]),
            // Of what a compiler may take for its own the linker sees no call before it has optimised.
            ("built-in", &["-fuse-ld=bfd", "-fbuiltin", "-flto", "-Wl,-u,vcm_version", calls_it, archive]),
            (
                "built-in-gold",
                &["-fuse-ld=gold", "-fbuiltin", "-flto", "-Wl,-u,vcm_version", calls_it, archive],
            ),
        ];
        for (name, words) in ways {
            let said = said(name, words);
            assert!(said.is_none() || said.as_deref() == Some("87 7 1\n"), "{name}: {said:?}");
        }
    }

    /// A compiler that sees the whole program could keep what belongs to a thread while a fiber changes threads.
    #[test]
    fn fibers_keep_their_blocks_in_programs_that_were_optimised_at_link_time() {
        if is_not_here() {
            return;
        }
        let fibers = library::repository().join("tests/conformance/fibers_keep_their_blocks_on_any_thread.c");
        let hardened = library::hardened_archive().unwrap_or_else(|error| panic!("{error}"));
        for (name, compiler, words, archive) in [
            ("fibers-gcc", "gcc", &[][..], archive()),
            ("fibers-gcc-hardened", "gcc", &[], hardened),
            ("fibers-clang", "clang", &["-fuse-ld=lld"], archive()),
        ] {
            let program = library::work_directory("archive").join(name);
            let mut call = Command::new(compiler);
            call.args(["-O2", "-flto", "-rdynamic", "-pthread", "-D_GNU_SOURCE", "-Wl,-u,vcm_version", "-o"]);
            call.arg(&program).arg(&fibers).arg(archive).arg("-lm").args(words);
            match call.output() {
                Ok(linked) => {
                    assert!(linked.status.success(), "{name}: {}", String::from_utf8_lossy(&linked.stderr))
                }
                Err(_) if compiler != "gcc" => {
                    vcmalloc_tests::skip!("{compiler} is not installed (apt-get install clang lld)");
                    continue;
                }
                Err(error) => panic!("{compiler}: {error}"),
            }
            let mut call = Command::new(program);
            call.args(["4", "64", "600000", "report"]).env("CONFORMANCE_ON", "vcmalloc");
            let finished = run(&mut call, Duration::from_secs(120)).expect("it runs");
            finished.succeeded().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(
                finished.text().contains("calls by 64 fibers on 4 threads"),
                "{name}: {}",
                finished.text()
            );
        }
    }

    #[test]
    fn the_linker_says_that_a_sanitizer_does_not_go_with_it() {
        if is_not_here() {
            return;
        }
        // A program that calls malloc alone gets the sanitizer's; a program that calls ours too gets both.
        let program = library::work_directory("archive").join("sanitized");
        let mut gcc = Command::new("gcc");
        gcc.args(["-fuse-ld=bfd", "-fsanitize=address", "-Wl,-u,vcm_stats_get", "-o"])
            .arg(program)
            .args([source("twice.c"), archive()]);
        let said = gcc.env("LC_ALL", "C").output().expect("gcc").stderr;
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("link it without vcmalloc") || said.contains("cannot find"), "{said}");
    }

    #[test]
    fn two_libraries_in_rust_are_linked_beside_it() {
        if is_not_here() {
            return;
        }
        let folder = library::work_directory("archive");
        let built = ["first", "second"].map(|name| {
            let number = if name == "first" { 1 } else { 2 };
            let text = format!(
                "#[unsafe(no_mangle)] pub extern \"C\" fn from_{name}(number: i64) -> i64 {{ number + {number} + vec![0u8; 100].len() as i64 - 100 }}\n"
            );
            let (source, library) = (folder.join(format!("{name}.rs")), folder.join(format!("lib{name}.a")));
            fs::write(&source, text).expect("written");
            let mut rustc = Command::new("rustc");
            rustc.args(["--edition=2024", "--crate-type=staticlib", "-O", "-C", "panic=abort", "-o"]).arg(&library).arg(source);
            let done = rustc.output().expect("rustc");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            library
        });
        let words = [text(&source("divides.c")).to_owned(), text(&archive()).to_owned()];
        let libraries = built.iter().map(|path| text(path).to_owned());
        let words: Vec<String> =
            ["-DBESIDE_RUST".to_owned()].into_iter().chain(words).chain(libraries).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(said("beside-rust", &words).as_deref(), Some("87 7 1\n"));
    }

    #[test]
    fn the_tool_says_whether_a_linked_program_is_hardened_and_starts_none_as_if_it_were() {
        if is_not_here() {
            return;
        }
        let program = |name: &str, archive: &Path| {
            let program = library::work_directory("archive").join(name);
            let mut gcc = Command::new("gcc");
            gcc.args(["-O1", "-fno-builtin", "-o"]).arg(&program).arg(source("divides.c")).arg(archive);
            assert!(gcc.status().expect("gcc").success());
            program
        };
        let plain = program("plain", &archive());
        let hardened =
            program("hardened", &library::hardened_archive().unwrap_or_else(|error| panic!("{error}")));
        let tool = library::tool().unwrap_or_else(|error| panic!("{error}"));
        let said = |arguments: &[&str], program: &Path| {
            let output = Command::new(&tool).args(arguments).arg(program).output().expect("vcm");
            let text = [output.stdout, output.stderr].concat();
            (output.status.code(), String::from_utf8_lossy(&text).into_owned())
        };
        let (code, text) = said(&["run", "--hardened", "--"], &plain);
        assert!(
            code == Some(125) && text.contains("has vcmalloc linked into it, and not the hardened one"),
            "{text}"
        );
        assert_eq!(said(&["run", "--hardened", "--"], &hardened).0, Some(0));
        let (code, text) = said(&["check", "--"], &hardened);
        assert!(code == Some(0) && text.contains("(hardened), front"), "{text}");
        let (code, text) = said(&["check", "--"], &plain);
        assert!(code == Some(0) && !text.contains("(hardened)"), "{text}");
    }

    #[test]
    fn the_hardened_archive_stops_a_second_free() {
        if is_not_here() {
            return;
        }
        let archive = library::hardened_archive().unwrap_or_else(|error| panic!("{error}"));
        let program = library::work_directory("archive").join("twice");
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-fno-builtin", "-w", "-o"]).arg(&program).arg(source("twice.c")).arg(archive);
        assert!(gcc.status().expect("gcc").success());
        let finished = run(&mut Command::new(program), Duration::from_secs(60)).expect("it runs");
        assert!(finished.complaints.contains("vcmalloc: double free"), "{}", finished.complaints);
    }
}
