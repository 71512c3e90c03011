//! Captures and checksums as typed views over bytes: exact to the bit, without
//! allocation, and without trust in what they are given. The formats of classic networks,
//! in `barewire-formats`, are made in the same way.
//!
//! Every format comes as a pair. A *view* (`Cell<T>`, `Frame<T>`, generic over
//! `AsRef<[u8]>`) reads and, where the buffer is mutable, writes fields in place;
//! `new_checked` proves only that no accessor can panic. A *representation*
//! (`Repr`) is the small set of values that we understand: `parse` takes it from a
//! view and checks everything that the format demands, `buffer_len` says how many
//! bytes it needs, `emit` writes it. What is wrong is said by [`Error`]: format,
//! field, bits, reason. Every format also shows itself as a [`tree`] of fields.
//!
//! Bits are numbered from the most significant bit of the first byte, which is
//! also the first on the line; words are big-endian unless a table says otherwise.
//!
//! What a file imports, from the lowest layer up:
//!
//! ```layers
//! error: what is wrong with bytes
//! tree: fields as a tree, and where a format shows them
//! checksum: the Internet checksum
//! capture: capture files
//! ```
#![no_std]
#![cfg_attr(not(feature = "simd"), forbid(unsafe_code))]
#![cfg_attr(feature = "simd", deny(unsafe_code))]

#[cfg(test)]
extern crate std;

pub mod capture;
pub mod checksum;
mod error;
pub mod tree;

pub use error::{Error, Fault, need};
