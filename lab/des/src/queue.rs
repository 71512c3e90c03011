//! The pending events, ordered by a key of sixteen bytes.
//!
//! ```text
//! key    | 63..0 time in ps |, then | 63..56 class | 55..40 node | 39..0 sequence |
//! place  key, handle, event
//! handle generation, alive, period    only for events that may be cancelled or repeat
//! ```
//!
//! The sequence makes every key different, so the order is total, whatever holds the places:
//!
//! | where | which places |
//! |---|---|
//! | [`Heap`] | those up to a moment, in order; all of them while they are few |
//! | [`Ladder`] | the later ones, by slices of time and not in order |
//!
//! When the heap is empty it takes the next slice. So an event costs about the same however
//! many are pending. A heap that outgrows its bound, as at the start or when many come
//! at once that the slices were not made for, has everything put into new slices; the bound grows
//! with all that is pending, so this too is a constant for each event.
//!
//! An event that can be cancelled has a handle. To cancel it marks the handle dead; the
//! place stays until it comes up, its slice is taken, or more places are dead than alive.
//! An ordinary event touches no handle, and nothing is allocated once all parts have grown.

mod handles;
mod heap;
mod ladder;
mod place;

pub use handles::EventId;

use handles::{Handles, NO_HANDLE};
use heap::Heap;
use ladder::Ladder;
use place::Place;

/// Bits of the sequence: 10^12 events, some twenty hours of running.
const SEQUENCE_BITS: u32 = 40;
/// Fewer dead places than this are not worth a sweep.
const DEAD_MIN: usize = 64;
/// Places that the heap alone holds faster.
const FEW: usize = 512;

/// What came up.
pub(crate) struct Fired<E> {
    pub time_ps: u64,
    /// Class and node, as [`order`] packs them, above the sequence.
    pub order: u64,
    pub event: E,
}

/// Packs class and node in front of the sequence.
pub(crate) fn order(class: u8, node: u16) -> u64 {
    u64::from(class) << 56 | u64::from(node) << SEQUENCE_BITS
}

/// The class in a packed order.
pub(crate) fn class_of(order: u64) -> u8 {
    (order >> 56) as u8
}

/// The node in a packed order.
pub(crate) fn node_of(order: u64) -> u16 {
    (order >> SEQUENCE_BITS) as u16
}

/// Class and node in a packed order.
pub(crate) fn class_and_node_of(order: u64) -> u64 {
    order >> SEQUENCE_BITS
}

pub(crate) struct Queue<E> {
    heap: Heap<E>,
    /// The last time whose places go into the heap.
    heap_last_ps: u64,
    /// Places of the heap beyond which new slices are made.
    heap_max: usize,
    /// As many places need no slices.
    few: usize,
    ladder: Ladder<E>,
    handles: Handles,
    sequence: u64,
}

impl<E: Copy> Queue<E> {
    pub fn new() -> Self {
        Self::with_few(FEW)
    }

    fn with_few(few: usize) -> Self {
        Self {
            heap: Heap::new(),
            heap_last_ps: u64::MAX,
            heap_max: few,
            few,
            ladder: Ladder::new(),
            handles: Handles::default(),
            sequence: 0,
        }
    }

    /// Events pending.
    pub fn len(&self) -> usize {
        self.places() - self.handles.dead()
    }

    /// Those and the cancelled ones.
    fn places(&self) -> usize {
        self.heap.len() + self.ladder.len()
    }

    /// Adds an event that fires once and cannot be cancelled.
    pub fn schedule(&mut self, time_ps: u64, order: u64, event: E) {
        self.push(time_ps, order, NO_HANDLE, event);
    }

    /// Adds an event that can be cancelled, and repeats if `period_ps` is not 0.
    pub fn schedule_named(
        &mut self,
        time_ps: u64,
        order: u64,
        period_ps: u64,
        event: E,
    ) -> EventId {
        let id = self.handles.open(period_ps);
        self.push(time_ps, order, id.handle, event);
        id
    }

    /// Takes the event back; whether it was still to come.
    pub fn cancel(&mut self, id: EventId) -> bool {
        let was = self.handles.cancel(id);
        let dead = self.handles.dead();
        if dead > DEAD_MIN && dead > self.places() / 2 {
            self.regroup();
        }
        was
    }

    /// When the next event comes up.
    pub fn next_ps(&mut self) -> Option<u64> {
        loop {
            let Some(&first) = self.heap.first() else {
                if self.refill() {
                    continue;
                }
                return None;
            };
            if first.handle == NO_HANDLE || !self.handles.is_dead(first.handle) {
                return Some(first.time_ps);
            }
            self.handles.bury(first.handle);
            self.heap.take_first();
        }
    }

    /// Takes the next event; a periodic one goes back in for its next time.
    pub fn pop(&mut self) -> Option<Fired<E>> {
        loop {
            let Some(first) = self.heap.take_first() else {
                if self.refill() {
                    continue;
                }
                return None;
            };
            if first.handle == NO_HANDLE || self.fire_named(&first) {
                return Some(Fired {
                    time_ps: first.time_ps,
                    order: first.order,
                    event: first.event,
                });
            }
        }
    }

    /// Lets go of the handle of a place that was taken, or puts its event back in for its
    /// next time. `false` for a cancelled one.
    fn fire_named(&mut self, place: &Place<E>) -> bool {
        if self.handles.is_dead(place.handle) {
            self.handles.bury(place.handle);
            return false;
        }
        let next_ps = match self.handles.period_ps(place.handle) {
            0 => None,
            period_ps => place.time_ps.checked_add(period_ps),
        };
        match next_ps {
            Some(next_ps) => self.push(next_ps, place.order, place.handle, place.event),
            None => self.handles.release(place.handle),
        }
        true
    }

    /// Class and node of `order` with the next sequence number.
    fn sequenced(&mut self, order: u64) -> u64 {
        let sequence = self.sequence;
        assert!(
            sequence >> SEQUENCE_BITS == 0,
            "a run has at most 2^40 events: split it into replications"
        );
        self.sequence += 1;
        order >> SEQUENCE_BITS << SEQUENCE_BITS | sequence
    }

    fn push(&mut self, time_ps: u64, order: u64, handle: u32, event: E) {
        let order = self.sequenced(order);
        let place = Place {
            time_ps,
            order,
            handle,
            event,
        };
        if time_ps > self.heap_last_ps {
            self.ladder.push(place);
            return;
        }
        self.heap.push(place);
        if self.heap.len() > self.heap_max {
            self.regroup();
        }
    }

    /// Puts every living place into new slices.
    #[cold]
    fn regroup(&mut self) {
        self.ladder.take_back(&mut self.heap);
        self.refill();
    }

    /// Fills the empty heap with the next living places; whether there are any.
    #[cold]
    fn refill(&mut self) -> bool {
        let handles = &mut self.handles;
        let alive = |place: &Place<E>| {
            let dead = handles.is_dead(place.handle);
            if dead {
                handles.bury(place.handle);
            }
            !dead
        };
        self.heap_last_ps = self.ladder.next_slice(&mut self.heap, self.few / 2, alive);
        let all = self.places();
        self.heap_max = self.few.max(2 * self.heap.len()).max(all / 4);
        all > 0
    }
}

#[cfg(test)]
mod tests;
