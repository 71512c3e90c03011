//! The pending events: a heap with four children per place, ordered by a key of
//! sixteen bytes.
//!
//! ```text
//! key    | 63..0 time in ps |, then | 63..56 class | 55..40 node | 39..0 sequence |
//! place  key, handle, event
//! handle generation, alive, period    only for events that may be cancelled or repeat
//! ```
//!
//! The sequence makes every key different, so the order is total. An event that can
//! be cancelled has a handle; to cancel it marks the handle dead, and the place stays
//! in the heap until it comes up or until more places are dead than alive, when all
//! dead ones are swept out at once. So cancelling costs a constant, an ordinary event
//! touches nothing but the heap, and nothing is allocated once heap and handles have grown.

/// Bits of the sequence: 10^12 events, some twenty hours of running.
const SEQUENCE_BITS: u32 = 40;
/// Children of a place in the heap: they share a cache line or two, and halve the depth.
const ARITY: usize = 4;
/// Fewer dead places than this are not worth a sweep.
const DEAD_MIN: usize = 64;
/// The handle of an event that has none.
const NO_HANDLE: u32 = u32::MAX;

/// Names a pending event, to cancel it. Of no effect once the event has fired for
/// the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventId {
    handle: u32,
    generation: u32,
}

#[derive(Clone, Copy, Debug)]
struct Place<E> {
    time_ps: u64,
    order: u64,
    handle: u32,
    event: E,
}

impl<E> Place<E> {
    fn before(&self, other: &Self) -> bool {
        (self.time_ps, self.order) < (other.time_ps, other.order)
    }
}

#[derive(Clone, Copy, Debug)]
struct Handle {
    generation: u32,
    alive: bool,
    /// Time between repetitions; 0 for an event that fires once.
    period_ps: u64,
}

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
    heap: Vec<Place<E>>,
    handles: Vec<Handle>,
    free: Vec<u32>,
    sequence: u64,
    dead: usize,
}

impl<E: Copy> Queue<E> {
    pub fn new() -> Self {
        Self {
            heap: Vec::new(),
            handles: Vec::new(),
            free: Vec::new(),
            sequence: 0,
            dead: 0,
        }
    }

    /// Events pending.
    pub fn len(&self) -> usize {
        self.heap.len() - self.dead
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
        let handle = self.new_handle(period_ps);
        self.push(time_ps, order, handle, event);
        EventId {
            handle,
            generation: self.handles[handle as usize].generation,
        }
    }

    fn new_handle(&mut self, period_ps: u64) -> u32 {
        if let Some(index) = self.free.pop() {
            let handle = &mut self.handles[index as usize];
            handle.alive = true;
            handle.period_ps = period_ps;
            return index;
        }
        let index = u32::try_from(self.handles.len()).unwrap_or(NO_HANDLE);
        assert!(
            index != NO_HANDLE,
            "at most 2^32 - 1 named events pend at once"
        );
        self.handles.push(Handle {
            generation: 0,
            alive: true,
            period_ps,
        });
        index
    }

    /// Takes the event back; whether it was still to come.
    pub fn cancel(&mut self, id: EventId) -> bool {
        let Some(handle) = self.handles.get_mut(id.handle as usize) else {
            return false;
        };
        if handle.generation != id.generation || !handle.alive {
            return false;
        }
        handle.alive = false;
        self.dead += 1;
        if self.dead > DEAD_MIN && self.dead > self.heap.len() / 2 {
            self.sweep();
        }
        true
    }

    /// When the next event comes up.
    pub fn next_ps(&mut self) -> Option<u64> {
        self.drop_dead();
        self.heap.first().map(|place| place.time_ps)
    }

    /// Takes the next event; a periodic one goes back in for its next time.
    pub fn pop(&mut self) -> Option<Fired<E>> {
        self.drop_dead();
        let first = *self.heap.first()?;
        match self.next_time_of(&first) {
            Some(time_ps) => {
                let order = self.sequenced(first.order);
                self.heap[0] = Place {
                    time_ps,
                    order,
                    ..first
                };
                self.sift_down(0);
            }
            None => {
                self.release(first.handle);
                self.remove_first();
            }
        }
        Some(Fired {
            time_ps: first.time_ps,
            order: first.order,
            event: first.event,
        })
    }

    /// When the event in `place` comes up again, if it does.
    fn next_time_of(&self, place: &Place<E>) -> Option<u64> {
        if place.handle == NO_HANDLE {
            return None;
        }
        match self.handles[place.handle as usize].period_ps {
            0 => None,
            period_ps => place.time_ps.checked_add(period_ps),
        }
    }

    /// The handle's event is gone from the heap: names given out for it are void.
    fn release(&mut self, handle: u32) {
        if handle == NO_HANDLE {
            return;
        }
        let freed = &mut self.handles[handle as usize];
        freed.alive = false;
        freed.generation = freed.generation.wrapping_add(1);
        self.free.push(handle);
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
        self.heap.push(Place {
            time_ps,
            order,
            handle,
            event,
        });
        self.sift_up(self.heap.len() - 1);
    }

