//! Rows of the tree that are more than a figure.

use super::arenas::{self, ALL, DESTROYED};
use super::io::{Io, Numbers, Outcome, Value};
use super::{conf, decay, figures, hooks, prof, settings, tcaches, threads};
use crate::c::{Name, undisturbed};
use crate::counted;
use crate::{Blocks, blocks, heap};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{EAGAIN, EFAULT, EINVAL, ENOENT};
use vcmalloc_core::options::{OptionId, spec};

/// jemalloc's number as programs parse it, and ours behind it.
pub const VERSION: &CStr = {
    const TEXT: &str = concat!("5.3.0-0-gvcmalloc-", env!("VCMALLOC_VERSION"), "\0");
    match CStr::from_bytes_with_nul(TEXT.as_bytes()) {
        Ok(text) => text,
        Err(_) => c"5.3.0",
    }
};

pub fn epoch(io: &Io) -> Outcome {
    if io.take::<u64>()?.is_some() && !figures::refresh() {
        return Err(EAGAIN);
    }
    io.give(Value::Word(figures::epoch()))
}

fn set_option(id: OptionId, value: &[u8]) -> Outcome {
    let set = undisturbed(|| heap().set_option(spec(id).name.as_bytes(), value));
    set.map_err(|_| EFAULT)
}

/// Without functions before libc's no second thread of the program is seen that the janitor could begin with.
fn obey_janitor_option() {
    #[cfg(shared)]
    crate::threads::obey_option();
    #[cfg(not(shared))]
    if !crate::janitor::end_if_off() {
        crate::janitor::vcm_janitor_start();
    }
}

