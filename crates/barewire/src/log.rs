//! The log of this process's nodes: `BAREWIRE_LOG=LEVEL[:FILE]`. There is none unless that is set.
//!
//! Only what happens off the data path is logged: links made and ended, refusals, deaths, breaches of the protocol. Some of
//! it happens under the lock of a node, where nothing may block. So a line is put into a bounded queue, and a thread
//! writes it. What finds no room is counted, and so is what exceeds a number of lines a second: no peer can fill a disk
//! by misbehaving.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use barewire_sys::process::start_thread;
pub use barewire_units::log::Level;
use barewire_units::log::{Line, RATE_MAX, VARIABLE, Wanted};

/// Lines that wait for the thread.
const WAITING_MAX: usize = 1024;
/// How long the end of a node waits for its lines to be written.
const PATIENCE: Duration = Duration::from_millis(100);

/// What the thread is given.
enum Entry {
    Line(SystemTime, Level, String),
    /// Everything before it is to be written now.
    Settle(SyncSender<()>),
}

/// The log, if there is one.
struct Log {
    /// A child of `fork` has no thread that would write.
    pid: u32,
    level: Level,
    entries: SyncSender<Entry>,
}

/// Lines that found no room.
static LOST: AtomicU64 = AtomicU64::new(0);

fn log() -> Option<&'static Log> {
    static LOG: OnceLock<Option<Log>> = OnceLock::new();
    LOG.get_or_init(|| {
        let text = std::env::var_os(VARIABLE)?;
        let opened = match Wanted::parse(text.as_bytes()) {
            Ok(Some(wanted)) => Log::open(&wanted).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error.to_string()),
        };
        opened.unwrap_or_else(|error| {
            let text = text.to_string_lossy();
            // Where nobody can be told, there is nothing else to try.
            let _ = writeln!(io::stderr(), "barewire: {VARIABLE}={text}: {error}");
            None
        })
    })
    .as_ref()
    .filter(|log| log.pid == std::process::id())
}

/// Opens the log, if one is wanted. Not to be called under a lock.
pub fn prepare() {
    log();
}

/// Logs a line, if lines of this level are wanted. `what` is not called if not.
pub fn line(level: Level, what: impl FnOnce() -> String) {
    if let Some(log) = log().filter(|log| level <= log.level) {
        let entry = Entry::Line(SystemTime::now(), level, what());
        if log.entries.try_send(entry).is_err() {
            // Relaxed: a count with nothing behind it.
            LOST.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Waits a moment until what was logged is written. Not to be called under a lock.
pub fn settle() {
    if let Some(log) = log() {
        let (done, is_done) = sync_channel(1);
        if log.entries.try_send(Entry::Settle(done)).is_ok() {
            // If that takes longer, the process goes on without.
            let _ = is_done.recv_timeout(PATIENCE);
        }
    }
}

impl Log {
    fn open(wanted: &Wanted<'_>) -> Result<Log, String> {
        let sink: Box<dyn Write + Send> = match &wanted.file {
            None => Box::new(io::stderr()),
            // The environment is of somebody with fewer rights.
            Some(_) if barewire_sys::exec::is_secure() => {
                return Err("a program with more rights than its caller writes no file".to_owned());
            }
            Some(path) => open(path).map_err(|error| error.to_string())?,
        };
        let (entries, waiting) = sync_channel(WAITING_MAX);
        start_thread("barewire-log", move || write_all(&waiting, sink))
            .map_err(|error| error.to_string())?;
        Ok(Log {
            pid: std::process::id(),
            level: wanted.level,
            entries,
        })
    }
}

fn open(pattern: &[u8]) -> io::Result<Box<dyn Write + Send>> {
    let path = path(pattern);
    let path = Path::new(OsStr::from_bytes(&path));
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    Ok(Box::new(file))
}

/// The path that a pattern stands for: `%p` is the process id.
fn path(pattern: &[u8]) -> Vec<u8> {
    let pid = std::process::id().to_string();
    let mut path = Vec::new();
    let mut rest = pattern;
    while let [first, after @ ..] = rest {
        match rest.strip_prefix(b"%p") {
            Some(after) => {
                path.extend_from_slice(pid.as_bytes());
                rest = after;
            }
            None => {
                path.push(*first);
                rest = after;
            }
        }
    }
    path
}

/// Writes what comes, until the process ends.
fn write_all(waiting: &Receiver<Entry>, mut sink: impl Write) {
    let mut second = (0, 0);
    let mut left_out = 0;
    for entry in waiting {
        match entry {
            Entry::Settle(done) => drop(done.try_send(())),
            Entry::Line(at, level, text) => {
                let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
                if since.as_secs() != second.0 {
                    second = (since.as_secs(), 0);
                }
                second.1 += 1;
                // Relaxed: a count with nothing behind it.
                left_out += LOST.swap(0, Ordering::Relaxed);
                if second.1 > RATE_MAX {
                    left_out += 1;
                    continue;
                }
                let before = match core::mem::take(&mut left_out) {
                    0 => String::new(),
                    count => format!("({count} lines left out)\n"),
                };
                let line = Line {
                    since_epoch: since,
                    level,
                    pid: std::process::id(),
                    text,
                };
                // A log that cannot be written harms nobody.
                let _ = sink.write_all(format!("{before}{line}").as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_id_stands_in_names_where_it_is_asked_for() {
        let pid = std::process::id();
        assert_eq!(path(b"/a/%p.%p%"), format!("/a/{pid}.{pid}%").into_bytes());
        assert_eq!(path(b"/a\xff"), b"/a\xff");
    }

    #[test]
    fn lines_are_whole_and_no_more_than_a_second_has_room_for() {
        let (entries, waiting) = sync_channel(WAITING_MAX);
        let at = UNIX_EPOCH + Duration::from_millis(1500);
        let line = |at, text: &str| Entry::Line(at, Level::Warn, text.to_owned());
        entries.send(line(at, "a\nb")).expect("room");
        for _ in 0..RATE_MAX + 5 {
            entries.send(line(at, "again")).expect("room");
        }
        entries
            .send(line(at + Duration::from_secs(1), "last"))
            .expect("room");
        drop(entries);
        let mut sink = Vec::new();
        write_all(&waiting, &mut sink);
        let text = String::from_utf8(sink).expect("text");
        let pid = std::process::id();
        let first = format!("1.500 warn barewire[{pid}]: a?b\n");
        assert!(text.starts_with(&first), "{text}");
        let last = format!("(6 lines left out)\n2.500 warn barewire[{pid}]: last\n");
        assert!(text.ends_with(&last), "{text}");
    }
}
