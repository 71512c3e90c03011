//! The atomics of the standard library. `crates/fabric/tests/loom.rs` has loom's in their place.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
