//! Connections that leave this host, under `barewire run --edge`: the program's side of the gateway
//! (`crates/edge/src/gateway.rs`), which has them through the bridge.
//!
//! The program keeps its own TCP socket: descriptor, options, epoll sets and duplicates are as they were. What `connect`
//! does instead of the kernel's:
//!
//! 1. It starts to connect the socket to the gateway, over the loopback device, without waiting. The gateway's listening
//!    socket drops what comes, so the socket is on its way, as one whose other end has not answered yet.
//! 2. It gives the gateway a duplicate of the socket, and says where the program wants to go.
//! 3. The gateway connects there, and then connects *back* to the program's socket. TCP permits that both ends open a
//!    connection (RFC 9293, 3.5): the kernel reports the socket as connected. If the gateway could not connect, it ends
//!    the socket's attempt by the duplicate. The kernel reports an error, and the program is told the real one.
//!
//! So the kernel does all waiting: of `connect`, `poll`, `epoll_wait` and io_uring, with time limits and signals. This
//! library keeps nothing about the socket. Addresses and errors are asked for where the program asks.
//!
//! If there is no gateway any more, or the socket is not one that it can take, the kernel connects as ever.

use core::ffi::c_int;
use core::mem::{offset_of, zeroed};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;

use barewire_calls::{descriptor, message, name, option};
use barewire_proto::edge::program::{ANSWER_BYTES, Answer, Gateway, Request};
use barewire_units::log::Level;
use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use crate::process::{fault, log};
use crate::system::cancel::quietly;
use crate::system::kernel::{self, Owned, events_in};
use crate::system::real;

/// The gateway, if the environment names one.
static GATEWAY: OnceLock<Gateway> = OnceLock::new();

/// How long the gateway may take to answer a question.
const ANSWER_WAIT_MS: c_int = 2_000;

/// States of TCP sockets, as `struct tcp_info` has them.
const CLOSED: u8 = 7;

/// Reads the environment. For the constructor.
pub fn set_up(value: &core::ffi::CStr) {
    let gateway = value.to_str().ok().and_then(Gateway::parse);
    match gateway {
        Some(gateway) => {
            let _ = GATEWAY.set(gateway);
        }
        None => log::line(
            Level::Warn,
            format_args!(
                "BAREWIRE_EDGE is not understood, and left out: the kernel connects. `barewire run --edge` sets it"
            ),
        ),
    }
}

/// Whether connections may go through a gateway.
#[inline]
pub fn is_on() -> bool {
    GATEWAY.get().is_some()
}

/// What `connect` has begun.
enum Begun {
    /// The kernel is to connect.
    Kernel,
    /// The socket is on its way. The program waits in the kernel, if it does.
    OnItsWay { waits: bool },
    /// It fails.
    Failed(c_int),
    /// It was on its way before.
    Again,
}

/// Connects a socket through the gateway. `None`: the kernel is to do it.
pub fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> Option<c_int> {
    let gateway = GATEWAY.get()?;
    let fail = |error| {
        real::set_errno(error);
        Some(-1)
    };
    match quietly(|| begin(gateway, fd, address, len)) {
        Begun::Kernel => None,
        Begun::Failed(error) => fail(error),
        Begun::OnItsWay { waits: false } => fail(libc::EINPROGRESS),
        begun => {
            // The kernel waits, as long as the program wants.
            let to = place(gateway, is_v6_only_target(address));
            let result = to.with(|at, len| {
                // SAFETY: the address lives.
                unsafe { real::connect(fd, at, len) }
            });
            if result == 0 {
                return Some(0);
            }
            match (real::errno(), begun) {
                // The time that the program has set is over.
                (libc::EALREADY, Begun::OnItsWay { .. }) => fail(libc::EINPROGRESS),
                (error, _) => fail(told(fd, error)),
            }
        }
    }
}

/// Where a socket connects to.
struct Place {
    address: sockaddr_in6,
    len: usize,
}

