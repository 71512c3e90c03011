//! What is damaged in a file of events, and how its records end.

use core::fmt;

/// Stretches that are remembered with their places.
const FIRST_MAX: usize = 8;

/// Bytes of a file that were not read as what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Where in the file it begins.
    pub at: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// The event in whose record it begins, if the head of that record is good.
    pub event: Option<u64>,
    /// The source of the one fragment that it is, as its head says: that may be what is damaged.
    pub source: Option<u16>,
}

impl fmt::Display for Stretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {} bytes", self.at, self.bytes)?;
        match (self.event, self.source) {
            (Some(event), Some(source)) => write!(f, ", event {event}, source {source}"),
            (Some(event), None) => write!(f, ", event {event}"),
            // The one place where no record begins.
            _ if self.at == 0 => f.write_str(", the head: run and builder may be wrong"),
            _ => Ok(()),
        }
    }
}

/// All that is damaged in a file, as far as it was read. Index and tail are not counted here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Events that were read without some of their fragments.
    pub events: u64,
    /// Fragments that they lack for that.
    pub fragments: u64,
    /// Stretches of damaged bytes: damaged fragments, and what was skipped.
    pub stretches: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// The first 8 of them, in the order of the file.
    pub first: Vec<Stretch>,
}

impl Damage {
    /// Whether nothing is damaged.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.stretches == 0
    }

    pub(crate) fn add(&mut self, stretch: Stretch) {
        self.stretches += 1;
        self.bytes = self.bytes.saturating_add(stretch.bytes);
        if self.first.len() < FIRST_MAX {
            self.first.push(stretch);
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} damaged stretches with {} bytes; {} events lack {} fragments",
            self.stretches, self.bytes, self.events, self.fragments
        )
    }
}

/// How the records of a file end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With the index, which begins at this byte.
    Index(u64),
    /// The file ends behind a record: its writer was stopped.
    Stopped,
    /// The file ends within the record or the index that begins at this byte: its writer was stopped.
    Cut(u64),
    /// The last bytes of the file are damaged.
    Damaged,
}
