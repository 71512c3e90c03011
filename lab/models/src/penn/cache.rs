//! A data cache: set-associative, store-back, the least recently used line leaves.
//!
//! It holds no data, only which lines are in it and which of them are modified, and
//! counts the lines that move between it and memory.

use barewire_units::ByteSize;

crate::parameters! {
    /// Shape of a cache.
    #[derive(Copy, PartialEq, Eq)]
    pub struct CacheConfig {
        /// All of it. At least one set of lines.
        pub size: ByteSize,
        /// One line.
        pub line: ByteSize,
        /// Lines of one set.
        pub ways: usize,
    }
}

impl CacheConfig {
    /// Sets of the cache; 0 if the shape is none.
    #[must_use]
    pub fn sets(&self) -> u64 {
        let set_bytes = self.line.as_bytes().checked_mul(self.ways as u64);
        set_bytes
            .and_then(|set_bytes| self.size.as_bytes().checked_div(set_bytes))
            .unwrap_or(0)
    }

    /// Bytes of a line, for a division.
    pub(super) fn line_bytes(&self) -> u64 {
        self.line.as_bytes().max(1)
    }
}

/// Lines that moved between cache and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Read from memory.
    pub fills: u64,
    /// Written to memory.
    pub write_backs: u64,
}

impl Moved {
    /// Both ways together.
    #[must_use]
    pub const fn lines(self) -> u64 {
        self.fills + self.write_backs
    }
}

impl std::ops::AddAssign for Moved {
    fn add_assign(&mut self, other: Self) {
        self.fills += other.fills;
        self.write_backs += other.write_backs;
    }
}

#[derive(Clone, Copy)]
struct Line {
    number: u64,
    modified: bool,
}

/// A data cache.
pub struct Cache {
    config: CacheConfig,
    /// The lines of each set, least recently used first.
    sets: Vec<Vec<Line>>,
}

impl Cache {
    /// An empty cache. A shape of no sets gets one set.
    #[must_use]
    pub fn new(config: CacheConfig) -> Self {
        let sets = config.sets().max(1) as usize;
        let set = Vec::with_capacity(config.ways);
        Self {
            config,
            sets: vec![set; sets],
        }
    }

    /// Its shape.
    #[must_use]
    pub const fn config(&self) -> CacheConfig {
        self.config
    }

    /// A load or store in the line that holds `address`.
    pub fn access(&mut self, address: u64, store: bool) -> Moved {
        let number = address / self.config.line_bytes();
        let ways = self.config.ways.max(1);
        let set = self.set(number);
        let mut moved = Moved::default();
        let found = set.iter().position(|line| line.number == number);
        let mut line = match found {
            Some(place) => set.remove(place),
            None => {
                moved.fills = 1;
                if set.len() == ways {
                    moved.write_backs = u64::from(set.remove(0).modified);
                }
                Line {
                    number,
                    modified: false,
                }
            }
        };
        line.modified |= store;
        set.push(line);
        moved
    }

    /// Writes the modified lines of `bytes` from `address` to memory; none of the range
    /// stays in the cache.
    pub fn flush(&mut self, address: u64, bytes: u64) -> Moved {
        let mut moved = Moved::default();
        for number in self.lines(address, bytes) {
            let set = self.set(number);
            if let Some(place) = set.iter().position(|line| line.number == number) {
                moved.write_backs += u64::from(set.remove(place).modified);
            }
        }
        moved
    }

    /// Numbers of the lines that hold `bytes` from `address`.
    pub(super) fn lines(&self, address: u64, bytes: u64) -> std::ops::Range<u64> {
        let line_bytes = self.config.line_bytes();
        let end = address.saturating_add(bytes).div_ceil(line_bytes);
        address / line_bytes..end
    }

    fn set(&mut self, number: u64) -> &mut Vec<Line> {
        let index = number % self.sets.len() as u64;
        &mut self.sets[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sets of two lines of 16 bytes.
    fn tiny() -> Cache {
        Cache::new(CacheConfig {
            size: ByteSize::from_bytes(64),
            line: ByteSize::from_bytes(16),
            ways: 2,
        })
    }

    fn moved(fills: u64, write_backs: u64) -> Moved {
        Moved { fills, write_backs }
    }

    #[test]
    fn the_least_recently_used_line_of_the_set_leaves() {
        let mut cache = tiny();
        assert_eq!(cache.access(0, true), moved(1, 0));
        assert_eq!(cache.access(15, false), moved(0, 0));
        assert_eq!(cache.access(32, false), moved(1, 0));
        // The other set has room of its own.
        assert_eq!(cache.access(16, false), moved(1, 0));
        assert_eq!(cache.access(0, false), moved(0, 0));
        // Line 32 is older than line 0 and was not modified.
        assert_eq!(cache.access(64, false), moved(1, 0));
        // Now line 0 leaves, which was.
        assert_eq!(cache.access(32, false), moved(1, 1));
    }

    #[test]
    fn a_flush_writes_what_is_modified_and_empties_the_range() {
        let mut cache = tiny();
        cache.access(0, true);
        cache.access(16, false);
        cache.access(32, true);
        assert_eq!(cache.flush(0, 32), moved(0, 1));
        assert_eq!(cache.flush(0, 32), moved(0, 0));
        assert_eq!(cache.access(16, false), moved(1, 0));
        assert_eq!(cache.flush(47, 1), moved(0, 1));
        assert_eq!(cache.lines(15, 2), 0..2);
        assert_eq!(cache.lines(16, 0), 1..1);
    }
}
