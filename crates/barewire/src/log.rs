//! The log of this process's nodes: `BAREWIRE_LOG=LEVEL[:FILE]`. There is none unless that is set.
//!
//! Only what happens off the data path is logged: links made and ended, refusals, deaths, breaches of the protocol. Some of
//! it happens under the lock of a node, where nothing may block. So a line is put into a bounded queue, and a thread
//! writes it. What finds no room is counted, and so is what exceeds a number of lines a second: no peer can fill a disk
//! by misbehaving.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use barewire_sys::process::start_thread;

/// How much a line matters. A level logs its own lines, and those of the levels before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A peer broke the protocol.
    Error,
    /// A peer died or was refused.
    Warn,
    /// Links and names come and go.
    Info,
}

const LEVELS: [(Level, &str); 3] = [
    (Level::Error, "error"),
    (Level::Warn, "warn"),
    (Level::Info, "info"),
];

/// Lines that wait for the thread.
const WAITING_MAX: usize = 1024;
/// Lines that are written in a second.
const RATE_MAX: u32 = 200;
/// How long the end of a node waits for its lines to be written.
const PATIENCE: Duration = Duration::from_millis(100);

const VARIABLE: &str = "BAREWIRE_LOG";

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
        let opened = Wanted::parse(&text.to_string_lossy()).and_then(|wanted| match wanted {
            Some(wanted) => Log::open(&wanted).map(Some),
            None => Ok(None),
        });
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

/// What the variable asks for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    level: Level,
    /// None: standard error.
    file: Option<PathBuf>,
}

impl Wanted {
    /// `None`: no log.
    fn parse(text: &str) -> Result<Option<Wanted>, String> {
        let (level, file) = match text.split_once(':') {
            Some((level, file)) => (level, Some(file)),
            None => (text, None),
        };
        if ["", "off"].contains(&level) {
            return Ok(None);
        }
        let known = LEVELS.iter().find(|(_, name)| *name == level);
        let (level, _) = known.ok_or(
            "write off, error, warn or info, then `:` and a file, or nothing for standard error",
        )?;
        let file = file.filter(|file| !file.is_empty());
        let pid = std::process::id().to_string();
        Ok(Some(Wanted {
            level: *level,
            file: file.map(|file| file.replace("%p", &pid).into()),
        }))
    }
}

impl Log {
    fn open(wanted: &Wanted) -> Result<Log, String> {
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

fn open(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    Ok(Box::new(file))
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
                let line = Line(since, level, &text);
                // A log that cannot be written harms nobody.
                let _ = sink.write_all(format!("{before}{line}").as_bytes());
            }
        }
    }
}

/// `SECONDS LEVEL barewire[PID]: TEXT`
struct Line<'a>(Duration, Level, &'a str);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line(since, level, text) = self;
        let (seconds, millis) = (since.as_secs(), since.subsec_millis());
        let (_, level) = LEVELS[*level as usize];
        let pid = std::process::id();
        write!(f, "{seconds}.{millis:03} {level} barewire[{pid}]: ")?;
        // Names come from other processes: a line stays one.
        let harmless = |one: char| if one.is_control() { '?' } else { one };
        writeln!(f, "{}", text.chars().map(harmless).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_has_a_level_and_a_file() {
        let parse = |text: &str| Wanted::parse(text);
        assert_eq!(parse(""), Ok(None));
        assert_eq!(parse("off"), Ok(None));
        let wanted = parse("warn").expect("good").expect("wanted");
        assert_eq!((wanted.level, wanted.file), (Level::Warn, None));
        let wanted = parse("info:/tmp/a:%p").expect("good").expect("wanted");
        let name = format!("/tmp/a:{}", std::process::id());
        assert_eq!(wanted.file, Some(PathBuf::from(name)));
        assert!(parse("loud").is_err() && parse("/tmp/a").is_err());
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
