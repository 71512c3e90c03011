//! Why `kek` cannot measure.

use std::io;
use std::path::PathBuf;

use barewire_daq::config::Fault;
use barewire_daq::shape::ShapeError;

/// Why it does not go.
#[derive(Debug, thiserror::Error)]
pub enum KekError {
    /// The system says no.
    #[error("emulating a switch: {0}")]
    Io(#[from] io::Error),
    /// The kernel does not shape.
    #[error("{0}")]
    Shape(#[from] ShapeError),
    /// A configuration of ours is faulty.
    #[error("the configuration of a run: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Config(Vec<Fault>),
    /// A script of `tc` commands that cannot be used.
    #[error("{0}")]
    Script(String),
    /// A run did not end as it should.
    #[error("a run did not end as it should: {0}")]
    Run(String),
    /// A page is not as it should be.
    #[error("{}: {reason}", page.display())]
    Page {
        /// Its file.
        page: PathBuf,
        /// What is wrong.
        reason: String,
    },
}
