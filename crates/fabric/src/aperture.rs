//! What an aperture, a tripwire and an event queue are, for every fabric.
//!
//! Implementations pass the conformance suite in `tests/conformance`, which is written
//! against these traits alone.

/// What a peer may do with an aperture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rights {
    /// The peer may load; the mapping refuses its stores.
    Read,
    /// The peer may load and store.
    ReadWrite,
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

/// How often a tripwire fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Once; then it is disarmed.
    OneShot,
    /// Until disarmed.
    Sticky,
}

/// What a tripwire does when a transfer touches its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Puts an event with this cookie into the event queue, at most one at a time.
    Enqueue {
        /// Handed back with the event.
        cookie: u64,
    },
    /// Counts the transfers.
    Count,
    /// Wakes whoever sleeps on the event queue, without an event.
    Wake,
}
