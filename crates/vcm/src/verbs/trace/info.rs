//! `vcm trace info`: figures of a trace.

use crate::cli::trace::Info;
use crate::html;
use crate::trace_file::{self as files, wrong};
use serde_json::json;
use std::fmt::Write;
use vcm_foreign::Shown;
use vcm_front::say::{self, FAILURE, Outcome, line};
use vcm_trace::{Header, Summary, summarize};

pub fn info(arguments: &Info) -> Outcome {
    let mut reader = files::open(&arguments.file)?;
    html::look(arguments.html.as_deref(), Some(&arguments.file))?;
    let summary = summarize(&mut reader).map_err(|error| wrong(&arguments.file, &error))?;
    let text = match arguments.json {
        true => format!("{:#}\n", json!({ "header": reader.header(), "summary": summary })),
        false => as_text(reader.header(), &summary),
    };
    let page = || html::traced::page(&arguments.file, reader.header(), &summary);
    let written = html::write(arguments.html.as_deref(), page);
    let shown = say::result(&text)?;
    written?;
    match &summary.cut_off {
        Some(why) => {
            line(&format!("vcm: {}: {why}; the figures cover the readable part", arguments.file.shown()));
            Ok(FAILURE)
        }
        None => Ok(shown),
    }
}

fn as_text(header: &Header, summary: &Summary) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(text, "{name:<22}{value}");
        }
    };
    row("command", say::typed(header.command.iter()));
    let said = |text: &Option<String>| text.as_deref().unwrap_or_default().shown().printed();
    row("allocator", said(&header.allocator));
    row("machine", said(&header.machine));
    row("recorded", said(&header.recorded_at));
    row("imported from", said(&header.imported_from));
    row("seconds", format!("{:.3}", summary.nanoseconds as f64 / 1e9));
    row("threads", summary.threads.to_string());
    row("events", summary.events.to_string());
    row("allocations", summary.allocations.to_string());
    row("reallocations", summary.reallocations.to_string());
    row("frees", summary.frees.to_string());
    let ends = summary.frees + summary.reallocations;
    let share = 100.0 * summary.of_other_threads as f64 / ends.max(1) as f64;
    row("  of another thread's", format!("{} ({share:.1} %)", summary.of_other_threads));
    row("  of unknown blocks", summary.unknown.to_string());
    if summary.ended_with_program > 0 {
        row("ended with a program", format!("{} (exec)", summary.ended_with_program));
    }
    row("lost events", summary.lost.to_string());
    row("out of order", summary.reordered.to_string());
    row("allocated", mib(summary.allocated_bytes));
    row("live at most", mib(summary.peak_live_bytes));
    row(
        "live at the end",
        format!("{} in {} blocks", mib(summary.live_bytes_at_end), summary.live_blocks_at_end),
    );
    if summary.peak_resident_bytes > 0 {
        row("resident at most", mib(summary.peak_resident_bytes));
    }
    text + &by_size(summary)
}

/// A bar for each power of two.
fn by_size(summary: &Summary) -> String {
    const WIDTH: u64 = 40;
    let most = summary.by_size.values().copied().max().unwrap_or(0).max(1);
    let mut text = String::from("\nallocations by bytes\n");
    for (power, count) in &summary.by_size {
        let bar = "#".repeat((count * WIDTH).div_ceil(most) as usize);
        let _ = writeln!(
            text,
            "{:>12}  {count:>12}  {bar}",
            format!("<= {}", size(1u64.checked_shl(*power).unwrap_or(u64::MAX)))
        );
    }
    text
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => bytes.to_string(),
        1024..0x10_0000 => format!("{}K", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{}M", bytes >> 20),
        _ => format!("{}G", bytes >> 30),
    }
}
