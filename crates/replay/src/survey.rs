//! The contents of a trace, by reading all of it once: its checksums, its sense, and the room that a replay needs.

use crate::script::Writer;
use crate::tenants::Tenants;
use serde::Serialize;
use std::io::Read;
use vcm_trace::{Error, Header, Reader};

#[derive(Clone, Debug, Default, Serialize)]
pub struct Survey {
    pub events: u64,
    pub allocations: u64,
    pub streams: usize,
    /// The first and the last time.
    pub nanoseconds: (u64, u64),
    /// At the end of an epoch, at most.
    pub live_bytes: u64,
    /// Ends of blocks that the trace does not know: they are left out.
    pub unknown: u64,
    pub lost: u64,
    /// When, bytes: the memory of the process as it was recorded.
    pub resident: Vec<(u64, u64)>,
    /// Why the trace could not be read to its end.
    pub cut_off: Option<String>,
    #[serde(skip)]
    pub header: Header,
    #[serde(skip)]
    pub slots: usize,
    #[serde(skip)]
    pub words: usize,
    #[serde(skip)]
    pub tenants: Tenants,
}

/// Reads a trace to its end; `goes_on` is asked after every epoch. None: it said no.
pub fn survey<R: Read>(
    reader: Reader<R>,
    goes_on: impl FnMut(u64) -> bool,
) -> vcm_trace::Result<Option<Survey>> {
    survey_with(reader, Tenants::default(), goes_on)
}

/// The same where tenants end at once.
pub fn survey_with<R: Read>(
    mut reader: Reader<R>,
    tenants: Tenants,
    mut goes_on: impl FnMut(u64) -> bool,
) -> vcm_trace::Result<Option<Survey>> {
    let mut survey = Survey { header: reader.header().clone(), ..Survey::default() };
    // With words for the time: they are the most that there can be.
    let mut writer = Writer::new(true, &tenants);
    loop {
        let raw = match reader.next_raw() {
            Ok(Some(raw)) => raw,
            Ok(None) => break,
            Err(error @ Error::CutOff { .. }) => {
                survey.cut_off = Some(error.to_string());
                break;
            }
            Err(error) => return Err(error),
        };
        let script = writer.write(&raw)?;
        if survey.events == 0 {
            survey.nanoseconds.0 = script.times.0;
        }
        survey.events += script.events;
        survey.nanoseconds.1 = survey.nanoseconds.1.max(script.times.1);
        survey.words = survey.words.max(script.words.len());
        survey.live_bytes = survey.live_bytes.max(writer.live_bytes);
        survey.resident.extend(script.resident);
        if !goes_on(survey.events) {
            return Ok(None);
        }
    }
    (survey.streams, survey.slots) = (writer.streams(), writer.slots());
    (survey.allocations, survey.unknown, survey.lost) = (writer.allocations, writer.unknown, writer.lost);
    survey.tenants = tenants;
    Ok(Some(survey))
}
