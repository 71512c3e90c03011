//! Results for people, rendered in one place: numbers in a few figures, columns for a terminal,
//! plots as SVG, and progress.
//!
//! | module | what it is |
//! |---|---|
//! | [`number`] | times, rates and sizes in a few figures |
//! | [`axes`] | axes of plots, with marks and grids |
//! | [`columns`] | cells in columns, and standard output |
//! | [`markup`] | text in pages and drawings |
//! | [`svg`] | plots of lines over logarithmic axes, for a page |
//! | `terminal` | what a command may do with a terminal; bars (feature `terminal`) |
#![forbid(unsafe_code)]

pub mod axes;
pub mod columns;
pub mod markup;
pub mod number;
pub mod svg;
#[cfg(feature = "terminal")]
pub mod terminal;
