//! `barewire wire`: the formats of the classic networks, taken apart, put together, and
//! checked in captures.
//!
//! All of it stands on `barewire-wire`: each format shows itself as a tree of fields and
//! reports what is wrong with it; this module reads, prints, plants faults and counts.

mod check;
mod content;
mod decode;
mod encode;
mod error;
mod input;
mod kind;
mod show;
mod store;

use std::process::ExitCode;

use clap::{Args, Subcommand};
pub use error::WireError;
use error::{Result, Verdict};

/// Decode, encode and check formats of classic networks
///
/// The exit status is 0 on success, 1 if the input is faulty, and 2 on any other error: a file
/// that cannot be read, wrong arguments.
#[derive(Clone, Debug, Args)]
pub struct WireArgs {
    #[command(subcommand)]
    command: WireCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum WireCommand {
    /// Show the fields of bytes as a tree, with bit positions, and what is wrong with them
    ///
    /// The exit status is 1 if anything is wrong with the bytes, and 2 if they cannot be read or
    /// recognised.
    Decode(decode::DecodeArgs),
    /// Build a cell, a PDU or a frame with its check codes, as hex and as a capture
    ///
    /// The exit status is 2 if it cannot be built, or its payload cannot be read.
    Encode(encode::EncodeArgs),
    /// Count the errors of a capture per circuit
    ///
    /// The exit status is 1 if there are errors, and 2 if the file cannot be read or is not a
    /// capture.
    Check(check::CheckArgs),
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
