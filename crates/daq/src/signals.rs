//! SIGINT and SIGTERM: the first drains the run, the next ends it. SIGXFSZ, of a file that is longer than the
//! process may write (`ulimit -f`), is left to the error that comes with it.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

static ASKED: AtomicU32 = AtomicU32::new(0);

/// From now on these signals do not end the process but are counted, by a thread that ends
/// with it.
///
/// # Errors
///
/// The system does not allow it.
pub fn listen() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for _ in signals.forever() {
                ask();
            }
        })?;
    Ok(())
}

/// Counts as such a signal.
pub fn ask() {
    // Relaxed, partner `asked`: a count with nothing behind it.
    ASKED.fetch_add(1, Ordering::Relaxed);
}

/// From now on a file that grows beyond `ulimit -f` does not end the process: the write fails with an error.
pub fn ignore_file_size_limit() {
    // Where this is not possible, the signal ends the process, as without it.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// How often this process was asked to end since it began to [`listen`].
#[must_use]
pub fn asked() -> u32 {
    // Relaxed, partner `ask`.
    ASKED.load(Ordering::Relaxed)
}
