//! What outsiders can read: where in this process the socket states lie, and how to read them.
//!
//! `barewire ls` finds this library's data segment in `/proc/PID/maps`, looks there for the
//! magic number, and reads on by `/proc/PID/mem`. So no descriptor stays open in the program,
//! no memory has a name, and nobody who may not trace the process can read it. The reader
//! trusts nothing: the process may change, or lie, while it is read.
//!
//! Words of 64 bits, native byte order, at a multiple of 64 bytes:
//!
//! | word | what |
//! |---|---|
//! | 0, 1 | `barewire-status\0` |
//! | 2 | version of this layout: 1; 0: the library does nothing here, and nothing follows |
//! | 3 | address of the socket states |
//! | 4, 5 | bytes of a socket state; how many there can be |
//! | 6 | address of the descriptors' table: 32 bits each, number of the socket state plus 1, or 0 |
//! | 7 | address of the highest descriptor that ever had a socket state (32 bits) |
//! | 8, 9 | address of the hybrid streams' places; bytes of one. Its words: `fabric::hybrid` |
//! | 10 to 13 | offsets in a socket state, of 32 bits: state, why, flags, side |
//! | 14 to 17 | of 32 bits: calls before its upgrade; of 64: bytes before; ring bytes out, in |
//! | 18 | address of the texts: of 8 states, then of 24 reasons; 64 bytes each, zeros behind |
//! | 19 to 21 | settings: longest time to poll before a sleep, in ns; calls before; bytes before |
//! | 22 | the flag that says: this socket sends over the kernel connection for good |
//! | 23 | `capture1`: what follows is there |
//! | 24, 25 | address of the memory for captures; bytes of its area. See `capture` |
//! | 26 | address of the word that turns capturing on (32 bits) |
//! | 27 | `confine1`: what follows is there |
//! | 28 | 1: the program is sandboxed, and all its sockets are the kernel's. See `sandbox` |
//! | 29 | offset in a socket state, of 32 bits: inode of a Unix socket's other end, 0 if not known |
//! | 30 | 1: Unix sockets are carried, too |
//!
//! A newer library may add words, or change the layout with the version.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::process::settings;
use crate::table::flags::FALLEN_BACK;
use crate::table::limits::SOCKETS_MAX;
use crate::table::state::{Reason, State};
use crate::table::{
    slots,
    socket_state::{self, SocketState},
    stream_memory::{self, STREAM_MEMORY_BYTES},
};

const VERSION: u64 = 1;
const WORDS: usize = 29;
/// Which word says whether the program is sandboxed.
const SANDBOXED_AT: usize = 26;
const CAPTURE: u64 = u64::from_ne_bytes(*b"capture1");
const SANDBOX: u64 = u64::from_ne_bytes(*b"confine1");
const STATES: usize = 8;
const REASONS: usize = 24;
/// Bytes of a text.
const TEXT_BYTES: usize = 64;

#[repr(C, align(64))]
struct Status {
    magic: [u8; 16],
    words: [AtomicU64; WORDS],
}

/// Not exported: it is found by its magic number, which nothing else in this library holds.
#[used]
static STATUS: Status = Status {
    magic: *b"barewire-status\0",
    words: [const { AtomicU64::new(0) }; WORDS],
};

static TEXTS: [[u8; TEXT_BYTES]; STATES + REASONS] = texts();

const fn texts() -> [[u8; TEXT_BYTES]; STATES + REASONS] {
    let mut texts = [[0; TEXT_BYTES]; STATES + REASONS];
    let mut number = 0;
    while number < texts.len() {
        let text = if number < STATES {
            State::from_u32(number as u32).text().as_bytes()
        } else {
            Reason::from_u32((number - STATES) as u32).text().as_bytes()
        };
        assert!(text.len() < TEXT_BYTES);
        let mut at = 0;
        while at < text.len() {
            texts[number][at] = text[at];
            at += 1;
        }
        number += 1;
    }
    texts
}

/// Where outsiders find the memory for captures. See `capture`.
#[derive(Clone, Copy)]
pub struct CaptureArea {
    /// Address of the memory, and bytes of its area.
    pub address: usize,
    pub bytes: usize,
    /// Address of the word that turns capturing on.
    pub switch: usize,
}

/// Says where all is. Called once, when it is there.
pub fn publish(capture: CaptureArea) {
    let settings = settings::get();
    let (states, descriptors, highest) = slots::addresses();
    let words = [
        VERSION,
        states as u64,
        size_of::<SocketState>() as u64,
        u64::from(SOCKETS_MAX),
        descriptors as u64,
        highest as u64,
        stream_memory::places() as u64,
        STREAM_MEMORY_BYTES as u64,
        socket_state::STATE_AT as u64,
        socket_state::REASON_AT as u64,
        socket_state::FLAGS_AT as u64,
        socket_state::SIDE_AT as u64,
        offset_of!(SocketState, calls) as u64,
        offset_of!(SocketState, bytes) as u64,
        offset_of!(SocketState, ring_bytes_out) as u64,
        offset_of!(SocketState, ring_bytes_in) as u64,
        TEXTS.as_ptr() as u64,
        settings.spin_ns,
        u64::from(settings.calls_before),
        settings.bytes_before,
        u64::from(FALLEN_BACK),
        CAPTURE,
        capture.address as u64,
        capture.bytes as u64,
        capture.switch as u64,
        SANDBOX,
        0,
        offset_of!(SocketState, other_inode) as u64,
        u64::from(settings.unix),
    ];
    const { assert!(WORDS == 29) };
    // Relaxed: whoever reads this is another process, which checks what it finds.
    for (to, word) in STATUS.words.iter().zip(words) {
        to.store(word, Ordering::Relaxed);
    }
}

/// Says whether the program is sandboxed.
pub fn confined(yes: bool) {
    // Relaxed: as in `publish`.
    STATUS.words[SANDBOXED_AT].store(u64::from(yes), Ordering::Relaxed);
}
