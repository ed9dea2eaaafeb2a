//! A process that is looked at again and again: every look has its counters, few count its pages.

use super::pages::Pages;
use super::seen::Seen;
use super::snapshot::Snapshot;

pub struct Watched {
    pub seen: Seen,
    kept: Option<Pages>,
}

impl Watched {
    pub fn new(seen: Seen) -> Self {
        Watched { seen, kept: None }
    }

    /// The error is the rest of a line that begins with the process's number.
    pub fn look(&mut self) -> Result<Snapshot, String> {
        self.seen.snapshot_with(&mut self.kept)
    }

    /// Looks at the counters alone; none where its pages were never counted, which takes a whole look.
    pub fn look_briefly(&mut self) -> Option<Result<Snapshot, String>> {
        self.kept.as_mut()?.held = true;
        let found = self.look();
        self.kept.iter_mut().for_each(|pages| pages.held = false);
        Some(found)
    }
}