/// The janitor: its thread ends at once, and begins with the program's second one.
pub fn background_thread(io: &Io) -> Outcome {
    let wanted = io.take_bool()?;
    io.give(Value::Bool(figures::has_background()))?;
    match wanted {
        Some(true) if MOST_JANITORS.load(Ordering::Relaxed) == 0 => Err(EFAULT),
        Some(wanted) if wanted != figures::has_background() => {
            set_option(OptionId::janitor, if wanted { b"on" } else { b"off" })?;
            obey_janitor_option();
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The most threads that there may be, at first as many as jemalloc's. One is enough, and none more is made.
static MOST_JANITORS: AtomicUsize = AtomicUsize::new(settings::MOST_JANITORS);

pub fn max_background_threads(io: &Io) -> Outcome {
    let wanted = io.take::<usize>()?;
    io.give(Value::Word(MOST_JANITORS.load(Ordering::Relaxed) as u64))?;
    let Some(wanted) = wanted else { return Ok(()) };
    if wanted > settings::MOST_JANITORS {
        return Err(EINVAL);
    }
    MOST_JANITORS.store(wanted, Ordering::Relaxed);
    if wanted == 0 && figures::has_background() {
        set_option(OptionId::janitor, b"off")?;
        obey_janitor_option();
    }
    Ok(())
}

pub fn thread_arena(io: &Io) -> Outcome {
    let wanted = io.take::<u32>()?;
    io.give(Value::U32(threads::arena() as u32))?;
    wanted.map_or(Ok(()), |number| threads::choose(number as usize))
}

pub fn cache_enabled(io: &Io) -> Outcome {
    let (before, wanted) = (threads::has_cache(), io.take_bool()?);
    if let Some(wanted) = wanted {
        threads::set_cache(wanted);
    }
    io.give(Value::Bool(before))
}

/// Blocks cached for this thread are in the cache of a virtual CPU, which other threads use too: nothing has to go.
pub fn cache_flush(io: &Io) -> Outcome {
    if !threads::has_cache() {
        return Err(EFAULT);
    }
    io.neither()
}

pub fn thread_name(io: &Io) -> Outcome {
    if !prof::is_told() {
        return Err(ENOENT);
    }
    io.not_both()?;
    match io.take::<*mut c_char>()? {
        None => io.give(Value::Word(threads::name().expose_provenance() as u64)),
        Some(name) if name.is_null() => Err(EFAULT),
        Some(name) => keep_name(name),
    }
}

/// Keeps a copy.
fn keep_name(name: *const c_char) -> Outcome {
    // SAFETY: by the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    if !name.to_bytes().iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
        return Err(EFAULT);
    }
    threads::keep_name(name)
}

pub fn thread_sampled(io: &Io) -> Outcome {
    let before = prof::is_told() && threads::is_sampled();
    if io.is_written() {
        only_if_told()?;
    }
    if let Some(wanted) = io.take_bool()? {
        // Samples are taken of all threads, or of none.
        if !wanted {
            return Err(EAGAIN);
        }
        threads::set_sampled(wanted);
    }
    io.give(Value::Bool(before))
}

pub fn thread_idle(io: &Io) -> Outcome {
    io.neither()
}

pub fn cache_create(io: &Io) -> Outcome {
    io.read_only()?;
    io.has_room(size_of::<u32>())?;
    io.give(Value::U32(tcaches::create().ok_or(EFAULT)?))
}

fn explicit_cache(io: &Io) -> Result<u32, c_int> {
    io.write_only()?;
    io.demand::<u32>()
}

pub fn explicit_cache_flush(io: &Io) -> Outcome {
    if tcaches::exists(explicit_cache(io)?) { Ok(()) } else { Err(EFAULT) }
}

pub fn explicit_cache_destroy(io: &Io) -> Outcome {
    if tcaches::destroy(explicit_cache(io)?) { Ok(()) } else { Err(EFAULT) }
}

/// Whether a number stands for all arenas: 4096, or the one behind the last, as it did before.
fn is_all(number: usize) -> bool {
    number == ALL || number == arenas::count()
}

pub fn initialized(at: &Numbers) -> Result<Value, c_int> {
    let number = at.first;
    Ok(Value::Bool(number == ALL || number != DESTROYED && arenas::heap_of(number).is_some()))
}

/// Gives what is free to the system, from caches and spans too: who asks wants the memory now.
pub fn purge(at: &Numbers) -> Outcome {
    for (number, id) in arenas::all() {
        if number == at.first || is_all(at.first) {
            undisturbed(|| if number == 0 { blocks().release(0) } else { heap().release_heap(id) });
        }
    }
    Ok(())
}

/// Pages that were idle for their time go by the tick of the janitor, or after any slow path: this one where there is no janitor.
pub fn decay(at: &Numbers) -> Outcome {
    if (at.first == 0 || is_all(at.first)) && !heap().has_janitor() {
        undisturbed(|| heap().release_free(0));
    }
    Ok(())
}

/// Memory never comes from sbrk.
pub fn dss(at: &Numbers, io: &Io) -> Outcome {
    if let Some(wanted) = io.take::<*const c_char>()?.filter(|wanted| !wanted.is_null()) {
        // SAFETY: by the caller's promise.
        match unsafe { CStr::from_ptr(wanted) }.to_bytes() {
            b"disabled" => {}
            b"primary" | b"secondary" => return Err(EFAULT),
            _ => return Err(EINVAL),
        }
    }
    if !is_all(at.first) && arenas::heap_of(at.first).is_none() {
        return Err(EFAULT);
    }
    io.give(Value::Text(c"disabled"))
}

pub fn decay_time(at: &Numbers, io: &Io, is_dirty: bool) -> Outcome {
    if arenas::heap_of(at.first).is_none() {
        return Err(EFAULT);
    }
    io.give(Value::Word(decay::of(at.first, is_dirty) as u64))?;
    io.take::<i64>()?.map_or(Ok(()), |time| decay::set(at.first, is_dirty, time))
}

pub fn new_decay_time(io: &Io, is_dirty: bool) -> Outcome {
    io.give(Value::Word(decay::of_new(is_dirty) as u64))?;
    io.take::<i64>()?.map_or(Ok(()), |time| decay::set_of_new(is_dirty, time))
}

/// The table of hooks of an arena, which are never called (`hooks.rs`).
pub fn extent_hooks(at: &Numbers, io: &Io) -> Outcome {
    if arenas::heap_of(at.first).is_none() {
        return Err(EFAULT);
    }
    let (own, before) = (hooks::own(), arenas::hooks(at.first));
    let wanted = io.take::<*const c_void>()?;
    if wanted.is_some_and(|wanted| !hooks::are_taken(wanted, at.first)) {
        return Err(EFAULT);
    }
    io.give(Value::Word(if before == 0 { own } else { before } as u64))?;
    if let Some(wanted) = wanted {
        arenas::set_hooks(at.first, if wanted.addr() == own { 0 } else { wanted.expose_provenance() });
    }
    Ok(())
}

pub fn create(io: &Io) -> Outcome {
    io.has_room(size_of::<u32>())?;
    let wanted = io.take::<*const c_void>()?.filter(|hooks| !hooks.is_null());
    if wanted.is_some_and(|hooks| !hooks::are_taken(hooks, usize::MAX)) {
        return Err(EAGAIN);
    }
    let number = arenas::create()?;
    if let Some(hooks) = wanted.filter(|hooks| hooks.addr() != hooks::own()) {
        arenas::set_hooks(number, hooks.expose_provenance());
    }
    decay::begin(number);
    io.give(Value::U32(number as u32))
}

/// The arena of the block at an address.
pub fn lookup(io: &Io) -> Outcome {
    let block = io.take::<*const c_void>()?.ok_or(EINVAL)?;
    let number = arenas::of_block(block.expose_provenance()).ok_or(EINVAL)?;
    io.give(Value::U32(number as u32))
}

/// A switch of the profile, which is off and cannot be set in a program that was not started with it.
fn switch(io: &Io, get: fn() -> bool, set: fn(bool) -> bool) -> Outcome {
    if io.is_written() {
        only_if_told()?;
    }
    let before = match io.take_bool()? {
        Some(wanted) => set(wanted),
        None => prof::is_told() && get(),
    };
    io.give(Value::Bool(before))
}

pub fn prof_active(io: &Io) -> Outcome {
    // No change.
    if !prof::is_told() && io.take_bool()? == Some(false) {
        return io.give(Value::Bool(false));
    }
    switch(io, prof::is_active, |wanted| undisturbed(|| prof::set_active(wanted)))
}

pub fn prof_gdump(io: &Io) -> Outcome {
    switch(io, prof::is_gdump, prof::set_gdump)
}

/// Samples are taken of all threads, or of none.
pub fn thread_active_init(io: &Io) -> Outcome {
    if io.is_written() {
        only_if_told()?;
    }
    match io.take_bool()? {
        Some(false) => Err(EAGAIN),
        _ => io.give(Value::Bool(prof::is_told())),
    }
}

fn only_if_told() -> Outcome {
    if prof::is_told() { Ok(()) } else { Err(ENOENT) }
}

/// A C string that the caller passes by its address; none where that is null.
fn text(io: &Io) -> Result<Option<&'static CStr>, c_int> {
    let text = io.take::<Name>()?.filter(|text| !text.is_null());
    // SAFETY: by the caller's promise; it is read before the call returns.
    Ok(text.map(|text| unsafe { CStr::from_ptr(text) }))
}

pub fn prof_dump(io: &Io) -> Outcome {
    only_if_told()?;
    io.write_only()?;
    let path = text(io)?;
    undisturbed(|| prof::dump(path))
}

pub fn prof_prefix(io: &Io) -> Outcome {
    only_if_told()?;
    io.write_only()?;
    let prefix = text(io)?.ok_or(EFAULT)?;
    settings::PROF_PREFIX.set(prefix.to_bytes());
    Ok(())
}

pub fn prof_reset(io: &Io) -> Outcome {
    only_if_told()?;
    io.write_only()?;
    let lg = io.take::<usize>()?.map_or_else(prof::lg_sample, |lg| lg as u64);
    undisturbed(|| prof::reset(lg));
    Ok(())
}

/// For jemalloc's own test of a new that never throws.
pub fn abort_hook(io: &Io) -> Outcome {
    io.write_only()?;
    if let Some(hook) = io.take::<*const c_void>()? {
        counted::ABORTER.store(hook.expose_provenance(), Ordering::Relaxed);
    }
    Ok(())
}

/// The value of an option of jemalloc's.
pub fn option(name: &str) -> Result<Value, c_int> {
    let setting = settings::find(name.as_bytes()).ok_or(ENOENT)?;
    if name == "dirty_decay_ms" && setting.number() == conf::NOT_GIVEN {
        return Ok(Value::Word(decay::of_new(true) as u64));
    }
    setting.value().ok_or(ENOENT)
}
