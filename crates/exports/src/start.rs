//! The work when the library is loaded, when the process forks, and when it ends.

use super::c::Pointer;
#[cfg(exported)]
use super::malloc::exported_malloc;
use super::sink::DescriptorSink;
use super::{Blocks, blocks, heap, moved};
use core::ffi::{CStr, c_int};
use core::mem::MaybeUninit;
use vcmalloc_core::base::text::{Buffer, put_decimal, put_str};
use vcmalloc_core::options::OptionId;
use vcmalloc_core::os::Os;

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;

#[used]
#[unsafe(link_section = ".fini_array")]
static ON_END: extern "C" fn() = on_end;

extern "C" fn on_load() {
    if stands_behind_another() {
        // Its pthread_create calls ours as the next one.
        return heap().retire_janitor();
    }
    // Libraries that the program is linked with have registered theirs before us, whatever we do, so nothing
    // depends on the order: before a fork we do nothing, and in the child nothing that others wait for.
    // SAFETY: the function lives as long as the process (the library is never unloaded).
    unsafe { libc::pthread_atfork(None, None, Some(after_fork_in_child)) };
    super::unwind::ready();
    #[cfg(shared)]
    look_up_and_note();
    #[cfg(exported)]
    super::replaced::look();
    // Not needed, but a bad setting should be reported by every program, not only by those that allocate.
    blocks().free(blocks().allocate(1));
    super::registration::look();
    super::faults::catch_if_wanted();
    heap().after_load();
    #[cfg(gperftools)]
    super::gperftools::on_load();
    #[cfg(jemalloc)]
    super::jemalloc::on_load();
    if heap().always_wants_janitor() {
        #[cfg(shared)]
        super::threads::start_janitor();
        #[cfg(not(shared))]
        super::janitor::vcm_janitor_start();
    }
    prove();
}

/// Whether another vcmalloc comes before this one, as where a program needs two of the stand-in's names: that one's
/// functions are called, and nothing is to happen here.
#[cfg(shared)]
fn stands_behind_another() -> bool {
    use super::c::address;
    use super::lookup::function_beside;
    const OWN_NAME: &CStr = c"vcm_version";
    // The address of a name may be a place in the program that only leads to it.
    let first = function_beside(address(moved::find(libc::RTLD_DEFAULT, OWN_NAME)), OWN_NAME);
    let own = function_beside(stands_behind_another as *const () as usize, OWN_NAME);
    !first.is_null() && first != own
}

#[cfg(not(shared))]
fn stands_behind_another() -> bool {
    false
}

/// Notes what libc has, and what there is of threads and CPUs before the program begins.
#[cfg(shared)]
fn look_up_and_note() {
    // By name: a reference would keep the library from being loaded where the C library has no such variable.
    heap().os().note_single_threaded(moved::find(libc::RTLD_DEFAULT, c"__libc_single_threaded").cast());
    super::next::find_all();
    super::janitor::note_cpus();
    super::threads::note_main_thread();
}

extern "C" fn on_end() {
    #[cfg(gperftools)]
    super::gperftools::on_end();
    #[cfg(jemalloc)]
    super::jemalloc::on_end();
    if heap().options.is_on(OptionId::stats_at_exit) {
        let mut sink = DescriptorSink::new(2);
        super::version::put_statistics(&mut sink);
        sink.flush();
    }
    // A block that was freed twice and is still in a cache has not been found yet. Destructors of libraries that the
    // program is linked with come after us, since a preloaded library is the last that is constructed.
    blocks().audit_for_good();
}

unsafe extern "C" fn after_fork_in_child() {
    heap().after_fork_in_child();
    #[cfg(jemalloc)]
    super::jemalloc::after_fork_in_child();
    super::actions::inherit();
    #[cfg(shared)]
    if heap().always_wants_janitor() {
        super::threads::start_janitor();
    }
}

/// Tells `vcm run`, which passes a sealed memory file, that the library was loaded and whose malloc the
/// program calls.
fn prove() {
    let Some(descriptor) = proof_descriptor() else { return };
    let mut line = [0u8; 512];
    let mut buffer = Buffer::new(&mut line);
    put_str(&mut buffer, "vcmalloc ");
    put_str(&mut buffer, super::version::VERSION);
    put_str(&mut buffer, " pid ");
    put_decimal(&mut buffer, heap().os().process_number());
    put_str(&mut buffer, " malloc ");
    put_malloc_owner(&mut buffer);
    put_str(&mut buffer, " front ");
    put_str(&mut buffer, heap().front_kind().name());
    put_str(&mut buffer, " (");
    put_str(&mut buffer, heap().front_reason().words());
    put_str(&mut buffer, ")");
    put_str(&mut buffer, "\n");
    heap().os().write(descriptor, buffer.as_bytes());
}

fn proof_descriptor() -> Option<c_int> {
    if heap().os().is_privileged() {
        return None;
    }
    // SAFETY: getenv returns null or a C string that nobody changes while the program starts.
    let value = unsafe {
        let value = libc::getenv(c"VCM_RUN_PROOF".as_ptr());
        if value.is_null() {
            return None;
        }
        CStr::from_ptr(value)
    };
    let descriptor = value.to_str().ok()?.parse().ok()?;
    // A program may have closed the descriptor and opened a file of its own under the same number.
    // SAFETY: asks for the flags of a descriptor that need not exist.
    let seals = unsafe { libc::fcntl(descriptor, libc::F_GET_SEALS) };
    (seals >= 0 && seals & libc::F_SEAL_GROW != 0).then_some(descriptor)
}

/// A program that is linked to a fixed place and takes malloc's address has a place of its own for it, which is what `dlsym`
/// gives and which leads to the first object that defines malloc.
fn malloc_that_is_called() -> Pointer {
    const NAME: &CStr = c"malloc";
    let found = moved::find(libc::RTLD_DEFAULT, NAME);
    #[cfg(shared)]
    if super::lookup::function_beside(super::c::address(found), NAME).is_null() {
        let defined = super::lookup::function(NAME, 0);
        return if defined.is_null() { found } else { defined };
    }
    found
}

/// `ours`, or the file of the object whose malloc the program's calls reach.
fn put_malloc_owner(buffer: &mut Buffer<'_>) {
    let found = malloc_that_is_called();
    #[cfg(exported)]
    let is_ours = found == exported_malloc as *const () as Pointer;
    // Without C's names the C library's malloc is its own.
    #[cfg(not(exported))]
    let is_ours = false;
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` is filled in where dladdr says so.
    unsafe {
        let place = |place: *mut libc::Dl_info| moved::dladdr().map_or(0, |dladdr| dladdr(found, place));
        if is_ours {
            put_str(buffer, "ours");
        } else if place(info.as_mut_ptr()) != 0 && !info.assume_init_ref().dli_fname.is_null() {
            use vcmalloc_core::base::text::Sink;
            buffer.put(CStr::from_ptr(info.assume_init_ref().dli_fname).to_bytes());
        } else {
            put_str(buffer, "unknown");
        }
    }
}
