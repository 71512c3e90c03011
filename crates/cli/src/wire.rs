//! `barewire wire`: the formats of the classic networks, taken apart, put together, and
//! checked in captures.
//!
//! All of it stands on `barewire-wire`: each format shows itself as a tree of fields and
//! reports what is wrong with it; this module reads, prints, plants faults and counts.

mod check;
mod content;
mod decode;
mod encode;
mod input;
mod kind;
mod show;
mod store;

use std::io;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::nodes::LookError;

/// Look at the formats of the classic networks
///
/// The exit status is 0 if all is well, 1 if what was looked at is faulty, and 2 if the work
/// could not be done: a file that can not be read, arguments that make no sense.
#[derive(Clone, Debug, Args)]
pub struct WireArgs {
    #[command(subcommand)]
    command: WireCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum WireCommand {
    /// Show the fields of bytes as a tree, with bit positions, and what is wrong with them
    ///
    /// The exit status is 1 if anything is wrong with them, and 2 if they could not be read
    /// or made out.
    Decode(decode::DecodeArgs),
    /// Build a cell, a PDU or a frame with its check codes, as hex and as a capture
    ///
    /// The exit status is 2 if it could not be built, or its payload not be read.
    Encode(encode::EncodeArgs),
    /// Count the errors of a capture per circuit
    ///
    /// The exit status is 1 if there are any, and 2 if the file could not be read or is no
    /// capture.
    Check(check::CheckArgs),
}

/// Why a sub-command of `wire` could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A file that can not be read or written.
    #[error("{0}: {1}")]
    File(String, io::Error),
    /// A text file that is not hex.
    #[error("{0} is text, but not hex: {1}; --raw takes it as it stands")]
    Hex(String, String),
    /// An argument that is neither.
    #[error("`{0}` is no file, and not hex: {1}")]
    NeitherFileNorHex(String, String),
    /// Bytes do not say what they are.
    #[error("what are these bytes? say so with --as KIND")]
    NoKind,
    /// A packet that the capture does not have.
    #[error("there is no packet {0}: the capture has {1}, counted from 1")]
    NoPacket(usize, usize),
    /// A file that is not a capture.
    #[error("{0} is no pcap or pcapng file")]
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
    Print(#[from] LookError),
}

/// The result of work on formats.
type Result<T> = std::result::Result<T, WireError>;

/// Whether what was looked at is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong.
    Sound,
    /// Something is wrong: exit status 1.
    Faulty,
}

impl Verdict {
    const fn of(fault_count: usize) -> Self {
        match fault_count {
            0 => Self::Sound,
            _ => Self::Faulty,
        }
    }
}

/// Runs a sub-command. What is wrong with the formats is in the exit status.
pub fn run(args: &WireArgs) -> Result<ExitCode> {
    let verdict = match &args.command {
        WireCommand::Decode(args) => decode::run(args)?,
        WireCommand::Encode(args) => encode::run(args)?,
        WireCommand::Check(args) => check::run(args)?,
    };
    Ok(match verdict {
        Verdict::Sound => ExitCode::SUCCESS,
        Verdict::Faulty => ExitCode::FAILURE,
    })
}
