//! Instructions that Rust has no portable name for: the cycle counter, prefetches, copies past the caches, the predictor of
//! returns, probes. Each does nothing, or the ordinary thing, on processors that lack it.
//!
//! ```layers
//! cycles: the processor's counter of ticks
//! prefetch: hints that memory will be used soon
//! copy: copies that leave the caches alone
//! returns: the predictor of returns after a system call
//! probes: places where tracers may look
//! ```

#![no_std]

mod copy;
mod cycles;
mod prefetch;
pub mod probes;
mod returns;

pub use copy::{HAS_COPY_PAST_CACHES, copy_past_caches};
pub use cycles::{HAS_CYCLES, cycles, cycles_after_loads};
pub use prefetch::{prefetch, prefetch_for_writing};
pub use returns::{after_system_call, set_returns_mispredicted};
