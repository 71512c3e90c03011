//! What a file of events says of its run, behind its head: the configuration with which it was made,
//! its seed, when, and by which version.

use std::io::{self, Read, Seek, SeekFrom};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::format::FILE_HEAD_BYTES;
use crate::clock::Clock;
use crate::config::Config;
use crate::wire::{crc32c, u32_at, u64_at};

const MAGIC: &[u8; 4] = b"INFO";
const HEAD_BYTES: usize = 48;
/// A longer text is cut when it is written, and is none when it is read.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// What a recording says of its run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The seed of triggers, sizes and contents.
    pub seed: u64,
    /// When the file was made, in ns since 1970 (UTC).
    pub made_unix_ns: u64,
    /// When the manager's clock, on which the triggers have their times, was 0, in ns since 1970 (UTC).
    pub clock_unix_ns: u64,
    /// The version of the writer.
    pub version: String,
    /// The text of the configuration.
    pub config: String,
}

/// What was found behind the head of a file.
pub(super) struct Found {
    /// `None` if there is nothing, as in files of older versions, or if it is damaged.
    pub about: Option<About>,
    /// Where records begin.
    pub end: u64,
    /// The bytes up to there are damaged.
    pub is_damaged: bool,
}

impl About {
    /// Of a file that is made now, in a run with this configuration and clock.
    #[must_use]
    pub fn now(config: &Config, clock: &Clock) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let made_unix_ns = u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX);
        Self {
            seed: config.seed,
            made_unix_ns,
            clock_unix_ns: made_unix_ns.saturating_sub(clock.now_ns()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: config.text.clone(),
        }
    }

    /// When the file was made.
    #[must_use]
    pub fn made(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.made_unix_ns)
    }

    /// When an event was triggered that has the time `at_ns` in the file.
    #[must_use]
    pub fn triggered(&self, at_ns: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.clock_unix_ns.saturating_add(at_ns))
    }

    /// Appends it as it stands in a file.
    pub(super) fn append(&self, into: &mut Vec<u8>) {
        let (version, config) = (cut(&self.version), cut(&self.config));
        let texts = [version, config].concat();
        let mut head = Vec::from(MAGIC);
        head.extend((version.len() as u32).to_le_bytes());
        head.extend((config.len() as u32).to_le_bytes());
        head.extend(crc32c(texts.as_bytes()).to_le_bytes());
        for number in [self.seed, self.made_unix_ns, self.clock_unix_ns] {
            head.extend(number.to_le_bytes());
        }
        head.extend([0; 4]);
        head.extend(crc32c(&head).to_le_bytes());
        into.extend(head);
        into.extend(texts.as_bytes());
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Reads what follows the head of a file with `len_bytes`.
pub(super) fn read(input: &mut (impl Read + Seek), len_bytes: u64) -> io::Result<Found> {
    let begin = FILE_HEAD_BYTES as u64;
    let nothing = Found {
        about: None,
        end: begin,
        is_damaged: false,
    };
    if len_bytes < begin + HEAD_BYTES as u64 {
        return Ok(nothing);
    }
    let mut head = [0; HEAD_BYTES];
    input.seek(SeekFrom::Start(begin))?;
    input.read_exact(&mut head)?;
    let version_bytes = u32_at(&head, 4) as usize;
    let config_bytes = u32_at(&head, 8) as usize;
    let is_right = &head[..4] == MAGIC && crc32c(&head[..44]) == u32_at(&head, 44);
    if !is_right || version_bytes.max(config_bytes) > TEXT_BYTES_MAX {
        // Damage is found where no record begins.
        return Ok(nothing);
    }
    let bytes = version_bytes + config_bytes;
    let end = begin + (HEAD_BYTES + bytes) as u64;
    let mut texts = vec![0; bytes];
    let is_whole = end <= len_bytes;
    if is_whole {
        input.read_exact(&mut texts)?;
    }
    let is_good = is_whole && crc32c(&texts) == u32_at(&head, 12);
    let about = is_good.then(|| About {
        seed: u64_at(&head, 16),
        made_unix_ns: u64_at(&head, 24),
        clock_unix_ns: u64_at(&head, 32),
        version: String::from_utf8_lossy(&texts[..version_bytes]).into_owned(),
        config: String::from_utf8_lossy(&texts[version_bytes..]).into_owned(),
    });
    Ok(Found {
        about,
        end: end.min(len_bytes),
        is_damaged: !is_good,
    })
}
