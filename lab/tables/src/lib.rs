//! Plans and their results, and the published tables beside what the models give.
//!
//! | part | what it does |
//! |---|---|
//! | [`plan`] | a plan, from text or built in, put over the defaults and checked |
//! | [`runs`] | plans run, with replications, on all processors |
//! | [`Results`] | what came out, as JSON, CSV, text, a page with plots |
//! | [`Page`] | any tables as a page with plots, or as a drawing |
//! | [`Over`] | the values of one key in a sweep |
//! | [`Axes`] | all keys of a sweep, multiplied out or in step |
//! | [`pcapng`] | what went over the links, as a file for Wireshark |
//! | [`Expected`] | what was published: `expected/SYSTEM.toml`, with tolerance and source |
//! | [`reproduce`], [`Report`] | a system run and set beside it: each value with its error and verdict |
//! | [`sweep`] | that, as parameters take several values |
//!
//! Neither results nor reports have a date or a duration in them: the same plan, parameters
//! and seed give the same bytes.
//!
//! What a file imports, from the lowest layer up:
//!
//! ```layers
//! cells: values as the cells of a table
//! grid: columns of text
//! suggest: the name that was meant
//! saved: the format of saved results
//! pcap: what went over links, as a file
//! over: the values of one key
//! axes: all keys of a sweep
//! parameters: a parameter file with some values replaced
//! expected: what was published
//! join: published values beside the model's
//! report: a system run and set beside what was published
//! sweep: that, as parameters take several values
//! text: a report on the terminal
//! csv: a report as comma-separated values
//! plot: drawings of a report
//! html: a report as a page
//! result_table: rows and columns of a plan's result
//! plan: plans, from text or built in
//! runs: plans run
//! results: what came out of a plan
//! chart: drawings of any table
//! page: any tables as a page
//! picture: networks, drawn
//! ```
#![forbid(unsafe_code)]

mod axes;
mod cells;
mod chart;
mod csv;
mod expected;
mod grid;
mod html;
mod join;
mod over;
mod page;
pub mod parameters;
mod pcap;
pub mod picture;
pub mod plan;
mod plot;
mod report;
mod result_table;
mod results;
pub mod runs;
#[cfg(test)]
mod sample;
mod saved;
mod suggest;
mod sweep;
mod text;

pub use axes::{Axes, Axis, AxisError};
pub use expected::{Expected, ExpectedError, Kind, Row};
pub use join::{Line, Verdict, join};
pub use over::{Over, OverError};
pub use page::Page;
pub use pcap::pcapng;
pub use report::{Change, Report, ReproduceError, Run, Tally, reproduce};
pub use result_table::{Entry, ResultColumn, ResultTable};
pub use results::{Recorded, Results};
pub use sweep::{Sweep, SweepError, sweep};
