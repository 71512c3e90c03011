//! Lock-free structures in shared memory. No system calls: the memory comes from `sys`.
//!
//! - [`region`]: mappings and bounds-checked windows into them;
//! - [`words`]: windows as doorbell pages;
//! - [`watch`]: which lines of an aperture carry tripwires;
//! - [`counters`]: the page that `barewire ls` reads;
//! - [`bare`]: the machine's limits, for comparison.
//!
//! The protocols themselves (frame ring, doorbell) are in `barewire-fabric`, generic over
//! the memory; here they get real memory.
//!
//! What a file imports, from the lowest layer up:
//!
//! ```layers
//! copy: copies to and from memory that may change meanwhile
//! region: mappings, and windows into them
//! words: windows as doorbell pages
//! watch: which lines of an aperture carry tripwires
//! counters: the counters page of a node
//! bare: the machine's limits
//! ```

pub mod bare;
mod copy;
pub mod counters;
pub mod region;
pub mod watch;
pub mod words;

pub use region::{Region, Window};
