//! An experiment: one declaration that can be read from top to bottom.
//!
//! Owns the words of a declaration. Promises nothing by itself: `plan` makes cells of it, `run` runs them,
//! `verdict` and `page` read the rest. Labs fill it in.

use super::cell::Cell;
use super::results::Row;
use super::session::Session;
use anyhow::Result;

pub struct Experiment {
    /// As typed; the name of the report that it reruns.
    pub name: &'static str,
    pub title: &'static str,
    /// The question, in a sentence or two, for `vcm lab list` and the page.
    pub question: &'static str,
    /// The reports: who found what, when.
    pub reports: &'static [Report],
    /// The differences then, in sentences for the page.
    pub then: &'static str,
    /// Names from `allocators::ALLOCATORS`.
    pub allocators: &'static [&'static str],
    /// The things that are varied beside the allocator, outermost first.
    pub axes: &'static [Axis],
    pub pairing: Pairing,
    pub quick: Plan,
    pub full: Plan,
    /// The moments at which a cell takes rows, in order; empty if it takes one at its end.
    pub steps: &'static [Step],
    pub measures: &'static [Measure],
    pub controls: &'static [Control],
    pub claims: &'static [Claim],
    /// The rows' answer to the question, for the first lines of the page.
    pub answer: &'static [Compared],
    /// Numbers of the reports, or of earlier runs, to stand beside ours.
    pub figures: &'static [Figure],
    pub pictures: &'static [Picture],
    pub packages: &'static [Package],
    /// Looks whether the machine can run it, before anything is started. Refuses with what to do.
    pub prepare: fn(&Session) -> Result<()>,
    /// Combinations of axes that mean nothing; the sentence says why.
    pub skip: fn(&Cell) -> Option<&'static str>,
    /// Performs one cell. Whatever it makes or starts goes through the session.
    pub cell: fn(&Session, &Cell) -> Result<Vec<Row>>,
}

/// A report from the field.
pub struct Report {
    pub who: &'static str,
    pub year: &'static str,
    pub found: &'static str,
    /// The place where it can be read; may be empty.
    pub source: &'static str,
}

/// Something that is varied: an object store, a number of bricks, a depth.
pub struct Axis {
    pub name: &'static str,
    pub what: &'static str,
    pub quick: &'static [&'static str],
    pub full: &'static [&'static str],
    /// True if a change of it needs a new cluster: such axes vary slowest, repetitions inside them.
    pub setup: bool,
}

/// How allocators meet a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// A cell has one allocator; cells of different allocators take turns.
    Turns,
    /// A cell has them all at the same moment, in an order that rotates from repetition to repetition.
    Together,
}

pub struct Plan {
    pub repetitions: u32,
    /// For the reader: how long it takes on two cores.
    pub about: &'static str,
}

pub struct Step {
    pub name: &'static str,
    pub what: &'static str,
}

#[derive(Clone, Copy)]
pub struct Measure {
    /// The key in the rows.
    pub name: &'static str,
    pub unit: &'static str,
    pub what: &'static str,
    /// Digits behind the point in tables.
    pub digits: usize,
    /// Shown in the tables; others are in the JSON only.
    pub shown: bool,
    /// Of all daemons together: one line or bar whatever the allocators, as every row has the same number.
    pub whole: bool,
}

/// A value of the summary: the median over repetitions at one place.
#[derive(Clone, Copy)]
pub struct Point {
    pub allocator: &'static str,
    pub axes: &'static [(&'static str, &'static str)],
    /// Empty if the experiment has no steps.
    pub step: &'static str,
    pub measure: &'static str,
}

/// A positive control: a cost that is known to be there and must be seen, or the whole run is void.
pub struct Control {
    pub what: &'static str,
    pub higher: Point,
    pub lower: Point,
    /// The median of the ratio, repetition by repetition, must be at least this, and beyond the noise.
    pub at_least: f64,
}

/// A claim of the project about itself; judged in every run, never a reason to hide one.
pub struct Claim {
    pub what: &'static str,
    pub point: Point,
    /// Divides by this point first, repetition by repetition.
    pub over: Option<Point>,
    pub at_most: f64,
}

/// A part of an answer: what was measured at one point divided by what was measured at another, wherever a run has
/// both. Here an empty allocator or step means any.
pub struct Compared {
    /// Such as "processor time of a write, vcmalloc over TCMalloc"; the numbers follow.
    pub what: &'static str,
    pub point: Point,
    pub over: Point,
}

impl Compared {
    /// Two allocators at the same places.
    pub const fn allocators(
        what: &'static str,
        measure: &'static str,
        step: &'static str,
        [allocator, over]: [&'static str; 2],
    ) -> Compared {
        let point = Point { allocator, axes: &[], step, measure };
        Compared { what, point, over: Point { allocator: over, ..point } }
    }

    /// The same, only at these values of axes.
    pub const fn at(self, axes: &'static [(&'static str, &'static str)]) -> Compared {
        let Compared { what, point, over } = self;
        Compared { what, point: Point { axes, ..point }, over: Point { axes, ..over } }
    }

    /// Two values of an axis, whatever the allocator.
    pub const fn axes(
        what: &'static str,
        measure: &'static str,
        step: &'static str,
        [axes, over]: [&'static [(&'static str, &'static str)]; 2],
    ) -> Compared {
        let point = Point { allocator: "", axes, step, measure };
        Compared { what, point, over: Point { axes: over, ..point } }
    }
}

/// A number from elsewhere.
pub struct Figure {
    /// Index into `reports`.
    pub report: usize,
    pub point: Point,
    pub value: f64,
}

/// A picture. If the rows of a run have several values of an axis that it does not show, it is drawn once for
/// each.
pub enum Picture {
    /// Groups of bars: a group a step, a bar an allocator.
    Steps { title: &'static str, measure: &'static str },
    /// A line for each allocator over an axis whose values are numbers; `step` may be empty.
    Lines { title: &'static str, measure: &'static str, axis: &'static str, step: &'static str },
    /// A bar for each allocator, grouped by the values of an axis.
    Bars { title: &'static str, measure: &'static str, axis: &'static str, step: &'static str },
    /// A measure divided by that of the allocator `over` in the same repetition, as points with the range of
    /// the repetitions; grouped by the values of `axis` at `step`, or by the steps where `axis` is empty. A
    /// table of all these ratios comes first on the page.
    Ratios {
        title: &'static str,
        measure: &'static str,
        over: &'static str,
        axis: &'static str,
        step: &'static str,
    },
    /// Another picture, of the rows with these values of other axes.
    Only { axes: &'static [(&'static str, &'static str)], picture: &'static Picture },
}

impl Picture {
    /// The picture that is drawn, whatever rows it is limited to.
    pub fn inner(&self) -> &Picture {
        match self {
            Picture::Only { picture, .. } => picture.inner(),
            picture => picture,
        }
    }
}

/// A Debian package and why it is needed.
#[derive(Clone, Copy)]
pub struct Package {
    pub name: &'static str,
    pub why: &'static str,
}

/// For experiments that need nothing special.
pub fn nothing_to_prepare(_: &Session) -> Result<()> {
    Ok(())
}

pub fn nothing_to_skip(_: &Cell) -> Option<&'static str> {
    None
}

impl Experiment {
    pub fn measure(&self, name: &str) -> Option<&'static Measure> {
        self.measures.iter().find(|measure| measure.name == name)
    }
}
