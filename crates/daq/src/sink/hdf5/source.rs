//! The bytes of an HDF5 file that is read: whatever it says about itself, only what is there is read, and not
//! much more often than once.

use std::io::{self, Read, Seek, SeekFrom};

/// A pass over the file reads so many bytes for each byte of the file: nodes of the tree are read for each of
/// their children. More is read only if objects lie in one another.
const READ_AGAIN_MAX: u64 = 4;
/// And so many in any case.
const READ_ALWAYS_BYTES: u64 = 64 << 10;

/// Why an HDF5 file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Hdf5Error {
    /// The file system does not give it.
    #[error("{0}")]
    File(#[from] io::Error),
    /// It is none that this library has written.
    #[error("no HDF5 file of events: {0}")]
    Foreign(&'static str),
    /// It is damaged, or cut.
    #[error("{}{object} at byte {at}: {problem}", of_event(*event))]
    Spoilt {
        /// The event to which it belongs, if that is known.
        event: Option<u64>,
        /// Where the object begins that is not as it should be.
        at: u64,
        /// How many bytes it has, as far as that is known.
        bytes: u64,
        /// What it should be.
        object: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

fn of_event(event: Option<u64>) -> String {
    event.map_or_else(String::new, |it| format!("event {it}: "))
}

impl Hdf5Error {
    /// The same of this event.
    pub(super) fn of(mut self, number: u64) -> Self {
        if let Self::Spoilt { event, .. } = &mut self {
            *event = Some(number);
        }
        self
    }
}

/// What lies at a place of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub at: u64,
    pub bytes: u64,
    pub object: &'static str,
}

impl Place {
    pub fn spoilt(self, problem: impl Into<String>) -> Hdf5Error {
        Hdf5Error::Spoilt {
            event: None,
            at: self.at,
            bytes: self.bytes,
            object: self.object,
            problem: problem.into(),
        }
    }
}

/// The file.
#[derive(Debug)]
pub(super) struct Source<R> {
    input: R,
    len_bytes: u64,
    /// So many bytes may be read in this pass.
    left_bytes: u64,
}

impl<R: Read + Seek> Source<R> {
    pub fn new(input: R, len_bytes: u64) -> Self {
        let mut source = Self {
            input,
            len_bytes,
            left_bytes: 0,
        };
        source.begin_pass();
        source
    }

    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// A new pass begins; gives what was left of the one before.
    pub fn begin_pass(&mut self) -> u64 {
        let all = self.len_bytes.saturating_mul(READ_AGAIN_MAX);
        core::mem::replace(&mut self.left_bytes, all.saturating_add(READ_ALWAYS_BYTES))
    }

    /// The pass goes on that had so much left.
    pub fn resume_pass(&mut self, left_bytes: u64) {
        self.left_bytes = left_bytes;
    }

    /// So many bytes of the file end before its end.
    pub fn check(&self, place: Place) -> Result<(), Hdf5Error> {
        let end = place.at.checked_add(place.bytes);
        match end.is_some_and(|it| it <= self.len_bytes) {
            true => Ok(()),
            false => {
                let len_bytes = self.len_bytes;
                Err(place.spoilt(format!("it would end behind the file's {len_bytes} bytes")))
            }
        }
    }

    /// What lies at `place`.
    pub fn read(&mut self, place: Place) -> Result<Vec<u8>, Hdf5Error> {
        self.check(place)?;
        let left = self.left_bytes.checked_sub(place.bytes);
        self.left_bytes = left.ok_or_else(|| {
            place.spoilt("objects lie in one another: more is to be read than is there")
        })?;
        let mut bytes = vec![0; place.bytes as usize];
        self.input.seek(SeekFrom::Start(place.at))?;
        self.input.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}
