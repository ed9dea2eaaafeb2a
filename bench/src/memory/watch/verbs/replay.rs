//! `replay`: a recorded daemon's allocations, then idleness.

use super::super::report::{Column, Origin, heap_by_live, panels, tables};
use super::super::session::Case;
use super::Common;
use crate::harness::surroundings;
use crate::memory::trace::recording::{self, Recording};
use crate::memory::trace::script;
use anyhow::Result;
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DEFAULT_TRACE: &str = "gluster-mux-120bricks-detach.art.zst";
const VARIABLE: &str = "VCM_MEMORY_TRACES";

#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// The trace, of `vcm trace` or an older one (.art or .art.zst) [default: gluster-mux-120bricks-detach in the directory of traces]
    pub trace: Option<PathBuf>,
    /// Where traces are
    #[arg(long, env = VARIABLE, default_value = "../shared/traces")]
    pub traces: PathBuf,
    /// How many times faster than recorded; 0: as fast as the order allows
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,
    /// Seconds to watch the idle process
    #[arg(long, default_value_t = 12.0, value_parser = surroundings::seconds)]
    pub idle: f64,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<()> {
    let path = arguments.trace.clone().unwrap_or_else(|| arguments.traces.join(DEFAULT_TRACE));
    if arguments.trace.is_none() && !path.exists() {
        println!(
            "skipped: there is no {}; traces are not part of the repository, so give the path of one, or their \
             directory with --traces or {VARIABLE}",
            path.display()
        );
        return Ok(());
    }
    eprintln!("reading {}", path.display());
    let trace = recording::read_file(&path)?;
    let recorded = trace.seconds();
    let about = about(&path, &trace, recorded, arguments.speed);
    eprintln!("{about}");
    let memory = script::write(&trace)?;
    drop(trace);

    let session = common.session()?;
    let output = common.files("replay")?;
    let duration = if arguments.speed > 0.0 { recorded / arguments.speed } else { recorded };
    let case = Case {
        name: path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        arguments: super::arguments(&[
            &"replay",
            &"--script",
            &memory.number(),
            &"--speed",
            &arguments.speed,
        ]),
        idle: Duration::from_secs_f64(arguments.idle),
        limit: Duration::from_secs_f64(duration * 4.0 + 30.0),
        cgroup_bytes: None,
    };
    let runs = session.run(&[case], output.raw_file()?)?;
    output.write(&about, &tables(&runs, &columns()), &panels(&runs, Origin::Start))
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed| *speed == 0.0 || (0.001..=1e6).contains(speed));
    speed.ok_or_else(|| "give 0, or a number from 0.001 to 1,000,000".to_owned())
}

fn about(path: &Path, trace: &Recording, recorded: f64, speed: f64) -> String {
    let pace = match speed {
        0.0 => "as fast as the order allows".to_owned(),
        speed => format!("at {speed} times the recorded speed"),
    };
    format!(
        "{}: {} steps, {} objects, {} threads, {recorded:.1} s, {} ends of unknown objects left out; replayed {pace}. \
         Every page of a new object is written; threads stay when their last record is done.\n\
         MiB. `live`: requested bytes. The other columns: RSS of the heap. `live pages`: 4 KiB pages that hold a live \
         block, the limit without moving blocks. `faults` and `CPU s`: page faults and processor time of the load, the \
         load program's own included (the same under every allocator).",
        path.file_name().unwrap_or_default().to_string_lossy(),
        trace.steps.len(),
        trace.objects,
        trace.threads(),
        trace.unknown,
    )
}

fn columns() -> Vec<Column> {
    let mut columns = vec![
        Column::mib("live at its peak", |run| Some(run.at_peak_live()?.live)),
        Column::mib("heap then", |run| Some(run.at_peak_live()?.memory.heap)),
        Column::mib("heap peak", |run| run.peak_heap()),
        Column::mib("live at the end", |run| run.live_at_stop()),
        super::pages_column(),
    ];
    columns.extend(super::idle_columns(&[0.0, 1.0, 5.0, 10.0]));
    columns.push(Column::ratio("after 10 s / live", |run| heap_by_live(run.at_idle(10.0)?)));
    columns.push(Column::new(
        "faults, thousands",
        |faults| format!("{:.1}", faults / 1e3),
        |run| Some(run.used_by_load()?.faults as f64),
    ));
    columns.push(Column::ratio("CPU s", |run| Some(run.used_by_load()?.cpu_seconds)));
    columns.push(Column::ratio("worst delay, s", |run| Some(run.behind_seconds)));
    columns
}
