//! The layout of a descriptor, and what makes one wrong.
//!
//! A descriptor is a control segment and up to [`SEGMENTS_MAX`] segments behind it, on a boundary of 64 bytes. All
//! numbers are little-endian. The segments are data segments, except that the first one of an RDMA descriptor is the
//! address segment: where the memory of the other end is.
//!
//! | bytes of the control segment | what |
//! |---|---|
//! | 0..8 | address of the next descriptor, which this provider does not use |
//! | 8..12 | memory handle of the next descriptor, not used |
//! | 12..14 | segments behind the control segment |
//! | 14..16 | control, below |
//! | 16..20 | reserved |
//! | 20..24 | immediate data |
//! | 24..28 | length in bytes: of a send, all its data; when it is done, what was transferred |
//! | 28..32 | status, below |
//!
//! | bytes of a segment | data segment | address segment |
//! |---|---|---|
//! | 0..8 | address | address at the other end |
//! | 8..12 | memory handle | memory handle of the other end |
//! | 12..16 | length in bytes | reserved |
//!
//! | bits of the control | what |
//! |---|---|
//! | 0..2 | 0: send or receive; 1: RDMA write; 2: RDMA read; 3: reserved |
//! | 2 | immediate data |
//! | 3 | queue fence: begin when all RDMA reads before it are done |
//! | 4..16 | reserved, zero |
//!
//! | bits of the status | what |
//! |---|---|
//! | 0 | done |
//! | 1, 2, 3 | wrong format; protection; wrong length |
//! | 4, 5, 6 | partial; flushed; transport |
//! | 7, 8 | the other end refused RDMA to this memory; it could not take the data |
//! | 9..16 | reserved, zero |
//! | 16..19 | 0: send; 1: receive; 2: RDMA write; 3: RDMA write of the other end; 4: RDMA read |
//! | 19 | there is immediate data |
//! | 20..32 | reserved, zero |

use alloc::vec::Vec;

/// Bytes of the control segment.
pub const CONTROL_BYTES: usize = 32;
/// Bytes of each other segment.
pub const SEGMENT_BYTES: usize = 16;
/// The boundary on which a descriptor lies, in bytes.
pub const ALIGNMENT_BYTES: usize = 64;
/// Most segments behind the control segment: what the specification asks of every provider.
pub const SEGMENTS_MAX: u16 = 252;

const OPERATION: u16 = 0x3;
const RDMA_WRITE: u16 = 0x1;
const RDMA_READ: u16 = 0x2;
const IMMEDIATE: u16 = 0x4;
const FENCE: u16 = 0x8;
const RESERVED: u16 = 0xfff0;

/// The bits of a status.
pub mod status {
    /// It is done.
    pub const DONE: u32 = 0x1;
    /// The descriptor makes no sense.
    pub const FORMAT: u32 = 0x2;
    /// It names memory that the VI may not use.
    pub const PROTECTION: u32 = 0x4;
    /// Lengths do not fit.
    pub const LENGTH: u32 = 0x8;
    /// A part of the data was transferred.
    pub const PARTIAL: u32 = 0x10;
    /// It was not processed: the VI was not connected any more.
    pub const FLUSHED: u32 = 0x20;
    /// The connection broke while it was processed.
    pub const TRANSPORT: u32 = 0x40;
    /// The other end refused RDMA to this memory.
    pub const RDMA_PROTECTION: u32 = 0x80;
    /// The other end's receive could not take the data.
    pub const REMOTE_DESCRIPTOR: u32 = 0x100;
    /// All errors.
    pub const ERRORS: u32 = 0x1fe;
    /// The operation: a receive.
    pub const RECEIVE: u32 = 0x1_0000;
    /// The operation: an RDMA write.
    pub const RDMA_WRITE: u32 = 0x2_0000;
    /// The operation: an RDMA write of the other end, whose immediate data took a receive.
    pub const REMOTE_RDMA_WRITE: u32 = 0x3_0000;
    /// The operation: an RDMA read.
    pub const RDMA_READ: u32 = 0x4_0000;
    /// There is immediate data.
    pub const IMMEDIATE: u32 = 0x8_0000;
}

/// The control segment, as far as it says what to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Segments behind it.
    pub segments: u16,
    /// The bits of the control.
    pub bits: u16,
    /// Immediate data, if the control says so.
    pub immediate: u32,
    /// Length of all data, in bytes.
    pub len_bytes: u32,
}

/// A segment behind the control segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Address of the memory.
    pub address: u64,
    /// Its handle.
    pub handle: u32,
    /// Its length in bytes; of an address segment, reserved.
    pub len_bytes: u32,
}

/// The queue that a descriptor is posted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Sends and RDMA.
    Send,
    /// Receives.
    Receive,
}