impl Place {
    fn with<R>(&self, call: impl FnOnce(*const sockaddr, socklen_t) -> R) -> R {
        call((&raw const self.address).cast(), self.len as socklen_t)
    }
}

/// The gateway's address in the family of the program's address.
fn place(gateway: &Gateway, target: Wanted) -> Place {
    match (target, gateway.v6) {
        (Wanted::V6, Some(v6)) => address_of(v6.into(), true),
        (Wanted::MappedV4, _) => address_of(gateway.v4.into(), true),
        _ => address_of(gateway.v4.into(), false),
    }
}

/// An address as the kernel takes it; `in_v6`: of a socket of IPv6.
fn address_of(end: SocketAddr, in_v6: bool) -> Place {
    // SAFETY: zeros are an address.
    let mut address: sockaddr_in6 = unsafe { zeroed() };
    let octets = match end.ip() {
        IpAddr::V4(v4) if !in_v6 => {
            // SAFETY: it is shorter than the place; nothing else looks at that meanwhile.
            unsafe {
                (&raw mut address)
                    .cast::<sockaddr_in>()
                    .write_unaligned(sockaddr_in {
                        sin_family: libc::AF_INET as libc::sa_family_t,
                        sin_port: end.port().to_be(),
                        sin_addr: libc::in_addr {
                            s_addr: u32::from_ne_bytes(v4.octets()),
                        },
                        sin_zero: [0; 8],
                    });
            }
            return Place {
                address,
                len: size_of::<sockaddr_in>(),
            };
        }
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    address.sin6_family = libc::AF_INET6 as libc::sa_family_t;
    address.sin6_port = end.port().to_be();
    address.sin6_addr.s6_addr = octets;
    Place {
        address,
        len: size_of::<sockaddr_in6>(),
    }
}

/// Which of the gateway's addresses a socket needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    V4,
    MappedV4,
    V6,
}

fn is_v6_only_target(address: *const sockaddr) -> Wanted {
    // It was read before; the kernel says what is wrong if it is gone.
    let len = size_of::<sockaddr_in6>() as socklen_t;
    wanted(address, len).map_or(Wanted::V4, |(_, wanted)| wanted)
}

/// The address that the program gives, with IPv4 in IPv6 as IPv4.
fn wanted(address: *const sockaddr, len: socklen_t) -> Option<(SocketAddr, Wanted)> {
    let len = len as usize;
    if len < size_of::<sockaddr_in>() {
        return None;
    }
    // SAFETY: any bytes are one.
    let v4 = unsafe { fault::copy_aside(address.cast::<sockaddr_in>()) }?;
    let port = u16::from_be(v4.sin_port);
    match c_int::from(v4.sin_family) {
        libc::AF_INET => {
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some((SocketAddr::new(ip.into(), port), Wanted::V4))
        }
        libc::AF_INET6 if len >= offset_of!(sockaddr_in6, sin6_scope_id) => {
            // SAFETY: as above; the scope is not looked at.
            let v6 = unsafe { fault::copy_aside(address.cast::<[u8; 24]>()) }?;
            let octets: [u8; 16] = v6[8..].try_into().ok()?;
            let ip = Ipv6Addr::from(octets).to_canonical();
            let wanted = match ip {
                IpAddr::V4(_) => Wanted::MappedV4,
                IpAddr::V6(_) => Wanted::V6,
            };
            Some((SocketAddr::new(ip, port), wanted))
        }
        _ => None,
    }
}

