//! What a fabric must promise of memory that two sides share. Each trait is for one way of
//! sharing it, and whoever offers a fabric implements all of them.
//!
//! | trait | who stores | who loads | for |
//! |---|---|---|---|
//! | [`Outgoing`] and [`Incoming`] | one side | the other | rings: data one way, credit the other |
//! | [`SharedWords`] | both, by read-modify-write | both | doorbell pages |
//! | [`Memory`] | both | both | apertures: bytes and words for programs |
//! | [`Fences`] | | | the order between the two sides |
//!
//! Contract of [`Outgoing`] and [`Incoming`], for every fabric:
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
    /// As `write`; how many processor cycles that took, or 0 where nobody can say or there is no way past the caches.
    fn write_measured(&self, offset: usize, bytes: &[u8]) -> u64 {
        self.write(offset, bytes);
        0
    }
    /// As `write`; where the memory has a way past the caches, that way ([`crate::copying`]).
    fn write_past_caches(&self, offset: usize, bytes: &[u8]) {
        self.write(offset, bytes);
    }
    /// Stores one word at a multiple of 8; ordered as `write`.
    fn write_u64(&self, offset: usize, value: u64);
    /// Stores one word at a multiple of 8, after everything stored before.
    fn publish_u64(&self, offset: usize, value: u64);
    /// A hint that bytes from `offset` on will be stored soon. What lies outside is left out.
    fn prefetch_for_writing(&self, _offset: usize, _len_bytes: usize) {}
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

/// The words of a doorbell page, wherever they lie.
///
/// Contract: `or` and `take` are read-modify-writes with acquire and release semantics;
/// `load` acquires, `store` releases. [`SharedWords::settle`] orders everything before it,
/// if that ended in an `or` or a `take`, before every later load (on x86-64 the locked
/// instruction has done that already); [`SharedWords::fence`] does so after a plain store.
pub trait SharedWords {
    /// Loads word `index`.
    fn load(&self, index: usize) -> u64;
    /// Stores word `index`.
    fn store(&self, index: usize, value: u64);
    /// Sets bits of word `index`; returns what it was.
    fn or(&self, index: usize, bits: u64) -> u64;
    /// Sets word `index` to zero; returns what it was.
    fn take(&self, index: usize) -> u64;
    /// Orders a preceding read-modify-write before later loads.
    fn settle(&self);
    /// Orders everything before it, stores too, before later loads.
    fn fence(&self);
}

/// Why an access to an aperture was refused. Nothing was transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AccessError {
    /// The range does not lie inside the aperture.
    #[error(
        "{len_bytes} bytes at offset {offset} lie outside an aperture of {aperture_bytes} bytes"
    )]
    OutOfRange {
        /// First byte of the range.
        offset: usize,
        /// Length of the range.
        len_bytes: usize,
        /// Length of the aperture.
        aperture_bytes: usize,
    },
    /// An atomic access to an offset that is not a multiple of 8.
    #[error("atomic access at offset {offset}, which is not a multiple of 8")]
    Misaligned {
        /// The offset.
        offset: usize,
    },
    /// A typed access to an offset that is not a multiple of the type's alignment.
    #[error("value at offset {offset}, which is not a multiple of its alignment, {align_bytes}")]
    Unaligned {
        /// The offset.
        offset: usize,
        /// The alignment, in bytes.
        align_bytes: usize,
    },
    /// An array in an aperture has no such element.
    #[error("element {index} of an array of {count}")]
    NoSuchElement {
        /// The index.
        index: usize,
        /// How many elements it has.
        count: usize,
    },
    /// A store into an aperture that was exported for reading.
    #[error("the aperture was exported read-only")]
    ReadOnly,
    /// The owner has released or revoked the aperture.
    #[error("the owner has withdrawn the aperture")]
    Revoked,
    /// The owner's process is gone.
    #[error("the owner of the aperture is gone")]
    PeerGone,
}

/// The memory of an aperture, seen from either side.
///
/// Contract: accesses are bounds-checked; bytes may change at any time and are read or
/// written once per call; a word access is whole or not at all; word accesses are
/// sequentially consistent with each other; a get that sees a word stored by the other
/// side also sees what that side stored before it.
pub trait Memory {
    /// Length in bytes.
    fn len_bytes(&self) -> usize;
    /// Stores bytes at any offset (a *put* on the importing side).
    ///
    /// # Errors
    /// See [`AccessError`].
    fn put(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError>;
    /// Loads bytes from any offset (a *get*).
    ///
    /// # Errors
    /// See [`AccessError`].
    fn get(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError>;
    /// Loads the word at a multiple of 8.
    ///
    /// # Errors
    /// See [`AccessError`].
    fn load(&self, offset: usize) -> Result<u64, AccessError>;
    /// Stores the word at a multiple of 8.
    ///
    /// # Errors
    /// See [`AccessError`].
    fn store(&self, offset: usize, value: u64) -> Result<(), AccessError>;
    /// Adds to the word at a multiple of 8 (wrapping) and returns what it was.
    ///
    /// # Errors
    /// See [`AccessError`].
    fn add(&self, offset: usize, value: u64) -> Result<u64, AccessError>;
    /// Replaces the word at a multiple of 8 by `new` if it is `current`; returns what it
    /// was: `Ok(Ok(current))` if replaced, `Ok(Err(found))` if not.
    ///
    /// # Errors
    /// See [`AccessError`].
    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, u64>, AccessError>;
}
