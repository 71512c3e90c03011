//! The two ends of a stretch of one-way memory, and the fences between two sides.
//!
//! Contract, for every fabric:
//! - What one side stores through [`Outgoing`] the other side sees through [`Incoming`]
//!   at the same offset, sooner or later, without any action of its own.
//! - Plain stores may become visible in any order. [`Outgoing::publish_u64`] becomes
//!   visible after every store made before it through the same window; a reader that
//!   got its value from [`Incoming::observe_u64`] sees all of those.
//! - A 64-bit store to an aligned offset is seen whole or not at all.
//! - Nothing that the reading side does through [`Incoming`] is seen by the other.
//! - The storing side may be hostile: every load may yield any value at any time. Loads
//!   are therefore made once, checked, then used.
//! - Offsets outside `len_bytes` are a bug of the caller and panic.

/// The storing side of a window into memory that the peer reads.
pub trait Outgoing {
    /// Length in bytes.
    fn len_bytes(&self) -> usize;
    /// Stores bytes; ordered only by a later [`Outgoing::publish_u64`].
    fn write(&self, offset: usize, bytes: &[u8]);
    /// Stores one word at a multiple of 8; ordered as `write`.
    fn write_u64(&self, offset: usize, value: u64);
    /// Stores one word at a multiple of 8, after everything stored before.
    fn publish_u64(&self, offset: usize, value: u64);
}

/// The loading side of a window of own memory that the peer stores into.
pub trait Incoming {
    /// Length in bytes.
    fn len_bytes(&self) -> usize;
    /// Copies bytes out; each is read once.
    fn read(&self, offset: usize, into: &mut [u8]);
    /// Loads one word at a multiple of 8, unordered.
    fn read_u64(&self, offset: usize) -> u64;
    /// Loads one word at a multiple of 8; if it was published, everything stored before
    /// that publication is visible to later loads.
    fn observe_u64(&self, offset: usize) -> u64;
    /// A hint that `offset` will be loaded soon.
    fn prefetch(&self, _offset: usize) {}
}

/// The two halves of an asymmetric barrier between two sides (store, fence, load against
/// store, fence, load: at least one side sees the other's store).
///
/// If A does *store x; [`Fences::light`]; load y* and B does *store y;
/// [`Fences::heavy`]; load x*, then A sees B's store or B sees A's. The light half is on
/// the data path and should cost nothing; the heavy half is paid before sleeping.
pub trait Fences {
    /// The data path's half.
    fn light(&self);
    /// The sleeper's half.
    fn heavy(&self);
}
