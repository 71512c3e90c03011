//! A content-addressable memory: a bounded table that counts its operations.
//! Source: penn91, CAM look-up controller.

use alloc::collections::BTreeMap;
use core::ops::RangeInclusive;

/// A CAM with keys `K` and, beside each, a word of state `V`.
pub(super) struct Cam<K, V> {
    entries: BTreeMap<K, V>,
    places: usize,
    operations: u64,
}

impl<K: Copy + Ord, V> Cam<K, V> {
    /// One without entries.
    pub(super) const fn new(places: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            places,
            operations: 0,
        }
    }

    /// Look-ups, insertions and removals so far.
    pub(super) const fn operations(&self) -> u64 {
        self.operations
    }

    /// Entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// True where there is no place for another key.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.places
    }

    /// Looks a key up: one operation.
    pub(super) fn lookup(&mut self, key: K) -> Option<&mut V> {
        self.operations += 1;
        self.entries.get_mut(&key)
    }

    /// The state beside a key that was just looked up: no operation of the CAM.
    pub(super) fn found(&mut self, key: K) -> Option<&mut V> {
        self.entries.get_mut(&key)
    }

    /// Writes a key and its state: one operation. The caller has seen that there is place.
    pub(super) fn insert(&mut self, key: K, value: V) {
        debug_assert!(!self.is_full());
        self.operations += 1;
        self.entries.insert(key, value);
    }

    /// Removes a key: one operation.
    pub(super) fn remove(&mut self, key: K) -> Option<V> {
        self.operations += 1;
        self.entries.remove(&key)
    }

    /// The states, for statistics.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values()
    }
}

impl<K: Copy + Ord, V: Copy> Cam<K, V> {
    /// The entries with keys in a range, as the host remembers them: no operation.
    pub(super) fn range(&self, keys: RangeInclusive<K>) -> impl Iterator<Item = (K, V)> {
        self.entries.range(keys).map(|(key, value)| (*key, *value))
    }
}
