//! Why a command of `daq` cannot do what it was asked to.

use std::fmt::Write as _;

use barewire_daq::config::Fault;
use barewire_daq::part::PartError;
use barewire_daq::record::RecordError;

/// Why `daq` cannot do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum DaqError {
    /// The configuration is faulty.
    #[error("{}", list(.0))]
    Config(Vec<Fault>),
    /// A part cannot work.
    #[error("{0}")]
    Part(#[from] PartError),
    /// A process cannot be started, or a file not be written.
    #[error("{what}: {error}")]
    Io {
        /// What was done.
        what: String,
        /// Why it did not go.
        error: std::io::Error,
    },
    /// A file cannot be read.
    #[error("{0}: {1}")]
    Record(String, RecordError),
    /// What is to be measured cannot be.
    #[error("{0}")]
    Scan(String),
    /// A measurement ended before its time.
    #[error("{why}")]
    Ended {
        /// Exit status.
        code: u8,
        /// Why.
        why: String,
    },
}

fn list(faults: &[Fault]) -> String {
    if let [fault] = faults {
        return fault.to_string();
    }
    let mut text = format!("{} errors:", faults.len());
    for fault in faults {
        let _ = write!(text, "\n  {fault}");
    }
    text
}
