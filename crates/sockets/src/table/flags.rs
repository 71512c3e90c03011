//! The bits of a record's flags, which say how a socket is to be used and what became of it.

/// Calls on the descriptor do not wait. Right once it is up.
pub const NONBLOCKING: u32 = 1 << 0;
/// This side goes over the line for good.
pub const LINE_ONLY: u32 = 1 << 1;
/// The next look must ask the kernel whether the line has ended.
pub const CHECK_LINE: u32 = 1 << 2;
/// Writing was shut down.
pub const WRITE_SHUT: u32 = 1 << 3;
/// This end opened the connection.
pub const OPENER: u32 = 1 << 4;
/// The other end did not come back from a read in time.
pub const STUCK: u32 = 1 << 5;
/// The program has not asked for `TCP_NODELAY`; the line has it all the same.
pub const DELAYS: u32 = 1 << 6;
/// A Unix socket. See `local`.
pub const LOCAL: u32 = 1 << 7;
/// The program was told that the other end has closed and left bytes unread.
pub const RESET_TOLD: u32 = 1 << 8;
/// It has moved so much that it may go up soon.
pub const CAREFUL: u32 = 1 << 9;
/// Urgent bytes were sent before it was up.
pub const NEVER_UP: u32 = 1 << 10;
/// The program has set a low-water mark. See `stream::low_water`.
pub const LOW_WATER: u32 = 1 << 11;
/// A relay has taken its place in this process.
pub const RELAYED: u32 = 1 << 12;
/// The program waits for it by calls that we see. See `stream::in_vain`.
pub const WAITS_SEEN: u32 = 1 << 13;
/// It does not wait, but asks again and again.
pub const ASKS: u32 = 1 << 14;
/// A process has put it into an epoll set of its parent's, who may wait for it: the kernel tells.
pub const WATCHED: u32 = 1 << 15;
/// Reading was shut down.
pub const READ_SHUT: u32 = 1 << 16;
/// The last bytes that were sent are to wait for more (`MSG_MORE`), which the kernel sees to.
pub const HELD_BACK: u32 = 1 << 17;
/// The kernel has told that the other end's half is over.
pub const ENDED: u32 = 1 << 18;
/// It has the marks of `marks`.
pub const MARKED: u32 = 1 << 19;
/// Of a marked socket: the program wants no multicasts looped back.
pub const LOOPS_NOT: u32 = 1 << 20;
/// Of a marked socket: the program has set `IP_RECVERR_RFC4884`.
pub const TELLS_LENGTHS: u32 = 1 << 21;
/// The other end says when its bytes come. See `wait::told`.
pub const ORDERED: u32 = 1 << 22;
/// The last bytes went out, before it was up, where only streams are upgraded. See `worth`.
pub const LAST_SENT: u32 = 1 << 23;
/// A listener of Multipath TCP; it has no mark, and what it accepts may be of TCP alone.
pub const MULTIPATH: u32 = 1 << 29;
/// The program reaches it past this library: it was given back to the kernel, whole.
pub const LEFT: u32 = 1 << 30;
/// People were told what became of it.
pub const TOLD: u32 = 1 << 31;
