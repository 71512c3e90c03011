//! What the library asks of the kernel for itself, by `barewire-calls`: options, addresses, the other end of a connection,
//! counts of bytes.

use core::ffi::{c_int, c_short};
use core::mem::zeroed;

use barewire_calls::diag::{self, End};
use barewire_calls::{call, descriptor, name, option};

use crate::system::{cancel, own_descriptors, real};

/// A descriptor of the library; closed when dropped.
pub struct Owned(c_int);

impl Owned {
    /// Takes it over.
    pub const fn from_raw(fd: c_int) -> Self {
        Self(fd)
    }

    /// The descriptor.
    pub const fn raw(&self) -> c_int {
        self.0
    }

    /// Gives it up.
    pub const fn into_raw(self) -> c_int {
        let fd = self.0;
        core::mem::forget(self);
        fd
    }

    /// Takes over a new descriptor, if the call that made it succeeded, and moves it out of the program's
    /// way.
    pub fn checked(made: barewire_calls::Result<c_int>) -> Option<Self> {
        made.ok().map(Self::moved)
    }

    /// Takes over a new descriptor, and moves it out of the program's way.
    pub fn moved(fd: c_int) -> Self {
        Self(own_descriptors::moved(fd))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        descriptor::close(self.0);
    }
}

/// Reads a numeric option.
pub fn option(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    option::get(fd, level, name).ok()
}

/// How long a call may block, as the program has set it (`SO_RCVTIMEO`, `SO_SNDTIMEO`); `None`: for ever.
pub fn time_limit_ns(fd: c_int, name: c_int) -> Option<u64> {
    let mut words = [[0; 8]; 2];
    option::get_bytes(fd, libc::SOL_SOCKET, name, words.as_flattened_mut()).ok()?;
    // `struct timeval`: seconds, microseconds.
    let [s, us] = words.map(|word| i64::from_ne_bytes(word).unsigned_abs());
    let us = s * 1_000_000 + us;
    (us > 0).then(|| us.saturating_mul(1000))
}

/// Whether a descriptor is the writing end of a pipe.
///
/// # Errors
/// What `splice` says of one that is not.
pub fn is_pipe_to_write(fd: c_int) -> Result<(), c_int> {
    let kind = kind_of_file(fd).ok_or(libc::EBADF)?;
    let flags = descriptor::flags(fd)?;
    if flags & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(libc::EBADF);
    }
    (kind == libc::S_IFIFO).then_some(()).ok_or(libc::EINVAL)
}

/// Whether a descriptor is a regular file.
pub fn is_regular_file(fd: c_int) -> bool {
    kind_of_file(fd) == Some(libc::S_IFREG)
}

fn kind_of_file(fd: c_int) -> Option<libc::mode_t> {
    Some(descriptor::status(fd).ok()?.st_mode & libc::S_IFMT)
}

/// Which of these `events`, and of those that it always reports, the kernel reports for a descriptor at
/// this moment. 0: none.
pub fn events_now(fd: c_int, events: c_short) -> c_short {
    events_in(fd, events, 0)
}

/// As [`events_now`], and waits for one of them for so long. A signal ends the wait.
pub fn events_in(fd: c_int, events: c_short, longest_ms: c_int) -> c_short {
    let mut poll = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: one descriptor.
    let count = cancel::uncancelled(|| unsafe { real::poll(&raw mut poll, 1, longest_ms) });
    if count > 0 { poll.revents } else { 0 }
}

/// `epoll_ctl`, of which the program is told nothing.
pub fn change_set(set: c_int, operation: c_int, fd: c_int, events: u32, data: u64) -> bool {
    let event = libc::epoll_event { events, u64: data };
    let at = (&raw const event) as usize;
    let given = [set as usize, operation as usize, fd as usize, at];
    // SAFETY: the event lives.
    unsafe { call(libc::SYS_epoll_ctl, given) }.is_ok()
}

