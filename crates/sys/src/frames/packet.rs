//! Packet sockets: `linux/if_packet.h`, packet(7).

mod ring;

use std::mem::zeroed;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use barewire_calls::option::{set, set_bytes};
use barewire_calls::{Errno as Number, call};

use super::problem::FrameError;
use crate::error::{SysError, new_fd};
use crate::links::Link;
pub(super) use ring::Ring;

const ADD_MEMBERSHIP: i32 = 1;
const FRAME_HEADER: i32 = 15;
const IGNORE_OUTGOING: i32 = 23;
const MEMBER_MULTICAST: u16 = 0;

/// Instructions of the filter: `linux/bpf_common.h`.
const LOAD_HALF: u16 = 0x28;
const LOAD_WORD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// How much the socket may hold that was not read yet: a burst of a thousand large packets.
const RECEIVE_BYTES: i32 = 64 << 20;

/// Which frames of an interface to receive: ARP, neighbour discovery, and what goes to these addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Want {
    /// An address.
    pub v4: Option<Ipv4Addr>,
    /// An address. Multicasts of the link come, too.
    pub v6: Option<Ipv6Addr>,
}

/// A socket, and its ring where the kernel gives it one.
pub(super) fn open(
    link: &Link,
    name: &str,
    has_header: bool,
    want: &Want,
) -> Result<(OwnedFd, Option<Ring>), FrameError> {
    if link.hardware_address.is_none() {
        return Err(FrameError::NotEthernet(name.to_owned()));
    }
    let fd = socket()?;
    let raw = fd.as_raw_fd();
    let on = |what: &'static str| move |errno: Number| SysError::new(what, errno);
    set(raw, libc::SOL_PACKET, IGNORE_OUTGOING, 1).map_err(on("leave out what this host sends"))?;
    if has_header {
        set(raw, libc::SOL_PACKET, FRAME_HEADER, 1).map_err(on("set the header of frames"))?;
    }
    // Without CAP_NET_ADMIN the kernel allows less.
    if set(raw, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BYTES).is_err() {
        let _ = set(raw, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BYTES);
    }
    attach(raw, &filter(want)).map_err(on("set the filter of a packet socket"))?;
    if let Some(v6) = want.v6 {
        join(raw, link.index, solicited(v6)).map_err(on("join a multicast group"))?;
    }
    // Without one, each frame is read by a system call.
    let ring = Ring::open(raw, has_header).ok();
    bind(raw, link.index).map_err(on("bind a packet socket"))?;
    Ok((fd, ring))
}

/// A packet socket without a protocol: it receives nothing before it is bound.
pub(super) fn socket() -> Result<OwnedFd, FrameError> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let made = unsafe {
        call(
            libc::SYS_socket,
            [libc::AF_PACKET as usize, kind as usize, 0],
        )
    };
    new_fd(made.map(|fd| fd as i32)).map_err(|errno| match errno {
        libc::EPERM | libc::EACCES => FrameError::NotAllowed {
            what: "open a packet socket",
            errno: errno.into(),
            capability: "CAP_NET_RAW",
            setcap: "cap_net_raw",
        },
        _ => SysError::new("open a packet socket", errno).into(),
    })
}

/// The Ethernet address to which neighbours send questions about an address (RFC 4291, 2.7.1; RFC 2464, 7).
pub(super) fn solicited(address: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c] = address.octets();
    [0x33, 0x33, 0xff, a, b, c]
}

pub(super) fn join(fd: i32, index: u32, group: [u8; 6]) -> Result<(), Number> {
    // `struct packet_mreq`: index, kind, length of the address, and eight bytes for it.
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&index.to_ne_bytes());
    bytes[4..6].copy_from_slice(&MEMBER_MULTICAST.to_ne_bytes());
    bytes[6..8].copy_from_slice(&6_u16.to_ne_bytes());
    bytes[8..14].copy_from_slice(&group);
    set_bytes(fd, libc::SOL_PACKET, ADD_MEMBERSHIP, &bytes)
}

fn bind(fd: i32, index: u32) -> Result<(), Number> {
    // SAFETY: zeros are an address.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as i32;
    let (at, len) = (
        (&raw const address) as usize,
        size_of::<libc::sockaddr_ll>(),
    );
    // SAFETY: `address` has `len` bytes.
    unsafe { call(libc::SYS_bind, [fd as usize, at, len]) }.map(drop)
}

