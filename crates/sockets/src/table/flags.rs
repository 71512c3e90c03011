//! The flag bits of a socket state.

/// Calls on the descriptor do not block. Correct from the upgrade on.
pub const NONBLOCKING: u32 = 1 << 0;
/// This end has fallen back to the kernel connection for good.
pub const FALLEN_BACK: u32 = 1 << 1;
/// The next read must ask whether the kernel connection has ended.
pub const CHECK_KERNEL: u32 = 1 << 2;
/// Writing was shut down.
pub const WRITE_SHUT: u32 = 1 << 3;
/// This end opened the connection.
pub const OPENER: u32 = 1 << 4;
/// The other end did not return from a read in time.
pub const PEER_READ_STUCK: u32 = 1 << 5;
/// The program wants Nagle's algorithm; the kernel connection has `TCP_NODELAY` all the same.
pub const NAGLE: u32 = 1 << 6;
/// A Unix socket. See `unix_streams`.
pub const UNIX: u32 = 1 << 7;
/// The program was told of the reset: the other end has closed and left bytes unread.
pub const RESET_REPORTED: u32 = 1 << 8;
/// A Unix socket has moved so much that it may be upgraded soon.
pub const NEAR_UPGRADE: u32 = 1 << 9;
/// Urgent bytes were sent, so it can never be upgraded.
pub const NEVER_UPGRADE: u32 = 1 << 10;
/// The program has set a low-water mark. See `stream::low_water`.
pub const LOW_WATER: u32 = 1 << 11;
/// A relay has taken its place in this process.
pub const RELAYED: u32 = 1 << 12;
/// The program waits for it by intercepted calls. See `stream::empty_reads`.
pub const WAITS_INTERCEPTED: u32 = 1 << 13;
/// The program is busy polling.
pub const BUSY_POLLS: u32 = 1 << 14;
/// A child has put it into an inherited epoll set, on which its parent may wait: the kernel is to report it.
pub const IN_PARENTS_SET: u32 = 1 << 15;
/// Reading was shut down.
pub const READ_SHUT: u32 = 1 << 16;
/// The last bytes that were sent wait for more in the kernel (`MSG_MORE`).
pub const MORE_TO_COME: u32 = 1 << 17;
/// The kernel has reported the end of the other end's half.
pub const PEER_ENDED: u32 = 1 << 18;
/// It has the capability mark.
pub const MARKED: u32 = 1 << 19;
/// The program of a marked socket wants no multicasts looped back.
pub const NO_MULTICAST_LOOP: u32 = 1 << 20;
/// The program of a marked socket has set `IP_RECVERR_RFC4884`.
pub const WANTS_RFC4884: u32 = 1 << 21;
/// The other end stores when its bytes come. See `wait::ring_events`.
pub const PEER_DATES: u32 = 1 << 22;
/// Before the upgrade, where only streams are upgraded: the last bytes went out. See `worth`.
pub const LAST_SENT: u32 = 1 << 23;
/// The other end had no mark when this one looked for it, once and twice. See `steps`.
pub const MARK_LOOK_1: u32 = 1 << 24;
pub const MARK_LOOK_2: u32 = 1 << 25;
/// An upgrade failed because the kernel executed a read alone: none of these any more. See `steps`.
pub const NO_READS_ALONE: u32 = 1 << 26;
/// A listener of Multipath TCP. It has no mark, and what it accepts may be plain TCP.
pub const MULTIPATH: u32 = 1 << 29;
/// The program reaches it past this library: it was given back to the kernel.
pub const GIVEN_BACK: u32 = 1 << 30;
/// What became of it has been reported.
pub const REASON_REPORTED: u32 = 1 << 31;
