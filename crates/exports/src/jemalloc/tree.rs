//! Every name of jemalloc 5.3.0: what is read and written there, or why nothing is.
//!
//! The tree is one table. In a name `#` stands for a number. A place in it (MIB) has for each part of a name the row of the first name
//! that begins alike, and for `#` the number: so the last part leads to its row, and the others are compared.

use super::arenas::{self, ALL, DESTROYED};
use super::figures::{self, Figure, PAGE};
use super::io::{Io, Numbers, Outcome, Value};
use super::sizes::{self, BINS, LENGTHS};
use super::{decay, prof, rows, threads};
use crate::counted::{self, thread};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use libc::{EAGAIN, ENOENT};
use vcmalloc_core::class::{LARGEST_BYTES, MIN_ALIGN, SizeClass};

pub enum Act {
    /// It is read only.
    Get(fn(&Numbers) -> Result<Value, c_int>),
    /// Neither read nor written: it is done.
    Call(fn(&Numbers) -> Outcome),
    /// It has rules of its own for what is passed.
    Own(fn(&Numbers, &Io) -> Outcome),
    /// An option of jemalloc's.
    Opt(&'static str),
    /// It cannot be answered truly, and why.
    Absent(&'static str),
}
use Act::{Absent, Call, Get, Opt, Own};

pub struct Row {
    pub name: &'static str,
    pub act: Act,
}

const COUNTS: &str = "it is not counted here; 'vcm stat' has what is";
const LOCKS: &str = "locks are not counted here";
const CLASSES: &str = "the profile has stacks, not classes";
const RECORDS: &str = "'vcm record' writes every allocation of a running process";
const ONE_MAP: &str = "memory of all arenas comes from one map of huge pages";
const TABLES: &str = "tables have no lists of free entries";
const HOOKS: &str = "no functions of the program are called from inside";
const SPANS: &str = "programs that move blocks by it count on jemalloc's own spans";

const fn row(name: &'static str, act: Act) -> Row {
    Row { name, act }
}

/// Names that begin alike stand together.
const TABLE: [Row; 395] = [
    row("version", Get(|_| Ok(Value::Text(rows::VERSION)))),
    row("epoch", Own(|_, io| rows::epoch(io))),
    row("background_thread", Own(|_, io| rows::background_thread(io))),
    row("max_background_threads", Own(|_, io| rows::max_background_threads(io))),
    row("thread.arena", Own(|_, io| rows::thread_arena(io))),
    row("thread.allocated", Get(|_| Ok(Value::Word(thread().taken.load(Ordering::Relaxed))))),
    row("thread.allocatedp", Get(|_| Ok(place(&thread().taken)))),
    row("thread.deallocated", Get(|_| Ok(Value::Word(thread().freed.load(Ordering::Relaxed))))),
    row("thread.deallocatedp", Get(|_| Ok(place(&thread().freed)))),
    row("thread.tcache.enabled", Own(|_, io| rows::cache_enabled(io))),
    row("thread.tcache.flush", Own(|_, io| rows::cache_flush(io))),
    row("thread.peak.read", Get(|_| Ok(Value::Word(thread().peak())))),
    row(
        "thread.peak.reset",
        Call(|_| {
            thread().forget_peak();
            Ok(())
        }),
    ),
    row("thread.prof.name", Own(|_, io| rows::thread_name(io))),
    row("thread.prof.active", Own(|_, io| rows::thread_sampled(io))),
    row("thread.idle", Own(|_, io| rows::thread_idle(io))),
    row("config.cache_oblivious", Get(|_| Ok(Value::Bool(false)))),
    row("config.debug", Get(|_| Ok(Value::Bool(false)))),
    row("config.fill", Get(|_| Ok(Value::Bool(false)))),
    row("config.lazy_lock", Get(|_| Ok(Value::Bool(false)))),
    row("config.malloc_conf", Get(|_| Ok(Value::Text(c"")))),
    row("config.opt_safety_checks", Get(|_| Ok(Value::Bool(true)))),
    row("config.prof", Get(|_| Ok(Value::Bool(true)))),
    row("config.prof_libgcc", Get(|_| Ok(Value::Bool(false)))),
    row("config.prof_libunwind", Get(|_| Ok(Value::Bool(false)))),
    row("config.stats", Get(|_| Ok(Value::Bool(true)))),
    row("config.utrace", Get(|_| Ok(Value::Bool(false)))),
    row("config.xmalloc", Get(|_| Ok(Value::Bool(false)))),
    row("opt.abort", Opt("abort")),
    row("opt.abort_conf", Opt("abort_conf")),
    row("opt.cache_oblivious", Opt("cache_oblivious")),
    row("opt.trust_madvise", Opt("trust_madvise")),
    row("opt.confirm_conf", Opt("confirm_conf")),
    row("opt.hpa", Opt("hpa")),
    row("opt.hpa_slab_max_alloc", Opt("hpa_slab_max_alloc")),
    row("opt.hpa_hugification_threshold", Opt("hpa_hugification_threshold")),
    row("opt.hpa_hugify_delay_ms", Opt("hpa_hugify_delay_ms")),
    row("opt.hpa_min_purge_interval_ms", Opt("hpa_min_purge_interval_ms")),
    row("opt.hpa_dirty_mult", Opt("hpa_dirty_mult")),
    row("opt.hpa_sec_nshards", Opt("hpa_sec_nshards")),
    row("opt.hpa_sec_max_alloc", Opt("hpa_sec_max_alloc")),
    row("opt.hpa_sec_max_bytes", Opt("hpa_sec_max_bytes")),
    row("opt.hpa_sec_bytes_after_flush", Opt("hpa_sec_bytes_after_flush")),
    row("opt.hpa_sec_batch_fill_extra", Opt("hpa_sec_batch_fill_extra")),
    row("opt.metadata_thp", Opt("metadata_thp")),
    row("opt.retain", Opt("retain")),
    row("opt.dss", Opt("dss")),
    row("opt.narenas", Opt("narenas")),
    row("opt.percpu_arena", Opt("percpu_arena")),
    row("opt.oversize_threshold", Opt("oversize_threshold")),
    row("opt.mutex_max_spin", Opt("mutex_max_spin")),
    row("opt.background_thread", Opt("background_thread")),
    row("opt.max_background_threads", Opt("max_background_threads")),
    row("opt.dirty_decay_ms", Opt("dirty_decay_ms")),
    row("opt.muzzy_decay_ms", Opt("muzzy_decay_ms")),
    row("opt.stats_print", Opt("stats_print")),
    row("opt.stats_print_opts", Opt("stats_print_opts")),
    row("opt.stats_interval", Opt("stats_interval")),
    row("opt.stats_interval_opts", Opt("stats_interval_opts")),
    row("opt.junk", Opt("junk")),
    row("opt.zero", Opt("zero")),
    row("opt.utrace", Opt("utrace")),
    row("opt.xmalloc", Opt("xmalloc")),
    row("opt.experimental_infallible_new", Opt("experimental_infallible_new")),
    row("opt.tcache", Opt("tcache")),
    row("opt.tcache_max", Opt("tcache_max")),
    row("opt.tcache_nslots_small_min", Opt("tcache_nslots_small_min")),
    row("opt.tcache_nslots_small_max", Opt("tcache_nslots_small_max")),
    row("opt.tcache_nslots_large", Opt("tcache_nslots_large")),
    row("opt.lg_tcache_nslots_mul", Opt("lg_tcache_nslots_mul")),
    row("opt.tcache_gc_incr_bytes", Opt("tcache_gc_incr_bytes")),
    row("opt.tcache_gc_delay_bytes", Opt("tcache_gc_delay_bytes")),
    row("opt.lg_tcache_flush_small_div", Opt("lg_tcache_flush_small_div")),
    row("opt.lg_tcache_flush_large_div", Opt("lg_tcache_flush_large_div")),
    row("opt.thp", Opt("thp")),
    row("opt.lg_extent_max_active_fit", Opt("lg_extent_max_active_fit")),
    row("opt.prof", Opt("prof")),
    row("opt.prof_prefix", Opt("prof_prefix")),
    row("opt.prof_active", Opt("prof_active")),
    row("opt.prof_thread_active_init", Opt("prof_thread_active_init")),
    row("opt.lg_prof_sample", Opt("lg_prof_sample")),
    row("opt.lg_prof_interval", Opt("lg_prof_interval")),
    row("opt.prof_gdump", Opt("prof_gdump")),
    row("opt.prof_final", Opt("prof_final")),
    row("opt.prof_leak", Opt("prof_leak")),
    row("opt.prof_leak_error", Opt("prof_leak_error")),
    row("opt.prof_accum", Opt("prof_accum")),
    row("opt.prof_recent_alloc_max", Opt("prof_recent_alloc_max")),
    row("opt.prof_stats", Opt("prof_stats")),
    row("opt.prof_sys_thread_name", Opt("prof_sys_thread_name")),
    row("opt.prof_time_resolution", Opt("prof_time_resolution")),
    row("opt.lg_san_uaf_align", Opt("lg_san_uaf_align")),
    row("opt.zero_realloc", Opt("zero_realloc")),
    row("tcache.create", Own(|_, io| rows::cache_create(io))),
    row("tcache.flush", Own(|_, io| rows::explicit_cache_flush(io))),
    row("tcache.destroy", Own(|_, io| rows::explicit_cache_destroy(io))),
    row("arena.#.initialized", Get(rows::initialized)),
    row("arena.#.decay", Call(rows::decay)),
    row("arena.#.purge", Call(rows::purge)),
    row("arena.#.reset", Call(|at| arenas::reset(at.first))),
    row("arena.#.destroy", Call(|at| arenas::destroy(at.first))),
    row("arena.#.dss", Own(rows::dss)),
    row("arena.#.oversize_threshold", Absent(ONE_MAP)),
    row("arena.#.dirty_decay_ms", Own(|at, io| rows::decay_time(at, io, true))),
    row("arena.#.muzzy_decay_ms", Own(|at, io| rows::decay_time(at, io, false))),
    row("arena.#.extent_hooks", Own(rows::extent_hooks)),
    row("arena.#.retain_grow_limit", Absent(ONE_MAP)),
    row("arenas.narenas", Get(|_| Ok(Value::U32(arenas::count() as u32)))),
    row("arenas.dirty_decay_ms", Own(|_, io| rows::new_decay_time(io, true))),
    row("arenas.muzzy_decay_ms", Own(|_, io| rows::new_decay_time(io, false))),
    row("arenas.quantum", Get(|_| Ok(size(MIN_ALIGN)))),
    row("arenas.page", Get(|_| Ok(Value::Word(PAGE)))),
    row("arenas.tcache_max", Get(|_| Ok(size(LARGEST_BYTES)))),
    row("arenas.nbins", Get(|_| Ok(Value::U32(BINS as u32)))),
    row("arenas.nhbins", Get(|_| Ok(Value::U32(BINS as u32)))),
    row("arenas.bin.#.size", Get(|at| Ok(size(bin(at.first)?.block_bytes())))),
    row("arenas.bin.#.nregs", Get(|at| Ok(Value::U32(bin(at.first)?.shape().blocks)))),
    row("arenas.bin.#.slab_size", Get(|at| Ok(size(bin(at.first)?.shape().span_bytes())))),
    row("arenas.bin.#.nshards", Get(|_| Ok(Value::U32(1)))),
    row("arenas.nlextents", Get(|_| Ok(Value::U32(LENGTHS as u32)))),
    row("arenas.lextent.#.size", Get(|at| Ok(size(sizes::large(at.first).ok_or(ENOENT)?)))),
    row("arenas.create", Own(|_, io| rows::create(io))),
    row("arenas.lookup", Own(|_, io| rows::lookup(io))),
    row("prof.thread_active_init", Own(|_, io| rows::thread_active_init(io))),
    row("prof.active", Own(|_, io| rows::prof_active(io))),
    row("prof.dump", Own(|_, io| rows::prof_dump(io))),
    row("prof.gdump", Own(|_, io| rows::prof_gdump(io))),
    row("prof.prefix", Own(|_, io| rows::prof_prefix(io))),
    row("prof.reset", Own(|_, io| rows::prof_reset(io))),
    row("prof.interval", Get(|_| Ok(Value::Word(prof::interval())))),
    row("prof.lg_sample", Get(|_| Ok(Value::Word(prof::lg_sample())))),
    row("prof.log_start", Absent(RECORDS)),
    row("prof.log_stop", Absent(RECORDS)),
    row("prof.stats.bins.#.live", Absent(CLASSES)),
    row("prof.stats.bins.#.accum", Absent(CLASSES)),
    row("prof.stats.lextents.#.live", Absent(CLASSES)),
    row("prof.stats.lextents.#.accum", Absent(CLASSES)),
    row("stats.allocated", Get(|_| figure(Figure::Allocated))),
    row("stats.active", Get(|_| figure(Figure::Active))),
    row("stats.metadata", Get(|_| figure(Figure::Metadata))),
    row("stats.metadata_thp", Get(|_| Ok(Value::Word(0)))),
    row("stats.resident", Get(|_| figure(Figure::Resident))),
    row("stats.mapped", Get(|_| figure(Figure::Mapped))),
    row("stats.retained", Get(|_| figure(Figure::Retained))),
    row("stats.background_thread.num_threads", Get(|_| Ok(Value::Word(figures::janitors().into())))),
    row("stats.background_thread.num_runs", Get(|_| Ok(Value::Word(figures::runs().0)))),
    row("stats.background_thread.run_interval", Get(|_| Ok(Value::Word(figures::runs().1)))),
    row("stats.mutexes.background_thread.num_ops", Absent(LOCKS)),
    row("stats.mutexes.background_thread.num_wait", Absent(LOCKS)),
    row("stats.mutexes.background_thread.num_spin_acq", Absent(LOCKS)),
    row("stats.mutexes.background_thread.num_owner_switch", Absent(LOCKS)),
    row("stats.mutexes.background_thread.total_wait_time", Absent(LOCKS)),
    row("stats.mutexes.background_thread.max_wait_time", Absent(LOCKS)),
    row("stats.mutexes.background_thread.max_num_thds", Absent(LOCKS)),
    row("stats.mutexes.max_per_bg_thd.num_ops", Absent(LOCKS)),
    row("stats.mutexes.max_per_bg_thd.num_wait", Absent(LOCKS)),
    row("stats.mutexes.max_per_bg_thd.num_spin_acq", Absent(LOCKS)),
    row("stats.mutexes.max_per_bg_thd.num_owner_switch", Absent(LOCKS)),
    row("stats.mutexes.max_per_bg_thd.total_wait_time", Absent(LOCKS)),
    row("stats.mutexes.max_per_bg_thd.max_wait_time", Absent(LOCKS)),
    row("stats.mutexes.max_per_bg_thd.max_num_thds", Absent(LOCKS)),
    row("stats.mutexes.ctl.num_ops", Absent(LOCKS)),
    row("stats.mutexes.ctl.num_wait", Absent(LOCKS)),
    row("stats.mutexes.ctl.num_spin_acq", Absent(LOCKS)),
    row("stats.mutexes.ctl.num_owner_switch", Absent(LOCKS)),
    row("stats.mutexes.ctl.total_wait_time", Absent(LOCKS)),
    row("stats.mutexes.ctl.max_wait_time", Absent(LOCKS)),
    row("stats.mutexes.ctl.max_num_thds", Absent(LOCKS)),
    row("stats.mutexes.prof.num_ops", Absent(LOCKS)),
    row("stats.mutexes.prof.num_wait", Absent(LOCKS)),
    row("stats.mutexes.prof.num_spin_acq", Absent(LOCKS)),
    row("stats.mutexes.prof.num_owner_switch", Absent(LOCKS)),
    row("stats.mutexes.prof.total_wait_time", Absent(LOCKS)),
    row("stats.mutexes.prof.max_wait_time", Absent(LOCKS)),
    row("stats.mutexes.prof.max_num_thds", Absent(LOCKS)),
    row("stats.mutexes.prof_thds_data.num_ops", Absent(LOCKS)),
    row("stats.mutexes.prof_thds_data.num_wait", Absent(LOCKS)),
    row("stats.mutexes.prof_thds_data.num_spin_acq", Absent(LOCKS)),
    row("stats.mutexes.prof_thds_data.num_owner_switch", Absent(LOCKS)),
    row("stats.mutexes.prof_thds_data.total_wait_time", Absent(LOCKS)),
    row("stats.mutexes.prof_thds_data.max_wait_time", Absent(LOCKS)),
    row("stats.mutexes.prof_thds_data.max_num_thds", Absent(LOCKS)),
    row("stats.mutexes.prof_dump.num_ops", Absent(LOCKS)),
    row("stats.mutexes.prof_dump.num_wait", Absent(LOCKS)),
    row("stats.mutexes.prof_dump.num_spin_acq", Absent(LOCKS)),
    row("stats.mutexes.prof_dump.num_owner_switch", Absent(LOCKS)),
    row("stats.mutexes.prof_dump.total_wait_time", Absent(LOCKS)),
    row("stats.mutexes.prof_dump.max_wait_time", Absent(LOCKS)),
    row("stats.mutexes.prof_dump.max_num_thds", Absent(LOCKS)),
    row("stats.mutexes.prof_recent_alloc.num_ops", Absent(LOCKS)),
    row("stats.mutexes.prof_recent_alloc.num_wait", Absent(LOCKS)),
    row("stats.mutexes.prof_recent_alloc.num_spin_acq", Absent(LOCKS)),
    row("stats.mutexes.prof_recent_alloc.num_owner_switch", Absent(LOCKS)),
    row("stats.mutexes.prof_recent_alloc.total_wait_time", Absent(LOCKS)),
    row("stats.mutexes.prof_recent_alloc.max_wait_time", Absent(LOCKS)),
    row("stats.mutexes.prof_recent_alloc.max_num_thds", Absent(LOCKS)),
    row("stats.mutexes.prof_recent_dump.num_ops", Absent(LOCKS)),
    row("stats.mutexes.prof_recent_dump.num_wait", Absent(LOCKS)),
    row("stats.mutexes.prof_recent_dump.num_spin_acq", Absent(LOCKS)),
    row("stats.mutexes.prof_recent_dump.num_owner_switch", Absent(LOCKS)),
    row("stats.mutexes.prof_recent_dump.total_wait_time", Absent(LOCKS)),
    row("stats.mutexes.prof_recent_dump.max_wait_time", Absent(LOCKS)),
    row("stats.mutexes.prof_recent_dump.max_num_thds", Absent(LOCKS)),
    row("stats.mutexes.prof_stats.num_ops", Absent(LOCKS)),
    row("stats.mutexes.prof_stats.num_wait", Absent(LOCKS)),
    row("stats.mutexes.prof_stats.num_spin_acq", Absent(LOCKS)),
    row("stats.mutexes.prof_stats.num_owner_switch", Absent(LOCKS)),
    row("stats.mutexes.prof_stats.total_wait_time", Absent(LOCKS)),
    row("stats.mutexes.prof_stats.max_wait_time", Absent(LOCKS)),
    row("stats.mutexes.prof_stats.max_num_thds", Absent(LOCKS)),
    row("stats.mutexes.reset", Absent(LOCKS)),
    row("stats.arenas.#.nthreads", Get(thread_count)),
    row("stats.arenas.#.uptime", Get(|at| of_arena(at, |of| of.uptime))),
    row("stats.arenas.#.dss", Get(|_| Ok(Value::Text(c"disabled")))),
    row("stats.arenas.#.dirty_decay_ms", Get(|at| Ok(time(at, true)))),
    row("stats.arenas.#.muzzy_decay_ms", Get(|at| Ok(time(at, false)))),
    row("stats.arenas.#.pactive", Get(|at| of_arena(at, |of| of.active / PAGE))),
    row("stats.arenas.#.pdirty", Get(|at| of_arena(at, |of| of.dirty / PAGE))),
    row("stats.arenas.#.pmuzzy", Get(|_| Ok(Value::Word(0)))),
    row("stats.arenas.#.mapped", Get(|at| of_arena(at, |of| of.mapped))),
    row("stats.arenas.#.retained", Get(|at| of_arena(at, |of| of.retained))),
    row("stats.arenas.#.extent_avail", Absent(TABLES)),
    row("stats.arenas.#.dirty_npurge", Absent(COUNTS)),
    row("stats.arenas.#.dirty_nmadvise", Absent(COUNTS)),
    row("stats.arenas.#.dirty_purged", Get(purged)),
    row("stats.arenas.#.muzzy_npurge", Get(|_| Ok(Value::Word(0)))),
    row("stats.arenas.#.muzzy_nmadvise", Get(|_| Ok(Value::Word(0)))),
    row("stats.arenas.#.muzzy_purged", Get(|_| Ok(Value::Word(0)))),
    row("stats.arenas.#.base", Get(|at| of_arena(at, |of| of.base))),
    row("stats.arenas.#.internal", Get(|_| Ok(Value::Word(0)))),
    row("stats.arenas.#.metadata_thp", Get(|_| Ok(Value::Word(0)))),
    row("stats.arenas.#.tcache_bytes", Get(cached)),
    row("stats.arenas.#.tcache_stashed_bytes", Get(|_| Ok(Value::Word(0)))),
    row("stats.arenas.#.resident", Get(|at| of_arena(at, |of| of.resident))),
    row("stats.arenas.#.abandoned_vm", Get(|_| Ok(Value::Word(0)))),
    row("stats.arenas.#.hpa_sec_bytes", Absent(ONE_MAP)),
    row("stats.arenas.#.small.allocated", Get(|at| of_arena(at, |of| of.small))),
    row("stats.arenas.#.small.nmalloc", Absent(COUNTS)),
    row("stats.arenas.#.small.ndalloc", Absent(COUNTS)),
    row("stats.arenas.#.small.nrequests", Absent(COUNTS)),
    row("stats.arenas.#.small.nfills", Absent(COUNTS)),
    row("stats.arenas.#.small.nflushes", Absent(COUNTS)),
    row("stats.arenas.#.large.allocated", Get(|at| of_arena(at, |of| of.large))),
    row("stats.arenas.#.large.nmalloc", Absent(COUNTS)),
    row("stats.arenas.#.large.ndalloc", Absent(COUNTS)),
    row("stats.arenas.#.large.nrequests", Absent(COUNTS)),
    row("stats.arenas.#.large.nfills", Absent(COUNTS)),
    row("stats.arenas.#.large.nflushes", Absent(COUNTS)),
    row("stats.arenas.#.bins.#.nmalloc", Absent(COUNTS)),
    row("stats.arenas.#.bins.#.ndalloc", Absent(COUNTS)),
    row("stats.arenas.#.bins.#.nrequests", Absent(COUNTS)),
    row("stats.arenas.#.bins.#.curregs", Get(|at| known(figures::blocks_of_bin(at.first, at.second)))),
    row("stats.arenas.#.bins.#.nfills", Absent(COUNTS)),
    row("stats.arenas.#.bins.#.nflushes", Absent(COUNTS)),
    row("stats.arenas.#.bins.#.nslabs", Absent(COUNTS)),
    row("stats.arenas.#.bins.#.nreslabs", Absent(COUNTS)),
    row("stats.arenas.#.bins.#.curslabs", Get(|at| known(figures::spans_of_bin(at.first, at.second)))),
    row("stats.arenas.#.bins.#.nonfull_slabs", Absent(COUNTS)),
    row("stats.arenas.#.bins.#.mutex.num_ops", Absent(LOCKS)),
    row("stats.arenas.#.bins.#.mutex.num_wait", Absent(LOCKS)),
    row("stats.arenas.#.bins.#.mutex.num_spin_acq", Absent(LOCKS)),
    row("stats.arenas.#.bins.#.mutex.num_owner_switch", Absent(LOCKS)),
    row("stats.arenas.#.bins.#.mutex.total_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.bins.#.mutex.max_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.bins.#.mutex.max_num_thds", Absent(LOCKS)),
    row("stats.arenas.#.lextents.#.nmalloc", Absent(COUNTS)),
    row("stats.arenas.#.lextents.#.ndalloc", Absent(COUNTS)),
    row("stats.arenas.#.lextents.#.nrequests", Absent(COUNTS)),
    row(
        "stats.arenas.#.lextents.#.curlextents",
        Get(|at| known(figures::blocks_of_length(at.first, at.second))),
    ),
    row("stats.arenas.#.extents.#.ndirty", Absent(ONE_MAP)),
    row("stats.arenas.#.extents.#.nmuzzy", Absent(ONE_MAP)),
    row("stats.arenas.#.extents.#.nretained", Absent(ONE_MAP)),
    row("stats.arenas.#.extents.#.dirty_bytes", Absent(ONE_MAP)),
    row("stats.arenas.#.extents.#.muzzy_bytes", Absent(ONE_MAP)),
    row("stats.arenas.#.extents.#.retained_bytes", Absent(ONE_MAP)),
    row("stats.arenas.#.mutexes.large.num_ops", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.large.num_wait", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.large.num_spin_acq", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.large.num_owner_switch", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.large.total_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.large.max_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.large.max_num_thds", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extent_avail.num_ops", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extent_avail.num_wait", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extent_avail.num_spin_acq", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extent_avail.num_owner_switch", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extent_avail.total_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extent_avail.max_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extent_avail.max_num_thds", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_dirty.num_ops", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_dirty.num_wait", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_dirty.num_spin_acq", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_dirty.num_owner_switch", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_dirty.total_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_dirty.max_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_dirty.max_num_thds", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_muzzy.num_ops", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_muzzy.num_wait", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_muzzy.num_spin_acq", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_muzzy.num_owner_switch", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_muzzy.total_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_muzzy.max_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_muzzy.max_num_thds", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_retained.num_ops", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_retained.num_wait", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_retained.num_spin_acq", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_retained.num_owner_switch", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_retained.total_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_retained.max_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.extents_retained.max_num_thds", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.decay_dirty.num_ops", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.decay_dirty.num_wait", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.decay_dirty.num_spin_acq", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.decay_dirty.num_owner_switch", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.decay_dirty.total_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.decay_dirty.max_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.decay_dirty.max_num_thds", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.decay_muzzy.num_ops", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.decay_muzzy.num_wait", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.decay_muzzy.num_spin_acq", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.decay_muzzy.num_owner_switch", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.decay_muzzy.total_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.decay_muzzy.max_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.decay_muzzy.max_num_thds", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.base.num_ops", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.base.num_wait", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.base.num_spin_acq", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.base.num_owner_switch", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.base.total_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.base.max_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.base.max_num_thds", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.tcache_list.num_ops", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.tcache_list.num_wait", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.tcache_list.num_spin_acq", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.tcache_list.num_owner_switch", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.tcache_list.total_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.tcache_list.max_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.tcache_list.max_num_thds", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_shard.num_ops", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_shard.num_wait", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_shard.num_spin_acq", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_shard.num_owner_switch", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_shard.total_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_shard.max_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_shard.max_num_thds", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_shard_grow.num_ops", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_shard_grow.num_wait", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_shard_grow.num_spin_acq", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_shard_grow.num_owner_switch", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_shard_grow.total_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_shard_grow.max_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_shard_grow.max_num_thds", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_sec.num_ops", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_sec.num_wait", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_sec.num_spin_acq", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_sec.num_owner_switch", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_sec.total_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_sec.max_wait_time", Absent(LOCKS)),
    row("stats.arenas.#.mutexes.hpa_sec.max_num_thds", Absent(LOCKS)),
    row("stats.arenas.#.hpa_shard.full_slabs.npageslabs_nonhuge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.full_slabs.npageslabs_huge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.full_slabs.nactive_nonhuge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.full_slabs.nactive_huge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.full_slabs.ndirty_nonhuge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.full_slabs.ndirty_huge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.empty_slabs.npageslabs_nonhuge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.empty_slabs.npageslabs_huge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.empty_slabs.nactive_nonhuge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.empty_slabs.nactive_huge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.empty_slabs.ndirty_nonhuge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.empty_slabs.ndirty_huge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.nonfull_slabs.#.npageslabs_nonhuge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.nonfull_slabs.#.npageslabs_huge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.nonfull_slabs.#.nactive_nonhuge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.nonfull_slabs.#.nactive_huge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.nonfull_slabs.#.ndirty_nonhuge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.nonfull_slabs.#.ndirty_huge", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.npurge_passes", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.npurges", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.nhugifies", Absent(ONE_MAP)),
    row("stats.arenas.#.hpa_shard.ndehugifies", Absent(ONE_MAP)),
    row("stats.zero_reallocs", Get(|_| Ok(Value::Word(counted::ZERO_REALLOCS.load(Ordering::Relaxed))))),
    row("experimental.hooks.install", Absent(HOOKS)),
    row("experimental.hooks.remove", Absent(HOOKS)),
    row("experimental.hooks.prof_backtrace", Absent(HOOKS)),
    row("experimental.hooks.prof_dump", Absent(HOOKS)),
    row("experimental.hooks.safety_check_abort", Own(|_, io| rows::abort_hook(io))),
    row("experimental.utilization.query", Absent(SPANS)),
    row("experimental.utilization.batch_query", Absent(SPANS)),
    row("experimental.arenas.#.pactivep", Absent(COUNTS)),
    row("experimental.arenas_create_ext", Absent(ONE_MAP)),
    row("experimental.prof_recent.alloc_max", Absent(RECORDS)),
    row("experimental.prof_recent.alloc_dump", Absent(RECORDS)),
    row("experimental.batch_alloc", Absent(HOOKS)),
    row("experimental.thread.activity_callback", Absent(HOOKS)),
];

pub static ROWS: [Row; TABLE.len()] = TABLE;

fn size(bytes: usize) -> Value {
    Value::Word(bytes as u64)
}

fn place(count: &'static AtomicU64) -> Value {
    Value::Word(count.as_ptr().expose_provenance() as u64)
}

fn bin(number: usize) -> Result<SizeClass, c_int> {
    sizes::bin(number).ok_or(ENOENT)
}

/// A figure that may not be had where a handler interrupted the heap.
fn known(figure: Option<u64>) -> Result<Value, c_int> {
    figure.map(Value::Word).ok_or(EAGAIN)
}

fn figure(figure: Figure) -> Result<Value, c_int> {
    known(figures::get(figure))
}

fn of_arena(at: &Numbers, figure: fn(&figures::Arena) -> u64) -> Result<Value, c_int> {
    known(figures::arena(at.first).map(|arena| figure(&arena)))
}

/// Of tenants' heaps caches and spans are not told apart.
fn cached(at: &Numbers) -> Result<Value, c_int> {
    figures::arena(at.first).ok_or(EAGAIN)?.cached.map(Value::Word).ok_or(ENOENT)
}

fn time(at: &Numbers, is_dirty: bool) -> Value {
    let time = if at.first == ALL { decay::of_new(is_dirty) } else { decay::of(at.first, is_dirty) };
    Value::Word(time as u64)
}

fn thread_count(at: &Numbers) -> Result<Value, c_int> {
    let of_own = || threads::of_own_heap().ok_or(ENOENT);
    Ok(Value::U32(match at.first {
        0 => of_own()?,
        ALL => of_own()? + (1..arenas::count()).map(arenas::threads).sum::<u32>(),
        number => arenas::threads(number),
    }))
}

/// Pages go to the system from all heaps together.
fn purged(at: &Numbers) -> Result<Value, c_int> {
    if at.first == ALL { Ok(Value::Word(figures::purged())) } else { Err(ENOENT) }
}

/// As many parts as a name has at most.
pub const DEPTH: usize = 7;

/// Whether two names have their parts in common up to one of them.
const fn is_alike(one: &str, other: &str, parts: usize) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let (mut at, mut left) = (0, parts);
    loop {
        let ends = (at == one.len() || one[at] == b'.', at == other.len() || other[at] == b'.');
        if ends.0 && ends.1 {
            left -= 1;
            if left == 0 {
                return true;
            }
            if at == one.len() || at == other.len() {
                return false;
            }
        } else if ends.0 || ends.1 || one[at] != other[at] {
            return false;
        }
        at += 1;
    }
}

/// For each row and part the first row that begins alike.
static FIRST: [[u16; DEPTH]; TABLE.len()] = {
    let rows = &TABLE;
    let mut first = [[0u16; DEPTH]; TABLE.len()];
    let mut row = 0;
    while row < first.len() {
        let mut part = 0;
        while part < DEPTH {
            first[row][part] = if row > 0 && is_alike(rows[row - 1].name, rows[row].name, part + 1) {
                first[row - 1][part]
            } else {
                row as u16
            };
            part += 1;
        }
        row += 1;
    }
    first
};

/// Bytes: to split a text is code that could panic.
fn parts(name: &'static str) -> impl Iterator<Item = &'static [u8]> {
    name.as_bytes().split(|byte| *byte == b'.')
}

fn first(row: usize, part: usize) -> Option<usize> {
    FIRST.get(row)?.get(part).map(|first| usize::from(*first))
}

/// Whether a number can stand behind the parts before it.
fn is_in_bounds(name: &str, number: usize, is_second: bool) -> bool {
    if is_second {
        let is_bin = name.starts_with("stats.arenas.#.bins.");
        return number < if is_bin { BINS } else { LENGTHS };
    }
    if name.starts_with("arena.") {
        number <= arenas::count() || number == ALL || number == DESTROYED
    } else if name.starts_with("stats.arenas.") || name.starts_with("experimental.arenas.") {
        number == ALL || arenas::heap_of(number).is_some()
    } else {
        let is_bin = name.starts_with("arenas.bin.") || name.starts_with("prof.stats.bins.");
        number < if is_bin { BINS } else { LENGTHS }
    }
}

/// A row, as far as a name or a place leads: how many of its parts, and the numbers in them.
pub struct Place {
    pub row: usize,
    pub parts: usize,
    pub numbers: Numbers,
}

impl Place {
    /// The row, where the name is a whole one.
    pub fn whole(&self) -> Option<&'static Row> {
        ROWS.get(self.row).filter(|row| parts(row.name).count() == self.parts)
    }

    /// The places of the parts.
    pub fn put(&self, mib: &mut dyn FnMut(usize, usize)) {
        let Some(row) = ROWS.get(self.row) else { return };
        let mut numbers = [self.numbers.first, self.numbers.second].into_iter();
        for (part, text) in parts(row.name).take(self.parts).enumerate() {
            let place = match text {
                b"#" => numbers.next().unwrap_or(0),
                _ => first(self.row, part).unwrap_or(0),
            };
            mib(part, place);
        }
    }
}

/// Follows a name; none where there is no such name or number.
pub fn find(name: &[u8]) -> Option<Place> {
    if name.len() > 255 {
        return None;
    }
    let mut row = 0;
    while row < ROWS.len() {
        match matches(row, name) {
            Ok(found) => return Some(found),
            // All names that begin so are passed over.
            Err(part) => {
                let begins = first(row, part);
                row += 1;
                while row < ROWS.len() && first(row, part) == begins {
                    row += 1;
                }
            }
        }
    }
    None
}

/// A row that a name leads to; the part in which they differ where it does not.
fn matches(row: usize, name: &[u8]) -> Result<Place, usize> {
    let own = ROWS.get(row).map_or("", |row| row.name);
    let (mut known, mut found) = (parts(own), Place { row, parts: 0, numbers: Numbers::default() });
    let mut is_second = false;
    for part in name.split(|byte| *byte == b'.') {
        let differ = found.parts.min(DEPTH - 1);
        match known.next().ok_or(differ)? {
            b"#" => {
                let number = decimal(part).filter(|number| is_in_bounds(own, *number, is_second));
                let number = number.ok_or(differ)?;
                *(if is_second { &mut found.numbers.second } else { &mut found.numbers.first }) = number;
                is_second = true;
            }
            own if own == part => {}
            _ => return Err(differ),
        }
        found.parts += 1;
    }
    Ok(found)
}

fn decimal(text: &[u8]) -> Option<usize> {
    if text.is_empty() {
        return None;
    }
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| usize::from(byte - b'0'));
    text.iter().try_fold(0usize, |sum, byte| sum.checked_mul(10)?.checked_add(digit(byte)?))
}

/// Follows a place, which must be a whole one.
pub fn at(mib: &[usize]) -> Option<Place> {
    let row = *mib.last()?;
    let own = ROWS.get(row)?.name;
    if parts(own).count() != mib.len() {
        return None;
    }
    let mut found = Place { row, parts: mib.len(), numbers: Numbers::default() };
    let mut is_second = false;
    for (part, (text, place)) in parts(own).zip(mib).enumerate() {
        if text == b"#" {
            if !is_in_bounds(own, *place, is_second) {
                return None;
            }
            *(if is_second { &mut found.numbers.second } else { &mut found.numbers.first }) = *place;
            is_second = true;
        } else if first(row, part) != Some(*place) {
            return None;
        }
    }
    Some(found)
}
