//! The other work of the machine, seen before a measurement.

use std::time::Duration;

const LOOKS: u32 = 10;
const BETWEEN: Duration = Duration::from_millis(100);

/// The machine before the first run.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    /// Of the last minute.
    load_average: f64,
    /// Tasks that ran in a second, without this one.
    running: f64,
    cpus: usize,
}

impl Before {
    /// Takes a second.
    pub fn seen() -> Self {
        let mut sum = 0.0;
        for _ in 0..LOOKS {
            std::thread::sleep(BETWEEN);
            sum += running();
        }
        let load_average = word(0).and_then(|average| average.parse().ok()).unwrap_or(0.0);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Self { load_average, running: sum / f64::from(LOOKS), cpus }
    }

    /// In half a line.
    pub fn line(&self) -> String {
        let Self { load_average, running, cpus } = self;
        let plural = if *cpus == 1 { "" } else { "s" };
        format!("load average {load_average:.2}, {running:.1} other tasks running, on {cpus} CPU{plural}")
    }

    /// On a busy machine. The load average alone still has the build that `make demo` has just done.
    pub fn caution(&self) -> Option<String> {
        let half = self.cpus as f64 / 2.0;
        (self.load_average > half && self.running > half).then(|| {
            format!(
                "The machine was busy before the runs ({}): figures of a busy machine mean little. Repeat them when its load \
                 average is below {half}.",
                self.line()
            )
        })
    }
}

/// Tasks that run now, by the kernel's count, without this one.
pub fn running() -> f64 {
    let tasks = word(3).and_then(|tasks| tasks.split('/').next()?.parse::<f64>().ok());
    tasks.unwrap_or(1.0) - 1.0
}

fn word(at: usize) -> Option<String> {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().nth(at).map(str::to_owned)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn before(load_average: f64, running: f64) -> Before {
        Before { load_average, running, cpus: 2 }
    }

    #[test]
    fn a_load_above_half_of_the_cpus_is_cautioned_and_one_that_has_ended_is_not() {
        let busy = before(12.3, 9.0).caution().unwrap();
        assert!(busy.contains("load average 12.30, 9.0 other tasks running, on 2 CPUs"), "{busy}");
        assert!(busy.contains("mean little") && busy.contains("is below 1."), "{busy}");
        assert_eq!(before(1.6, 0.1).caution(), None, "a build has just ended");
        assert_eq!(before(0.3, 1.4).caution(), None);
        assert_eq!(before(1.0, 1.0).caution(), None);
    }
}
