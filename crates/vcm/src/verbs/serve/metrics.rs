//! `/metrics`: a round as OpenMetrics, or as Prometheus' older text for who does not ask for that.

use super::figures::{FIGURES, Figure, Label, Value};
use super::host::{Reason, Round};
use super::process::{Identity, Look};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::Arc;
use vcm_inspect::daemon::Role;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const OLDER: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Its kind and its bytes.
pub fn of(round: Arc<Round>, with_classes: bool, accept: &str) -> Result<(&'static str, String), fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Shown { round, with_classes }));
    let mut out = String::new();
    if accept.contains("application/openmetrics-text") {
        text::encode(&mut out, &registry)?;
        return Ok((OPEN_METRICS, out));
    }
    prometheus_text::encode(&mut out, &registry)?;
    Ok((OLDER, out))
}

#[derive(Debug)]
struct Shown {
    round: Arc<Round>,
    with_classes: bool,
}

type Labels = Vec<(&'static str, String)>;

fn labels(identity: &Identity) -> Labels {
    let mut labels = vec![
        ("pid", identity.pid.to_string()),
        ("start", identity.started.to_string()),
        ("command", identity.command.clone()),
        ("library", identity.library.to_string()),
    ];
    labels.extend((identity.role != Role::Other).then(|| ("role", identity.role.name().to_string())));
    labels.extend(identity.ceph_daemon.clone().map(|name| ("ceph_daemon", name)));
    labels.extend(identity.brick.clone().map(|brick| ("brick", brick)));
    labels
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        self.of_the_agent(&mut encoder)?;
        let all: Vec<(&Look, Labels)> =
            self.round.looks.iter().map(|look| (look, labels(&look.identity))).collect();
        let mut info = encoder.encode_descriptor(
            "vcmalloc_process_info",
            "Library, version and front of the process; 1.",
            None,
            MetricType::Gauge,
        )?;
        for (look, labels) in &all {
            let build = [("build", look.identity.build.clone()), ("front", look.identity.front.to_string())];
            put(&mut info, &[labels.as_slice(), &build].concat(), false, &Value::Whole(1))?;
        }
        for figure in FIGURES {
            one_figure(&mut encoder, figure, &all)?;
        }
        if self.with_classes { classes(&mut encoder, &all) } else { Ok(()) }
    }
}

fn one_figure(encoder: &mut DescriptorEncoder, figure: &Figure, all: &[(&Look, Labels)]) -> fmt::Result {
    let kind = if figure.is_counter { MetricType::Counter } else { MetricType::Gauge };
    let mut family = encoder.encode_descriptor(figure.name, figure.help, figure.unit.as_ref(), kind)?;
    let mut done = Ok(());
    for (look, labels) in all {
        (figure.of)(look, &mut |label: Label, value| {
            let labels: Labels = labels.iter().cloned().chain(label).collect();
            done = done.and_then(|()| put(&mut family, &labels, figure.is_counter, &value));
        });
    }
    done
}

fn put(family: &mut MetricEncoder, labels: &Labels, is_counter: bool, value: &Value) -> fmt::Result {
    let mut line = family.encode_family(labels)?;
    match (is_counter, value) {
        (true, Value::Whole(value)) => line.encode_counter::<NoLabelSet, _, u64>(value, None),
        (true, Value::Real(value)) => line.encode_counter::<NoLabelSet, _, u64>(value, None),
        (false, Value::Whole(value)) => line.encode_gauge(value),
        (false, Value::Real(value)) => line.encode_gauge(value),
    }
}

fn classes(encoder: &mut DescriptorEncoder, all: &[(&Look, Labels)]) -> fmt::Result {
    let help =
        "By size class: bytes of blocks in use, in vCPU caches, in transfer arrays, and free in spans.";
    let mut family =
        encoder.encode_descriptor("vcmalloc_class", help, Some(&Unit::Bytes), MetricType::Gauge)?;
    for (look, labels) in all {
        for class in &look.classes {
            let states = [
                ("live", class.live_blocks),
                ("vcpu_caches", class.cached_blocks),
                ("transfer", class.transfer_blocks),
                ("free_in_spans", class.free_blocks),
            ];
            for (state, blocks) in states {
                let own = [("block", class.block_bytes.to_string()), ("state", state.to_string())];
                let value = Value::Whole(blocks * class.block_bytes);
                put(&mut family, &[labels.as_slice(), &own].concat(), false, &value)?;
            }
        }
    }
    let help = "By size class: resident bytes of its spans.";
    let mut family =
        encoder.encode_descriptor("vcmalloc_class_resident", help, Some(&Unit::Bytes), MetricType::Gauge)?;
    for (look, labels) in all {
        for class in &look.classes {
            let own = [("block", class.block_bytes.to_string())];
            put(&mut family, &[labels.as_slice(), &own].concat(), false, &Value::Whole(class.resident))?;
        }
    }
    Ok(())
}

impl Shown {
    fn of_the_agent(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let round = &self.round;
        let build = vec![("version", env!("VCMALLOC_VERSION").to_string())];
        let help = "This agent; 1.";
        let mut family = encoder.encode_descriptor("vcmalloc_agent_info", help, None, MetricType::Gauge)?;
        put(&mut family, &build, false, &Value::Whole(1))?;
        let help = "Processes on vcmalloc in this output.";
        let mut family =
            encoder.encode_descriptor("vcmalloc_agent_processes", help, None, MetricType::Gauge)?;
        family.encode_gauge(&(round.looks.len() as u64))?;
        let help = "Processes without figures: forbidden (whether they are on vcmalloc is not known), of another layout of \
                    the statistics, waiting for time to count their pages, failed, or skipped (reading them \
                    ended the agent).";
        let mut family =
            encoder.encode_descriptor("vcmalloc_agent_unread_processes", help, None, MetricType::Gauge)?;
        for (reason, word) in Reason::ALL {
            let count = round.unread.get(&reason).copied().unwrap_or(0);
            put(&mut family, &vec![("reason", word.to_string())], false, &Value::Whole(count))?;
        }
        let help = "Failed readings of processes on vcmalloc.";
        let mut family =
            encoder.encode_descriptor("vcmalloc_agent_failed_looks", help, None, MetricType::Counter)?;
        family.encode_counter::<NoLabelSet, _, u64>(&round.failed, None)?;
        let help = "Restarts of the agent after reading a process had ended it.";
        let mut family =
            encoder.encode_descriptor("vcmalloc_agent_restarts", help, None, MetricType::Counter)?;
        family.encode_counter::<NoLabelSet, _, u64>(&round.restarts, None)?;
        let help = "Time to read all processes.";
        let unit = Some(&Unit::Seconds);
        let mut family =
            encoder.encode_descriptor("vcmalloc_agent_scrape_duration", help, unit, MetricType::Gauge)?;
        family.encode_gauge(&round.took.as_secs_f64())?;
        let help = "CPU time of the agent.";
        let mut family = encoder.encode_descriptor("vcmalloc_agent_cpu", help, unit, MetricType::Counter)?;
        family.encode_counter::<NoLabelSet, _, u64>(&own_time(), None)
    }
}

/// In seconds.
fn own_time() -> f64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID);
    time.map_or(0.0, |time| std::time::Duration::from(time).as_secs_f64())
}
