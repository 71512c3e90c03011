//! Instructions that Rust has no portable name for: the cycle counter, prefetches, copies past the caches, probes. Each does
//! nothing, or the ordinary thing, on processors that lack it.
//!
//! ```layers
//! cycles: the processor's counter of ticks
//! prefetch: hints that memory will be used soon
//! copy: copies that leave the caches alone
//! probes: places where tracers may look
//! ```

#![no_std]

mod copy;
mod cycles;
mod prefetch;
pub mod probes;

pub use copy::{HAS_COPY_PAST_CACHES, copy_past_caches};
pub use cycles::{HAS_CYCLES, cycles, cycles_after_loads};
pub use prefetch::{prefetch, prefetch_for_writing};
