//! The event log, with severities.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// How grave an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// As expected.
    Info,
    /// Something is lost, and accounted for.
    Warning,
    /// A part is lost, or the run.
    Error,
}

impl Severity {
    /// From its number on the wire.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Info,
            1 => Self::Warning,
            _ => Self::Error,
        }
    }
}

/// Warnings written in a second; those beyond are counted.
const WARNINGS_PER_S: u32 = 20;

/// The event log.
#[derive(Debug)]
pub struct Log {
    file: Option<File>,
    quiet: bool,
    second: u64,
    warnings: u32,
    /// The last lines, for who looks.
    last: VecDeque<String>,
    /// Number of the line after them.
    next: u64,
}

/// Lines that are kept for who looks.
const LINES_KEPT: usize = 200;

impl Log {
    /// A log on standard error unless `quiet`, and in a file if there is one.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn new(file: Option<&Path>, quiet: bool) -> io::Result<Self> {
        let open = |path| OpenOptions::new().create(true).append(true).open(path);
        Ok(Self {
            file: file.map(open).transpose()?,
            quiet,
            second: 0,
            warnings: 0,
            last: VecDeque::new(),
            next: 0,
        })
    }

    /// Writes an event: seconds since 1970, severity, text.
    pub fn say(&mut self, severity: Severity, text: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        if now.as_secs() != self.second {
            let left_out = self.warnings.saturating_sub(WARNINGS_PER_S);
            (self.second, self.warnings) = (now.as_secs(), 0);
            if left_out > 0 {
                self.write(now.as_millis(), "warning", &format!("and {left_out} more"));
            }
        }
        let word = match severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        if severity == Severity::Warning {
            self.warnings += 1;
            if self.warnings > WARNINGS_PER_S {
                return;
            }
        }
        self.write(now.as_millis(), word, text);
    }

    /// The lines from number `from` on that are still kept, and the number of the first.
    #[must_use]
    pub fn since(&self, from: u64) -> (u64, Vec<String>) {
        let first = self.next - self.last.len() as u64;
        let skipped = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
        let skipped = skipped.min(self.last.len());
        let lines = self.last.iter().skip(skipped).cloned().collect();
        (first + skipped as u64, lines)
    }

    fn write(&mut self, now_ms: u128, word: &str, text: &str) {
        let line = format!("{}.{:03} {word}: {text}\n", now_ms / 1_000, now_ms % 1_000);
        self.last.push_back(line.trim_end().to_owned());
        self.next += 1;
        if self.last.len() > LINES_KEPT {
            self.last.pop_front();
        }
        if !self.quiet {
            eprint!("{line}");
        }
        if let Some(file) = &mut self.file {
            // A full disk must not end the run.
            let _ = file.write_all(line.as_bytes());
        }
    }
}
