//! What the manager says: a line or a page per period, an event log with severities, figures
//! for Prometheus, and the ledger at the end.

mod prometheus;
mod text;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use barewire_proto::evb::{EventAccount, RunState};

use crate::accounts::{BuilderReport, SourceReport};

pub use prometheus::{Exporter, exposition};
pub use text::{Rates, ledger, line};

/// What is known of a part.
#[derive(Clone, Debug, Default)]
pub struct Seen<R> {
    /// Whether it takes part.
    pub live: bool,
    /// How often it began.
    pub lives: u32,
    /// Its last report.
    pub report: R,
    /// The last reports of those before it that died.
    pub past: Vec<R>,
}

/// What is known of a run.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The run.
    pub run: u32,
    /// Where it stands.
    pub state: RunState,
    /// The manager's account.
    pub events: EventAccount,
    /// Sources by number.
    pub sources: Vec<Seen<SourceReport>>,
    /// Builders by number.
    pub builders: Vec<Seen<BuilderReport>>,
    /// Since the run was configured, in ns.
    pub age_ns: u64,
    /// Processor time of the manager, in ns.
    pub processor_ns: u64,
}

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
}

impl Log {
    /// A log on standard error unless `quiet`, and in a file if there is one.
    ///
    /// # Errors
    ///
    /// The file can not be written.
    pub fn new(file: Option<&Path>, quiet: bool) -> io::Result<Self> {
        let open = |path| OpenOptions::new().create(true).append(true).open(path);
        Ok(Self {
            file: file.map(open).transpose()?,
            quiet,
            second: 0,
            warnings: 0,
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

    fn write(&mut self, now_ms: u128, word: &str, text: &str) {
        let line = format!("{}.{:03} {word}: {text}\n", now_ms / 1_000, now_ms % 1_000);
        if !self.quiet {
            eprint!("{line}");
        }
        if let Some(file) = &mut self.file {
            // A full disk must not end the run.
            let _ = file.write_all(line.as_bytes());
        }
    }
}
