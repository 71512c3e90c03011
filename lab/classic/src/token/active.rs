//! Which VCs a station receives: one bit for each of the 2¹⁵ of a ring, looked up by index
//! as the card does it in RAM.

use alloc::vec;
use alloc::vec::Vec;

use barewire_formats::atm::Vc;
use barewire_formats::jetstream::{VC_SPACE, vc_index};

const WORD_BITS: usize = 64;

/// The active VCs of a station.
#[derive(Clone, Debug)]
pub struct ActiveList {
    words: Vec<u64>,
}

impl ActiveList {
    /// A list with no VC in it.
    #[must_use]
    pub fn new() -> Self {
        Self {
            words: vec![0; VC_SPACE / WORD_BITS],
        }
    }

    /// Whether frames of `vc` are received.
    #[must_use]
    pub fn contains(&self, vc: Vc) -> bool {
        vc_index(vc).is_some_and(|index| self.words[index / WORD_BITS] & bit(index) != 0)
    }

    /// Receives `vc` from now on. False, and nothing done, outside the 15-bit space.
    pub fn insert(&mut self, vc: Vc) -> bool {
        let index = vc_index(vc);
        if let Some(index) = index {
            self.words[index / WORD_BITS] |= bit(index);
        }
        index.is_some()
    }

    /// Receives `vc` no longer.
    pub fn remove(&mut self, vc: Vc) {
        if let Some(index) = vc_index(vc) {
            self.words[index / WORD_BITS] &= !bit(index);
        }
    }
}

impl Default for ActiveList {
    fn default() -> Self {
        Self::new()
    }
}

const fn bit(index: usize) -> u64 {
    1 << (index % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_formats::jetstream::node_vc;

    #[test]
    fn each_vc_has_a_bit_of_its_own() {
        let mut list = ActiveList::new();
        let vcs = [(0, 0), (0, 63), (0, 64), (15, 2047)].map(|(rid, n)| node_vc(rid, n));
        for vc in vcs.into_iter().flatten() {
            assert!(!list.contains(vc));
            assert!(list.insert(vc));
            assert!(list.contains(vc));
        }
        list.remove(Vc { vpi: 0, vci: 63 });
        let held = (0..=u16::MAX).filter(|&vci| list.contains(Vc { vpi: 0, vci }));
        assert!(held.eq([0, 64, 0x7fff]));
        assert!(!list.insert(Vc {
            vpi: 0,
            vci: 0x8000
        }));
        assert!(!list.insert(Vc { vpi: 1, vci: 0 }));
        list.remove(Vc { vpi: 1, vci: 0 });
        assert!(list.contains(Vc { vpi: 0, vci: 0 }));
    }
}
