//! Maps, programs and links of the system call `bpf`: `union bpf_attr` in `linux/bpf.h`.
//!
//! Every attribute has the machine's byte order, and the kernel takes one that ends early as if zeros followed.
//!
//! | command | bytes | field |
//! |---|---|---|
//! | `BPF_MAP_CREATE` (0) | 0..4 | `map_type` |
//! | | 4..8, 8..12 | `key_size`, `value_size`, in bytes |
//! | | 12..16 | `max_entries` |
//! | `BPF_MAP_UPDATE_ELEM` (2) | 0..4 | `map_fd`; 4 bytes of zeros behind it |
//! | | 8..16, 16..24 | `key`, `value`: addresses |
//! | | 24..32 | `flags` |
//! | `BPF_PROG_LOAD` (5) | 0..4, 4..8 | `prog_type`, `insn_cnt` |
//! | | 8..16, 16..24 | `insns`, `license`: addresses |
//! | | 24..48 | `log_level`, `log_size`, `log_buf`, `kern_version`, `prog_flags`: zeros |
//! | | 48..64 | `prog_name` |
//! | | 64..68, 68..72 | `prog_ifindex`: zero; `expected_attach_type` |
//! | `BPF_LINK_CREATE` (28) | 0..4, 4..8 | `prog_fd`, `target_ifindex` |
//! | | 8..12, 12..16 | `attach_type`, `flags` |

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};

use barewire_calls::{Errno as Number, call};

use super::program::Instruction;
use crate::error::new_fd;

const MAP_CREATE: usize = 0;
const MAP_UPDATE: usize = 2;
const PROGRAM_LOAD: usize = 5;
const LINK_CREATE: usize = 28;

/// `BPF_MAP_TYPE_XSKMAP`.
const MAP_OF_SOCKETS: u32 = 17;
/// `BPF_PROG_TYPE_XDP`, and `BPF_XDP` of the ways to attach one.
const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// It calls nothing that the kernel keeps to programs under the GPL.
const LICENSE: &CStr = c"MIT";
const NAME: &[u8] = b"barewire";

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// In the kernel, for a frame that the driver has made a packet of already.
    Generic = 1 << 1,
    /// In the driver.
    Native = 1 << 2,
}

/// The fields of an attribute, one after the other.
struct Attribute([u8; 72]);

impl Attribute {
    fn new<const N: usize>(words: [u32; N]) -> Self {
        let mut bytes = [0; 72];
        for (at, word) in words.into_iter().enumerate() {
            bytes[4 * at..4 * at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        Self(bytes)
    }

    fn with_address(mut self, at: usize, address: usize) -> Self {
        self.0[at..at + 8].copy_from_slice(&(address as u64).to_ne_bytes());
        self
    }

    /// # Safety
    /// Each address in it is of what the command takes there, and that lives during the call.
    unsafe fn call(&self, command: usize, len_bytes: usize) -> Result<usize, Number> {
        let at = self.0[..len_bytes].as_ptr() as usize;
        // SAFETY: the attribute has `len_bytes` bytes, which the kernel only reads for these commands; what they point to
        // is as promised.
        unsafe { call(libc::SYS_bpf, [command, at, len_bytes]) }
    }

    /// As [`call`](Self::call), for commands that make a descriptor.
    ///
    /// # Safety
    /// As for [`call`](Self::call).
    unsafe fn open(&self, command: usize, len_bytes: usize) -> Result<OwnedFd, Number> {
        // SAFETY: as promised.
        new_fd(unsafe { self.call(command, len_bytes) }.map(|fd| fd as i32))
    }
}

/// A map from the number of a queue to a socket, for one queue.
pub(super) fn map_of_sockets() -> Result<OwnedFd, Number> {
    // SAFETY: no addresses.
    unsafe { Attribute::new([MAP_OF_SOCKETS, 4, 4, 1]).open(MAP_CREATE, 16) }
}

/// Puts a socket into the map, for queue 0.
pub(super) fn set_socket(map: &OwnedFd, socket: &OwnedFd) -> Result<(), Number> {
    let (key, value) = (0_u32, socket.as_raw_fd());
    let attribute = Attribute::new([map.as_raw_fd() as u32])
        .with_address(8, (&raw const key) as usize)
        .with_address(16, (&raw const value) as usize);
    // SAFETY: key and value have the four bytes each that the map was made with.
    unsafe { attribute.call(MAP_UPDATE, 32) }.map(drop)
}

/// Loads a program.
pub(super) fn load(program: &[Instruction]) -> Result<OwnedFd, Number> {
    let mut attribute = Attribute::new([PROGRAM_XDP, program.len() as u32])
        .with_address(8, program.as_ptr() as usize)
        .with_address(16, LICENSE.as_ptr() as usize);
    attribute.0[48..48 + NAME.len()].copy_from_slice(NAME);
    attribute.0[68..72].copy_from_slice(&ATTACH_XDP.to_ne_bytes());
    // SAFETY: there are so many instructions, and the license ends with a zero.
    unsafe { attribute.open(PROGRAM_LOAD, 72) }
}

/// Has an interface run a program, as long as the returned descriptor is open: it is closed by `exec`, and by the end of
/// the process, whatever ends it.
pub(super) fn link(program: &OwnedFd, interface: u32, mode: Mode) -> Result<OwnedFd, Number> {
    let program = program.as_raw_fd() as u32;
    // SAFETY: no addresses.
    unsafe { Attribute::new([program, interface, ATTACH_XDP, mode as u32]).open(LINK_CREATE, 16) }
}
