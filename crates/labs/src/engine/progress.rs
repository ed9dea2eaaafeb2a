//! What the operator sees while a run lasts: a bar at a terminal, plain lines elsewhere, all on stderr.

use super::tell::line;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

pub struct Progress {
    bar: Option<ProgressBar>,
    state: Mutex<State>,
}

struct State {
    total: usize,
    done: usize,
    cell: String,
    since: Instant,
}

impl Progress {
    pub fn new() -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
            let template = "[{bar:24}] {pos}/{len} {elapsed_precise} {wide_msg}";
            bar.set_style(
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        let state = State { total: 0, done: 0, cell: String::new(), since: Instant::now() };
        Progress { bar, state: Mutex::new(state) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn begin(&self, cells: usize) {
        self.state().total = cells;
        if let Some(bar) = &self.bar {
            bar.set_length(cells as u64);
        }
    }

    pub fn cell(&self, what: &str) {
        let mut state = self.state();
        state.cell = what.to_owned();
        state.since = Instant::now();
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None => line(&format!("[{}/{}] {what}", state.done + 1, state.total)),
        }
    }

    /// What the present cell is doing.
    pub fn step(&self, what: &str) {
        let state = self.state();
        match &self.bar {
            Some(bar) => bar.set_message(format!("{}: {what}", state.cell)),
            None => line(&format!("    {what} ({:.0} s)", state.since.elapsed().as_secs_f64())),
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

    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Progress::new()
    }
}
