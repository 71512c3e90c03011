//! How a sub-command of `wire` ends: with a verdict, or an error.

use std::io;

use barewire_report::columns::PrintError;

/// Why a sub-command of `wire` could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A file that cannot be read or written.
    #[error("{0}: {1}")]
    File(String, io::Error),
    /// A text file that is not hex.
    #[error("{0} is text, but not hex: {1}; --raw takes it as it stands")]
    Hex(String, String),
    /// An argument that is neither.
    #[error("`{0}` is neither a file nor hex: {1}")]
    NeitherFileNorHex(String, String),
    /// Bytes do not say what they are.
    #[error("the format of these bytes is unknown: name it with --as KIND")]
    NoKind,
    /// A packet that the capture does not have.
    #[error("there is no packet {0}: the capture has {1}, counted from 1")]
    NoPacket(usize, usize),
    /// A file that is not a capture.
    #[error("{0} is not a pcap or pcapng file")]
    NoCapture(String),
    /// More bytes than the format has room for.
    #[error("{have_bytes} bytes in --hex; {place} has room for {room_bytes}")]
    TooLong {
        /// Bytes that were given.
        have_bytes: usize,
        /// Bytes that fit.
        room_bytes: usize,
        /// Where.
        place: &'static str,
    },
    /// A field that the format does not have.
    #[error("no field `{0}`; there are: {1}")]
    NoField(String, String),
    /// What no link type holds.
    #[error("no link type of pcapng holds {0}")]
    NoLinkType(&'static str),
    /// Numbers that do not go together.
    #[error("{0}")]
    Unfit(String),
    /// What a format does not take.
    #[error(transparent)]
    Format(barewire_wire::Error),
    /// Standard output.
    #[error(transparent)]
    Print(#[from] PrintError),
}

/// The result of work on formats.
pub type Result<T> = std::result::Result<T, WireError>;

/// Whether what was looked at is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong.
    Sound,
    /// Something is wrong: exit status 1.
    Faulty,
}

impl Verdict {
    /// What so many faults mean.
    pub const fn of(fault_count: usize) -> Self {
        match fault_count {
            0 => Self::Sound,
            _ => Self::Faulty,
        }
    }
}