/// Whether a page can be written to a pipe without blocking.
pub fn pipe_has_room(fd: c_int) -> bool {
    events_now(fd, libc::POLLOUT) != 0
}

/// Whether the other end of a TCP connection has shut down its half, whatever this end did.
pub fn is_half_open(fd: c_int) -> bool {
    // The first byte of `struct tcp_info`.
    let mut state = [0];
    let known = option::get_bytes(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut state);
    known.is_ok() && state[0] != ESTABLISHED
}

/// Sets a numeric option.
pub fn set_option(fd: c_int, level: c_int, name: c_int, value: c_int) -> bool {
    option::set(fd, level, name, value).is_ok()
}

/// When this end is closed, the other end gets a reset.
pub fn reset_at_close(fd: c_int) {
    // `struct linger`: on, for no second.
    let linger = [1_i32, 0].map(i32::to_ne_bytes);
    let _ = option::set_bytes(fd, libc::SOL_SOCKET, libc::SO_LINGER, linger.as_flattened());
}

/// Ends a connection at once, as a reset does, for all processes that have the socket.
pub fn disconnect(fd: c_int) {
    let family = c_int::from(libc::AF_UNSPEC);
    let nobody = libc::sockaddr {
        sa_family: family as libc::sa_family_t,
        sa_data: [0; 14],
    };
    let len = size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: the address has its length; a Unix socket, which does not do this, is shut.
    unsafe {
        if real::connect(fd, &raw const nobody, len) != 0 {
            real::shutdown(fd, libc::SHUT_RDWR);
        }
    }
}

/// Whether calls on it never block.
pub fn never_waits(fd: c_int) -> bool {
    descriptor::flags(fd).is_ok_and(|flags| flags & libc::O_NONBLOCK != 0)
}

/// Options that make the kernel store when bytes came: `SO_TIMESTAMP` and its kin, old and new.
pub const TIMES: [c_int; 6] = [29, 35, 37, 63, 64, 65];

/// Whether the program has set a TCP socket to something that only the kernel can serve, before the library
/// knew the socket: signals when it is ready, a low-water mark, or control data.
pub fn is_kernel_only(fd: c_int) -> bool {
    let tells = |level, name| option(fd, level, name).is_some_and(|value| value != 0);
    if tells(libc::IPPROTO_TCP, libc::TCP_INQ) {
        return true;
    }
    if TIMES.iter().any(|&name| tells(libc::SOL_SOCKET, name)) {
        return true;
    }
    let is_silent = descriptor::flags(fd).is_ok_and(|flags| flags & libc::O_ASYNC == 0);
    let mark = option(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT);
    // 0, which a listener of Multipath TCP hands on, means what 1 means.
    !is_silent || mark.is_none_or(|mark| mark > 1)
}

/// The kernel's cookie of a socket, which no other socket has.
pub fn cookie(fd: c_int) -> Option<u64> {
    let mut value = [0; 8];
    option::get_bytes(fd, libc::SOL_SOCKET, libc::SO_COOKIE, &mut value).ok()?;
    Some(u64::from_ne_bytes(value))
}

/// The two ends of a TCP connection.
pub struct Tuple {
    own: End,
    other: End,
}

fn end_of(address: &libc::sockaddr_storage) -> Option<End> {
    match c_int::from(address.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is one; the storage is larger.
            let v4 = unsafe { &*(&raw const *address).cast::<libc::sockaddr_in>() };
            let mut mapped = [0; 16];
            mapped[10..12].copy_from_slice(&[0xff; 2]);
            mapped[12..].copy_from_slice(&v4.sin_addr.s_addr.to_ne_bytes());
            Some(End {
                address: mapped,
                port: u16::from_be(v4.sin_port),
            })
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*(&raw const *address).cast::<libc::sockaddr_in6>() };
            Some(End {
                address: v6.sin6_addr.s6_addr,
                port: u16::from_be(v6.sin6_port),
            })
        }
        _ => None,
    }
}

