//! What an interface can do and how it is set: the requests of `ethtool` (`SIOCETHTOOL`, `linux/ethtool.h`).
//!
//! A request is the name of the interface (16 bytes) and, as `struct ifreq` has it, the address of its data, in 24 bytes.
//! Data are words of 32 bits in the machine's byte order, the first of which is the command:
//!
//! | command | words behind it |
//! |---|---|
//! | `ETHTOOL_STXCSUM` (0x17) | 1: whether the interface completes checksums of what it sends |
//! | `ETHTOOL_GGRO` (0x2b) | 1: whether packets that came are joined to large ones |
//! | `ETHTOOL_GCHANNELS` (0x3c) | 8: most receive, send, other and combined queues, then how many there are of each |

use std::os::fd::AsRawFd;

use barewire_calls::call;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::error::{Result, SysError, on};

const REQUEST: usize = 0x8946;
const SET_SEND_CHECKSUMS: u32 = 0x17;
const GET_JOINS: u32 = 0x2b;
const GET_QUEUES: u32 = 0x3c;

/// `struct ifreq`, with the address of data.
#[repr(C)]
struct DeviceRequest {
    name: [u8; 16],
    data: usize,
    pad: [u8; 24 - size_of::<usize>()],
}

const _: () = assert!(size_of::<DeviceRequest>() == 40);

fn ask(what: &'static str, interface: &str, words: &mut [u32]) -> Result<()> {
    let mut request = DeviceRequest {
        name: [0; 16],
        data: words.as_mut_ptr() as usize,
        pad: [0; 24 - size_of::<usize>()],
    };
    let room = request.name.get_mut(..interface.len());
    let room = room
        .filter(|room| room.len() < 16)
        .ok_or_else(|| SysError::new(what, libc::ENODEV))?;
    room.copy_from_slice(interface.as_bytes());
    let kind = (AddressFamily::INET, SocketType::DGRAM);
    let socket = socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None).map_err(on(what))?;
    let at = (&raw mut request) as usize;
    // SAFETY: the request and its data live in this function and its caller, and the data have as many words as the
    // command has (each function below gives its own).
    unsafe { call(libc::SYS_ioctl, [socket.as_raw_fd() as usize, REQUEST, at]) }
        .map_err(on(what))
        .map(drop)
}

/// How many receive queues an interface of the calling thread's network namespace has. `None`: its driver does not say.
///
/// # Errors
/// There is no such interface.
pub fn receive_queues(interface: &str) -> Result<Option<u32>> {
    let mut words = [0; 9];
    words[0] = GET_QUEUES;
    match ask("ask for the queues of an interface", interface, &mut words) {
        Ok(()) => Ok(Some(words[5].saturating_add(words[8]))),
        Err(error) if error.errno() == Some(libc::EOPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the kernel joins TCP packets that come by an interface to large ones (GRO).
///
/// # Errors
/// There is no such interface.
pub fn joins_received(interface: &str) -> Result<bool> {
    let mut words = [GET_JOINS, 0];
    ask(
        "ask whether an interface joins packets",
        interface,
        &mut words,
    )?;
    Ok(words[1] != 0)
}

/// Whether checksums of what the kernel sends by an interface are left to it. Without, the kernel completes each itself,
/// and cuts TCP into segments.
///
/// # Errors
/// Not root (`CAP_NET_ADMIN`), no such interface, or it has no choice.
pub fn set_send_checksums(interface: &str, are_left: bool) -> Result<()> {
    let mut words = [SET_SEND_CHECKSUMS, u32::from(are_left)];
    ask("set who completes checksums", interface, &mut words)
}
