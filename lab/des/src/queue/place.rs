//! A pending event, and what orders it.

/// A pending event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<E> {
    pub time_ps: u64,
    pub order: u64,
    pub handle: u32,
    pub event: E,
}

impl<E> Place<E> {
    pub fn before(&self, other: &Self) -> bool {
        (self.time_ps, self.order) < (other.time_ps, other.order)
    }
}
