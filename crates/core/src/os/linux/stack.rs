//! The stack of calls, by frame pointers.

/// Return addresses, innermost first. Code without frame pointers ends the walk early or gives nothing.
pub(super) fn by_frame_pointers(_frames: &mut [usize]) -> usize {
    0
}
