//! What a command may do with a terminal, by one rule for all commands:
//!
//! | environment | |
//! |---|---|
//! | `TERM=dumb` | the cursor stays where it is, and nothing has a colour: no live view, no bars |
//! | `NO_COLOR`, not empty | nothing has a colour (<https://no-color.org>) |
//!
//! What is no terminal gets neither. What the user has chosen ([`choose_colour`]) comes before both rules on colours.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU8, Ordering};

use indicatif::ProgressBar;

/// Whether what was written to `stream` may be drawn over.
pub fn may_redraw(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && !is_dumb(std::env::var_os("TERM").as_deref())
}

/// When text has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// On a terminal, as the environment allows it.
    #[default]
    Auto,
    /// Always, on what is no terminal too.
    Always,
    /// Never.
    Never,
}

/// The number of a [`Colour`].
static CHOSEN: AtomicU8 = AtomicU8::new(Colour::Auto as u8);

/// What the user has chosen for this process.
pub fn choose_colour(colour: Colour) {
    // Relaxed, partner `chosen`: a number with nothing behind it.
    CHOSEN.store(colour as u8, Ordering::Relaxed);
}

fn chosen() -> Colour {
    // Relaxed, partner `choose_colour`.
    match CHOSEN.load(Ordering::Relaxed) {
        1 => Colour::Always,
        2 => Colour::Never,
        _ => Colour::Auto,
    }
}

/// Whether text may have colours on a terminal that may be drawn on.
pub fn may_colour() -> bool {
    match chosen() {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => allows_colour(std::env::var_os("NO_COLOR").as_deref()),
    }
}

/// Whether what is written to `stream` has colours.
pub fn has_colour(stream: &impl IsTerminal) -> bool {
    chosen() == Colour::Always || (may_redraw(stream) && may_colour())
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
