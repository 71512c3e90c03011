//! Typed views over the bytes of classic networks: exact to the bit, without
//! allocation, and without trust in what they are given.
//!
//! Every format comes as a pair, as in [`barewire_wire`], which has the errors and the tree of
//! fields. Formats of the published systems stand beside formats that are here for their own
//! sake: ARCHITECTURE.md says which is which.
//!
//! What a file imports, from the lowest layer up:
//!
//! ```layers
//! crc10: the check of AAL3/4 and of OAM cells
//! atm: cells
//! aal34: AAL3/4
//! aal5: AAL5
//! cbn: the Cambridge Backbone
//! jetstream: Jetstream
//! kept: formats that no model needs
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod aal34;
pub mod aal5;
pub mod atm;
pub mod cbn;
mod crc10;
pub mod jetstream;
pub mod kept;

pub use kept::{atmarp, line, llc, msnl, sonet};
