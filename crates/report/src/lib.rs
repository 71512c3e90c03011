//! Results for people, rendered in one place: numbers in a few figures, columns for a terminal,
//! plots as SVG, and progress.
//!
//! ```layers
//! number: times, rates and sizes in a few figures
//! columns: cells in columns, and standard output
//! terminal: what a command may do with a terminal; bars (feature `terminal`)
//! markup: text in pages and drawings
//! axes: axes of plots, with marks and grids
//! svg: plots of lines over logarithmic axes, for a page
//! ```
#![forbid(unsafe_code)]

pub mod axes;
pub mod columns;
pub mod markup;
pub mod number;
pub mod svg;
#[cfg(feature = "terminal")]
pub mod terminal;
