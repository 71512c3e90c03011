//! Ends of lines, and lines, by their numbers.

use crate::workbench::bench::At;

/// Who is at the end of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Card(At),
    Port { device: usize, port: usize },
}

/// What somebody sends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Link { link: usize, end: usize },
    Station { ring: usize, station: usize },
}
