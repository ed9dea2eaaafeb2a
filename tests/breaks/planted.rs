//! The breaks: what is broken, by which words in place of which others, and the test that must notice it.
//!
//! The table is in five files: `core_breaks`, of the allocator, `process_breaks`, of forks, children and filters, `tenant_breaks`, of heaps of tenants, `hardened_breaks`, of the hardened
//! library, and `outer_breaks`, of what lies around them.
//!
//! A break is found by its words, wherever in its folder they stand: they must stand there exactly once.

/// A deliberate mistake.
pub struct Break {
    pub name: &'static str,
    /// The folder that has the words, from the repository's root.
    pub within: &'static str,
    pub before: &'static str,
    pub after: &'static str,
    pub noticed_by: Test,
}

/// The tests that are asked: those whose name has the word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Test {
    /// Of the core.
    Core(&'static str),
    /// Of the core, by loom.
    Loom(&'static str),
    /// Of another package.
    Of(&'static str, &'static str),
    /// Of a suite of the tool's, on the shared library, which is built first: suite, word.
    Tool(&'static str, &'static str),
    /// Of a suite in `tests/`, whose programs run on a library that is built first: package, suite, word.
    On(&'static str, &'static str, &'static str),
}

use Test::Core;

const CORE: &str = "crates/core/src";
const CRATES: &str = "crates";

pub const fn core(
    name: &'static str,
    before: &'static str,
    after: &'static str,
    word: &'static str,
) -> Break {
    Break { name, within: CORE, before, after, noticed_by: Core(word) }
}

pub const fn other(name: &'static str, before: &'static str, after: &'static str, noticed_by: Test) -> Break {
    Break { name, within: CRATES, before, after, noticed_by }
}

/// From the bottom of the house to its top.
pub fn all() -> impl Iterator<Item = &'static Break> {
    let (inner, outer) = (super::core_breaks::BREAKS, super::outer_breaks::BREAKS);
    let (processes, tenants) = (super::process_breaks::BREAKS, super::tenant_breaks::BREAKS);
    [inner, processes, tenants, super::hardened_breaks::BREAKS, outer].into_iter().flatten()
}
