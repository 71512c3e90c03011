//! Why a program cannot be captured.

use std::io;

use barewire_sys::SysError;

use crate::nodes::InspectError;

/// Why nothing could be captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// No library in it, or no process.
    #[error(transparent)]
    Look(#[from] InspectError),
    /// It is not there any more, or is another program.
    #[error("process {0} has ended, or has become another program")]
    Gone(i32),
    /// Its memory may not be opened.
    #[error(
        "process {0} cannot be captured: {1}; root can capture it, and so can a user who may trace \
         it, see /proc/sys/kernel/yama/ptrace_scope"
    )]
    NotAllowed(i32, io::Error),
    /// The library does nothing, or is of another version.
    #[error(
        "the library in process {0} cannot be captured: it is switched off there, or of another \
         version than this command"
    )]
    Unsuitable(i32),
    /// Somebody else is at it.
    #[error("process {0} is being captured already")]
    Busy(i32),
    /// What lies in its memory makes no sense.
    #[error("the memory of process {0} has unexpected contents: {1}")]
    Nonsense(i32, &'static str),
    /// The packets are not for people.
    #[error(
        "-w -: cannot write packets to a terminal; give a file, or a pipe: | wireshark -k -i -"
    )]
    Terminal,
    /// The file cannot be written.
    #[error("writing {0}: {1}")]
    Write(String, io::Error),
    /// The system would not.
    #[error(transparent)]
    System(#[from] SysError),
}

/// The result of capturing.
pub type Result<T, E = CaptureError> = std::result::Result<T, E>;
