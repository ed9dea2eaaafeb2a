//! `vcm trace`: traces of what a process allocated and freed, looked at, converted and cut.
//!
//! The format and all that is done with it is `vcm-trace`'s; here are files, words and tables.

mod dump;
mod info;

use crate::cli::trace::{Act, Cut, Format, Import, TraceVerb};
use crate::trace_file::{self as files, wrong};
use std::time::Duration;
use vcm_foreign::Shown;
use vcm_front::say::{Failure, NOT_UNDERSTOOD, Outcome, line};
use vcm_trace::{Header, Part, Writer, art, gperftools};

pub fn trace(verb: TraceVerb) -> Outcome {
    match verb.act {
        Act::Info(arguments) => info::info(&arguments),
        Act::Dump(arguments) => dump::dump(&arguments),
        Act::Import(arguments) => import(&arguments),
        Act::Cut(arguments) => cut(&arguments),
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}

fn writer_name() -> Option<String> {
    Some(concat!("vcm ", env!("CARGO_PKG_VERSION")).into())
}

fn import(arguments: &Import) -> Outcome {
    let input = files::open_packed(&arguments.source)?;
    let header = Header {
        writer: writer_name(),
        imported_from: Some(arguments.source.shown().to_string()),
        ..Header::default()
    };
    let (written, unknown) = files::write(&arguments.output, &arguments.source, |out| {
        let writer = Writer::new(out, &header).map_err(|error| wrong(&arguments.output, &error))?;
        match arguments.format {
            Format::Art => {
                art::import(input, writer).map(|(out, found)| (out, (found.written, found.unknown)))
            }
            Format::Gperftools => gperftools::import(input, arguments.ticks_per_second, writer)
                .map(|(out, found)| (out, (found.written, found.unknown))),
        }
        .map_err(|error| wrong(&arguments.source, &error))
    })?;
    if unknown > 0 {
        line(&format!("vcm: {unknown} frees of blocks whose allocation was not recorded"));
    }
    let each = |bytes: u64| bytes as f64 / written.events.max(1) as f64;
    line(&format!(
        "vcm: {} events in {:.1} MB, {:.2} bytes each ({:.2} before packing)",
        written.events,
        written.file_bytes as f64 / 1e6,
        each(written.file_bytes),
        each(written.raw_bytes)
    ));
    Ok(0)
}

/// Errors that only writing can give.
fn is_of_output(error: &vcm_trace::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, FileTooLarge, QuotaExceeded, StorageFull, WriteZero};
    let kinds = [BrokenPipe, FileTooLarge, QuotaExceeded, StorageFull, WriteZero];
    matches!(error, vcm_trace::Error::System(error) if kinds.contains(&error.kind()))
}

fn cut(arguments: &Cut) -> Outcome {
    let from = nanoseconds(arguments.from);
    let to = arguments.length.map(|length| from.saturating_add(nanoseconds(length)));
    let part = Part { from, to, without_live: arguments.without_live };
    let part = part.check().map_err(|_| Failure::new(NOT_UNDERSTOOD, "--for: the part is empty"))?;
    let mut reader = files::open(&arguments.file)?;
    let header = Header { writer: writer_name(), ..reader.header().clone() };
    let written = files::write(&arguments.output, &arguments.file, |out| {
        let writer = Writer::new(out, &header).map_err(|error| wrong(&arguments.output, &error))?;
        vcm_trace::cut(&mut reader, part, writer).map_err(|error| {
            wrong(if is_of_output(&error) { &arguments.output } else { &arguments.file }, &error)
        })
    })?;
    line(&format!("vcm: {} events", written.events));
    Ok(0)
}
