//! A preemption at every instruction of the library's restartable sequences.
//!
//! A tracer that single-stepped through a sequence would never get past its first instruction: every stop
//! is a preemption, and the kernel restarts the sequence. So each round puts a hardware breakpoint on one
//! instruction, lets the traced thread run at full speed until it stands there, moves it to another CPU or
//! lets helper threads work on the same cache, and lets it go. Debug registers belong to one thread: the
//! helpers run through the same code unhindered. The tracee (`preemption/tracee.c`) finds blocks handed out
//! twice, and counts what is in use before and after.
//!
//! It reads the sequences from the section `__rseq_cs`, so it works for any library that has one.

#[path = "preemption/registers.rs"]
mod registers;
#[path = "preemption/sequences.rs"]
mod sequences;
#[path = "preemption/tracer.rs"]
mod tracer;

mod tests {
    use super::sequences::{self, Library};
    use super::tracer::{self, Reached};
    use std::path::Path;
    use vcmalloc_tests::{compile, library};

    fn library() -> Option<Library> {
        let path = library::shared().unwrap_or_else(|error| panic!("{error}"));
        let found = read(&path);
        if found.sequences.is_empty() {
            assert!(library::is_foreign(), "the library has no section __rseq_cs, or an empty one");
            vcmalloc_tests::skip!("{} has no restartable sequences", path.display());
            return None;
        }
        Some(found)
    }

    fn read(path: &Path) -> Library {
        sequences::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The allocator the torture itself is tried on.
    fn sample(name: &str, flags: &[&str]) -> Library {
        let source = library::repository().join("tests/preemption/sample.c");
        let path = compile::shared_library(&source, name, flags).unwrap_or_else(|error| panic!("{error}"));
        read(&path)
    }

    /// None when the machine cannot do it.
    fn torture(library: &Library, setting: tracer::Setting) -> Option<Result<Reached, String>> {
        match tracer::torture(library, setting) {
            Ok(reached) => Some(Ok(reached)),
            Err(tracer::Stopped::NoBreakpoints(error)) => {
                vcmalloc_tests::skip!("this machine grants no hardware breakpoints ({error})");
                None
            }
            Err(tracer::Stopped::Failed(error)) => Some(Err(error)),
        }
    }

    fn expect_endured(library: &Library, setting: tracer::Setting, wanted: usize) {
        let Some(reached) = torture(library, setting) else { return };
        let reached = reached.unwrap_or_else(|error| panic!("{error}"));
        let summary = summary(library, &reached);
        println!("{summary}");
        // If a sequence branches early, its rest may never run.
        let whole = reached.sequences().into_iter().filter(|(hit, of)| hit == of).count();
        assert!(whole >= wanted, "stops at every instruction of {wanted} sequences at least\n{summary}");
    }

    fn summary(library: &Library, reached: &Reached) -> String {
        let mut text = String::new();
        for (sequence, (hit, of)) in library.sequences.iter().zip(reached.sequences()) {
            let name = library.function_at(sequence.start).map_or("?", |function| &function.name);
            text += &format!(
                "  sequence at {:#x} in {name}: {hit} of {of} instructions reached\n",
                sequence.start
            );
        }
        text + &format!("  {} stops, {} inside a sequence and restarted", reached.stops, reached.restarts)
    }

    #[test]
    fn the_kernel_can_read_every_sequence() {
        let Some(library) = library() else { return };
        for sequence in &library.sequences {
            sequence.check(&library).unwrap_or_else(|error| panic!("{sequence:x?}: {error}"));
        }
    }

    #[test]
    fn a_preemption_at_any_instruction_loses_and_doubles_nothing() {
        if let Some(library) = library() {
            expect_endured(&library, None, 4);
        }
    }

    /// Small caches make batches go in and out all the time, by sequences of their own.
    #[test]
    fn a_preemption_between_a_cache_and_the_centre_loses_and_doubles_nothing() {
        if let Some(library) = library() {
            expect_endured(&library, Some(("VCM_CACHE_LIMIT", "512K")), 6);
        }
    }

    #[test]
    fn a_preemption_in_our_own_registration_loses_and_doubles_nothing() {
        if let Some(library) = library() {
            expect_endured(&library, Some(("GLIBC_TUNABLES", "glibc.pthread.rseq=0")), 4);
        }
    }

    /// Each stop there is an interruption: a function that began again after it would never get further.
    #[test]
    fn a_debuggers_breakpoint_on_a_function_with_a_fast_path_stops_once_a_call() {
        const CALLS_EACH: usize = 60;
        let Some(library) = library() else { return };
        for name in ["malloc", "free", "_Znwm", "_Znam", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm"] {
            let Some(function) = library.function_named(name) else { panic!("no function {name}") };
            match tracer::stops_at(&library, function.start, 10 * CALLS_EACH) {
                // The C library's own calls come to it.
                Ok(stops) => assert!((1..=2 * CALLS_EACH).contains(&stops), "{name}: {stops} stops"),
                Err(tracer::Stopped::NoBreakpoints(error)) => return vcmalloc_tests::skip!("{error}"),
                Err(tracer::Stopped::Failed(error)) => panic!("{name}: {error}"),
            }
        }
    }

    #[test]
    fn a_correct_sample_endures_the_torture() {
        expect_endured(&sample("sample", &[]), None, 2);
    }

    #[test]
    fn a_sequence_that_starts_too_late_is_found() {
        let Some(result) = torture(&sample("late", &["-DLATE_START"]), None) else { return };
        let error = result.err().expect("blocks handed out twice");
        assert!(
            error.contains("to be live") || error.contains("once") || error.contains("still ours"),
            "{error}"
        );
    }
}
