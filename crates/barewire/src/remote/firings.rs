//! Tripwires of another host that stores of our node have fired, and that the other host has yet to hear of.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Tripwires of the other host that our node's stores have fired: each once, in the order in which they fired first.
#[derive(Default)]
pub(crate) struct Firings(Mutex<(VecDeque<u32>, HashSet<u32>)>);

impl Firings {
    pub fn add(&self, source: u32) {
        let mut firings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if firings.1.insert(source) {
            firings.0.push_back(source);
        }
    }

    pub fn take(&self) -> Option<u32> {
        let mut firings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let source = firings.0.pop_front()?;
        firings.1.remove(&source);
        Some(source)
    }

    pub fn is_empty(&self) -> bool {
        let firings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        firings.0.is_empty()
    }
}
