//! The receive ring of a packet socket: `linux/if_packet.h`, `TPACKET_V2`; `Documentation/networking/packet_mmap.rst` of the
//! kernel.
//!
//! The ring is memory that the kernel shares with this process. It has [`SLOTS`] slots of [`SLOT_BYTES`] each, which are used
//! one after the other. A slot belongs to the kernel while its status is zero. The kernel writes a frame there, and then the
//! status. From then on the slot belongs to this process, until that stores zero again. So no system call is needed to find
//! that no frame is there, nor to take one that fits.
//!
//! | bytes of a slot | field | meaning |
//! |---|---|---|
//! | 0..4 | `tp_status` | bit 0: a frame is there; bit 1: the whole frame waits in the socket (`TP_STATUS_COPY`) |
//! | 4..8 | `tp_len` | bytes of the frame |
//! | 8..12 | `tp_snaplen` | bytes of it that are in the slot |
//! | 12..14 | `tp_mac` | where in the slot it begins |
//! | 14..32 | | network header, time, VLAN: not used |
//! | .. `tp_mac` | | the header of the frame (`virtio_net_hdr`), where it was asked for, directly before the frame |
//! | `tp_mac` .. | | the frame |
//!
//! A frame that is longer than its slot is cut off there. The whole of it is also put into the socket's queue
//! (`PACKET_COPY_THRESH`), and is read from there. These are large TCP packets, for which one more system call matters little.
//!
//! The argument of `PACKET_RX_RING` is a `struct tpacket_req`, four numbers of 4 bytes each: bytes of a block, blocks, bytes of
//! a slot, slots.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};

use barewire_calls::Errno as Number;
use barewire_calls::option::{set, set_bytes};
use barewire_cpu::after_system_call;
use rustix::io::Errno as Raw;

use crate::frames::area::Area;
use crate::frames::problem::FRAME_HEADER_BYTES;

const RECEIVE_RING: i32 = 5;
const COPY_LONG: i32 = 7;
const VERSION: i32 = 10;
const VERSION_2: i32 = 1;

const IS_FRAME: u32 = 1;
const IS_IN_SOCKET: u32 = 2;

/// A frame of an ordinary MTU fits, with what is before it.
const SLOT_BYTES: usize = 2048;
const SLOTS: usize = 4096;
/// Memory that is contiguous in the kernel.
const BLOCK_BYTES: usize = 64 << 10;
/// Bytes of a slot's description.
const DESCRIPTION_BYTES: usize = 16;

/// So many looks that find nothing, and then one that asks the kernel: only a system call gives, and takes away, an error of
/// the socket, such as that the interface is down.
const LOOKS_PER_CALL: u32 = 256;

/// The ring of a socket.
#[derive(Debug)]
pub(in crate::frames) struct Ring {
    area: Area,
    has_header: bool,
    /// The slot that is filled next, or was already.
    next: usize,
    looks: u32,
}

impl Ring {
    /// Gives a socket a ring, before it is bound and after its frame header was set. An error: this kernel does not, or has
    /// no memory for it. The socket is then as it was.
    pub(super) fn open(fd: i32, has_header: bool) -> Result<Self, Number> {
        set(fd, libc::SOL_PACKET, VERSION, VERSION_2)?;
        set(fd, libc::SOL_PACKET, COPY_LONG, 1)?;
        let len_bytes = SLOTS * SLOT_BYTES;
        request(
            fd,
            [BLOCK_BYTES, len_bytes / BLOCK_BYTES, SLOT_BYTES, SLOTS],
        )?;
        match Area::of_socket(fd, 0, len_bytes) {
            Ok(area) => Ok(Self {
                area,
                has_header,
                next: 0,
                looks: 0,
            }),
            Err(errno) => request(fd, [0; 4]).and(Err(errno)),
        }
    }

    /// The next frame, with its header. A frame that is longer than `into` is cut off.
    pub(in crate::frames) fn try_receive(
        &mut self,
        fd: &impl AsFd,
        into: &mut [u8],
    ) -> Result<Option<usize>, Raw> {
        for _ in 0..SLOTS {
            // Acquire: pairs with the kernel's barrier before it stores the status. The frame and its description are there
            // as the kernel has written them.
            let status = self.status().load(Ordering::Acquire);
            if status & IS_FRAME == 0 {
                return self.found_nothing(fd, into);
            }
            let taken = if status & IS_IN_SOCKET != 0 {
                let read = rustix::io::read(fd, &mut *into);
                after_system_call();
                match read {
                    Ok(len) => Some(len),
                    Err(Raw::AGAIN) => None,
                    Err(errno) => return Err(errno),
                }
            } else {
                self.copy_out(into)
            };
            self.release();
            if taken.is_some() {
                return Ok(taken);
            }
        }
        Ok(None)
    }

    fn found_nothing(&mut self, fd: &impl AsFd, into: &mut [u8]) -> Result<Option<usize>, Raw> {
        self.looks += 1;
        if self.looks < LOOKS_PER_CALL {
            return Ok(None);
        }
        self.looks = 0;
        let read = rustix::io::read(fd, into);
        after_system_call();
        match read {
            Ok(len) => Ok(Some(len)),
            Err(Raw::AGAIN) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Copies a frame out of its slot. `None`: it is not all there, since the socket's queue was full.
    fn copy_out(&self, into: &mut [u8]) -> Option<usize> {
        let slot = self.next * SLOT_BYTES;
        let mut description = [0; DESCRIPTION_BYTES];
        if !self.area.copy_out(slot, &mut description) {
            return None;
        }
        let word = |at: usize| {
            let bytes: [u8; 4] = std::array::from_fn(|byte| description[at + byte]);
            u32::from_ne_bytes(bytes) as usize
        };
        let (len, here) = (word(4), word(8));
        let begins = usize::from(u16::from_ne_bytes([description[12], description[13]]));
        let header = if self.has_header {
            FRAME_HEADER_BYTES
        } else {
            0
        };
        let from = begins.checked_sub(header)?;
        let is_whole = here == len && begins + here <= SLOT_BYTES;
        let len = (here + header).min(into.len());
        let is_copied = is_whole && self.area.copy_out(slot + from, &mut into[..len]);
        is_copied.then_some(len)
    }

    /// Gives the slot back to the kernel.
    fn release(&mut self) {
        // Release: pairs with the kernel's read barrier after it has loaded the status. What was read of the slot is read
        // before the kernel writes over it.
        self.status().store(0, Ordering::Release);
        self.next = (self.next + 1) % SLOTS;
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: `next` is less than `SLOTS`, so the slot is in the area, and slots are aligned. Both ends use the word by
        // atomics only, and the area lives as long as `self`.
        unsafe { AtomicU32::from_ptr(self.area.base().as_ptr().add(self.next * SLOT_BYTES).cast()) }
    }
}

/// Sets the ring up; four zeros take it away.
fn request(fd: i32, numbers: [usize; 4]) -> Result<(), Number> {
    let mut bytes = [0; 16];
    for (into, number) in bytes.chunks_exact_mut(4).zip(numbers) {
        into.copy_from_slice(&(number as u32).to_ne_bytes());
    }
    set_bytes(fd, libc::SOL_PACKET, RECEIVE_RING, &bytes)
}

const _: () = assert!(BLOCK_BYTES % SLOT_BYTES == 0 && (SLOTS * SLOT_BYTES) % BLOCK_BYTES == 0);
