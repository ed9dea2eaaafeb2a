//! The cells of a run. A cell is one pattern with its thread count and block size: one row of a table.

use crate::load::Pattern;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    pub program: Program,
    pub threads: usize,
    pub bytes: Option<usize>,
}

/// The program that runs in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    Load(Pattern),
    /// /bin/true: what a process costs that does nothing.
    True,
}

impl From<Program> for String {
    fn from(program: Program) -> Self {
        match program {
            Program::Load(pattern) => pattern.name(),
            Program::True => "true".to_owned(),
        }
    }
}

impl Program {
    /// None if nothing is called so.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "true" => Some(Self::True),
            name => <Pattern as clap::ValueEnum>::from_str(name, false).ok().map(Self::Load),
        }
    }
}

/// The figures that a cell is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nanoseconds a pair, and part of the fast path's geometric mean.
    FastPath,
    /// Nanoseconds a pair, for information.
    Pairs,
    /// Operations per CPU second, and peak resident memory.
    Load,
    /// Resident memory only.
    Footprint,
    /// How long single calls take.
    Calls,
}

impl Cell {
    pub fn kind(&self) -> Kind {
        match self.program {
            Program::True | Program::Load(Pattern::Small) => Kind::Footprint,
            Program::Load(Pattern::Zeroed | Pattern::PageAligned) => Kind::Pairs,
            Program::Load(pattern) if pattern.fast_path_order().is_some() => Kind::FastPath,
            Program::Load(pattern) if TIMED.contains(&pattern) => Kind::Calls,
            Program::Load(_) => Kind::Load,
        }
    }

    /// As it is named in tables.
    pub fn label(&self) -> String {
        let mut label = String::from(self.program);
        if let Some(bytes) = self.bytes {
            label += &format!(" {}", size_text(bytes));
        }
        if matches!(self.kind(), Kind::Load | Kind::Calls) {
            label += &format!(", {} threads", self.threads);
        }
        label
    }

    /// The variants that belong to a cell although nobody asked: the bounds that the starvation is about.
    pub fn extra_allocators(&self) -> &'static [&'static str] {
        match self.program {
            Program::Load(Pattern::Starve) => &["vcmalloc-1M", "tcmalloc-1M"],
            _ => &[],
        }
    }
}

fn size_text(bytes: usize) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}

/// The choice of cells to run.
#[derive(Clone, Debug)]
pub struct Selection {
    pub quick: bool,
    /// Empty: all.
    pub patterns: Vec<Program>,
    /// Empty: those of the plan.
    pub threads: Vec<usize>,
}

const FAST_PATH: [Pattern; 5] =
    [Pattern::Pair, Pattern::PairLive, Pattern::BatchLifo, Pattern::BatchFifo, Pattern::BatchRandom];
const FAST_PATH_BYTES: [usize; 5] = [16, 64, 256, 1 << 10, 4 << 10];
const THREADED: [Pattern; 9] = [
    Pattern::Starve,
    Pattern::Larson,
    Pattern::Prodcons,
    Pattern::Storage,
    Pattern::Mixedlife,
    Pattern::Realloc,
    Pattern::Churn,
    Pattern::FalseActive,
    Pattern::FalsePassive,
];
const TIMED: [Pattern; 3] = [Pattern::TimedSmall, Pattern::TimedMixed, Pattern::TimedLarge];
const BUFFERS: [Pattern; 6] = [
    Pattern::BufferFresh,
    Pattern::BufferHalves,
    Pattern::BufferPages,
    Pattern::BufferSteps,
    Pattern::BufferStrings,
    Pattern::BufferTurns,
];
const LARGE_BYTES: [usize; 5] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];

/// The cells of a selection, in the order they run.
pub fn cells(selection: &Selection) -> Vec<Cell> {
    let Selection { quick, patterns, threads } = selection;
    let chosen_threads =
        |planned: &[usize]| if threads.is_empty() { planned.to_vec() } else { threads.clone() };
    let single = |pattern, bytes| Cell { program: Program::Load(pattern), threads: 1, bytes };
    let mut cells = Vec::new();

    let sizes: &[usize] = if *quick { &[64, 1 << 10] } else { &FAST_PATH_BYTES };
    for pattern in FAST_PATH {
        cells.extend(sizes.iter().map(|&bytes| single(pattern, Some(bytes))));
    }
    cells.push(single(Pattern::Mixed, None));
    if !quick {
        cells.extend([256, 4 << 10, 64 << 10].map(|bytes| single(Pattern::Zeroed, Some(bytes))));
        cells.extend([4 << 10, 16 << 10, 64 << 10].map(|bytes| single(Pattern::PageAligned, Some(bytes))));
        cells.extend(LARGE_BYTES.map(|bytes| single(Pattern::Large, Some(bytes))));
    }
    for pattern in THREADED {
        let planned: &[usize] = match (quick, pattern) {
            (true, _) => &[16, 256],
            (false, Pattern::Storage) => &[2, 16, 256, 512, 1024],
            (false, _) => &[2, 16, 256, 1024],
        };
        let counts = chosen_threads(planned).into_iter();
        cells.extend(counts.map(|threads| Cell { program: Program::Load(pattern), threads, bytes: None }));
    }
    let large = if *quick { vec![2] } else { chosen_threads(&[2, 16]) };
    let large = large.into_iter().filter(|&threads| threads <= 64);
    cells.extend(large.map(|threads| Cell { program: Program::Load(Pattern::Large), threads, bytes: None }));
    for pattern in TIMED.into_iter().filter(|_| !quick) {
        let counts = chosen_threads(&[16, 64]).into_iter();
        cells.extend(counts.map(|threads| Cell { program: Program::Load(pattern), threads, bytes: None }));
    }
    for pattern in BUFFERS {
        let counts = if *quick { vec![1] } else { chosen_threads(&[1, 8]) };
        let counts = counts.into_iter().filter(|&threads| threads <= 64);
        cells.extend(counts.map(|threads| Cell { program: Program::Load(pattern), threads, bytes: None }));
    }
    cells.push(Cell { program: Program::True, threads: 1, bytes: None });
    cells.push(single(Pattern::Small, None));
    cells.retain(|cell| patterns.is_empty() || patterns.contains(&cell.program));
    cells
}

