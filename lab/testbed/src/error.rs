//! Why a system cannot be run.

use std::fmt;

/// Something wrong with a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The key or the table that it is about: `cards.a.block`, `links.l`.
    pub key: String,
    /// What is wrong, and what is expected.
    pub problem: String,
    /// A name that is none, and the names that there are: one of them may have been meant.
    pub meant: Option<(String, Vec<String>)>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)?;
        match &self.meant {
            Some((_, known)) if !known.is_empty() => {
                write!(f, "; expected one of: {}", known.join(", "))
            }
            _ => Ok(()),
        }
    }
}

fn in_lines(faults: &[Fault]) -> String {
    let lines: Vec<String> = faults.iter().map(Fault::to_string).collect();
    lines.join("\n")
}

/// Why a system cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// A parameter is missing, unknown, or no value of its kind. The text names line and key.
    #[error("parameters: {0}")]
    Parameters(#[from] toml::de::Error),
    /// An input is missing, unknown, or no value of its kind. The text names line and key.
    #[error("inputs: {0}")]
    Inputs(#[source] toml::de::Error),
    /// What is wrong with a network, each with the key that it is about.
    #[error("{}", in_lines(.0))]
    Faults(Vec<Fault>),
    /// Parameters that contradict each other.
    #[error("parameters: {0}")]
    Contradiction(String),
    /// A system whose network carries no packets from outside.
    #[error(
        "the network of {0} carries no packets from outside; `barewire lab emulate --help` names \
         those that do"
    )]
    NoPackets(&'static str),
}
