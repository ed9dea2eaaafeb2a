//! The figures for programs, with the names of the library's own JSON.

use serde_json::{Map, Value, json};
use vcm_inspect::pressure::Pressure;
use vcm_inspect::window::{Giver, Seen, Setting, Snapshot, TenantHeap};
use vcmalloc_core::options::{self, Kind};

/// One object, on one line.
pub fn object(seen: &Seen, snapshot: &Snapshot, pressure: &Pressure) -> String {
    let mut all = Map::new();
    let mut put = |name: &str, value: Value| drop(all.insert(name.to_string(), value));
    put("version", 1.into());
    put("pid", seen.process.id.into());
    put("name", json!(seen.name));
    put("build", json!(snapshot.build));
    put("front", snapshot.front.into());
    put("front_reason", snapshot.front_reason.into());
    put("torn", snapshot.torn.clone().into());
    put("has_janitor", (snapshot.giver == Giver::Janitor).into());
    put("waits_to_go_back", (snapshot.giver == Giver::Itself { waits: true }).into());
    put("pages_age", snapshot.pages_age.as_secs_f64().into());
    put("one_moment", snapshot.is_whole().into());
    put("missing", snapshot.missing.clone().into());
    snapshot.stats.each(|name, bytes| put(name, bytes.into()));
    put("waste", snapshot.stats.waste().into());
    put("swapped", snapshot.swapped.into());
    put("rss", snapshot.process.map(|all| all.rss).into());
    put("anonymous", snapshot.process.map(|all| all.anonymous).into());
    put(
        "pressure",
        json!({
            "used": pressure.used,
            "limit": pressure.limit,
            "stalled_10s": pressure.stalled.map(|(short, _)| short),
            "stalled_60s": pressure.stalled.map(|(_, long)| long),
            "kills": pressure.kills,
        }),
    );
    put("options", snapshot.settings.iter().map(|setting| {
        json!({ "name": setting.name, "value": shown(setting), "origin": setting.origin.name() })
    }).collect());
    put("heaps", snapshot.heaps.count.into());
    put("largest_heaps", snapshot.heaps.largest.iter().map(heap).collect());
    put(
        "classes",
        snapshot
            .classes
            .iter()
            .map(|class| {
                json!({
                    "block_bytes": class.block_bytes,
                    "spans": class.spans,
                    "live_blocks": class.live_blocks,
                    "cached_blocks": class.cached_blocks,
                    "transfer_blocks": class.transfer_blocks,
                    "free_blocks": class.free_blocks,
                    "quarantined_blocks": class.quarantined_blocks,
                    "resident": class.resident,
                })
            })
            .collect(),
    );
    Value::Object(all).to_string() + "\n"
}

fn heap(heap: &TenantHeap) -> Value {
    let figures = &heap.figures;
    json!({
        "name": heap.name,
        "id": heap.id,
        "live": figures.live,
        "live_blocks": figures.live_blocks,
        "bytes": figures.bytes,
        "peak": figures.peak,
        "limit": figures.limit,
        "refused": figures.refused,
        "draining": u64::from(heap.drains),
        "late_frees": heap.late_frees,
    })
}

/// A value as a user would write it; the number alone of an option that this tool does not know.
pub fn shown(setting: &Setting) -> String {
    if let Some(path) = &setting.path {
        return path.printed();
    }
    let known = options::find(setting.name.as_bytes());
    known.map_or(setting.value.to_string(), |id| crate::settings::value(kind(id), setting.value))
}

fn kind(id: options::OptionId) -> Kind {
    options::spec(id).kind
}
