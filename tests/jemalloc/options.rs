//! MALLOC_CONF, `malloc_conf`, and what is told of options that mean nothing here.

use std::time::Duration;

use vcmalloc_core::options::jemalloc::{MEANINGS, Meaning};
use vcmalloc_tests::{Finished, run};

use super::On;

fn with(on: On, source: &str, conf: &str, names: &[&str]) -> Result<Finished, String> {
    let mut command = on.command(source)?;
    command.args(names);
    if !conf.is_empty() {
        command.env("MALLOC_CONF", conf);
    }
    run(&mut command, Duration::from_secs(60))
}

fn expect(on: On, source: &str, conf: &str, names: &[&str], lines: &str) -> Result<(), String> {
    let finished = with(on, source, conf, names)?;
    finished.succeeded()?;
    match finished.text().trim() == lines && finished.complaints.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{conf} on {on:?}: not '{lines}' but '{}' {}",
            finished.text().trim(),
            finished.complaints
        )),
    }
}

/// Options that are obeyed: a setting, a name to ask, its value.
const OBEYED: [(&str, &str, &str); 14] = [
    ("dirty_decay_ms:4321", "z:opt.dirty_decay_ms", "opt.dirty_decay_ms=4321"),
    ("dirty_decay_ms:4321", "z:arenas.dirty_decay_ms", "arenas.dirty_decay_ms=4321"),
    ("dirty_decay_ms:-1", "z:arena.0.dirty_decay_ms", "arena.0.dirty_decay_ms=-1"),
    ("dirty_decay_ms:0x10", "z:arena.0.dirty_decay_ms", "arena.0.dirty_decay_ms=16"),
    ("muzzy_decay_ms:99", "z:opt.muzzy_decay_ms", "opt.muzzy_decay_ms=99"),
    ("background_thread:true", "b:opt.background_thread", "opt.background_thread=1"),
    ("background_thread:false", "b:background_thread", "background_thread=0"),
    ("prof:true", "b:prof.active", "prof.active=1"),
    ("prof:true,prof_active:false", "b:prof.active", "prof.active=0"),
    ("prof:true,lg_prof_sample:17", "z:prof.lg_sample", "prof.lg_sample=17"),
    ("prof:true,lg_prof_interval:30", "z:prof.interval", "prof.interval=1073741824"),
    ("prof_prefix:some/where", "s:opt.prof_prefix", "opt.prof_prefix=some/where"),
    ("zero_realloc:alloc", "s:opt.zero_realloc", "opt.zero_realloc=alloc"),
    ("abort_conf:true", "b:opt.abort_conf", "opt.abort_conf=1"),
];

/// Options of jemalloc 5.3 that mean nothing here, each with a value that jemalloc takes.
const NAMED: [&str; 24] = [
    "narenas:4",
    "tcache:false",
    "tcache_max:4096",
    "lg_tcache_max:16",
    "lg_tcache_nslots_mul:2",
    "tcache_gc_incr_bytes:65536",
    "percpu_arena:percpu",
    "oversize_threshold:1048576",
    "metadata_thp:auto",
    "retain:false",
    "dss:primary",
    "hpa:true",
    "hpa_slab_max_alloc:65536",
    "junk:true",
    "zero:true",
    "abort:true",
    "lg_extent_max_active_fit:4",
    "mutex_max_spin:100",
    "bin_shards:1-128:4",
    "slab_sizes:1-4096:17",
    "prof_accum:true",
    "max_background_threads:8",
    "prof_thread_active_init:false",
    "xmalloc:true",
];

pub fn each() -> Result<(), String> {
    for (conf, name, line) in OBEYED {
        for on in [On::Jemalloc, On::Ours] {
            expect(on, "options.c", conf, &[name], line)?;
        }
    }
    for conf in NAMED {
        let finished = with(On::Ours, "options.c", conf, &[])?;
        finished.succeeded()?;
        let start = format!("vcmalloc: MALLOC_CONF: {conf} has no effect here: ");
        if finished.complaints.lines().count() != 1 || !finished.complaints.starts_with(&start) {
            return Err(format!("not one line '{start}' but {}", finished.complaints));
        }
    }
    // A value that is in force anyway.
    for conf in
        ["narenas:1", "tcache:true", "retain:true", "junk:false", "hpa:false", "percpu_arena:disabled"]
    {
        expect(On::Ours, "options.c", conf, &[], "")?;
    }
    the_value_in_force()
}

