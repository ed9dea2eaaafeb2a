//! The places of a block and its guards in a run.

use super::frame::FRONT;
use crate::base::round_up;
use crate::class::UNIT_BYTES;

/// Offsets of the parts of a run for one block, from the run's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    pub align: usize,
    pub user: usize,
    /// End of the first guard, start of the second.
    pub body: usize,
    pub guard: usize,
    pub total: usize,
}

impl Layout {
    pub fn of(page: usize, align: usize, bytes: usize) -> Option<Layout> {
        let run_align = run_align(page, align);
        if align > page {
            // The frame stands at the end of the page before the block.
            let guard = round_up(run_align.checked_add(bytes)?.checked_add(page)?, page) - page;
            let total = guard + page;
            return Some(Layout { align: run_align, user: run_align, body: run_align - page, guard, total });
        }
        let slack = FRONT + align.max(FRONT) - 1;
        let guard = round_up(bytes.checked_add(slack)?.checked_add(page)?, page);
        let user = (guard - bytes) & !(align.max(FRONT) - 1);
        let body = (user - FRONT) & !(page - 1);
        Some(Layout { align: run_align, user, body, guard, total: guard.checked_add(page)? })
    }

    /// The same with so many bytes more, whole pages, in the first guard.
    pub fn shifted(self, by: usize) -> Layout {
        let Layout { align, user, body, guard, total } = self;
        Layout { align, user: user + by, body: body + by, guard: guard + by, total: total + by }
    }
}

/// Runs start at multiples of this.
pub fn run_align(page: usize, align: usize) -> usize {
    let least = UNIT_BYTES.max(4 * page);
    if align > page { least.max(align) } else { least }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_keeps_its_parts_apart_and_its_block_near_the_guard() {
        for page in [4096, 16384, 65536] {
            for shift in 0..21 {
                for bytes in [0, 1, 16, 4095, 4096, 32768, 100_000, 1 << 20] {
                    let align = 1usize << shift;
                    let layout = Layout::of(page, align, bytes).unwrap();
                    let Layout { user, body, guard, total, .. } = layout;
                    assert!(layout.align.is_multiple_of(page) && user.is_multiple_of(align.max(16)));
                    assert!(body + FRONT <= user && user + bytes <= guard && guard + page <= total);
                    assert!(body.is_multiple_of(page) && guard.is_multiple_of(page));
                    assert_eq!(body, (user - FRONT) & !(page - 1), "it is found from the block");
                    assert!(align > page || user < layout.align, "and so is the run");
                    let further = layout.shifted(7 * page);
                    assert_eq!(
                        (further.guard - further.user, further.total - further.guard),
                        (guard - user, total - guard)
                    );
                    assert!(guard - user - bytes < page.min(align.max(16)) || align > page);
                }
            }
        }
        assert_eq!(Layout::of(4096, 1 << 30, usize::MAX - 4096), None);
    }
}
