//! The lock and the atomics of [`crate::remote::one_worker`]. `crates/fabric/tests/loom.rs` has loom's in their place.

pub(crate) use std::sync::atomic::{AtomicU8, Ordering, fence};
pub(crate) use std::sync::{Mutex, MutexGuard};
