//! What all groups begin with: bytes without pattern, and a plain `memcpy` of them.

use std::cell::RefCell;
use std::hint::black_box;

use barewire_units::Rng;

use crate::harness::Case;

/// `len` bytes without pattern.
pub fn random_bytes(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Rng::from_seed(0x9180).fill_bytes(&mut bytes);
    bytes
}

/// A case that copies `bytes`: the yardstick of every group.
pub fn memcpy<'a>(bytes: &'a [u8], to: &'a RefCell<Vec<u8>>) -> Case<'a> {
    Case::new("memcpy", &[], move || {
        let mut to = to.borrow_mut();
        to.copy_from_slice(black_box(bytes));
        black_box(&mut *to);
    })
}
