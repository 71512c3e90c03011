//! How many sockets and descriptors the tables have room for.

/// Sockets that one family of processes can have upgraded at a time.
pub const SOCKETS_MAX: u32 = 1 << 16;
/// Descriptors above this are not looked at.
pub const DESCRIPTORS_MAX: u32 = 1 << 20;