/// The table that the library and `vcm doctor` share has the library's values: to set them changes nothing.
fn the_value_in_force() -> Result<(), String> {
    let only = MEANINGS.iter().filter_map(|(name, meaning)| match meaning {
        Meaning::Only(value, _) => Some(format!("{name}:{value}")),
        _ => None,
    });
    let conf = only.collect::<Vec<_>>().join(",");
    let finished = with(On::Ours, "options.c", &conf, &[])?;
    finished.succeeded()?;
    match conf.is_empty() || !finished.complaints.is_empty() {
        true => Err(format!("{conf}: {}", finished.complaints)),
        false => Ok(()),
    }
}

pub fn places() -> Result<(), String> {
    for on in [On::Jemalloc, On::Ours] {
        let names = ["z:arenas.dirty_decay_ms", "z:arenas.muzzy_decay_ms"];
        let both = |dirty: u32| format!("arenas.dirty_decay_ms={dirty}\narenas.muzzy_decay_ms=2222");
        expect(on, "with_conf.c", "", &names, &both(1111))?;
        expect(on, "with_conf.c", "dirty_decay_ms:3333", &names, &both(3333))?;
    }
    // Our own variables are stronger.
    let mut command = On::Ours.command("options.c")?;
    command
        .arg("z:arena.0.dirty_decay_ms")
        .env("MALLOC_CONF", "muzzy_decay_ms:5")
        .env("VCM_RELEASE_DELAY", "7s");
    let finished = run(&mut command, Duration::from_secs(60))?;
    match finished.text().trim() == "arena.0.dirty_decay_ms=7000" {
        true => Ok(()),
        false => Err(finished.text()),
    }
}

pub fn bad() -> Result<(), String> {
    let cases = [
        ("dirty_decay_ms", "MALLOC_CONF: 'dirty_decay_ms' is no NAME:VALUE"),
        ("dirty_decay_ms:soon", "MALLOC_CONF: dirty_decay_ms:soon: the value cannot be read"),
        (
            "dirty_decay_ms:18446744072001",
            "MALLOC_CONF: dirty_decay_ms:18446744072001: the value cannot be read, or is out",
        ),
        ("nonsense:1", "MALLOC_CONF: nonsense:1: jemalloc 5.3 has no option of this name"),
        ("prof:maybe", "MALLOC_CONF: prof:maybe: the value cannot be read"),
        ("lg_prof_sample:x", "MALLOC_CONF: lg_prof_sample:x: the value cannot be read, or is out of range"),
        ("prof:false,,prof:false", "MALLOC_CONF: '' is no NAME:VALUE"),
    ];
    for (conf, line) in cases {
        let finished = with(On::Ours, "options.c", conf, &[])?;
        finished.succeeded()?;
        if !finished.complaints.contains(line) {
            return Err(format!("{conf}: no '{line}' in {}", finished.complaints));
        }
        let ended = with(On::Ours, "options.c", &format!("abort_conf:true,{conf}"), &[])?;
        if ended.succeeded().is_ok() || !ended.complaints.contains("abort_conf:true") {
            return Err(format!("{conf} with abort_conf: {}", ended.complaints));
        }
    }
    Ok(())
}

pub fn absent() -> Result<(), String> {
    let names = ["-:stats.mutexes.ctl.num_ops", "-:stats.mutexes.ctl.num_ops", "-:opt.tcache_nslots_large"];
    let quiet = with(On::Ours, "options.c", "", &names)?;
    let told = with(On::Ours, "options.c", "confirm_conf:true", &names)?;
    let lines = |name: &str| told.complaints.matches(&format!("mallctl(\"{name}\") has no answer: ")).count();
    if !quiet.complaints.is_empty() || quiet.text().matches(":2\n").count() != 3 {
        return Err(format!("{}{}", quiet.text(), quiet.complaints));
    }
    match (lines("stats.mutexes.ctl.num_ops"), lines("opt.tcache_nslots_large")) {
        (1, 1) => Ok(()),
        _ => Err(told.complaints.clone()),
    }
}
