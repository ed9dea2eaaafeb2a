//! One look for a reader, in 80 columns: the bridge from live bytes to RSS, classes, limits, pressure, what went back.

use super::json::shown;
use crate::automatic;
use std::time::{Duration, SystemTime};
use vcm_inspect::pressure::Pressure;
use vcm_inspect::window::{Class, Giver, Heaps, Seen, Snapshot};
use vcm_report::unit::amount;
use vcmalloc_core::options::AUTO;

/// Classes that are shown, those with the most memory.
const CLASSES: usize = 8;
/// Options that bound memory, or say when it goes back.
const LIMITS: [&str; 6] = ["cache_limit", "memory_limit", "hard_limit", "retain", "release_delay", "janitor"];

pub fn page(seen: &Seen, snapshot: &Snapshot) -> String {
    let mut text = head(seen, snapshot);
    if !snapshot.is_started {
        return text + "\nthe process has not allocated yet\n";
    }
    bridge(&mut text, snapshot);
    classes(&mut text, snapshot);
    heaps(&mut text, &snapshot.heaps);
    limits(&mut text, snapshot, seen.process.usable_cpus());
    pressure(&mut text, &seen.process.memory_pressure());
    given_back(&mut text, snapshot);
    text += &format!("pinned memory by call site: vcm profile {} --pinned\n", seen.process.id);
    if !snapshot.missing.is_empty() {
        let names = snapshot.missing.join(", ");
        text += &format!("\nnot reported by this library and counted as 0: {names}\n");
    }
    text
}

fn head(seen: &Seen, snapshot: &Snapshot) -> String {
    let age = seen.process.started().and_then(|started| SystemTime::now().duration_since(started).ok());
    let age = age.map_or(String::new(), |age| {
        format!(", up {}", humantime::format_duration(Duration::from_secs(age.as_secs())))
    });
    let name = &seen.name;
    let mut text = format!("{name} {}, vcmalloc {}{age}\n", seen.process.id, snapshot.build);
    if let Some(torn) = &snapshot.torn {
        text += &format!("torn: changed during the reading: {torn}\n");
    }
    if snapshot.pages_apart {
        text += "not of one moment: memory changed during the count of pages\n";
    }
    text
}

/// Each step with its part of what is in memory.
fn bridge(text: &mut String, snapshot: &Snapshot) {
    let stats = &snapshot.stats;
    let whole = snapshot.process.map_or(stats.resident, |all| all.rss).max(1);
    let mut row = |sign: &str, label: &str, bytes: u64| {
        let share = bytes as f64 * 100.0 / whole as f64;
        *text += &format!("  {sign} {label:<48}{:>10}  {share:>6.1} %\n", amount(bytes));
    };
    row(" ", "live, as requested", stats.live_requested);
    row("+", "waste inside blocks", stats.waste());
    if stats.quarantined > 0 {
        row("+", "freed, in quarantine", stats.quarantined);
    }
    row("+", "vCPU caches", stats.vcpu_caches);
    row("+", "transfer arrays", stats.transfer);
    row("+", "free in spans", stats.free_in_spans);
    row("+", "span tails", stats.span_tails);
    row("-", "not resident (untouched, released, swapped)", stats.not_in_memory);
    row("+", "dirty free pages", stats.dirty_free);
    row("+", "metadata", stats.metadata);
    row("=", "resident memory of the heap", stats.resident);
    if let Some(all) = snapshot.process {
        row(
            "+",
            "other private memory (stacks, data, mappings)",
            all.anonymous.saturating_sub(stats.resident),
        );
        row("+", "files and shared memory", all.rss.saturating_sub(all.anonymous.max(stats.resident)));
        row("=", "RSS", all.rss);
        if all.swapped > 0 {
            row(" ", "swapped out, of all", all.swapped);
        }
    }
}

fn classes(text: &mut String, snapshot: &Snapshot) {
    let mut classes: Vec<&Class> = snapshot.classes.iter().collect();
    classes.sort_by_key(|class| std::cmp::Reverse((class.resident, class.span_bytes)));
    *text += &format!(
        "\n{:<14}{:>12}{:>13}{:>13}{:>13}{:>13}\n",
        "classes", "in memory", "live", "cached", "transfer", "free"
    );
    for class in classes.iter().take(CLASSES) {
        let of = |blocks: u64| amount(blocks * class.block_bytes);
        *text += &format!(
            "{:>12}  {:>12}{:>13}{:>13}{:>13}{:>13}\n",
            amount(class.block_bytes),
            amount(class.resident),
            of(class.live_blocks),
            of(class.cached_blocks),
            of(class.transfer_blocks),
            of(class.free_blocks)
        );
    }
    if classes.len() > CLASSES {
        *text += &format!("  and {} more; --json has all\n", classes.len() - CLASSES);
    }
    let stats = &snapshot.stats;
    if stats.large_blocks > 0 {
        *text += &format!("  large blocks: {}, {}\n", stats.large_blocks, amount(stats.large));
    }
}

