//! Why a system cannot be run.

/// Why a system cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// A parameter is missing, unknown, or no value of its kind. The text names line and key.
    #[error("parameters: {0}")]
    Parameters(#[from] toml::de::Error),
    /// An input is missing, unknown, or no value of its kind. The text names line and key.
    #[error("inputs: {0}")]
    Inputs(#[source] toml::de::Error),
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
