//! What a command may do with a terminal, by one rule for all commands:
//!
//! | environment | |
//! |---|---|
//! | `TERM=dumb` | the cursor stays where it is, and nothing has a colour: no live view, no bars |
//! | `NO_COLOR`, not empty | nothing has a colour (<https://no-color.org>) |
//!
//! What is no terminal gets neither. The help of `clap` keeps the same rule by itself.

use std::ffi::OsStr;
use std::io::IsTerminal;

use indicatif::ProgressBar;

/// Whether what was written to `stream` may be drawn over.
pub fn may_redraw(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && !is_dumb(std::env::var_os("TERM").as_deref())
}

/// Whether text may have colours on a terminal that may be drawn on.
pub fn may_colour() -> bool {
    allows_colour(std::env::var_os("NO_COLOR").as_deref())
}

/// A bar on standard error, or none where it may not be drawn.
pub fn progress_bar(steps: u64) -> ProgressBar {
    match may_redraw(&std::io::stderr()) {
        true => ProgressBar::new(steps),
        false => ProgressBar::hidden(),
    }
}

fn is_dumb(term: Option<&OsStr>) -> bool {
    term.is_some_and(|it| it == "dumb")
}

fn allows_colour(no_color: Option<&OsStr>) -> bool {
    no_color.is_none_or(OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_obeyed() {
        assert!(is_dumb(Some(OsStr::new("dumb"))));
        assert!(!is_dumb(Some(OsStr::new("xterm"))) && !is_dumb(None));
        assert!(allows_colour(None) && allows_colour(Some(OsStr::new(""))));
        assert!(!allows_colour(Some(OsStr::new("1"))) && !allows_colour(Some(OsStr::new("0"))));
    }
}