/// The address of a socket, or of its other end, and its length.
pub fn address(fd: c_int, own: bool) -> Option<(libc::sockaddr_storage, libc::socklen_t)> {
    // SAFETY: zeros are an address of no family; the kernel writes at most `len` bytes.
    unsafe {
        let mut address: libc::sockaddr_storage = zeroed();
        let mut len = size_of_val(&address) as libc::socklen_t;
        let (at, len_at) = ((&raw mut address).cast(), &raw mut len);
        let result = match own {
            true => real::getsockname(fd, at, len_at),
            false => real::getpeername(fd, at, len_at),
        };
        (result == 0).then_some((address, len))
    }
}

/// An address with a port; IPv4 in IPv6 as IPv4.
pub fn socket_address(address: &libc::sockaddr_storage) -> Option<core::net::SocketAddr> {
    let end = end_of(address)?;
    let ip = core::net::Ipv6Addr::from(end.address).to_canonical();
    Some(core::net::SocketAddr::new(ip, end.port))
}

/// The two ends of a connected socket.
pub fn tuple(fd: c_int) -> Option<Tuple> {
    let ((own, _), (other, _)) = (address(fd, true)?, address(fd, false)?);
    let tuple = Tuple {
        own: end_of(&own)?,
        other: end_of(&other)?,
    };
    // A socket that is connected to itself has one end only.
    (tuple.own != tuple.other).then_some(tuple)
}

/// What names of rendezvous sockets of TCP connections begin with.
const TCP_PREFIX: &[u8] = b"barewire/5/tcp/";
/// Longest name of a rendezvous socket: two addresses and ports follow, as digits.
const NAME_BYTES: usize = TCP_PREFIX.len() + 2 * 2 * 18;

/// The name of a rendezvous socket.
pub struct Name {
    bytes: [u8; NAME_BYTES],
    len: usize,
}

impl Name {
    /// Every prefix has the version of the greeting and of the stream memory (`upgrade::steps`): libraries of different
    /// versions never meet, and both ends stay with the kernel.
    pub fn begin(prefix: &[u8]) -> Self {
        let mut name = Self {
            bytes: [0; NAME_BYTES],
            len: prefix.len(),
        };
        name.bytes[..prefix.len()].copy_from_slice(prefix);
        name
    }

    pub fn add(&mut self, bytes: impl IntoIterator<Item = u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for byte in bytes {
            self.bytes[self.len] = DIGITS[usize::from(byte >> 4)];
            self.bytes[self.len + 1] = DIGITS[usize::from(byte & 15)];
            self.len += 2;
        }
    }
}

impl Tuple {
    /// The own end and the other.
    pub fn ends(&self) -> [core::net::SocketAddr; 2] {
        [self.own, self.other].map(|end| {
            let address = core::net::Ipv6Addr::from(end.address).to_canonical();
            core::net::SocketAddr::new(address, end.port)
        })
    }

    /// Where both ends meet: the same name from either end.
    pub fn rendezvous_name(&self) -> Name {
        let (low, high) = if self.own <= self.other {
            (self.own, self.other)
        } else {
            (self.other, self.own)
        };
        let mut name = Name::begin(TCP_PREFIX);
        for end in [low, high] {
            name.add(end.address);
            name.add(end.port.to_be_bytes());
        }
        name
    }
}

/// Connects to an abstract name, if somebody listens there.
pub fn connect_abstract(name: &Name) -> Option<Owned> {
    with_name(name, name::connect)
}

/// Binds an abstract name, if it is free. Nobody can connect before [`listen`].
pub fn bind_abstract(name: &Name) -> Option<Owned> {
    with_name(name, name::bind)
}

fn with_name(name: &Name, call: fn(c_int, &[u8]) -> Result<(), c_int>) -> Option<Owned> {
    let socket = Owned::checked(name::new())?;
    call(socket.raw(), &name.bytes[..name.len]).ok()?;
    Some(socket)
}

