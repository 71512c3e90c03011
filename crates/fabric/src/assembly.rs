//! Private memory in which a receiver puts together messages that come in pieces.
//!
//! A peer that sends long messages on many connections decides how much memory this takes. So where
//! there is an [`Allowance`], the receiver asks it before it takes memory.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Debug;

use crate::violation::{OverBudget, Violation};

/// Bytes that a receiver with an allowance keeps between two messages.
const KEPT_BYTES: usize = 64 * 1024;

/// Who says how much private memory the messages of a peer may take.
pub trait Allowance: Debug + Send + Sync {
    /// Takes so many bytes, or none.
    ///
    /// # Errors
    /// What there would be too much of.
    fn take(&self, bytes: usize) -> Result<(), OverBudget>;

    /// Gives so many of them back.
    fn give(&self, bytes: usize);
}

/// The bytes of a message so far.
#[derive(Debug)]
pub(crate) struct Assembly {
    /// As many as the longest message needed so far: what a message before has left is written over.
    bytes: Vec<u8>,
    len_bytes: usize,
    /// What the allowance was asked for.
    taken_bytes: usize,
    allowance: Option<Arc<dyn Allowance>>,
}

impl Assembly {
    /// Empty.
    pub const fn new(allowance: Option<Arc<dyn Allowance>>) -> Self {
        Assembly {
            bytes: Vec::new(),
            len_bytes: 0,
            taken_bytes: 0,
            allowance,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len_bytes]
    }

    /// Begins a message.
    pub fn clear(&mut self) {
        self.len_bytes = 0;
    }

    /// The message was used: gives memory back that others may need.
    pub fn used(&mut self) {
        if self.taken_bytes > KEPT_BYTES {
            self.bytes = Vec::new();
            self.len_bytes = 0;
            self.give_back();
        }
    }

    /// Makes the message longer by `more_bytes` of at most `max_bytes` in all; gives the place of those.
    ///
    /// # Errors
    /// The budget or the memory is used up.
    pub fn extend(&mut self, more_bytes: usize, max_bytes: usize) -> Result<&mut [u8], Violation> {
        let before = self.len_bytes;
        let needed = before + more_bytes;
        if needed > self.bytes.capacity() {
            // Twice as much each time: a long message is copied a few times, not once for each piece.
            let wanted = (2 * self.bytes.capacity()).min(max_bytes).max(needed);
            self.take(wanted)?;
            // What a peer sends must not end the process for want of memory.
            let more = wanted - self.bytes.len();
            if self.bytes.try_reserve_exact(more).is_err() {
                let needed = needed as u64;
                return Err(Violation::NoMemory { needed });
            }
        }
        if needed > self.bytes.len() {
            self.bytes.resize(needed, 0);
        }
        self.len_bytes = needed;
        Ok(&mut self.bytes[before..needed])
    }

    fn take(&mut self, wanted_bytes: usize) -> Result<(), Violation> {
        if let Some(allowance) = &self.allowance {
            let more_bytes = wanted_bytes.saturating_sub(self.taken_bytes);
            allowance.take(more_bytes).map_err(Violation::OverBudget)?;
            self.taken_bytes += more_bytes;
        }
        Ok(())
    }

    fn give_back(&mut self) {
        if let Some(allowance) = &self.allowance {
            allowance.give(self.taken_bytes);
            self.taken_bytes = 0;
        }
    }
}

impl Drop for Assembly {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Debug)]
    struct Purse {
        left_bytes: AtomicUsize,
    }

    impl Allowance for Purse {
        fn take(&self, bytes: usize) -> Result<(), OverBudget> {
            let left = |left: usize| left.checked_sub(bytes);
            let taken = self
                .left_bytes
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
            let (what, limit) = ("bytes", 1 << 20);
            taken.map(drop).map_err(|_| OverBudget { what, limit })
        }

        fn give(&self, bytes: usize) {
            self.left_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_is_taken_is_allowed_and_comes_back() {
        let purse = Arc::new(Purse {
            left_bytes: AtomicUsize::new(1 << 20),
        });
        let left = || purse.left_bytes.load(Ordering::Relaxed);
        let mut assembly = Assembly::new(Some(purse.clone() as Arc<dyn Allowance>));
        for piece in 1..=10_usize {
            assembly.extend(100_000, 1 << 20).unwrap().fill(piece as u8);
            assert!(left() <= (1 << 20) - 100_000 * piece);
        }
        let refused = assembly.extend(100_000, 2 << 20).unwrap_err();
        assert!(matches!(refused, Violation::OverBudget(_)), "{refused}");
        // What was there stays.
        assert_eq!(assembly.bytes().len(), 1_000_000);
        assert_eq!(assembly.bytes()[999_999], 10);
        assembly.used();
        assert_eq!(left(), 1 << 20);
        // A little is kept for the next message.
        assembly.clear();
        assembly.extend(1000, 1 << 20).unwrap();
        assembly.used();
        assert_eq!(left(), (1 << 20) - 1000);
        drop(assembly);
        assert_eq!(left(), 1 << 20);
    }
}
