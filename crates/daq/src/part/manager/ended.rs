//! How the manager is to behave, and what it says at the end of a run.

use super::given_up::Recovered;
use crate::monitor::Picture;

/// How the manager is to behave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Neither starts nor ends by itself, but waits for an operator.
    pub hold: bool,
    /// Says nothing on standard error.
    pub quiet: bool,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every fragment is accounted for.
    Balanced,
    /// A sum does not hold.
    Unbalanced(String),
    /// It ended before its time, for this reason; the ledger balances.
    Failed(String),
    /// The ledger balances, but something was lost that no setting allows to be: what.
    Lost(String),
}

/// What is left of a run.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How it ended.
    pub verdict: Verdict,
    /// The ledger, for people.
    pub ledger: String,
    /// All sums.
    pub picture: Picture,
    /// What of the events that were given up is recorded.
    pub recovered: Recovered,
}
