//! What a peer did that no correct peer does.

/// A breach of the protocol by the peer. The connection on which it was seen cannot be
/// used further; nothing of ours was read or written outside its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Violation {
    /// A frame header carries a kind that does not exist.
    #[error("frame of unknown kind {kind}")]
    FrameKind {
        /// The kind found.
        kind: u8,
    },
    /// A frame header carries another position than the one it stands at.
    #[error("frame header for position {found}, expected {expected} (modulo 2^24)")]
    FramePosition {
        /// Low 24 bits of the position in the header.
        found: u32,
        /// Low 24 bits of the position of the header.
        expected: u32,
    },
    /// A frame is longer than a frame of this ring may be.
    #[error("frame of {found} bytes where at most {max} are allowed")]
    FrameLength {
        /// Payload bytes in the header.
        found: u64,
        /// Most payload bytes allowed there.
        max: u64,
    },
    /// A fragment that others follow is not a full frame: crumbs would cost their reader
    /// time and their writer nothing.
    #[error("fragment of {found} bytes where at least {needed} are needed: others follow it")]
    FragmentLength {
        /// Payload bytes in the header.
        found: u64,
        /// Payload bytes that it must have.
        needed: u64,
    },
    /// A skip does not reach to the end of the ring, or begins at its beginning.
    #[error("skip of {found} bytes where {needed} reach to the end of the ring")]
    SkipLength {
        /// Payload bytes in the header.
        found: u64,
        /// Payload bytes to the end of the ring.
        needed: u64,
    },
    /// A frame that must hold something holds nothing: it would cost its reader time and
    /// its writer nothing.
    #[error("empty frame of kind {kind}")]
    FrameEmpty {
        /// The kind found.
        kind: u8,
    },
    /// The duplex line holds the header of a turn that is not the next one, or of too long a message.
    #[error("header {header:#018x} in the duplex line out of turn, or of too long a message")]
    DuplexHeader {
        /// The header.
        header: u64,
    },
    /// A message in the duplex line comes after frames that are not in the ring.
    #[error("message in the duplex line sent at another position than {expected} (modulo 2^24)")]
    DuplexPosition {
        /// Low 24 bits of the position of the ring's reader.
        expected: u32,
    },
    /// A progress report goes backwards or beyond what was sent.
    #[error("progress report {found} outside {low}..={high}")]
    Credit {
        /// The report.
        found: u64,
        /// The last report.
        low: u64,
        /// Lines sent so far.
        high: u64,
    },
    /// A message in a shared frame runs past the end of the frame.
    #[error("message of {found} bytes in a shared frame with {left} bytes left")]
    PackedLength {
        /// Length of the message.
        found: u64,
        /// Bytes left in the frame.
        left: u64,
    },
    /// A message is longer than the limit agreed for the connection.
    #[error("message longer than the limit of {max} bytes")]
    MessageLength {
        /// The limit.
        max: u64,
    },
    /// There is no memory to put a message in pieces together.
    #[error("no memory for a message of {needed} bytes and more")]
    NoMemory {
        /// Its bytes so far.
        needed: u64,
    },
    /// A message in pieces takes more memory than its sender may have.
    #[error("a message that takes more than {} {}", .0.limit, .0.what)]
    OverBudget(OverBudget),
    /// A whole message or a packed frame arrived inside a fragmented message.
    #[error("frame of kind {kind} inside a fragmented message")]
    Interleaved {
        /// The kind found.
        kind: u8,
    },
}

/// More than an [`Allowance`](crate::Allowance) allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OverBudget {
    /// What there would be too much of.
    pub what: &'static str,
    /// How much there may be.
    pub limit: u64,
}
