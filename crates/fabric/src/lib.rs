//! What a fabric must offer, and the protocols that run over any fabric.
//!
//! A *fabric* carries stores from one place to another: shared memory between two
//! processes, remote memory access over a network, a simulated card. This crate states
//! what it must promise ([`memory`], [`aperture`]) and holds the protocols built on it:
//!
//! - the frame ring ([`ring`]), and the duplex line beside it ([`duplex`]);
//! - messages ([`queue`]) and byte streams ([`stream`]) over such a ring;
//! - byte streams that change between shared memory and the kernel ([`hybrid`]);
//! - the doorbell page of an event queue ([`doorbell`]), and how to wait ([`wait`]);
//! - the inspection of a ring from outside ([`survey`]).
//!
//! They use neither a clock nor system calls, so the same code moves messages between live
//! processes and on a modelled card.
//!
//! One rule holds for nearly all of it: **stores go remote, loads stay local**. Each side owns the
//! memory that it reads from, and the other side stores there what it has to say. Each word has
//! one writer, so nothing needs a lock, and a hostile peer can spoil only what it was going to
//! send anyway. The exceptions are words that both sides write: those of doorbell pages, of the
//! duplex line, and a few of a hybrid stream.

// A file imports only from its own layer and those above it in this list, lowest first.
//
// ```layers
// memory: what a fabric must promise of memory that two sides share
// aperture: what apertures, tripwires, event queues and connections are, for every fabric
// violation: what a peer does that breaks the protocol
// assembly: private memory for messages that come in pieces
// frame: layout of a region and of a frame
// copying: which way a long payload is copied into the reader's memory
// duplex: the lines that both sides write in turn
// ring: frames through memory
// queue: messages over a ring
// stream: bytes over a ring
// survey: a ring as it is seen from outside
// doorbell: the page in which peers ring for an event queue
// wait: when to spin and when to sleep
// hybrid: a byte stream that changes between shared memory and the kernel
// ```

#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, barewire_loom))]
extern crate std;

extern crate alloc;

pub mod aperture;
pub mod assembly;
pub mod copying;
pub mod doorbell;
pub mod duplex;
pub mod frame;
pub mod hybrid;
pub mod memory;
pub mod queue;
pub mod ring;
pub mod stream;
pub mod survey;
pub mod violation;
pub mod wait;

pub use assembly::Allowance;
pub use duplex::{DUPLEX_BYTES_MAX, DuplexReceiver, DuplexSender, Turns};
pub use queue::{MessageReceiver, MessageSender, SendProgress};
pub use ring::{RingReceiver, RingSender};
pub use stream::{StreamReceiver, StreamSender};
pub use violation::{OverBudget, Violation};
