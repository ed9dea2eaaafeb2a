//! Children that share this memory: the contents of their thread's area meanwhile, and how they wait.
//!
//! A child of `vfork` runs on the thread area of the thread that made it. The kernel has ended the registration for the
//! child and writes nothing there, so sequences would look at the number of a virtual CPU that others use. The fields
//! are the kernel's: it ends a process that writes them while it is registered (Linux 7.1). So the thread takes its
//! registration back before, by the call that the kernel has for that, and makes it again when it goes on.
//!
//! A child that waits for a lock looks whether the process that lent it the memory is still there: its threads
//! may have ended with the lock.

use super::super::{LENDER, LOOKED_FOR, Registered};
use super::registration::{self, Area, NOT_YET, REFUSED};
use super::{process, thread};
use crate::base::sync::{AtomicU32, Ordering};
use core::ptr;

const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
const AT_RSEQ_ALIGN: libc::c_ulong = 28;
/// The shortest area, and as aligned as all were at first.
const LEAST_BYTES: usize = 32;

/// The area at this distance from the thread pointer.
fn area_at(offset: isize) -> &'static Area {
    registration::area_at(offset)
}

/// The lengths that an area may have been registered with: the one that glibc makes of this kernel's offer, and the
/// one from before glibc asked the kernel.
fn lengths() -> [usize; 2] {
    // SAFETY: getauxval only reads the auxiliary vector.
    let [size, align] =
        [AT_RSEQ_FEATURE_SIZE, AT_RSEQ_ALIGN].map(|kind| unsafe { libc::getauxval(kind) } as usize);
    let align = if align.is_power_of_two() { align } else { LEAST_BYTES };
    [size.max(LEAST_BYTES).next_multiple_of(align), LEAST_BYTES]
}

/// Takes back the registration of this thread in the area at `offset`, until `resume`: nobody runs a sequence in it
/// meanwhile, nor registers it.
pub(super) fn suspend(offset: isize, may_ask: bool) -> Registered {
    let area = area_at(offset);
    let is_ours = offset == registration::offset();
    if !area.is_registered() {
        // A child would register a thread that is not yet registered, and nobody would see the child's end.
        let held_off = is_ours
            && area.cpu_id.compare_exchange(NOT_YET, REFUSED, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        return if held_off { Registered::NotYet } else { Registered::Never };
    }
    if !may_ask {
        return Registered::Kept;
    }
    // A handler between the call and the next store would find its descriptor announced to a kernel that does not look.
    registration::without_signals(|| {
        let address = ptr::from_ref(area).addr();
        for bytes in lengths() {
            if registration::unregister(address, bytes) {
                area.sequence.store(0, Ordering::Relaxed);
                if is_ours {
                    area.cpu_id.store(REFUSED, Ordering::Relaxed);
                }
                return Registered::With(bytes as u32);
            }
        }
        Registered::Kept
    })
}

/// Makes the registration again that `suspend` took back. If that is refused, or may not be asked for any more, the thread stays
/// under locks.
pub(super) fn resume(offset: isize, before: Registered, may_ask: bool) {
    let area = area_at(offset);
    match before {
        Registered::NotYet => area.cpu_id.store(NOT_YET, Ordering::Relaxed),
        Registered::With(bytes) if may_ask => {
            area.sequence.store(0, Ordering::Relaxed);
            registration::register(ptr::from_ref(area).addr(), bytes as usize);
        }
        Registered::With(_) | Registered::Never | Registered::Kept => {}
    }
}

/// Notes which process lends its memory to a child that runs on this thread's area (`Os::lender`). Returns what was noted before.
pub(super) fn set_lender(lender: u32) -> u32 {
    registration::own_area().lender.swap(lender, Ordering::Relaxed)
}

/// Noted so.
pub(super) fn lender() -> u32 {
    registration::own_area().lender.load(Ordering::Relaxed)
}

/// The number of the process that a child looks for; 0: it does not.
fn looked_for() -> u32 {
    match lender() {
        noted if noted & LOOKED_FOR != 0 => noted & LENDER,
        _ => 0,
    }
}

/// Waits as `thread::futex_wait` does. A child ends where nobody is left who could wake it.
#[inline]
pub(super) fn wait(word: &AtomicU32, expected: u32) {
    match looked_for() {
        0 => thread::futex_wait(word, expected),
        lender => wait_as_child(word, expected, lender),
    }
}

/// In nanoseconds.
const CHILD_LOOKS_AGAIN: u64 = 100_000_000;

#[cold]
fn wait_as_child(word: &AtomicU32, expected: u32, lender: u32) {
    thread::futex_wait_for(word, expected, CHILD_LOOKS_AGAIN);
    end_without(lender);
}

/// Ends this process where it is a child and the one that lent it the memory is gone.
pub(super) fn end_if_left_behind() {
    match looked_for() {
        0 => {}
        lender => end_without(lender),
    }
}

fn end_without(lender: u32) {
    if registration::refused().load(Ordering::Relaxed) != 0 {
        // A filter of the child's may end it for the questions.
        return;
    }
    let lender = u64::from(lender);
    // A parent in another namespace has no number here.
    if process::process_number() != lender && ![0, lender].contains(&process::parent_number()) {
        process::leave();
    }
}

#[cfg(test)]
mod tests {
    use super::super::sequences;
    use super::*;

    #[test]
    fn a_registration_is_taken_back_and_made_again() {
        // If the C library does not register, there is nothing to take back.
        let Some(area) = sequences::area() else { return };
        let offset = area.area;
        let before = suspend(offset, true);
        assert!(matches!(before, Registered::With(32..)), "{before:?}");
        assert!(!area_at(offset).is_registered());
        assert_eq!(suspend(offset, true), Registered::Never, "a child of a child has nothing to take back");
        resume(offset, Registered::Never, true);
        assert!(!area_at(offset).is_registered());
        resume(offset, before, false);
        assert!(!area_at(offset).is_registered(), "a filter that came while the child ran");
        resume(offset, before, true);
        assert!(area_at(offset).is_registered());
        assert_eq!(suspend(offset, false), Registered::Kept, "a filter stands in the way");
        assert!(area_at(offset).is_registered());
    }

    #[test]
    fn nobody_registers_a_thread_of_ours_while_it_lends_its_memory() {
        let offset = registration::offset();
        let area = area_at(offset);
        let before = suspend(offset, true);
        assert_eq!((before, area.cpu_id.load(Ordering::Relaxed)), (Registered::NotYet, REFUSED));
        resume(offset, before, true);
        assert_eq!(area.cpu_id.load(Ordering::Relaxed), NOT_YET);
    }

    #[test]
    fn a_wait_ends_also_for_a_child_whose_lender_lives() {
        let word = AtomicU32::new(1);
        assert_eq!(set_lender(process::parent_number() as u32 | LOOKED_FOR), 0);
        wait(&word, 1);
        wait(&word, 0);
        end_if_left_behind();
        assert_eq!(u64::from(set_lender(0) & LENDER), process::parent_number());
    }
}
