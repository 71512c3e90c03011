//! The published tables beside what the models give: each value of the paper, the value
//! that the experiment found, the error, and whether it is within the tolerance.
//!
//! `expected/SYSTEM.toml` holds what was published, with tolerance and source
//! ([`Expected`]). [`reproduce`] runs a system of `barewire-testbed` and joins what it
//! found with those rows; a [`Report`] of such runs is written as text, CSV, JSON or one
//! page of HTML. [`sweep`] runs a system as one parameter takes several values. A report has no date and no duration in it: the same parameters and
//! seed give the same bytes.
#![forbid(unsafe_code)]

mod csv;
mod expected;
mod html;
mod join;
pub mod parameters;
mod plot;
mod report;
#[cfg(test)]
mod sample;
mod study;
mod sweep;
mod text;

pub use expected::{Expected, ExpectedError, Kind, Row};
pub use join::{Line, Verdict, join};
pub use report::{Change, Report, ReproduceError, Run, Tally, reproduce};
pub use study::{put, study_text};
pub use sweep::{Over, Sweep, SweepError, sweep};
