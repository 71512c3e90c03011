//! Segmentation of messages into ATM cells, and reassembly, for AAL5 and AAL3/4.
//!
//! | here | what |
//! |---|---|
//! | [`segment`] | cuts a whole message into cells of the caller's buffer, fast |
//! | [`Pool`] | the straightforward reassembler: one contiguous buffer per open message |
//! | [`penn`] | the Penn interface: streaming segmenter; cell manager, CAMs, linked lists |
//!
//! Both reassemblers are a [`Reassembler`]: the host opens VCs, cells go in, and for each
//! message that began one [`Report`] comes out: delivered exactly, or how it was lost. A
//! message whose first cell never came is not known here; its cells count as orphans.
//!
//! A circuit of AAL5 is in one of three phases ([`Phase`]):
//!
//! | phase | cell | last cell | loss | flush | time-out |
//! |---|---|---|---|---|---|
//! | Idle | Open | Idle, delivered | Skipping | | |
//! | Open | Open | Idle, delivered | Skipping | Skipping | Idle |
//! | Skipping | Skipping | Idle | | | |
//!
//! Skipping drops what is left of a message that was given up, up to its last cell; a
//! loss at the last cell itself leads to Idle. A message that timed out has probably
//! lost that cell, so the next cell begins a message, and the CRC-32 judges it.
//!
//! A multiplexing identifier of AAL3/4 on a circuit has a message open, or not:
//!
//! | state | BOM | COM | EOM | SSM | loss, flush, time-out |
//! |---|---|---|---|---|---|
//! | closed | open | orphan | orphan | delivered | |
//! | open | open, old one interrupted | open | closed, delivered | closed, delivered, old one interrupted | closed |
//!
//! What the codes can not see: AAL3/4 has no check over the whole message. Cells of one
//! MID that changed places at a distance of 16, or any cells where the sequence number is
//! not checked, pass; AAL5 passes what collides under CRC-32.
//! Source: penn91; itu-i363-3 and itu-i363-5, receiver procedures.

pub mod penn;
mod pool;
pub mod segment;
mod slab;

use alloc::vec::Vec;
use core::fmt;

use barewire_formats::aal5::{Pdu, PduRepr};
use barewire_formats::aal34::{CPCS_HEADER_BYTES, CpcsPdu, CpcsRepr, SEQUENCE_MODULUS};
use barewire_formats::atm::{CELL_BYTES, Vc};
use barewire_units::{Duration, Instant, transitions};

pub use pool::{Pool, PoolConfig};

/// Which adaptation layer a circuit carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aal {
    /// AAL3/4, "class 4" of the Penn interface: messages interleaved by MID.
    Aal34,
    /// AAL5: one message at a time.
    Aal5,
}

/// Where messages follow each other: a circuit, or with AAL3/4 one MID on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    /// The circuit.
    pub vc: Vc,
    /// The multiplexing identifier; none with AAL5.
    pub mid: Option<u16>,
}

impl Stream {
    /// The adaptation layer: only AAL3/4 has MIDs.
    #[must_use]
    pub const fn aal(self) -> Aal {
        match self.mid {
            Some(_) => Aal::Aal34,
            None => Aal::Aal5,
        }
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mid {
            Some(mid) => write!(f, "{} mid {mid}", self.vc),
            None => write!(f, "{}", self.vc),
        }
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Where it came.
    pub stream: Stream,
    /// Delivered, or how it was lost.
    pub result: Result<Delivered, Loss>,
}

/// A message that arrived whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// User-to-user indication; 0 with AAL3/4.
    pub uu: u8,
    /// Bytes of payload.
    pub payload_bytes: usize,
}

/// How a message that had begun was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// Cells are missing, doubled or out of order.
    #[error("sequence number {found} where {expected} follows")]
    Sequence {
        /// The number that follows.
        expected: u8,
        /// The number that came.
        found: u8,
    },
    /// Another message began on the same MID before this one ended.
    #[error("interrupted by the next message")]
    Interrupted,
    /// The sender gave it up.
    #[error("aborted by the sender")]
    Aborted,
    /// The reassembled PDU is not what its format demands.
    #[error(transparent)]
    Wrong(#[from] barewire_wire::Error),
    /// It is longer than this side allows.
    #[error("longer than {limit_bytes} bytes")]
    TooLong {
        /// Bytes of a PDU that are allowed.
        limit_bytes: usize,
    },
    /// No place in the table of open messages.
    #[error("the table of {places} open messages is full")]
    TableFull {
        /// Places of the table.
        places: usize,
    },
    /// No buffer for its next cell.
    #[error("no buffer for the next cell")]
    NoBuffer,
    /// Its last cell did not come in time.
    #[error("not complete after {after}")]
    TimedOut {
        /// The time that it had.
        after: Duration,
    },
    /// The host did not want it any more.
    #[error("flushed")]
    Flushed,
}

/// Why a circuit can not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It is open already.
    #[error("circuit {0} is open already")]
    AlreadyOpen(Vc),
    /// The table of circuits is full.
    #[error("the table of {places} circuits is full")]
    TableFull {
        /// Places of the table.
        places: usize,
    },
}

