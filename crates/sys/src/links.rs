//! Links, bridges and addresses of network namespaces.
//!
//! A link message has an `ifinfomsg` first: family 1, pad 1, type 2, index 4, flags 4, change 4;
//! an address message an `ifaddrmsg`: family 1, prefix 1, flags 1, scope 1, index 4.
//! Layouts are of `linux/if_link.h` and `linux/if_addr.h`.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd};

use crate::netlink::{FLAG_CREATE, FLAG_EXCLUSIVE, Request, RouteSocket, attribute};
use crate::netns::NetNamespace;

const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
const NAME: u16 = 3;
const MTU: u16 = 4;
const MASTER: u16 = 10;
const INFO: u16 = 18;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const NAMESPACE: u16 = 28;
const SEGMENTS: u16 = 40;
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const HARDWARE: u16 = 1;
const IPV4: u8 = 2;
const IPV6: u8 = 10;
const UP: u32 = 1;
/// An address of version 6 is used at once, without asking first whether another host has it.
const NO_DETECTION: u8 = 0x02;
/// `ARPHRD_ETHER`.
const ETHERNET: u16 = 1;

/// No index and no flags: names say which link is meant.
const ANY: [u8; 16] = [0; 16];

/// A bridge in the socket's namespace.
///
/// # Errors
/// The kernel's: not allowed, there already, no bridges in this kernel.
pub fn add_bridge(socket: &mut RouteSocket, name: &str) -> io::Result<()> {
    let request = Request::new(NEW_LINK, FLAG_CREATE | FLAG_EXCLUSIVE, &ANY)
        .with_name(NAME, name)
        .nest(INFO, |it| it.with_name(INFO_KIND, "bridge"));
    socket.change(request)
}

/// A cable from the socket's namespace to another one: a pair of `veth` links, which are down.
///
/// # Errors
/// The kernel's: not allowed, there already, no such links in this kernel.
pub fn add_cable(
    socket: &mut RouteSocket,
    name: &str,
    far: &NetNamespace,
    far_name: &str,
) -> io::Result<()> {
    let far = far.as_fd().as_raw_fd();
    let peer = |it: Request| {
        it.raw(&ANY)
            .with_name(NAME, far_name)
            .with(NAMESPACE, &far.to_ne_bytes())
    };
    let request = Request::new(NEW_LINK, FLAG_CREATE | FLAG_EXCLUSIVE, &ANY)
        .with_name(NAME, name)
        .nest(INFO, |it| {
            it.with_name(INFO_KIND, "veth")
                .nest(INFO_DATA, |it| it.nest(VETH_PEER, peer))
        });
    socket.change(request)
}

/// How a link is set.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Longest packet.
    pub mtu_bytes: u32,
    /// TCP hands over so many packets at once, as where a NIC makes the packets. A queue takes or
    /// drops them together.
    pub segments_max: u32,
    /// Index of the bridge of which it is a port.
    pub bridge: Option<u32>,
}

/// Sets a link of the socket's namespace and lets it carry packets.
///
/// # Errors
/// The kernel's: not allowed, no such link.
pub fn set_up(socket: &mut RouteSocket, name: &str, setting: Setting) -> io::Result<()> {
    let mut request = Request::new(NEW_LINK, 0, &state(true))
        .with_name(NAME, name)
        .with(MTU, &setting.mtu_bytes.to_ne_bytes())
        .with(SEGMENTS, &setting.segments_max.to_ne_bytes());
    if let Some(bridge) = setting.bridge {
        request = request.with(MASTER, &bridge.to_ne_bytes());
    }
    socket.change(request)
}

/// The fixed part of a message that has a link carry packets, or stop it.
fn state(is_up: bool) -> [u8; 16] {
    let mut fixed = ANY;
    fixed[8..12].copy_from_slice(&u32::from(is_up).to_ne_bytes());
    fixed[12..16].copy_from_slice(&UP.to_ne_bytes());
    fixed
}

/// Has a link of the socket's namespace carry packets, as it is set, or stops it.
///
/// # Errors
/// The kernel's: not allowed, no such link.
pub fn set_state(socket: &mut RouteSocket, name: &str, is_up: bool) -> io::Result<()> {
    socket.change(Request::new(NEW_LINK, 0, &state(is_up)).with_name(NAME, name))
}

