//! The memory of a program that is captured: turning that on and off, and taking what the
//! library put there. The layout: `crates/sockets/src/stream/capture.rs`.
//!
//! The program may change its memory, or lie: every length is checked, and what makes no
//! sense ends the capture.

use std::time::{Duration, Instant};

use barewire_sys::process::random_bytes;

use super::error::{CaptureError, Result};
use crate::nodes::{InspectError, why_not};
use crate::sockets::memory::{self, Memory};
use crate::sockets::status_at;

/// Words of the status: where `capture1` is, and what follows it.
const STATUS_WORDS: usize = 27;
const CAPTURE_AT: usize = 23;
const CAPTURE: [u8; 8] = *b"capture1";

const CONTROL_BYTES: u64 = 4096;
const CONTROL_WORDS: usize = 7;
const HEADER_BYTES: usize = 64;
/// No entry has more.
const PIECE_BYTES_MAX: usize = 32 << 10;
/// Taken at once.
const TAKE_BYTES: u64 = 1 << 20;
/// An area is no larger.
const AREA_BYTES_MAX: u64 = 1 << 30;
/// Words of the control page, by number.
const HEAD: usize = 0;
const TAIL: u64 = 1;
const BEAT: usize = 3;
const LOST: usize = 4;
const SECRET: u64 = 6;

const ON: u32 = 1;
const STOPPED: u32 = 2;
/// Another capturer stirs more often.
const STIR: Duration = Duration::from_secs(1);
/// Whoever fills in an entry is done by then, or will never be.
const STUCK: Duration = Duration::from_secs(1);

/// A program that is captured.
pub struct Attached {
    pid: i32,
    memory: Memory,
    control: u64,
    area_bytes: u64,
    /// The address of the word that turns it on.
    switch: u64,
    tail: u64,
    beat: u64,
    secret: u64,
    lost: [u64; 2],
    lost_before: [u64; 2],
    /// It was turned on, by us.
    is_on: bool,
    /// Where it ends, once that is known.
    end: Option<u64>,
    stuck_since: Option<Instant>,
}

/// What was taken.
pub enum Taken {
    /// Whole entries.
    Entries(Vec<u8>),
    /// There is nothing at this moment.
    Nothing,
    /// The program is not there any more.
    Gone,
}

