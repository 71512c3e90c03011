//! Ends of lines, and lines, by their numbers.

/// Who is at the end of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Host(u16),
    Port { device: usize, port: usize },
}

/// What somebody sends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Link { link: usize, end: usize },
    Station { ring: usize, station: usize },
}
