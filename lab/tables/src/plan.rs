//! Plans: what to ask of which system's model, with which inputs and parameters.
//!
//! ```toml
//! title = "my host on the ring"   # may be left out
//! system = "cbn"                  # of `barewire lab list`
//! experiment = "load"
//! seed = 1                        # 1, if left out
//! replications = 1                # 1, if left out
//! with = ["host.toml"]            # files or built-in fragments, whose sections come first
//!
//! [inputs]                        # of the experiment; the rest keeps its default
//! cells = 20
//!
//! [parameters]                    # changes of the system's own
//! driver.wake = "30 us"
//! ```
//!
//! | step | module |
//! |---|---|
//! | text to entries with their places | `document` |
//! | a network that the plan describes itself, and where what is wrong with it stands | `described` |
//! | entries over the defaults, checked; who is to blame | `resolve` |
//! | names of plans and fragments, from files or built in | `source` |
//! | the texts that are shown, kept with a result, or begun with | `write` |
//!
//! Later layers win: the defaults, the fragments of `with` in their order, the plan itself,
//! the fragments of the command line, its changes. Nothing runs before all of it is checked,
//! and what is wrong is reported at the line that says so.

mod described;
mod document;
mod reason;
mod resolve;
mod source;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;
use std::io;
use std::path::PathBuf;

use barewire_testbed::{Experiment, System};
use serde::{Deserialize, Serialize};

use crate::report::Change;

pub use source::{BuiltIn, Draft, PlanSource};

/// Most replications that a plan may ask for.
pub const REPLICATIONS_MAX: u64 = 10_000;

/// A plan with everything in it that a run needs.
#[derive(Clone)]
pub struct Plan {
    /// The name of a built-in plan, or the file's without its ending.
    pub name: String,
    /// What its results are headed with, if it says.
    pub title: Option<String>,
    /// Whose model is asked.
    pub system: &'static dyn System,
    /// What is asked of it.
    pub experiment: &'static Experiment,
    /// The seed of everything random.
    pub seed: u64,
    /// Runs with seeds of their own.
    pub replications: usize,
    /// The experiment's inputs, whole.
    pub inputs: String,
    /// The system's parameters, whole.
    pub parameters: String,
    /// What differs from the defaults.
    pub changes: Vec<Changed>,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("name", &self.name)
            .field("seed", &self.seed)
            .field("replications", &self.replications)
            .field("changes", &self.changes)
            .finish_non_exhaustive()
    }
}

/// A value that is not the default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Which: `inputs.cells`, `parameters.driver.wake`.
    pub key: String,
    /// What it is now, as TOML.
    pub value: String,
    /// The default, as TOML.
    pub was: String,
    /// Where that was said: `mine.toml:12`, `--set`.
    pub from: String,
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} (was {})", self.key, self.value, self.was)
    }
}

/// What a command line adds to a plan.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Fragments: files, or built-in ones by name.
    pub with: Vec<String>,
    /// Changes, each with the option that it was given by.
    pub set: Vec<(&'static str, Change)>,
}

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// A file, a fragment, an option of the command line.
    pub source: String,
    /// The line, from 1, if it has lines.
    pub line: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.source),
            None => f.write_str(&self.source),
        }
    }
}

/// Something wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub place: Place,
    /// Which entry, `inputs.cells = 20`; empty if it is none in particular.
    pub entry: String,
    /// What is wrong, and what is expected.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.entry.is_empty() {
            write!(f, "{}: ", self.entry)?;
        }
        f.write_str(&self.problem)
    }
}

impl From<Fault> for Vec<Fault> {
    fn from(fault: Fault) -> Self {
        vec![fault]
    }
}

/// Why there is no plan to run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Neither a file nor a built-in plan.
    #[error("no plan `{name}`: {hint}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What may have been meant.
        hint: String,
    },
    /// A file that cannot be read.
    #[error("reading {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A plan that cannot be run.
    #[error("{}", in_lines(.0))]
    Faults(Vec<Fault>),
}

fn in_lines(faults: &[Fault]) -> String {
    if let [fault] = faults {
        return fault.to_string();
    }
    let mut text = format!("{} things are wrong:", faults.len());
    for fault in faults {
        text += &format!("\n  {fault}");
    }
    text
}
