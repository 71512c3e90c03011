//! What the variable `BAREWIRE_LOG` asks for, and how a line of the log looks: the same in a program with nodes and in
//! an unmodified one. Whoever writes lines brings the time, and the place where they go.

use core::fmt::{self, Write};

/// The variable that asks for a log: `LEVEL[:FILE]`.
pub const VARIABLE: &str = "BAREWIRE_LOG";

/// Lines of one process that are written in a second. Others are counted only: no peer can fill a disk by misbehaving.
pub const RATE_MAX: u32 = 200;

/// How much a line matters. A level logs its own lines, and those of the levels before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A peer broke the protocol.
    Error,
    /// A peer died or was refused, or something does not work here.
    Warn,
    /// What comes and goes.
    Info,
}

impl Level {
    const ALL: [Self; 3] = [Self::Error, Self::Warn, Self::Info];

    /// Its name in the variable and in lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
        }
    }
}

/// What the variable asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// What is logged.
    pub level: Level,
    /// The file, in which `%p` stands for the process id. None: standard error.
    pub file: Option<&'a [u8]>,
}

/// There is no such level: the caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLevel;

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "write off, error, warn or info, then `:` and a file, or nothing for standard error",
        )
    }
}

impl core::error::Error for UnknownLevel {}

impl<'a> Wanted<'a> {
    /// Reads the value of the variable. `None`: no log.
    ///
    /// # Errors
    /// If what stands before the first colon is no level.
    pub fn parse(text: &'a [u8]) -> Result<Option<Self>, UnknownLevel> {
        let colon = text.iter().position(|&byte| byte == b':');
        let (level, file) = match colon {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        if [&b""[..], b"off"].contains(&level) {
            return Ok(None);
        }
        let level = Level::ALL
            .into_iter()
            .find(|known| known.name().as_bytes() == level)
            .ok_or(UnknownLevel)?;
        let file = file.filter(|file| !file.is_empty());
        Ok(Some(Self { level, file }))
    }
}

/// A line: `SECONDS LEVEL barewire[PID]: TEXT`, and its end.
#[derive(Clone, Copy, Debug)]
pub struct Line<T> {
    /// When it happened: time since 1970, of which milliseconds are shown.
    pub since_epoch: core::time::Duration,
    /// How much it matters.
    pub level: Level,
    /// In which process.
    pub pid: u32,
    /// What has happened. Each control character becomes a `?`: names come from other processes, and a line stays one.
    pub text: T,
}

impl<T: fmt::Display> fmt::Display for Line<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.since_epoch.as_secs(), self.since_epoch.subsec_millis());
        let (level, pid) = (self.level.name(), self.pid);
        write!(f, "{seconds}.{millis:03} {level} barewire[{pid}]: ")?;
        write!(Harmless(f), "{}", self.text)?;
        f.write_char('\n')
    }
}

struct Harmless<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Harmless<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let harmless = |one: char| if one.is_control() { '?' } else { one };
        text.chars()
            .map(harmless)
            .try_for_each(|one| self.0.write_char(one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use core::time::Duration;

    #[test]
    fn the_variable_has_a_level_and_a_file() {
        let parse = |text: &'static str| Wanted::parse(text.as_bytes());
        for none in ["", "off", ":/tmp/a", "off:/tmp/a"] {
            assert_eq!(parse(none), Ok(None), "{none}");
        }
        for (text, level, file) in [
            ("error", Level::Error, None),
            ("warn:", Level::Warn, None),
            ("info:/tmp/a:%p", Level::Info, Some(&b"/tmp/a:%p"[..])),
        ] {
            assert_eq!(parse(text), Ok(Some(Wanted { level, file })), "{text}");
        }
        for wrong in ["loud", "/tmp/a", "Info", "warn "] {
            assert_eq!(parse(wrong), Err(UnknownLevel), "{wrong}");
        }
    }

    #[test]
    fn a_line_stays_one_line() {
        let line = Line {
            since_epoch: Duration::from_millis(1_050),
            level: Level::Warn,
            pid: 7,
            text: "a\nb\u{1b}[1m\u{9b}ü",
        };
        assert_eq!(line.to_string(), "1.050 warn barewire[7]: a?b?[1m?ü\n");
    }

    #[test]
    fn what_matters_more_is_less() {
        assert!(Level::Error < Level::Warn && Level::Warn < Level::Info);
    }
}