/// What the kernel says of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index.
    pub index: u32,
    /// Whether it is set to carry packets.
    pub is_up: bool,
    /// The longest packet, in bytes.
    pub mtu_bytes: u32,
    /// Its Ethernet address, if it is an Ethernet.
    pub hardware_address: Option<[u8; 6]>,
}

/// A link of the socket's namespace.
///
/// # Errors
/// The kernel's: no such link.
pub fn link(socket: &mut RouteSocket, name: &str) -> io::Result<Link> {
    let about = socket.get(Request::new(GET_LINK, 0, &ANY).with_name(NAME, name))?;
    let (fixed, rest) = about
        .split_first_chunk::<16>()
        .ok_or(io::ErrorKind::InvalidData)?;
    let word =
        |at: usize| u32::from_ne_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let number = |bytes: &[u8]| bytes.first_chunk::<4>().map(|it| u32::from_ne_bytes(*it));
    let is_ethernet = u16::from_ne_bytes([fixed[2], fixed[3]]) == ETHERNET;
    let hardware = attribute(rest, HARDWARE).and_then(|it| it.try_into().ok());
    Ok(Link {
        index: word(4),
        is_up: word(8) & UP != 0,
        mtu_bytes: attribute(rest, MTU).and_then(number).unwrap_or(0),
        hardware_address: hardware.filter(|_| is_ethernet),
    })
}

/// The index of a link of the socket's namespace.
///
/// # Errors
/// The kernel's: no such link.
pub fn index(socket: &mut RouteSocket, name: &str) -> io::Result<u32> {
    link(socket, name).map(|link| link.index)
}

/// Makes a link a port of a bridge, which is named by its index.
///
/// # Errors
/// The kernel's: not allowed, no such link.
pub fn set_bridge(socket: &mut RouteSocket, name: &str, bridge: u32) -> io::Result<()> {
    let request = Request::new(NEW_LINK, 0, &ANY).with_name(NAME, name);
    socket.change(request.with(MASTER, &bridge.to_ne_bytes()))
}

/// Gives a link an address in a network of 2^8 of them.
///
/// # Errors
/// The kernel's: not allowed, no such link, there already.
pub fn add_address(socket: &mut RouteSocket, link: u32, address: Ipv4Addr) -> io::Result<()> {
    add_address_in(socket, link, address.into(), 24)
}

/// Gives a link an address in a network of those that begin with the same `prefix` bits.
///
/// # Errors
/// The kernel's: not allowed, no such link, there already, IPv6 is switched off.
pub fn add_address_in(
    socket: &mut RouteSocket,
    link: u32,
    address: IpAddr,
    prefix: u8,
) -> io::Result<()> {
    let (family, flags) = match address {
        IpAddr::V4(_) => (IPV4, 0),
        IpAddr::V6(_) => (IPV6, NO_DETECTION),
    };
    let mut fixed = [family, prefix, flags, 0, 0, 0, 0, 0];
    fixed[4..].copy_from_slice(&link.to_ne_bytes());
    let request = Request::new(NEW_ADDRESS, FLAG_CREATE | FLAG_EXCLUSIVE, &fixed);
    socket.change(match address {
        IpAddr::V4(address) => request
            .with(LOCAL, &address.octets())
            .with(ADDRESS, &address.octets()),
        IpAddr::V6(address) => request.with(ADDRESS, &address.octets()),
    })
}

/// All addresses of the socket's namespace, each with the index of its link.
///
/// # Errors
/// The kernel's.
pub fn addresses(socket: &mut RouteSocket) -> io::Result<Vec<(u32, IpAddr)>> {
    let all = socket.list(Request::new(GET_ADDRESS, 0, &[0; 8]))?;
    let read = |about: &Vec<u8>| {
        let (fixed, rest) = about.split_first_chunk::<8>()?;
        let link = u32::from_ne_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
        // At a link between two hosts, ADDRESS is the other one.
        let bytes = attribute(rest, LOCAL).or_else(|| attribute(rest, ADDRESS))?;
        let address = match fixed[0] {
            IPV4 => IpAddr::from(*bytes.first_chunk::<4>()?),
            IPV6 => IpAddr::from(*bytes.first_chunk::<16>()?),
            _ => return None,
        };
        Some((link, address))
    };
    Ok(all.iter().filter_map(read).collect())
}
