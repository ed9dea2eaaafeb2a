//! `vcm top`: every process on vcmalloc of this host, refreshed.
//!
//! ```text
//! screen   what the terminal shows
//! keys     what a key does
//! table    rows in their order, as lines and as JSON
//! host     the processes
//! ```

mod host;
mod keys;
mod screen;
mod table;

use crate::cli::top::Top;
use host::Host;
use keys::State;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use table::View;
use vcm_front::say::{self, FAILURE, Failure, Outcome};

/// Wide enough for all columns where nobody tells the width.
const WIDTH: usize = 120;

pub fn top(arguments: &Top) -> Outcome {
    let view = View { sort: arguments.sort, is_reversed: false, filter: arguments.filter.clone() };
    let mut host = Host::default();
    if arguments.json || !std::io::stdout().is_terminal() {
        host.round();
        return say::result(&once(&host, &view, arguments.json));
    }
    ended_by_signals();
    let terminal = ratatui::try_init()
        .map_err(|error| Failure::new(FAILURE, format!("the terminal is not usable ({error})")))?;
    let shown = show(terminal, &mut host, State::new(view), arguments.interval);
    ratatui::restore();
    shown.map(|()| 0).map_err(|error| Failure::new(FAILURE, format!("the terminal is not usable ({error})")))
}

fn once(host: &Host, view: &View, as_json: bool) -> String {
    let rows = view.rows(host);
    if as_json {
        return table::json(host, &rows);
    }
    let mut lines = vec![table::heading(WIDTH)];
    lines.extend(rows.iter().map(|row| table::line(row, WIDTH)));
    lines.extend(table::beyond(host));
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn show(
    mut terminal: ratatui::DefaultTerminal,
    host: &mut Host,
    mut state: State,
    interval: Duration,
) -> std::io::Result<()> {
    loop {
        host.round();
        let next = Instant::now() + interval;
        loop {
            terminal.draw(|frame| screen::draw(frame, host, &mut state))?;
            let left = next.saturating_duration_since(Instant::now());
            if !event::poll(left)? {
                break;
            }
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                let ids: Vec<i32> = state.view.rows(host).iter().map(|row| row.id()).collect();
                if state.press(key, &ids) {
                    return Ok(());
                }
            }
        }
    }
}

/// A signal that ends it gives the terminal back first: a thread waits for them. The terminal's keys are no signals
/// while it is ours; SIGHUP is its end.
fn ended_by_signals() {
    use nix::sys::signal::{SigSet, Signal};
    let mut set = SigSet::empty();
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().for_each(|signal| set.add(signal));
    if set.thread_block().is_err() {
        return;
    }
    std::thread::spawn(move || {
        if let Ok(signal) = set.wait() {
            ratatui::restore();
            std::process::exit(128 + signal as i32);
        }
    });
}