/// The reason, if a chosen pattern has no cell.
pub fn refusal(selection: &Selection) -> Option<String> {
    let has_cell = |program: Program, quick: bool, threads: &[usize]| {
        let (patterns, threads) = (vec![program], threads.to_vec());
        !cells(&Selection { quick, patterns, threads }).is_empty()
    };
    let Selection { quick, patterns, threads } = selection;
    let program = *patterns.iter().find(|&&program| !has_cell(program, *quick, threads))?;
    let name = String::from(program);
    Some(if !has_cell(program, false, &[]) {
        format!("`{name}` is in no plan; `vcm-load {name}` runs it alone")
    } else if has_cell(program, *quick, &[]) {
        format!("no cell of `{name}` has so many --threads; give 64 or fewer")
    } else {
        format!("the quick plan has no `{name}`; leave --quick out")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    /// One takes 10 GiB and much time, the other is traced by `vcm-bench instructions`.
    const IN_NO_PLAN: [Pattern; 2] = [Pattern::TimedBeside, Pattern::Steps];

    fn full() -> Selection {
        Selection { quick: false, patterns: Vec::new(), threads: Vec::new() }
    }

    #[test]
    fn the_fast_path_has_five_orders_of_five_sizes_and_the_mix() {
        assert_eq!(cells(&full()).iter().filter(|cell| cell.kind() == Kind::FastPath).count(), 26);
    }

    #[test]
    fn threaded_patterns_run_at_all_four_thread_counts() {
        let cells = cells(&full());
        for pattern in THREADED {
            for threads in [2, 16, 256, 1024] {
                assert!(cells.contains(&Cell { program: Program::Load(pattern), threads, bytes: None }));
            }
        }
    }

    #[test]
    fn no_cell_is_there_twice() {
        let mut sorted = cells(&full());
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), cells(&full()).len());
    }

    #[test]
    fn chosen_patterns_and_threads_replace_the_plan() {
        let patterns = vec![Program::Load(Pattern::Larson)];
        let chosen = cells(&Selection { patterns, threads: vec![7], ..full() });
        assert_eq!(chosen.iter().map(Cell::label).collect::<Vec<_>>(), ["larson, 7 threads"]);
    }

    #[test]
    fn every_pattern_is_in_the_full_plan_or_named_here() {
        let planned = |pattern| cells(&full()).iter().any(|cell| cell.program == Program::Load(pattern));
        for &pattern in Pattern::value_variants() {
            assert_ne!(planned(pattern), IN_NO_PLAN.contains(&pattern), "{pattern:?}: a list of plan.rs");
        }
    }

    #[test]
    fn a_pattern_without_a_cell_is_refused_for_its_own_reason() {
        let refused = |quick, patterns: &[Pattern], threads: &[usize]| {
            let patterns = patterns.iter().copied().map(Program::Load).collect();
            refusal(&Selection { quick, patterns, threads: threads.to_vec() }).unwrap_or_default()
        };
        let unplanned = "`timed-beside` is in no plan; `vcm-load timed-beside` runs it alone";
        assert_eq!(refused(false, &[Pattern::TimedBeside], &[]), unplanned);
        assert_eq!(refused(true, &[Pattern::Larson, Pattern::TimedBeside], &[]), unplanned);
        assert!(refused(true, &[Pattern::TimedSmall], &[]).contains("quick plan has no `timed-small`"));
        assert!(refused(false, &[Pattern::BufferTurns], &[128]).contains("64 or fewer"));
        assert_eq!(refused(false, &[Pattern::BufferTurns, Pattern::TimedSmall], &[16]), "");
    }

    #[test]
    fn a_program_survives_its_name() {
        for cell in cells(&full()) {
            assert_eq!(Program::named(&String::from(cell.program)), Some(cell.program));
        }
    }
}
