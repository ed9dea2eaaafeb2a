//! The fuzz target's ways in (fuzz/targets/src/jemalloc): every name of the tree, and the options of any text. In no library for use.

use super::names::ROWS;
use super::settings::{PROF_PREFIX, SETTINGS, STATS_INTERVAL_OPTS, STATS_PRINT_OPTS, Setting};
use super::{conf, tree};

/// The name of a row, with `#` for numbers; none behind the last.
#[must_use]
pub fn name(row: usize) -> Option<&'static str> {
    ROWS.get(row).map(|row| row.name)
}

/// The name that a place leads to.
#[must_use]
pub fn name_at(mib: &[usize]) -> Option<&'static str> {
    tree::at(mib)?.whole().map(|row| row.name)
}

/// Takes the options of a text as the variable's and calls `look` with whether all could be read; then the values of before are put
/// back. Nothing is done by them: that follows at the start of a process alone.
pub fn with_options(text: &[u8], look: impl FnOnce(bool)) {
    let texts = [&PROF_PREFIX, &STATS_PRINT_OPTS, &STATS_INTERVAL_OPTS];
    let values = SETTINGS.each_ref().map(Setting::number);
    let mut kept = [[0u8; 1024]; 3];
    for (room, text) in kept.iter_mut().zip(texts) {
        room.iter_mut().zip(text.get().to_bytes()).for_each(|(place, byte)| *place = *byte);
    }
    look(conf::take_all("fuzzed", text));
    SETTINGS.iter().zip(values).for_each(|(setting, value)| setting.set(value));
    texts.iter().zip(&kept).for_each(|(text, before)| text.set(before));
}
