//! Probes for tracers: each is one `nop`, and a note in the file of the program (`.note.stapsdt`) which says where it is
//! and in which registers its arguments are. `bpftrace`, `perf`, SystemTap and `gdb` put a breakpoint there while
//! somebody traces (USDT, <https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation>).
//!
//! They stand off the data path. `docs/reference/probes.md` describes them, and a test compares that page with the notes.
//! Each function is inlined, so that the probe is where it is called. Arguments are values that the caller has anyway.

/// In the preload library: provider `barewire_sockets`.
pub mod sockets {
    use probe::probe;

    /// A connection is upgraded, after so many calls and bytes.
    #[inline(always)]
    pub fn upgraded(fd: i32, calls: u32, bytes: u64) {
        probe!(barewire_sockets, upgraded, fd, calls, bytes);
    }

    /// A connection is not upgraded, for a reason. `socket`: the number of its state.
    #[inline(always)]
    pub fn not_upgraded(socket: u32, reason: &str) {
        probe!(
            barewire_sockets,
            not_upgraded,
            socket,
            reason.as_ptr(),
            reason.len()
        );
    }

    /// An upgraded connection goes back to the kernel for good, for a reason.
    #[inline(always)]
    pub fn fell_back(socket: u32, reason: &str) {
        probe!(
            barewire_sockets,
            fell_back,
            socket,
            reason.as_ptr(),
            reason.len()
        );
    }

    /// One direction of a connection changes to the kernel, and may come back.
    #[inline(always)]
    pub fn stepped_back(socket: u32) {
        probe!(barewire_sockets, stepped_back, socket);
    }

    /// A thread is about to sleep in the kernel on a socket, on an epoll set, or on several sockets (-1).
    #[inline(always)]
    pub fn sleeps(fd: i32) {
        probe!(barewire_sockets, sleeps, fd);
    }

    /// It has come back.
    #[inline(always)]
    pub fn woken(fd: i32) {
        probe!(barewire_sockets, woken, fd);
    }

    /// A wake-up byte is sent to the other end of a socket.
    #[inline(always)]
    pub fn wakes_peer(fd: i32) {
        probe!(barewire_sockets, wakes_peer, fd);
    }

    /// The other end has gone without a word, and has left bytes of the ring unread.
    #[inline(always)]
    pub fn peer_lost(socket: u32, unread_bytes: u64) {
        probe!(barewire_sockets, peer_lost, socket, unread_bytes);
    }
}

/// In programs with nodes: provider `barewire`.
pub mod nodes {
    use probe::probe;

    /// A link is up, to this process of this user. That is the own process if the node is on another host: its proxy is
    /// there.
    #[inline(always)]
    pub fn link_up(pid: i32, uid: u32) {
        probe!(barewire, link_up, pid, uid);
    }

    /// It has ended.
    #[inline(always)]
    pub fn link_ended(pid: i32, uid: u32) {
        probe!(barewire, link_ended, pid, uid);
    }

    /// The process at the other end of a link has died.
    #[inline(always)]
    pub fn peer_died(pid: i32, uid: u32) {
        probe!(barewire, peer_died, pid, uid);
    }

    /// A thread is about to sleep in the kernel until something comes for its node.
    #[inline(always)]
    pub fn sleeps() {
        probe!(barewire, sleeps);
    }

    /// It has come back.
    #[inline(always)]
    pub fn woken() {
        probe!(barewire, woken);
    }

    /// A node is woken that sleeps: of this process.
    #[inline(always)]
    pub fn wakes_peer(pid: i32) {
        probe!(barewire, wakes_peer, pid);
    }
}
