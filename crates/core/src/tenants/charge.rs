//! The limit of a heap and of those above it: bytes are counted before their span is opened, so that the sum never passes it,
//! however many threads are at it.

use super::account::charge_all;
use super::{HeapId, Refusal, Tenant, Tenants};
use crate::base::sync::Ordering;
use crate::os::Os;
use crate::pages::OfHeap;

/// Heaps of fewer bytes take their memory page by page: a huge page may be more than all that they hold.
const LEAN_BYTES: usize = 8 << 20;

impl<O: Os> Tenants<O> {
    /// Counts bytes as those of a heap and of all above it, or of none where one of them would pass its limit.
    pub(super) fn charge(&self, number: u32, bytes: usize) -> Result<(), Refusal> {
        let accounts = || self.upwards(number).map(|(number, tenant)| (number, tenant.account()));
        charge_all(accounts, bytes).map_err(|at| Refusal::Limit(self.id_of(at)))
    }

    /// Counts a request that the limit of this heap refused in the end.
    pub fn note_refused(&self, id: HeapId) {
        if let Some(tenant) = self.find(id) {
            tenant.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts them whatever the limits are.
    pub(super) fn count(&self, number: u32, bytes: usize) {
        self.upwards(number).for_each(|(_, tenant)| _ = tenant.bytes.fetch_add(bytes, Ordering::Relaxed));
    }

    pub(super) fn discharge(&self, number: u32, bytes: usize) {
        if bytes != 0 {
            self.upwards(number).for_each(|(_, tenant)| tenant.discharge(bytes));
        }
    }

    /// A heap and those above it. A heap with others below it does not end, so the way is as it was at the start.
    pub(super) fn upwards(&self, number: u32) -> impl Iterator<Item = (u32, &Tenant<O>)> {
        let entry = |number| self.tenant(number).map(|tenant| (number, tenant));
        core::iter::successors(entry(number), move |(_, tenant)| entry(tenant.parent.load(Ordering::Relaxed)))
    }

    /// The bytes that the spans of a heap and of those below it have.
    pub fn bytes_of(&self, id: HeapId) -> usize {
        self.find(id).map_or(0, |tenant| tenant.bytes.load(Ordering::Relaxed))
    }
}

impl<O: Os> Tenant<O> {
    /// As its spans are opened.
    pub(super) fn as_owner(&self, number: u32) -> OfHeap {
        OfHeap { number, is_lean: self.bytes.load(Ordering::Relaxed) < LEAN_BYTES }
    }

    pub(super) fn discharge(&self, bytes: usize) {
        self.account().discharge(bytes);
    }
}