/// What was counted. Every cell falls into exactly one of the kinds, and every message
/// that begins is delivered, lost, or still open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Cells that came.
    pub cells: u64,
    /// Of these: joined to a message.
    pub cells_taken: u64,
    /// Header that its HEC refuses.
    pub cells_bad_header: u64,
    /// No such circuit open.
    pub cells_unknown_vc: u64,
    /// Management, not user data.
    pub cells_not_user: u64,
    /// CRC-10 or length of an AAL3/4 segment wrong.
    pub cells_bad_segment: u64,
    /// Of no open message: its beginning was lost, or it was given up.
    pub cells_orphaned: u64,
    /// The cell at which a message was given up, for want of place or out of sequence.
    pub cells_refused: u64,
    /// Messages that began.
    pub pdus_begun: u64,
    /// Messages delivered.
    pub pdus_delivered: u64,
    /// Messages lost.
    pub pdus_lost: Losses,
}

/// Lost messages by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// [`Loss::Sequence`] with the number of the cell before: a cell came twice.
    pub repeated: u64,
    /// Any other [`Loss::Sequence`]: cells are missing or came too early.
    pub gap: u64,
    /// [`Loss::Interrupted`].
    pub interrupted: u64,
    /// [`Loss::Aborted`].
    pub aborted: u64,
    /// [`Loss::Wrong`].
    pub wrong: u64,
    /// [`Loss::TooLong`].
    pub too_long: u64,
    /// [`Loss::TableFull`].
    pub table_full: u64,
    /// [`Loss::NoBuffer`].
    pub no_buffer: u64,
    /// [`Loss::TimedOut`].
    pub timed_out: u64,
    /// [`Loss::Flushed`].
    pub flushed: u64,
}

impl Losses {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.repeated
            + self.gap
            + self.interrupted
            + self.aborted
            + self.wrong
            + self.too_long
            + self.table_full
            + self.no_buffer
            + self.timed_out
            + self.flushed
    }

    fn count(&mut self, loss: Loss) {
        let counter = match loss {
            Loss::Sequence { expected, found } if (found + 1) % SEQUENCE_MODULUS == expected => {
                &mut self.repeated
            }
            Loss::Sequence { .. } => &mut self.gap,
            Loss::Interrupted => &mut self.interrupted,
            Loss::Aborted => &mut self.aborted,
            Loss::Wrong(_) => &mut self.wrong,
            Loss::TooLong { .. } => &mut self.too_long,
            Loss::TableFull { .. } => &mut self.table_full,
            Loss::NoBuffer => &mut self.no_buffer,
            Loss::TimedOut { .. } => &mut self.timed_out,
            Loss::Flushed => &mut self.flushed,
        };
        *counter += 1;
    }
}

/// A reassembler, as its host sees it. After each input, [`Reassembler::poll`] until it
/// returns `None`: reports wait without bound.
pub trait Reassembler {
    /// Opens a circuit.
    ///
    /// # Errors
    /// [`OpenError`].
    fn open(&mut self, vc: Vc, aal: Aal) -> Result<(), OpenError>;

    /// Gives up everything open on a circuit and closes it. False where it is not open.
    fn flush_vc(&mut self, vc: Vc) -> bool;

    /// Gives up the message that is open. False where there is none.
    fn flush_datagram(&mut self, stream: Stream) -> bool;

    /// Takes a cell.
    fn handle_cell(&mut self, now: Instant, cell: &[u8; CELL_BYTES]);

    /// Gives up the messages that had their time.
    fn handle_timeout(&mut self, now: Instant);

    /// When [`Reassembler::handle_timeout`] has something to do.
    fn next_deadline(&self) -> Option<Instant>;

    /// The next message that arrived or was lost; `payload` then holds the message, or
    /// nothing. Its old content goes, and its allocation may be exchanged for another:
    /// pass the same vector each time.
    fn poll(&mut self, payload: &mut Vec<u8>) -> Option<Report>;

    /// Messages begun and not yet ended.
    fn open_pdus(&self) -> usize;

    /// What was counted.
    fn stats(&self) -> Stats;
}

/// The phase of an AAL5 circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The next cell begins a message.
    Idle,
    /// A message is open.
    Open,
    /// The rest of a message is dropped.
    Skipping,
}

/// What moves the phase of an AAL5 circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A cell that is not the last of a message.
    Cell,
    /// The last cell of a message.
    LastCell,
    /// The message is given up, and its last cell has not come.
    Loss,
    /// The host gives the message up.
    Flush,
    /// The message had its time.
    Timeout,
}

transitions! {
    Phase on Step {
        Idle + Cell => Open,
        Idle + LastCell => Idle,
        Idle + Loss => Skipping,
        Open + Cell => Open,
        Open + LastCell => Idle,
        Open + Loss => Skipping,
        Open + Flush => Skipping,
        Open + Timeout => Idle,
        Skipping + Cell => Skipping,
        Skipping + LastCell => Idle,
    }
}

impl Phase {
    /// Moves on; a step that the table does not name changes nothing.
    fn step(&mut self, step: Step) {
        *self = self.on(step).unwrap_or(*self);
    }
}

/// Takes the payload out of a reassembled CPCS-PDU, in place.
fn unwrap_pdu(aal: Aal, pdu: &mut Vec<u8>) -> Result<Delivered, Loss> {
    let (uu, start, payload_bytes) = match aal {
        Aal::Aal5 => {
            let repr = PduRepr::parse(&Pdu::new_checked(&pdu[..])?)?;
            if repr.is_abort() {
                return Err(Loss::Aborted);
            }
            (repr.uu, 0, repr.payload_bytes.into())
        }
        Aal::Aal34 => {
            let repr = CpcsRepr::parse(&CpcsPdu::new_checked(&pdu[..])?)?;
            (0, CPCS_HEADER_BYTES, repr.payload_bytes.into())
        }
    };
    pdu.copy_within(start..start + payload_bytes, 0);
    pdu.truncate(payload_bytes);
    Ok(Delivered { uu, payload_bytes })
}
