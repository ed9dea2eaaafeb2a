//! malloc_stats_print, as programs read it.

use serde_json::Value;

use super::On;

fn printed(on: On, letters: &str) -> Result<String, String> {
    Ok(on.run("print.c", &[letters], "")?.text())
}

fn parsed(on: On, letters: &str) -> Result<Value, String> {
    let text = printed(on, letters)?;
    serde_json::from_str(&text).map_err(|error| format!("on {on:?}: {error} in\n{text}"))
}

/// The keys that jemalloc's readers and those of programs look up, with the kind of their values.
const NUMBERS: [&str; 29] = [
    "/jemalloc/opt/narenas",
    "/jemalloc/opt/dirty_decay_ms",
    "/jemalloc/opt/muzzy_decay_ms",
    "/jemalloc/arenas/narenas",
    "/jemalloc/arenas/dirty_decay_ms",
    "/jemalloc/arenas/quantum",
    "/jemalloc/arenas/page",
    "/jemalloc/arenas/tcache_max",
    "/jemalloc/arenas/nbins",
    "/jemalloc/arenas/nhbins",
    "/jemalloc/arenas/bin/3/size",
    "/jemalloc/arenas/bin/3/nregs",
    "/jemalloc/arenas/bin/3/slab_size",
    "/jemalloc/arenas/nlextents",
    "/jemalloc/arenas/lextent/3/size",
    "/jemalloc/stats/allocated",
    "/jemalloc/stats/active",
    "/jemalloc/stats/metadata",
    "/jemalloc/stats/resident",
    "/jemalloc/stats/mapped",
    "/jemalloc/stats/retained",
    "/jemalloc/stats/background_thread/num_threads",
    "/jemalloc/stats.arenas/merged/nthreads",
    "/jemalloc/stats.arenas/merged/uptime_ns",
    "/jemalloc/stats.arenas/merged/pactive",
    "/jemalloc/stats.arenas/merged/small/allocated",
    "/jemalloc/stats.arenas/merged/large/allocated",
    "/jemalloc/stats.arenas/merged/bins/3/curregs",
    "/jemalloc/stats.arenas/merged/lextents/3/curlextents",
];

pub fn json() -> Result<(), String> {
    for on in [On::Jemalloc, On::Ours] {
        let value = parsed(on, "J")?;
        for key in NUMBERS {
            if !value.pointer(key).is_some_and(Value::is_number) {
                return Err(format!("on {on:?} {key} is {:?}", value.pointer(key)));
            }
        }
        let text = |key: &str| value.pointer(key).and_then(Value::as_str).unwrap_or("").to_string();
        if !text("/jemalloc/version").starts_with("5.3.0") || text("/jemalloc/opt/dss").is_empty() {
            return Err(format!("on {on:?} version {:?}", value.pointer("/jemalloc/version")));
        }
    }
    let value = parsed(On::Ours, "J")?;
    let number = |key: &str| value.pointer(key).and_then(Value::as_u64).unwrap_or(u64::MAX);
    let merged = |part: &str| number(&format!("/jemalloc/stats.arenas/merged/{part}/allocated"));
    // 5 MiB, 100 blocks of 112 bytes, one of an arena.
    let (small, large) = (merged("small"), merged("large"));
    let of_arena = number("/jemalloc/stats.arenas/1/small/allocated");
    // The stream takes its buffer when the first piece is written, after the sums.
    let more = (small + large).checked_sub(number("/jemalloc/stats/allocated"));
    if more.is_none_or(|more| more > 16384) || large < 5 << 20 || of_arena != 3072 {
        return Err(format!("small {small}, large {large}, of an arena {of_arena}"));
    }
    let bins = value.pointer("/jemalloc/stats.arenas/merged/bins").and_then(Value::as_array).ok_or("bins")?;
    match bins.len() as u64 == number("/jemalloc/arenas/nbins") {
        true => Ok(()),
        false => Err(format!("{} bins", bins.len())),
    }
}

pub fn letters() -> Result<(), String> {
    let lacks = |letters: &str, key: &str| -> Result<(), String> {
        let value = parsed(On::Ours, letters)?;
        match value.pointer(key) {
            None => Ok(()),
            Some(_) => Err(format!("with '{letters}' there is {key}")),
        }
    };
    lacks("Jg", "/jemalloc/opt")?;
    lacks("Jm", "/jemalloc/stats.arenas/merged")?;
    lacks("Ja", "/jemalloc/stats.arenas/0")?;
    lacks("Jb", "/jemalloc/stats.arenas/merged/bins")?;
    lacks("Jl", "/jemalloc/stats.arenas/merged/lextents")?;
    // jemalloc's own letters, all at once.
    parsed(On::Ours, "Jgmdablxeh").map(drop)
}

pub fn text() -> Result<(), String> {
    for on in [On::Jemalloc, On::Ours] {
        let text = printed(on, "")?;
        let lines = ["___ Begin jemalloc statistics ___", "--- End jemalloc statistics ---"];
        if let Some(line) = lines.iter().find(|line| !text.contains(*line)) {
            return Err(format!("on {on:?} no '{line}' in\n{text}"));
        }
        // ClickHouse's and Redis' readers look for it.
        let allocated = text.lines().find(|line| line.trim_start().starts_with("Allocated: "));
        if !allocated.is_some_and(|line| line.contains("active: ") && line.contains("resident: ")) {
            return Err(format!("on {on:?} no line of sums in\n{text}"));
        }
    }
    Ok(())
}