/// Connections that wait at a rendezvous socket at most: strangers may come as well.
const VISITORS_MAX: c_int = 8;

/// Lets others connect to a name.
pub fn listen(socket: &Owned) -> bool {
    name::listen(socket.raw(), VISITORS_MAX).is_ok()
}

/// Accepts a connection, if there is one.
pub fn accept_now(fd: c_int) -> Option<Owned> {
    Owned::checked(name::accept(fd))
}

/// Bytes of the stream that were sent and read so far, as the kernel counts them. For the end
/// that opened the connection it counts the opening as a byte.
pub fn stream_positions(fd: c_int, opener: bool) -> Option<(u64, u64)> {
    positions_while(fd, opener, |state| state == ESTABLISHED)
}

/// Bytes that were sent so far, as the kernel counts them. Not if this end has ended its half.
pub fn bytes_sent(fd: c_int, opener: bool) -> Option<u64> {
    let is_open = |state| matches!(state, ESTABLISHED | CLOSE_WAIT);
    positions_while(fd, opener, is_open).map(|(sent, _)| sent)
}

/// Bytes that were read so far, as the kernel counts them: the other end's end is one.
pub fn bytes_read(fd: c_int) -> Option<u64> {
    let mut is_ended = false;
    let is_open = |state| {
        is_ended = state == CLOSE_WAIT;
        matches!(state, ESTABLISHED | CLOSE_WAIT | FIN_WAIT_1 | FIN_WAIT_2)
    };
    let (_, read) = positions_while(fd, false, is_open)?;
    Some(read - u64::from(is_ended))
}

/// How often the counts of a busy connection may change between two questions.
const LOOKS_MAX: u32 = 256;

fn positions_while(
    fd: c_int,
    opener: bool,
    mut holds: impl FnMut(u8) -> bool,
) -> Option<(u64, u64)> {
    // What arrives, or is acknowledged, between two questions: ask again.
    for _ in 0..LOOKS_MAX {
        let before = tcp_info(fd)?;
        let unread = descriptor::count(fd, libc::FIONREAD);
        let unacknowledged = descriptor::count(fd, libc::TIOCOUTQ);
        let after = tcp_info(fd)?;
        let (Ok(unread), Ok(unacknowledged), true) = (unread, unacknowledged, holds(after.state))
        else {
            return None;
        };
        if before == after {
            let sent = after.acknowledged + u64::from(unacknowledged.unsigned_abs());
            let read = after
                .received
                .checked_sub(u64::from(unread.unsigned_abs()))?;
            return Some((sent.checked_sub(u64::from(opener))?, read));
        }
    }
    None
}

/// States of a connection (include/net/tcp_states.h).
pub const ESTABLISHED: u8 = 1;
/// This end has ended its half.
const FIN_WAIT_1: u8 = 4;
/// So it has, and the other end knows.
const FIN_WAIT_2: u8 = 5;
/// The other end has ended its half.
const CLOSE_WAIT: u8 = 8;

/// Whether a TCP connection is over, or one end has shut its half.
pub fn is_hung_up(fd: c_int) -> bool {
    tcp_info(fd).is_some_and(|info| info.state != ESTABLISHED)
}

#[derive(PartialEq, Eq)]
struct Info {
    state: u8,
    acknowledged: u64,
    received: u64,
}

/// Offsets in the kernel's `struct tcp_info` (include/uapi/linux/tcp.h): `tcpi_bytes_acked`
/// and `tcpi_bytes_received`, which Linux has since 4.1.
const BYTES_ACKED_AT: usize = 120;
const BYTES_RECEIVED_AT: usize = 128;

