//! `vcm`: the operator's tool for vcmalloc.
//!
//! ```text
//! cli         what can be typed; knows every verb's arguments and does nothing but hand them over
//! verbs/      one module a verb: run, config, check, compare, stat, top, profile, serve, set, release, doctor, enable, lab, record, trace, bounds, replay, man, completions
//! findings    what keeps a program from running on vcmalloc, in words
//! proof       what the library says when a program starts on it
//! automatic   what `auto` comes to
//! config_file what the library would read of its config file
//! settings    the allocator's options as this tool reads and writes them
//! unit_plan   what a unit needs to run on an allocator; drop_in, the files that give it
//! restart     how a service is restarted so that data stays available
//! arms        allocators as they are typed
//! child       a command as the shell would start it: signals passed on, its end as ours
//! table       what a comparison measured; words, how that is told
//! html        pages for a browser; whole_file, files that are whole or as they were
//! signals     what must not end us meanwhile
//! ```
//!
//! A verb may use everything below `verbs/`, and no other verb. Looking at files, processes, daemons and the machine
//! without changing them is the crate `vcm-inspect`; messages, pages of text and the library's place are `vcm-front`.

mod arms;
mod automatic;
mod child;
mod cli;
mod config_file;
mod drop_in;
mod findings;
mod html;
mod proof;
#[cfg(test)]
mod reference_page;
mod restart;
mod sandbox;
mod settings;
mod signals;
mod table;
mod trace_file;
mod unit_plan;
mod verbs;
mod whole_file;
mod words;

use clap::Parser;
use cli::{Cli, Verb};
use std::process::ExitCode;
use vcm_front::say;

fn main() -> ExitCode {
    // Before anything is allocated: the heap of this process is the one that is measured.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == vcm_replay::replayer::VERB) {
        let descriptor = words.next().and_then(|word| word.to_str()?.parse().ok());
        return ExitCode::from(vcm_replay::replayer::run(descriptor.unwrap_or(-1)));
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(refused) => return cli::refused(&refused),
    };
    let result = match cli.verb {
        Verb::Run(arguments) => verbs::run::run(arguments),
        Verb::Config(arguments) => verbs::config::config(arguments),
        Verb::Check(arguments) => verbs::check::check(&arguments),
        Verb::Compare(arguments) => verbs::compare::compare(*arguments),
        Verb::Lab(arguments) => verbs::lab::lab(&arguments),
        Verb::Doctor(arguments) => verbs::doctor::doctor(&arguments),
        Verb::Enable(arguments) => verbs::enable::enable(&arguments),
        Verb::Disable(arguments) => verbs::enable::disable(&arguments),
        Verb::Stat(arguments) => verbs::stat::stat(&arguments),
        Verb::Bounds(arguments) => verbs::bounds::bounds(&arguments),
        Verb::Profile(arguments) => verbs::profile::profile(&arguments),
        Verb::Serve(arguments) => verbs::serve::serve(arguments),
        Verb::Record(arguments) => verbs::record::record(&arguments),
        Verb::Replay(arguments) => verbs::replay::replay(&arguments),
        Verb::Set(arguments) => verbs::orders::set(&arguments),
        Verb::Release(arguments) => verbs::orders::release(&arguments),
        Verb::Top(arguments) => verbs::top::top(&arguments),
        Verb::Trace(arguments) => verbs::trace::trace(arguments),
        Verb::Completions(arguments) => verbs::completions::completions(&arguments),
        Verb::Man(arguments) => verbs::man::man(&arguments),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            say::line(&format!("vcm: {}", failure.message));
            ExitCode::from(failure.code)
        }
    }
}