fn begin(gateway: &Gateway, fd: c_int, address: *const sockaddr, len: socklen_t) -> Begun {
    let Some((target, kind)) = wanted(address, len) else {
        return Begun::Kernel;
    };
    let tcp = Some(libc::IPPROTO_TCP);
    if !gateway.may_carry(target.ip())
        || target.port() == 0
        || kernel::option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) != tcp
    {
        return Begun::Kernel;
    }
    let Some(own) = kernel::address(fd, true).and_then(|(own, _)| kernel::socket_address(&own))
    else {
        return Begun::Kernel;
    };
    match state(fd) {
        Some(CLOSED) => {}
        // Only the gateway is an end of such a socket for an address outside.
        Some(_) if own.ip().is_loopback() => return Begun::Again,
        _ => return Begun::Kernel,
    }
    // One that the gateway could not connect.
    match kernel::option(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
        Some(0) => {}
        Some(error) => return Begun::Failed(told(fd, error)),
        None => return Begun::Kernel,
    }
    // Who names a network means all of it.
    let is_named = gateway.networks.iter().flatten().next().is_some();
    if !own.ip().is_unspecified() || stays(fd) || (!is_named && is_here(target)) {
        return Begun::Kernel;
    }
    start(gateway, fd, target, &place(gateway, kind))
}

/// The state of a TCP socket.
fn state(fd: c_int) -> Option<u8> {
    // The first byte of `struct tcp_info`.
    let mut state = [0];
    let known = option::get_bytes(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut state);
    (known == Ok(1)).then_some(state[0])
}

/// Whether only the kernel can do what the program has set: connect by a device of its choice, or with the first bytes.
fn stays(fd: c_int) -> bool {
    let mut device = [0; libc::IFNAMSIZ];
    let bound = option::get_bytes(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &mut device);
    let is_fast = kernel::option(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT);
    !matches!(bound, Ok(0)) || is_fast.is_some_and(|set| set != 0)
}

/// Whether an address is one of this host's: the kernel would send from the same address.
fn is_here(target: SocketAddr) -> bool {
    let family = if target.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let Some(probe) = Owned::checked(name::socket(family, libc::SOCK_DGRAM, 0)) else {
        return false;
    };
    let place = address_of(target, target.is_ipv6());
    // SAFETY: the address lives. Nothing is sent.
    let connected = place.with(|at, len| unsafe { real::connect(probe.raw(), at, len) });
    let own = kernel::address(probe.raw(), true);
    let own = own.and_then(|(own, _)| kernel::socket_address(&own));
    connected == 0 && own.is_some_and(|own| own.ip() == target.ip())
}

/// Sends the socket on its way.
fn start(gateway: &Gateway, fd: c_int, target: SocketAddr, to: &Place) -> Begun {
    let Some(cookie) = kernel::cookie(fd) else {
        return Begun::Kernel;
    };
    let asked = match reach(gateway) {
        Ok(asked) => asked,
        // As where the kernel has no room for another connection.
        Err(libc::EAGAIN) => return Begun::Failed(libc::EAGAIN),
        Err(error) => {
            log::line(
                Level::Warn,
                format_args!(
                    "the gateway to the bridge is gone (error {error}): the kernel connects to {target}"
                ),
            );
            return Begun::Kernel;
        }
    };
    let Ok(flags) = descriptor::flags(fd) else {
        return Begun::Kernel;
    };
    let waits = flags & libc::O_NONBLOCK == 0;
    if waits && descriptor::set_flags(fd, flags | libc::O_NONBLOCK).is_err() {
        return Begun::Kernel;
    }
    // SAFETY: the address lives.
    let result = to.with(|at, len| unsafe { real::connect(fd, at, len) });
    let error = real::errno();
    if waits {
        let _ = descriptor::set_flags(fd, flags);
    }
    if result != 0 && error != libc::EINPROGRESS {
        return Begun::Kernel;
    }
    let request = Request::Connect { cookie, target }.to_bytes(&gateway.token);
    // Who answers at once is not the gateway, which takes nothing.
    if result == 0 || message::send(asked.raw(), &request, &[fd]).is_err() {
        kernel::disconnect(fd);
        // The attempt leaves an error.
        let _ = kernel::option(fd, libc::SOL_SOCKET, libc::SO_ERROR);
        return Begun::Kernel;
    }
    Begun::OnItsWay { waits }
}