fn tcp_info(fd: c_int) -> Option<Info> {
    let mut bytes = [0; 256];
    let len = option::get_bytes(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes).ok()?;
    if len < BYTES_RECEIVED_AT + 8 {
        return None;
    }
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_ne_bytes(word)
    };
    Some(Info {
        state: bytes[0],
        acknowledged: word(BYTES_ACKED_AT),
        received: word(BYTES_RECEIVED_AT),
    })
}

/// Who has the other end of a connection.
pub struct Peer {
    /// The user.
    pub user: u32,
    /// The socket's inode; 0 before it is accepted.
    pub inode: u32,
    /// The socket's cookie.
    pub cookie: u64,
    /// Whether it has the mark of `upgrade`.
    pub is_marked: bool,
    /// Whether it has the sign that its process holds the rendezvous socket.
    pub is_holder: bool,
    /// The state of the connection, as that end sees it.
    pub state: u8,
}

/// User id that stands for all that a user namespace does not know.
const OVERFLOW_USER: u32 = 65_534;
/// `/proc/self/uid_map` of a namespace that knows all users.
const ALL_USERS: [&[u8]; 3] = [b"0", b"0", b"4294967295"];

/// Whether a user of whom the kernel told is one user. Those that our user namespace does not
/// know all look like the overflow user; where it knows all, that is a user like others
/// (`nobody`).
pub fn is_one_user(user: u32) -> bool {
    // Asked again each time: the program may have moved to another namespace.
    user != OVERFLOW_USER || knows_all_users().unwrap_or(false)
}

fn knows_all_users() -> Option<bool> {
    let mut text = [0_u8; 64];
    let text = descriptor::beginning(c"/proc/self/uid_map", &mut text).ok()?;
    let words = text.split(|byte| byte.is_ascii_whitespace());
    Some(words.filter(|word| !word.is_empty()).eq(ALL_USERS))
}

/// Asks the kernel for the other end of a connection of this host.
pub fn other_end(tuple: &Tuple) -> Option<Peer> {
    // A socket that listens on the address is what the kernel finds when there is none.
    any_end(tuple).filter(|peer| peer.state == ESTABLISHED)
}

/// Whether the other end of a connection of this host, which has shut its half, is a socket
/// that no process has any more, or that the kernel itself has forgotten.
pub fn is_abandoned(tuple: &Tuple) -> bool {
    any_end(tuple).is_none_or(|peer| peer.state != ESTABLISHED && peer.inode == 0)
}

fn any_end(tuple: &Tuple) -> Option<Peer> {
    // The socket at the other end may be of the other family: an IPv6 one that takes IPv4.
    let families: &[c_int] = match tuple.own.is_v4() {
        false => &[libc::AF_INET6],
        true => &[libc::AF_INET, libc::AF_INET6],
    };
    let socket = Owned::checked(diag::socket())?;
    families.iter().find_map(|&family| {
        let found = diag::tcp(socket.raw(), family, &tuple.other, &tuple.own).ok()?;
        let options = found.options.unwrap_or(LOOPS_MULTICASTS);
        Some(Peer {
            user: found.user,
            inode: found.inode,
            cookie: found.cookie,
            is_marked: options & LOOPS_MULTICASTS == 0,
            is_holder: options & TELLS_LENGTHS != 0,
            state: found.state,
        })
    })
}

/// In `struct inet_diag_sockopt`: `mc_loop`.
const LOOPS_MULTICASTS: u16 = 1 << 4;
/// As above: `recverr_rfc4884`, which means nothing to TCP.
const TELLS_LENGTHS: u16 = 1 << 9;
/// `IP_RECVERR_RFC4884`, which sets it.
pub const TELL_LENGTHS: c_int = 26;

/// Sets or clears the mark of the process that holds the rendezvous socket of a TCP connection. Only a
/// process that has the socket can do that.
pub fn set_holder(fd: c_int, on: bool) -> bool {
    set_option(fd, libc::IPPROTO_IP, TELL_LENGTHS, c_int::from(on))
}
