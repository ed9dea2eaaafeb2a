//! `vcm serve`: one agent for the processes on vcmalloc of a host, asked by HTTP (docs/design/serve.md).
//!
//! ```text
//! (here)                     starts it, and ends it on a signal
//! supervisor                 starts it again where a look at a process has ended it
//! server                     connections, their limits and times
//! route                      which answer a request gets
//! token  listen              who may ask, and where
//! metrics  page  profiles    what is answered
//! figures                    each metric, declared once
//! host                       the processes
//! process                    one of them
//! answer                     a response
//! ```

mod answer;
mod figures;
mod host;
mod listen;
mod metrics;
mod page;
mod process;
mod profiles;
mod route;
mod server;
mod supervisor;
mod token;

use crate::cli::serve::{Place, Serve};
use listen::Bound;
use std::sync::Arc;
use std::time::Duration;
use vcm_front::say::{self, FAILURE, Failure, NOT_UNDERSTOOD, Outcome};

/// Threads that look at processes, or wait for a profile. More requests than that are refused before.
const WORKERS: usize = 16;
/// How long answers that are under way may take when it ends.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

pub fn serve(arguments: Serve) -> Outcome {
    let token = arguments.token.as_deref().map(token::Token::read).transpose();
    let token = token.map_err(|line| Failure::new(FAILURE, line))?;
    let is_beyond = matches!(arguments.listen, Place::Port(address) if !address.ip().is_loopback());
    if is_beyond && token.is_none() {
        return Err(Failure::new(
            NOT_UNDERSTOOD,
            "an address beyond this host needs --token FILE; without one listen on 127.0.0.1 or on unix:/path",
        ));
    }
    if arguments.group.is_some() && !matches!(arguments.listen, Place::Socket(_)) {
        return Err(Failure::new(NOT_UNDERSTOOD, "--group is for a unix socket: --listen unix:/path"));
    }
    raise_descriptors();
    // Before anybody is told that it listens: a signal then finds it ready to end.
    let held = supervisor::hold_signals();
    let failure = |line: String| Failure::new(FAILURE, line);
    let board = supervisor::Board::shared().map_err(failure)?;
    let bound = Bound::bind(&arguments.listen, arguments.group.as_deref()).map_err(failure)?;
    say::result(&format!("listening on {bound}\n"))?;
    supervisor::watch(board, &held, || answer(&arguments, token.clone(), &bound, board, &held))
}

/// Until a signal ends it.
fn answer(
    arguments: &Serve,
    token: Option<token::Token>,
    bound: &Bound,
    board: &'static supervisor::Board,
    held: &nix::sys::signal::SigSet,
) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(WORKERS)
        .build()
        .map_err(|error| Failure::new(FAILURE, format!("cannot start: {error}")))?;
    let ended = runtime.block_on(async {
        let stop = server::Stop::on_signals()?;
        let _ = held.thread_unblock();
        let listener = bound.listener().map_err(|error| format!("cannot listen: {error}"))?;
        let agent = Arc::new(route::Agent::new(arguments, token, board));
        server::serve(&listener, agent, stop).await;
        Ok(())
    });
    runtime.shutdown_timeout(LAST_ANSWERS);
    ended.map(|()| 0).map_err(|line: String| Failure::new(FAILURE, line))
}

/// Two descriptors for each process are held, and 1024 are little: as many as may be, which root decides itself. If
/// there are no more, the processes that come last are counted and not shown.
fn raise_descriptors() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    const ENOUGH: u64 = 1 << 16;
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        if most < ENOUGH && setrlimit(Resource::RLIMIT_NOFILE, ENOUGH, ENOUGH).is_ok() {
            return;
        }
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}
