//! The terminal, taken whole and given back whatever happens: raw, on its other screen, without a cursor. For live
//! views.

use std::io::{self, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::{Hide, Show};
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};

/// A terminal that does not say how large it is.
const SIZE: (u16, u16) = (80, 24);

/// Whether the terminal is to be given back.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal, until this is dropped or the process panics.
#[derive(Debug)]
pub struct TakenTerminal(());

impl TakenTerminal {
    /// Takes it.
    ///
    /// # Errors
    ///
    /// It is none, or refuses.
    pub fn take() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        enable_raw_mode()?;
        // Relaxed, partner `give_back`.
        TAKEN.store(true, Ordering::Relaxed);
        // If the next fails, dropping it gives back what was taken.
        let taken = Self(());
        execute!(stdout(), EnterAlternateScreen, Hide)?;
        Ok(taken)
    }
}

impl Drop for TakenTerminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Once: a second time would take the cursor back to where it was before, over what was said since.
fn give_back() {
    // Relaxed, partner `take`: the terminal itself is nothing that memory is ordered with.
    if !TAKEN.swap(false, Ordering::Relaxed) {
        return;
    }
    // If it refuses, there is nothing else to try.
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Columns and lines of the terminal.
pub fn terminal_size() -> (u16, u16) {
    let known = size()
        .ok()
        .filter(|(columns, lines)| *columns > 0 && *lines > 0);
    known.unwrap_or(SIZE)
}

#[cfg(test)]
#[path = "../tests/common/seat.rs"]
mod seat;

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::seat::{ENTER, LEAVE, Seat};
    use super::*;

    #[test]
    #[ignore = "started by the test below, before a terminal"]
    fn panic_before_a_terminal() {
        let _taken = TakenTerminal::take().expect("a terminal");
        panic!("on purpose");
    }

    #[test]
    fn a_panic_gives_the_terminal_back_before_it_is_told() {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        let name = "terminal::tests::panic_before_a_terminal";
        command.args(["--exact", "--ignored", "--nocapture", name]);
        let mut seat = Seat::start(command);
        let before = seat.modes();
        seat.wait_for(ENTER);
        seat.wait_for(LEAVE);
        seat.wait_for("on purpose");
        assert!(!seat.child.wait().expect("it ends").success());
        assert_eq!(seat.modes(), before);
    }
}
