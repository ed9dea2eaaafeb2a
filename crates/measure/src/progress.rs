//! The operator's view while a run lasts: a bar at a terminal, plain lines elsewhere, all on stderr.
//!
//! Before the cells are known (packages, another Debian, a cluster by itself) there is no share to show: what is
//! being done, and for how long.

use crate::tell::line;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const BEFORE_CELLS: &str = "{spinner} {elapsed_precise} {wide_msg}";
const CELLS: &str = "[{bar:24}] {pos}/{len} {elapsed_precise} {wide_msg}";
/// How often a line says that something long still goes on.
const STILL_EVERY: Duration = Duration::from_secs(30);

pub struct Progress {
    bar: Option<ProgressBar>,
    state: Mutex<State>,
}

struct State {
    total: usize,
    done: usize,
    cell: String,
    since: Instant,
    /// When the last line was written.
    told: Instant,
}

impl Progress {
    pub fn new() -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
            bar.set_style(style(BEFORE_CELLS));
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        let now = Instant::now();
        let state = State { total: 0, done: 0, cell: String::new(), since: now, told: now };
        Progress { bar, state: Mutex::new(state) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn begin(&self, cells: usize) {
        self.state().total = cells;
        if let Some(bar) = &self.bar {
            bar.set_length(cells as u64);
            bar.set_style(style(CELLS));
        }
    }

    pub fn cell(&self, what: &str) {
        let mut state = self.state();
        state.cell = what.to_owned();
        state.since = Instant::now();
        state.told = state.since;
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None => line(&format!("[{}/{}] {what}", state.done + 1, state.total)),
        }
    }

    /// Tells what the present cell is doing, or what is done before there are any.
    pub fn step(&self, what: &str) {
        self.passing(what);
        if self.bar.is_none() {
            let mut state = self.state();
            line(&format!("    {what} ({:.0} s)", state.since.elapsed().as_secs_f64()));
            state.told = Instant::now();
        }
    }

    /// Tells what the present cell is doing, where only a terminal needs to know.
    pub fn passing(&self, what: &str) {
        let Some(bar) = &self.bar else { return };
        match self.state().cell.as_str() {
            "" => bar.set_message(what.to_owned()),
            cell => bar.set_message(format!("{cell}: {what}")),
        }
    }

    /// Something that takes long goes on: to be called often, told now and then. A terminal sees the time pass.
    pub fn still(&self, what: &str) {
        let mut state = self.state();
        if self.bar.is_none() && state.told.elapsed() >= STILL_EVERY {
            line(&format!("    still: {what} ({:.0} s)", state.since.elapsed().as_secs_f64()));
            state.told = Instant::now();
        }
    }

    pub fn cell_done(&self) {
        let mut state = self.state();
        state.done += 1;
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// A line that stays.
    pub fn say(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| line(what)),
            None => line(what),
        }
    }

    /// For a question: nothing is drawn over it.
    pub fn suspended<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(work),
            None => work(),
        }
    }

    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Default for Progress {
    fn default() -> Self {
        Progress::new()
    }
}