/// Connects to the gateway's Unix socket.
fn reach(gateway: &Gateway) -> Result<Owned, c_int> {
    let socket = Owned::checked(name::new()).ok_or(libc::EMFILE)?;
    name::connect(socket.raw(), &gateway.name())?;
    // Once it is gone, anybody may take its name.
    let other = option::peer_credentials(socket.raw())?;
    match other.uid == gateway.user {
        true => Ok(socket),
        false => Err(libc::EACCES),
    }
}

/// Asks the gateway something.
fn ask(gateway: &Gateway, request: &Request) -> Option<Answer> {
    let socket = reach(gateway).ok()?;
    let bytes = request.to_bytes(&gateway.token);
    message::send(socket.raw(), &bytes, &[]).ok()?;
    if events_in(socket.raw(), libc::POLLIN, ANSWER_WAIT_MS) & libc::POLLIN == 0 {
        return None;
    }
    let mut answer = [0; ANSWER_BYTES];
    Answer::parse(message::receive_bytes(socket.raw(), &mut answer, 0).ok()?)
}

/// An error of a socket as the program is to be told it: of one that the gateway could not connect, why.
pub fn told(fd: c_int, error: c_int) -> c_int {
    let Some(gateway) = GATEWAY.get() else {
        return error;
    };
    // What the kernel says when the gateway ends an attempt.
    if !matches!(error, libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED) {
        return error;
    }
    quietly(|| {
        let cookie = kernel::cookie(fd)?;
        let answer = ask(gateway, &Request::Error { cookie })?;
        (answer.error > 0).then_some(answer.error)
    })
    .unwrap_or(error)
}

/// Which end of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The program's.
    Own,
    /// The other one.
    Other,
}

/// The address of an end as the program is to see it, if the socket is connected through the gateway.
pub fn end(fd: c_int, side: Side) -> Option<(libc::sockaddr_storage, socklen_t)> {
    let gateway = GATEWAY.get()?;
    quietly(|| {
        let (address, _) = kernel::address(fd, false)?;
        let other = kernel::socket_address(&address)?;
        if !gateway.is_at(other) {
            return None;
        }
        let cookie = kernel::cookie(fd)?;
        let kernel = other;
        let answer = ask(gateway, &Request::Ends { cookie, kernel })?;
        let end = match side {
            Side::Own => answer.local?,
            Side::Other => answer.remote?,
        };
        let in_v6 = c_int::from(address.ss_family) == libc::AF_INET6;
        let place = address_of(end, in_v6);
        // SAFETY: zeros are an address, and what is copied has room.
        let mut whole: libc::sockaddr_storage = unsafe { zeroed() };
        // SAFETY: as above.
        unsafe {
            (&raw mut whole).cast::<sockaddr_in6>().write(place.address);
        }
        Some((whole, place.len as socklen_t))
    })
}

/// Tells the gateway of a socket that listens: at all addresses of the host, so at the bridge's, too.
pub fn listens(fd: c_int) {
    let Some(gateway) = GATEWAY.get() else {
        return;
    };
    quietly(|| {
        let tcp = Some(libc::IPPROTO_TCP);
        if kernel::option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) != tcp {
            return;
        }
        let own = kernel::address(fd, true).and_then(|(own, _)| kernel::socket_address(&own));
        let Some(at) = own.filter(|own| own.ip().is_unspecified()) else {
            return;
        };
        let takes_v6_only = || kernel::option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) == Some(1);
        if at.is_ipv6() && takes_v6_only() {
            // The gateway calls listeners over IPv4.
            return;
        }
        let request = Request::Listen { at }.to_bytes(&gateway.token);
        let told = reach(gateway).map(|socket| message::send(socket.raw(), &request, &[]));
        if !matches!(told, Ok(Ok(_))) {
            log::line(
                Level::Warn,
                format_args!("the gateway to the bridge does not hear of the listener at {at}"),
            );
        }
    });
}