/// What a descriptor asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// To send a message.
    Send,
    /// To receive one.
    Receive,
    /// To write into the memory of the other end.
    RdmaWrite,
    /// To read from the memory of the other end.
    RdmaRead,
}

impl Operation {
    /// Its bits of the status.
    #[must_use]
    pub const fn status(self) -> u32 {
        match self {
            Operation::Send => 0,
            Operation::Receive => status::RECEIVE,
            Operation::RdmaWrite => status::RDMA_WRITE,
            Operation::RdmaRead => status::RDMA_READ,
        }
    }
}

/// What bounds the descriptors of a VI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of one transfer.
    pub transfer_bytes_max: u32,
    /// Whether the VI's reliability level has RDMA reads.
    pub rdma_read: bool,
}

/// A descriptor that has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// What to do.
    pub operation: Operation,
    /// Immediate data to be sent along.
    pub immediate: Option<u32>,
    /// Whether to wait for all RDMA reads before it.
    pub fence: bool,
    /// Address and handle of the memory of the other end, for RDMA.
    pub remote: Option<(u64, u32)>,
    /// The memory of this end.
    pub data: Vec<Segment>,
    /// Length of all data, in bytes.
    pub len_bytes: u64,
}

impl Work {
    /// Whether it takes a receive of the other end.
    #[must_use]
    pub fn takes_receive(&self) -> bool {
        match self.operation {
            Operation::Send => true,
            Operation::RdmaWrite => self.immediate.is_some(),
            Operation::Receive | Operation::RdmaRead => false,
        }
    }
}

impl Control {
    /// Reads it from the bytes of a control segment.
    #[must_use]
    pub fn read(bytes: &[u8; CONTROL_BYTES]) -> Control {
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Control {
            segments: short(12),
            bits: short(14),
            immediate: word(20),
            len_bytes: word(24),
        }
    }

    /// The operation, if the bits make sense for this queue; for the status of a descriptor that is wrong, a send or a
    /// receive where they do not.
    #[must_use]
    pub fn operation(&self, side: Side) -> Operation {
        match (side, self.bits & OPERATION) {
            (Side::Receive, _) => Operation::Receive,
            (Side::Send, RDMA_WRITE) => Operation::RdmaWrite,
            (Side::Send, RDMA_READ) => Operation::RdmaRead,
            (Side::Send, _) => Operation::Send,
        }
    }
}

impl Segment {
    /// Reads it from the bytes of a segment.
    #[must_use]
    pub fn read(bytes: &[u8; SEGMENT_BYTES]) -> Segment {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Segment {
            address: u64::from(word(0)) | u64::from(word(4)) << 32,
            handle: word(8),
            len_bytes: word(12),
        }
    }
}

/// Checks a descriptor: its format, then its lengths, then what memory it names. `allows` says whether the VI may use
/// the memory of a segment. Segments beyond those that the control segment counts are not looked at.
///
/// # Errors
/// The error bit of the status: [`status::FORMAT`], [`status::LENGTH`] or [`status::PROTECTION`].
pub fn check(
    side: Side,
    control: &Control,
    segments: &[Segment],
    limits: &Limits,
    mut allows: impl FnMut(&Segment) -> bool,
) -> Result<Work, u32> {
    let operation = control.operation(side);
    let kind = control.bits & OPERATION;
    let rdma = matches!(operation, Operation::RdmaWrite | Operation::RdmaRead);
    let immediate = control.bits & IMMEDIATE != 0;
    let segments = segments.get(..usize::from(control.segments));
    let known = control.bits & RESERVED == 0
        && kind != OPERATION
        && control.segments <= SEGMENTS_MAX
        && (side == Side::Send || kind == 0)
        && (operation != Operation::RdmaRead || limits.rdma_read && !immediate);
    let (Some(segments), true) = (segments, known) else {
        return Err(status::FORMAT);
    };
    let (remote, data) = match (rdma, segments.split_first()) {
        (false, _) => (None, segments),
        (true, Some((first, data))) => (Some((first.address, first.handle)), data),
        (true, None) => return Err(status::FORMAT),
    };
    let len_bytes = data.iter().map(|s| u64::from(s.len_bytes)).sum();
    let fits = len_bytes <= u64::from(limits.transfer_bytes_max);
    if side == Side::Send && (len_bytes != u64::from(control.len_bytes) || !fits) {
        return Err(status::LENGTH);
    }
    if !data.iter().all(|s| s.len_bytes == 0 || allows(s)) {
        return Err(status::PROTECTION);
    }
    Ok(Work {
        operation,
        immediate: (side == Side::Send && immediate).then_some(control.immediate),
        fence: side == Side::Send && control.bits & FENCE != 0,
        remote,
        data: data.to_vec(),
        len_bytes,
    })
}