/// The largest heaps of tenants.
fn heaps(text: &mut String, heaps: &Heaps) {
    if heaps.count == 0 {
        return;
    }
    let title = format!("heaps of tenants: {}", heaps.count);
    *text +=
        &format!("\n{title:<26}{:>11}{:>11}{:>11}{:>11}{:>9}\n", "live", "spans", "most", "limit", "refused");
    for heap in &heaps.largest {
        let figures = &heap.figures;
        let limit = if figures.limit == 0 { "none".to_string() } else { amount(figures.limit) };
        let name = format!("{}{}", heap.name, if heap.drains { " (drains)" } else { "" });
        *text += &format!(
            "  {name:<24}{:>11}{:>11}{:>11}{limit:>11}{:>9}\n",
            amount(figures.live),
            amount(figures.bytes),
            amount(figures.peak),
            figures.refused
        );
        if heap.drains {
            *text += &format!(
                "    {} blocks left, {} freed late; call sites, threads: vcm profile --heap\n",
                figures.live_blocks, heap.late_frees
            );
        }
    }
    let shown = heaps.largest.len() as u64;
    if heaps.count > shown {
        *text += &format!("  and {} more\n", heaps.count - shown);
    }
    if heaps.unread > 0 {
        *text += &format!("  and {} entries of their table that were not read\n", heaps.unread);
    }
}

fn limits(text: &mut String, snapshot: &Snapshot, usable_cpus: Option<u64>) {
    let stats = &snapshot.stats;
    *text += &format!("\n{:<15}{:<12}{:<29}in effect\n", "limits", "value", "set by");
    for name in LIMITS {
        let Some(setting) = snapshot.setting(name) else { continue };
        let none = |bytes: u64| if bytes == 0 { "none".to_string() } else { amount(bytes) };
        let effect = match name {
            "cache_limit" => format!("{}, {} taken", amount(stats.cache_limit), amount(stats.cache_room)),
            "memory_limit" => none(stats.memory_limit),
            "hard_limit" => none(stats.hard_limit),
            _ => String::new(),
        };
        let line = format!("{name:<15}{:<12}{:<29}{effect}", shown(setting), setting.origin.name());
        *text += line.trim_end();
        text.push('\n');
        if let Some(cpus) = usable_cpus.filter(|_| name == "cache_limit" && setting.value == AUTO) {
            let why = automatic::words(Some(stats.cache_limit), cpus, amount);
            *text += &format!("{:<15}{why}\n", "");
        }
    }
}

fn pressure(text: &mut String, pressure: &Pressure) {
    let mut parts = Vec::new();
    match (pressure.used, pressure.limit) {
        (Some(used), Some(limit)) => {
            parts.push(format!("control group {} of {}", amount(used), amount(limit)))
        }
        (Some(used), None) => parts.push(format!("control group {}, no limit", amount(used))),
        (None, Some(limit)) => parts.push(format!("control group at most {}", amount(limit))),
        (None, None) => {}
    }
    if let Some((short, long)) = pressure.stalled {
        parts.push(format!("waits {short:.1} % of 10 s, {long:.1} % of 60 s"));
    }
    if let Some(kills) = pressure.kills.filter(|kills| *kills > 0) {
        parts.push(format!("killed for memory: {kills}"));
    }
    let parts = if parts.is_empty() { "unknown on this system".to_string() } else { parts.join("; ") };
    *text += &format!("\npressure       {parts}\n");
}

fn given_back(text: &mut String, snapshot: &Snapshot) {
    let stats = &snapshot.stats;
    let ticks = stats.ticks;
    *text += &format!(
        "went back      {} in {ticks} tick{}; {} out of spans in use\n",
        amount(stats.given_back),
        if ticks == 1 { "" } else { "s" },
        amount(stats.released)
    );
    *text += &format!(
        "by             {}\n",
        match snapshot.giver {
            Giver::Janitor => "its janitor, whether or not the program allocates".to_owned(),
            Giver::Itself { waits: true } => {
                format!("itself, at requests for memory: {} free waits", amount(stats.dirty_free))
            }
            Giver::Itself { waits: false } => "itself, at slow paths (no janitor); nothing waits".to_owned(),
        }
    );
    if stats.fences_refused > 0 {
        *text +=
            &format!("refused        the kernel refused {} times to empty caches\n", stats.fences_refused);
    }
    *text += &format!(
        "caches         {} of {}; {} misses of malloc, {} of free\nfront          {}\n",
        stats.slabs, snapshot.front, stats.underflows, stats.overflows, snapshot.front_reason
    );
}
