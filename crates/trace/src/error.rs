//! The faults of a trace.

use std::io;

/// Why a trace cannot be read or written. The text is for the person who gave the file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it is not a trace: it does not begin with VCMTRACE")]
    Foreign,
    #[error("it is of format version {major}; this program reads version {}: use a newer vcm", crate::MAJOR)]
    FutureVersion { major: u16 },
    #[error("it ends at byte {at}, within {within}: was it cut off?")]
    CutOff { at: u64, within: &'static str },
    #[error("it was changed or damaged at byte {at}: {what}")]
    Damaged { at: u64, what: &'static str },
    #[error("record {record}: {what}")]
    Record { record: u64, what: String },
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Error {
    /// Whether what stands before the place of the error can be used.
    pub fn is_cut_off(&self) -> bool {
        matches!(self, Error::CutOff { .. })
    }
}
