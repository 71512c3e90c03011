//! Sizes and numbers that the configuration, the messages and the files agree on.

/// Largest fragment.
pub const FRAGMENT_BYTES_MAX: u64 = 64 << 20;
/// Largest piece.
pub const PIECE_BYTES_MAX: u64 = 16 << 20;
/// Bytes before those of a piece.
pub const PIECE_HEADER_BYTES: usize = 56;
/// Numbers of events are below; of a fragment with a wrong number the lower bits are right.
pub const EVENT_NUMBERS: u64 = 1 << 48;
