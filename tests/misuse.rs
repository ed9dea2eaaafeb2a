//! Every crime of `misuse/` against our library, with and without restartable sequences, and the hardened one: what is promised must happen, and what is known to be open must still be
//! open.

#[path = "misuse/allocators.rs"]
mod allocators;
#[path = "misuse/suite.rs"]
mod suite;
#[path = "misuse/tenants.rs"]
mod tenants;

use std::process::ExitCode;
use std::time::Duration;

use allocators::{Allocator, End};
use libtest_mimic::{Arguments, Trial};
use suite::{CRIMES, KNOWN_OPEN, OPEN_ACROSS_CPUS, Promise, Verdict};
use vcmalloc_tests::{Ground, compile, library, machine};

const TRIES: u64 = 200_000;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let ours = match every_build_of_ours() {
        Ok(ours) => ours,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut trials = vec![Trial::test("the_open_list_names_crimes", || Ok(every_open_crime_exists()?))];
    for allocator in ours {
        for (program, crime, promise) in CRIMES {
            let allocator = allocator.clone();
            let promise =
                if allocator.is_hardened() { suite::hardened_promise(crime, promise) } else { promise };
            let name = format!("{crime}::{}", allocator.name);
            trials.push(Trial::test(name, move || Ok(prove(&allocator, program, crime, promise)?)));
        }
    }
    trials.push(Trial::test("double_free_in_a_late_destructor", || Ok(late_destructors_are_seen()?)));
    trials.push(Trial::test("a_library_with_its_own_operator_new", || Ok(own_operators_are_let_be()?)));
    trials.push(Trial::test("sizes_may_lie_where_the_option_says_so", || Ok(lies_about_sizes_go_on()?)));
    trials.push(Trial::test("the_line_of_a_wrong_function_is_exact", || Ok(the_line_is_exact()?)));
    trials.push(Trial::test("functions_may_be_mixed_where_the_option_says_so", || Ok(mixing_goes_on()?)));
    trials.extend(tenants::trials());
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn the_line_is_exact() -> Result<(), String> {
    let mixtures = [
        ("malloc_then_delete", "malloc", "operator delete"),
        ("new_then_free", "operator new", "free or realloc"),
        ("new_array_then_delete", "operator new[]", "operator delete"),
    ];
    for (crime, maker, freer) in mixtures {
        let verdict = suite::commit(&Allocator::hardened()?, "frees", crime, TRIES)?;
        let Verdict::Message { line, .. } = &verdict else { return Err(format!("{crime}: {verdict:?}")) };
        let address = line.split([' ', ',']).find(|word| word.starts_with("0x")).unwrap_or("no address");
        let meant = format!(
            "vcmalloc: free by the wrong function: address {address}, block {address} of 100 bytes, made by \
             {maker}, given to {freer}; VCM_WRONG_FUNCTION_CHECK=off lets it pass, thread "
        );
        if !line.starts_with(&meant) {
            return Err(format!("{line}\nshould begin with\n{meant}"));
        }
    }
    Ok(())
}

/// Whichever destructor comes last.
fn late_destructors_are_seen() -> Result<(), String> {
    let source = library::repository().join("tests/misuse/late.c");
    let late = compile::shared_library(&source, "misuse_late", &["-DLIBRARY", "-Wno-use-after-free"])?;
    let folder = late.parent().expect("a library lies in a folder").display();
    let flags = [late.display().to_string(), format!("-Wl,-rpath,{folder}")];
    let program = compile::program(&source, Ground::Preload, &flags)?;
    for allocator in every_build_of_ours()? {
        let mut command = machine::command(&program);
        allocator.prepare(&mut command)?;
        let run = allocators::run(&mut command, Duration::from_secs(100))?;
        if run.end != End::Signal(libc::SIGABRT) || !run.complaints.starts_with("vcmalloc: double free") {
            return Err(format!("{}: {:?}\n{}", allocator.name, run.end, run.complaints));
        }
    }
    Ok(())
}

/// malloc's block that is deleted, and the other way round, is no misuse where a library has an operator new of its own.
fn own_operators_are_let_be() -> Result<(), String> {
    let source = library::repository().join("tests/misuse/own_new.cc");
    let own = compile::shared_library(&source, "misuse_own_new", &["-DLIBRARY", "-Wl,-Bsymbolic"])?;
    let folder = own.parent().expect("a library lies in a folder").display();
    let flags =
        [own.display().to_string(), format!("-Wl,-rpath,{folder}"), "-Wno-mismatched-new-delete".to_string()];
    let program = compile::program(&source, Ground::Preload, &flags)?;
    for (arguments, end) in [(&[] as &[&str], End::Exit(0)), (&["array"], End::Signal(libc::SIGABRT))] {
        let mut command = machine::command(&program);
        command.args(arguments);
        Allocator::hardened()?.prepare(&mut command)?;
        let run = allocators::run(&mut command, Duration::from_secs(100))?;
        if run.end != end {
            return Err(format!("{arguments:?}: {:?}\n{}", run.end, run.complaints));
        }
    }
    Ok(())
}

/// A size that is not the block's passes; the program's other crimes do not.
fn lies_about_sizes_go_on() -> Result<(), String> {
    for allocator in [Allocator::hardened()?, Allocator::ours()?[0].clone()] {
        let lying = Allocator { lying: true, ..allocator };
        for crime in ["sized_delete_too_small", "sized_delete_too_large", "sized_delete_small_as_large"] {
            match suite::commit(&lying, "frees", crime, TRIES)? {
                Verdict::WentOn { word, .. } if word == "harmless" => {}
                verdict => {
                    return Err(format!("{}: {crime} should be harmless, not {verdict:?}", lying.name));
                }
            }
        }
        let verdict = suite::commit(&lying, "frees", "double_free_at_once", TRIES)?;
        if !verdict.is_message() {
            return Err(format!("{}: {verdict:?}", lying.name));
        }
    }
    Ok(())
}

/// A call that the program mixes passes; its other crimes do not.
fn mixing_goes_on() -> Result<(), String> {
    let mixed = Allocator { mixed: true, ..Allocator::hardened()? };
    for crime in ["malloc_then_delete", "new_then_free", "new_array_then_delete"] {
        match suite::commit(&mixed, "frees", crime, TRIES)? {
            Verdict::WentOn { word, .. } if word == "harmless" => {}
            verdict => return Err(format!("{crime} should be harmless, not {verdict:?}")),
        }
    }
    let others = [
        ("frees", "sized_delete_too_small", "free with the wrong size or alignment"),
        ("frees", "aligned_block_deleted_as_unaligned", "free with the wrong size or alignment"),
        ("frees", "double_free_at_once", "double free"),
        ("writes", "overflow_1", "write behind the end of a block"),
    ];
    for (program, crime, line) in others {
        let verdict = suite::commit(&mixed, program, crime, TRIES)?;
        if !matches!(&verdict, Verdict::Message { line: said, .. } if said.contains(line)) {
            return Err(format!("{crime} should be stopped with '{line}', not {verdict:?}"));
        }
    }
    Ok(())
}

fn every_build_of_ours() -> Result<Vec<Allocator>, String> {
    let mut ours = Vec::from(Allocator::ours()?);
    ours.push(Allocator::hardened()?);
    Ok(ours)
}

fn every_open_crime_exists() -> Result<(), String> {
    let unknown = KNOWN_OPEN.iter().find(|(open, _)| !CRIMES.iter().any(|(_, crime, _)| crime == open));
    unknown.map_or(Ok(()), |(open, _)| {
        Err(format!("KNOWN_OPEN of misuse/suite.rs names {open}, which is no crime"))
    })
}

fn prove(allocator: &Allocator, program: &str, crime: &str, promise: Promise) -> Result<(), String> {
    let verdict = suite::commit(allocator, program, crime, TRIES)?;
    let knows_every_copy = allocator.is_hardened();
    let open = KNOWN_OPEN.iter().find(|(open, _)| *open == crime && !knows_every_copy);
    if OPEN_ACROSS_CPUS.contains(&crime) && !knows_every_copy && !verdict.is_silent_damage() {
        return Ok(());
    }
    match (verdict.keeps(promise), open) {
        (true, None) | (false, Some(_)) => Ok(()),
        (false, None) => Err(format!("{promise:?} is promised, not {verdict:?}")),
        (true, Some(_)) => {
            Err(format!("{verdict:?}: it is kept now; take it off KNOWN_OPEN in misuse/suite.rs"))
        }
    }
}