impl Attached {
    /// Finds what there is to know in the process.
    pub fn to(pid: i32) -> Result<Attached> {
        let data = memory::library_data(pid)
            .ok_or_else(|| why_not(pid, InspectError::NotPreloaded(pid)))?;
        let memory = Memory::open_to_write(pid).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => CaptureError::Gone(pid),
            _ => CaptureError::NotAllowed(pid, error),
        })?;
        let found = data.iter().find_map(|range| status_at(&memory, *range));
        let words = found.and_then(|at| words(&memory, at, STATUS_WORDS));
        let unsuitable = CaptureError::Unsuitable(pid);
        let Some(words) = words.filter(|words| words[CAPTURE_AT].to_ne_bytes() == CAPTURE) else {
            return Err(unsuitable);
        };
        let [control, area_bytes, switch] = [1, 2, 3].map(|nth| words[CAPTURE_AT + nth]);
        let fits = area_bytes.is_power_of_two()
            && (TAKE_BYTES..=AREA_BYTES_MAX).contains(&area_bytes)
            && control != 0
            && control.checked_add(CONTROL_BYTES + area_bytes).is_some();
        if !fits {
            return Err(unsuitable);
        }
        Ok(Attached {
            pid,
            memory,
            control,
            area_bytes,
            switch,
            tail: 0,
            beat: 0,
            secret: 0,
            lost: [0; 2],
            lost_before: [0; 2],
            is_on: false,
            end: None,
            stuck_since: None,
        })
    }

    fn nonsense(&self, what: &'static str) -> CaptureError {
        CaptureError::Nonsense(self.pid, what)
    }

    fn control(&self) -> Option<Vec<u64>> {
        words(&self.memory, self.control, CONTROL_WORDS)
    }

    /// Turns it on.
    pub fn begin(&mut self) -> Result<()> {
        let gone = || CaptureError::Gone(self.pid);
        let mut control = self.control().ok_or_else(gone)?;
        let switch = self.memory.read(self.switch, 4).ok_or_else(gone)?;
        if switch == ON.to_ne_bytes() {
            // Of one that was killed, or of one that lives.
            std::thread::sleep(STIR);
            let before = control[BEAT];
            control = self.control().ok_or_else(gone)?;
            if control[BEAT] != before {
                return Err(CaptureError::Busy(self.pid));
            }
        }
        let mut secret = [0; 8];
        random_bytes(&mut secret)?;
        self.secret = u64::from_ne_bytes(secret).max(1);
        self.tail = control[HEAD];
        self.beat = control[BEAT];
        self.lost_before = [control[LOST], control[LOST + 1]];
        self.lost = self.lost_before;
        let written = self
            .memory
            .write(self.control + 8 * SECRET, &self.secret.to_ne_bytes())
            .and_then(|()| self.tell())
            .and_then(|()| self.memory.write(self.switch, &ON.to_ne_bytes()));
        written.ok_or(CaptureError::Gone(self.pid))?;
        self.is_on = true;
        Ok(())
    }

    /// Says how far it has read, and that it lives.
    fn tell(&mut self) -> Option<()> {
        self.beat = self.beat.wrapping_add(1);
        let words = [self.tail, !self.tail, self.beat];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.memory.write(self.control + 8 * TAIL, &bytes)
    }

    /// Takes what is there. After [`Attached::end`], what was there then.
    pub fn take(&mut self) -> Result<Taken> {
        if self.tell().is_none() {
            return Ok(Taken::Gone);
        }
        let Some(control) = self.control() else {
            return Ok(Taken::Gone);
        };
        self.lost = [control[LOST], control[LOST + 1]];
        if control[SECRET as usize] != self.secret {
            return Err(CaptureError::Busy(self.pid));
        }
        if self
            .memory
            .read(self.switch, 4)
            .is_some_and(|it| it != ON.to_ne_bytes())
        {
            return Ok(self.turn_on_again(control[HEAD]));
        }
        let head = self.end.unwrap_or(control[HEAD]);
        let there = head.wrapping_sub(self.tail);
        if there > self.area_bytes || head % HEADER_BYTES as u64 != 0 {
            return Err(self.nonsense("more than there is room for"));
        }
        if there == 0 {
            return Ok(Taken::Nothing);
        }
        let Some(first) = self.read(there.min(TAKE_BYTES)) else {
            return Ok(Taken::Gone);
        };
        let whole = self.whole(&first)?;
        if whole == 0 {
            return Ok(self.wait_or_skip(head));
        }
        self.stuck_since = None;
        // Again: only now it is certain that all of it is there.
        let Some(bytes) = self.read(whole) else {
            return Ok(Taken::Gone);
        };
        if self.whole(&bytes)? != whole {
            return Err(self.nonsense("an entry that changes"));
        }
        self.tail += whole;
        Ok(Taken::Entries(bytes))
    }

    /// We were stopped for so long that the program took us for dead, and gave up the memory.
    fn turn_on_again(&mut self, head: u64) -> Taken {
        self.skip_to(head);
        match self.memory.write(self.switch, &ON.to_ne_bytes()) {
            Some(()) => Taken::Nothing,
            None => Taken::Gone,
        }
    }

    fn skip_to(&mut self, head: u64) {
        self.tail = head;
        self.end = self.end.map(|_| head);
        self.lost_before[0] = self.lost_before[0].wrapping_sub(1);
    }

    /// An entry is being filled in; or its thread was ended in the middle.
    fn wait_or_skip(&mut self, head: u64) -> Taken {
        let since = *self.stuck_since.get_or_insert_with(Instant::now);
        if since.elapsed() > STUCK {
            self.stuck_since = None;
            self.skip_to(head);
        }
        Taken::Nothing
    }

    /// Bytes of the area from TAIL on, round its end.
    fn read(&self, bytes: u64) -> Option<Vec<u8>> {
        let at = self.tail % self.area_bytes;
        let area = self.control + CONTROL_BYTES;
        let first = bytes.min(self.area_bytes - at);
        let mut all = self.memory.read(area + at, first)?;
        if first < bytes {
            all.extend(self.memory.read(area, bytes - first)?);
        }
        Some(all)
    }

    /// Bytes of the entries at the begin that are finished.
    fn whole(&self, bytes: &[u8]) -> Result<u64> {
        let mut at = 0;
        while let Some(header) = bytes.get(at..at + HEADER_BYTES) {
            let stamp = (self.tail + at as u64 + 1) ^ self.secret;
            if word(header, 0) != stamp {
                break;
            }
            let len = half(header, 12) as usize;
            if len > PIECE_BYTES_MAX {
                return Err(self.nonsense("an entry that is too long"));
            }
            let next = at + place_bytes(len);
            if next > bytes.len() {
                break;
            }
            at = next;
        }
        Ok(at as u64)
    }

    /// What is there now is the last that is taken. It stays turned on until this is dropped:
    /// the program then gives the memory back.
    pub fn end(&mut self) {
        if self.end.is_none() {
            // If the program is gone, the next take finds that out.
            self.end = self.control().map(|control| control[HEAD]);
        }
    }

    /// Whether all up to the end was taken.
    pub fn has_ended(&self) -> bool {
        self.end.is_some_and(|end| end == self.tail)
    }

    /// Pieces and bytes that the program could not put down.
    pub fn lost(&self) -> [u64; 2] {
        [0, 1].map(|nth| self.lost[nth].wrapping_sub(self.lost_before[nth]))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if self.is_on {
            // If the program is gone, so is the word.
            let _ = self.memory.write(self.switch, &STOPPED.to_ne_bytes());
        }
    }
}

/// One entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// What it says: `capture::Kind` of the library.
    pub kind: u32,
    /// The connection: number of its record, and which use of that.
    pub connection: [u32; 2],
    /// Position of the bytes in the stream.
    pub position: u64,
    /// Nanoseconds since 1970 began.
    pub time_ns: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// The entries that [`Attached::take`] found whole.
pub fn entries(mut bytes: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    std::iter::from_fn(move || {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let len = half(header, 12) as usize;
        let content = rest.get(..len)?;
        bytes = bytes.get(place_bytes(len)..)?;
        Some(Entry {
            kind: half(header, 8),
            connection: [half(header, 16), half(header, 20)],
            position: word(header, 24),
            time_ns: word(header, 32),
            bytes: content,
        })
    })
}

fn place_bytes(len: usize) -> usize {
    (HEADER_BYTES + len).next_multiple_of(HEADER_BYTES)
}

fn words(memory: &Memory, at: u64, count: usize) -> Option<Vec<u64>> {
    let bytes = memory.read(at, 8 * count as u64)?;
    Some(bytes.chunks_exact(8).map(|bytes| word(bytes, 0)).collect())
}

/// The 64 bits at `at`, which are there.
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

/// The 32 bits at `at`, which are there.
fn half(bytes: &[u8], at: usize) -> u32 {
    let mut half = [0; 4];
    half.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(half)
}