    /// Removes cancelled places from the top.
    fn drop_dead(&mut self) {
        while self.dead > 0 {
            match self.heap.first() {
                Some(&first) if is_dead(&self.handles, &first) => {
                    self.release(first.handle);
                    self.dead -= 1;
                    self.remove_first();
                }
                _ => return,
            }
        }
    }

    /// Removes all cancelled places.
    fn sweep(&mut self) {
        for i in 0..self.heap.len() {
            let place = self.heap[i];
            if is_dead(&self.handles, &place) {
                self.release(place.handle);
                // Released handles are not alive, so the place is still dead below.
            }
        }
        let handles = &self.handles;
        self.heap.retain(|place| !is_dead(handles, place));
        self.dead = 0;
        for i in (0..self.heap.len().div_ceil(ARITY)).rev() {
            self.sift_down(i);
        }
    }

    fn remove_first(&mut self) {
        let Some(last) = self.heap.pop() else { return };
        if let Some(first) = self.heap.first_mut() {
            *first = last;
            self.sift_down(0);
        }
    }

    fn sift_up(&mut self, mut at: usize) {
        let place = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if !place.before(&self.heap[parent]) {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = place;
    }

    fn sift_down(&mut self, mut at: usize) {
        let place = self.heap[at];
        loop {
            let first = at * ARITY + 1;
            let children = match self.heap.get(first..) {
                None | Some([]) => break,
                Some(rest) => &rest[..rest.len().min(ARITY)],
            };
            let mut least = 0;
            for (i, child) in children.iter().enumerate().skip(1) {
                if child.before(&children[least]) {
                    least = i;
                }
            }
            let child = children[least];
            if !child.before(&place) {
                break;
            }
            self.heap[at] = child;
            at = first + least;
        }
        self.heap[at] = place;
    }
}

fn is_dead<E>(handles: &[Handle], place: &Place<E>) -> bool {
    place.handle != NO_HANDLE && !handles[place.handle as usize].alive
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Schedule {
            time_ps: u64,
            class: u8,
            node: u16,
            period_ps: u64,
        },
        Cancel(usize),
        Pop,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..50_u64, 0..3_u8, 0..4_u16, prop_oneof![3 => Just(0), 1 => 1..9_u64]).prop_map(
                |(time_ps, class, node, period_ps)| Step::Schedule { time_ps, class, node, period_ps }
            ),
            2 => any::<prop::sample::Index>().prop_map(|i| Step::Cancel(i.index(1 << 16))),
            3 => Just(Step::Pop),
        ]
    }

    proptest! {
        /// The heap against a sorted map, with cancels and repetitions.
        #[test]
        fn like_a_sorted_map(steps in prop::collection::vec(step(), 0..400)) {
            let mut queue = Queue::new();
            let mut oracle: BTreeMap<(u64, u64), (usize, u64)> = BTreeMap::new();
            let mut ids: Vec<(EventId, Option<(u64, u64)>)> = Vec::new();
            let mut sequence = 0;
            for step in steps {
                match step {
                    Step::Schedule { time_ps, class, node, period_ps } => {
                        let event = ids.len();
                        let id = queue.schedule_named(time_ps, order(class, node), period_ps, event);
                        let key = (time_ps, order(class, node) | sequence);
                        oracle.insert(key, (event, period_ps));
                        ids.push((id, Some(key)));
                        sequence += 1;
                    }
                    Step::Cancel(i) if !ids.is_empty() => {
                        let which = i % ids.len();
                        let (id, key) = &mut ids[which];
                        let was = key.take().is_some_and(|key| oracle.remove(&key).is_some());
                        prop_assert_eq!(queue.cancel(*id), was);
                    }
                    Step::Cancel(_) => {}
                    Step::Pop => {
                        let expected = oracle.pop_first();
                        let fired = queue.pop();
                        prop_assert_eq!(fired.is_some(), expected.is_some());
                        let (Some(fired), Some(((time_ps, packed), (event, period_ps)))) =
                            (fired, expected)
                        else {
                            continue;
                        };
                        prop_assert_eq!((fired.time_ps, fired.order, fired.event), (time_ps, packed, event));
                        ids[event].1 = None;
                        if period_ps > 0 {
                            let key = (time_ps + period_ps, packed >> 40 << 40 | sequence);
                            sequence += 1;
                            oracle.insert(key, (event, period_ps));
                            ids[event].1 = Some(key);
                        }
                    }
                }
                prop_assert_eq!(queue.len(), oracle.len());
            }
        }
    }

    #[test]
    fn a_sweep_keeps_the_living() {
        let mut queue = Queue::new();
        let ids: Vec<_> = (0..1000_u64)
            .map(|i| queue.schedule_named(1000 - i, 0, 0, i))
            .collect();
        for (i, &id) in ids.iter().enumerate() {
            assert!(i % 10 == 0 || queue.cancel(id));
        }
        assert!(queue.heap.len() < 500, "dead keys stayed");
        let left: Vec<_> = std::iter::from_fn(|| queue.pop())
            .map(|f| f.event)
            .collect();
        assert_eq!(left, (0..100).rev().map(|i| i * 10).collect::<Vec<_>>());
        assert!(!queue.cancel(ids[0]));
    }
}
