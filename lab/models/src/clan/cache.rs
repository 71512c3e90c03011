//! Which endpoints' state a processor's cache holds: those used last.
//!
//! A server with many endpoints keeps something of each (positions of its rings, a record of
//! its own). What was used last is in the cache, up to its capacity; anything else comes
//! from memory. Least recently used, of equal pieces.

use std::collections::BTreeSet;

/// The cache.
#[derive(Clone, Debug)]
pub struct StateCache {
    /// When each piece was used last; 0 if it is not here.
    used: Vec<u64>,
    /// Those that are here, the one used longest ago first.
    order: BTreeSet<(u64, usize)>,
    capacity: usize,
    clock: u64,
    misses: u64,
}

impl StateCache {
    /// A cache for `capacity` of `pieces` pieces, with the first of them in it.
    #[must_use]
    pub fn new(pieces: usize, capacity: usize) -> Self {
        let mut cache = StateCache {
            used: vec![0; pieces],
            order: BTreeSet::new(),
            capacity,
            clock: 0,
            misses: 0,
        };
        for piece in 0..pieces.min(capacity) {
            cache.touch(piece);
        }
        cache.misses = 0;
        cache
    }

    /// Uses a piece; whether it came from memory.
    pub fn touch(&mut self, piece: usize) -> bool {
        let Some(used) = self.used.get_mut(piece) else {
            return false;
        };
        let missed = !self.order.remove(&(*used, piece));
        self.clock += 1;
        *used = self.clock;
        self.order.insert((self.clock, piece));
        if self.order.len() > self.capacity {
            self.order.pop_first();
        }
        self.misses += u64::from(missed);
        missed
    }

    /// How often a piece came from memory.
    #[must_use]
    pub const fn misses(&self) -> u64 {
        self.misses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes() {
        let mut cache = StateCache::new(4, 2);
        assert!(!cache.touch(0) && !cache.touch(1));
        assert!(cache.touch(3), "0 goes");
        assert!(!cache.touch(1) && cache.touch(0) && cache.touch(3));
        assert_eq!(cache.misses(), 3);
        let mut none = StateCache::new(2, 0);
        assert!(none.touch(1) && none.touch(1));
    }
}