fn attach(fd: i32, program: &[libc::sock_filter]) -> Result<(), Number> {
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    let (at, len) = ((&raw const program) as usize, size_of::<libc::sock_fprog>());
    let (level, name) = (libc::SOL_SOCKET as usize, libc::SO_ATTACH_FILTER as usize);
    // SAFETY: the kernel reads `len` instructions, and changes none.
    unsafe { call(libc::SYS_setsockopt, [fd as usize, level, name, at, len]) }.map(drop)
}

/// The filter for a frame, as the kernel runs it: what it does not accept is not even copied.
fn filter(want: &Want) -> Vec<libc::sock_filter> {
    const ACCEPT: u32 = u32::MAX;
    let step = |code: u16, k: u32| libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    };
    // On to the next if equal; otherwise over `skip` instructions.
    let equal = |k: u32, skip: usize| libc::sock_filter {
        jf: skip as u8,
        ..step(JUMP_EQUAL, k)
    };
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0_u32, |word, byte| word << 8 | u32::from(*byte))
    };
    let mut program = vec![step(LOAD_HALF, 12), equal(0x0806, 1), step(RETURN, ACCEPT)];
    if let Some(v4) = want.v4 {
        program.extend([
            equal(0x0800, 4),
            step(LOAD_WORD, 30),
            equal(u32::from(v4), 1),
        ]);
        program.extend([step(RETURN, ACCEPT), step(RETURN, 0)]);
    }
    if let Some(v6) = want.v6 {
        // Multicasts of the link begin with ff02.
        program.extend([
            equal(0x86dd, 12),
            step(LOAD_HALF, 38),
            equal(0xff02, 1),
            step(RETURN, ACCEPT),
        ]);
        for (at, part) in v6.octets().chunks(4).enumerate() {
            program.push(step(LOAD_WORD, 38 + 4 * at as u32));
            // To the refusal at the end.
            program.push(equal(word(part), 2 * (3 - at) + 1));
        }
        program.push(step(RETURN, ACCEPT));
    }
    program.push(step(RETURN, 0));
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would do with a frame.
    fn accepts(program: &[libc::sock_filter], frame: &[u8]) -> bool {
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            let k = step.k as usize;
            match step.code {
                LOAD_HALF => accumulator = u32::from(u16::from_be_bytes([frame[k], frame[k + 1]])),
                LOAD_WORD => {
                    accumulator = u32::from_be_bytes(*frame[k..].first_chunk().expect("a word"));
                }
                JUMP_EQUAL => {
                    at += usize::from(if accumulator == step.k {
                        step.jt
                    } else {
                        step.jf
                    })
                }
                RETURN => return step.k != 0,
                other => panic!("code {other}"),
            }
        }
    }

    fn frame(kind: u16, at: usize, address: &[u8]) -> [u8; 60] {
        let mut frame = [0; 60];
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
        frame[at..at + address.len()].copy_from_slice(address);
        frame
    }

    #[test]
    fn the_filter_accepts_what_is_wanted() {
        let v4 = Ipv4Addr::new(10, 1, 2, 3);
        let v6: Ipv6Addr = "fd00::1:2:3".parse().expect("an address");
        let group: Ipv6Addr = "ff02::1:ff02:3".parse().expect("an address");
        let both = |v4, v6| filter(&Want { v4, v6 });
        for program in [
            both(Some(v4), Some(v6)),
            both(Some(v4), None),
            both(None, Some(v6)),
            both(None, None),
        ] {
            assert!(accepts(&program, &frame(0x0806, 38, &[])));
            assert!(!accepts(&program, &frame(0x0800, 30, &[10, 1, 2, 4])));
            assert!(!accepts(&program, &frame(0x8847, 30, &v4.octets())));
            assert!(!accepts(&program, &frame(0, 38, &[0])));
            for at in 0..16 {
                let mut other = v6.octets();
                other[at] ^= 1;
                assert!(!accepts(&program, &frame(0x86dd, 38, &other)));
            }
        }
        assert!(accepts(
            &both(Some(v4), None),
            &frame(0x0800, 30, &v4.octets())
        ));
        assert!(accepts(
            &both(Some(v4), Some(v6)),
            &frame(0x0800, 30, &v4.octets())
        ));
        assert!(accepts(
            &both(None, Some(v6)),
            &frame(0x86dd, 38, &v6.octets())
        ));
        assert!(accepts(
            &both(Some(v4), Some(v6)),
            &frame(0x86dd, 38, &v6.octets())
        ));
        assert!(accepts(
            &both(Some(v4), Some(v6)),
            &frame(0x86dd, 38, &group.octets())
        ));
        assert!(!accepts(
            &both(Some(v4), None),
            &frame(0x86dd, 38, &group.octets())
        ));
    }
}
