//! SONET frames that carry ATM cells: STS-3c (155.52 Mbit/s) and STS-12c (622.08 Mbit/s),
//! with a framer and a deframer.
//!
//! ```text
//! frame: 9 rows in 125 µs, sent row by row; n = 3 (STS-3c) or 12 (STS-12c)
//!
//! columns   0..n      n..2n     2n..3n      3n..90n (87n columns)
//! row 0     A1 × n    A2 × n    J0 Z0…    |
//! row 1     B1        E1        F1        | section overhead
//! row 2     D1        D2        D3        |            envelope: bytes of the SPE,
//! row 3     H1 × n    H2 × n    H3 × n    : pointer    one after another
//! row 4     B2 × n    K1        K2        |
//! row 5..8  D4…D12                        | line overhead
//! row 8     S1        M1 at n+2  E2       |
//!
//! SPE: 9 rows of 87n columns, from where the pointer points, through the end of the frame
//! column    0                              1..n/3             n/3..87n
//!           J1 B3 C2 G1 F2 H4 Z3 Z4 Z5     fixed stuff        cells, 9 × 260 or 9 × 1040 bytes
//!
//! H1 H2     | 4 NDF: 0110, new pointer 1001 | 2 SS | 10 pointer 0..782, bits I D I D I D I D I D |
//! K2        | 5 … | 3: 110 line RDI, 111 AIS |
//! ```
//!
//! | code | over | stands in |
//! |---|---|---|
//! | B1, BIP-8 | all bytes of the frame before, scrambled | row 1 |
//! | B2, BIP-8n | the frame before, not scrambled, without section overhead | row 4 |
//! | B3, BIP-8 | the SPE before | path overhead |
//!
//! The frame scrambler (1 + x⁶ + x⁷) is [`scrambler`]; it leaves the first 3n bytes alone. The
//! pointer counts in n bytes from behind H3; how it moves is in [`mod@pointer`], how a receiver finds
//! frames with [`Framing`]; the bytes of the path overhead are in [`PathOverhead`].
//!
//! Source: itu-g707 (frames, pointers, BIP, scrambler), itu-i432 (ATM in the SPE).

use core::fmt;
use core::ops::Range;

use barewire_wire::{Error, Fault, need};

mod deframer;
mod describe;
mod framer;
mod path;
mod path_overhead;
pub mod pointer;
pub mod scrambler;
#[cfg(test)]
mod tests;

pub use deframer::{Alarms, Deframer, Framing, FramingEvent, Report, Stats};
pub use deframer::{LOSS_OF_FRAME_FRAMES, LOST_AFTER_FRAMES};
pub use describe::describe;
pub use framer::{Framer, POINTER_REST_FRAMES, PointerChange};
pub use path::PathStats;
pub use path_overhead::{PATH_OVERHEAD_BYTES, PathOverhead, PathOverheadRepr, path_status};
use pointer::{Justification, POINTER_VALUES, PointerWord};

const FORMAT: &str = "sonet";

/// Frames in a second, at every rate.
pub const FRAMES_PER_SECOND: u64 = 8000;
/// Rows of a frame, and of an SPE.
pub const ROWS: usize = 9;
/// Bytes of an STS-3c frame.
pub const STS3C_FRAME_BYTES: usize = Rate::Sts3c.frame_bytes();
/// Bytes of an STS-12c frame.
pub const STS12C_FRAME_BYTES: usize = Rate::Sts12c.frame_bytes();
/// Most STS-1s in a frame here, and thereby the most B2 bytes.
pub const STS1S_MAX: usize = Rate::Sts12c.sts1s();

/// First framing byte.
pub const A1: u8 = 0xf6;
/// Second framing byte.
pub const A2: u8 = 0x28;
/// Section trace of a sender that has none to send.
pub const J0_NO_TRACE: u8 = 0x01;
/// What stands in the bytes behind J0. Free to choose; not scrambled, so not all zeros.
pub const Z0: u8 = 0xcc;
/// Path signal label C2: ATM cells.
pub const LABEL_ATM: u8 = 0x13;
/// The three low bits of K2 that report a defect to the other end.
pub const K2_LINE_RDI: u8 = 0b110;
/// The three low bits of K2 in place of a signal that failed upstream.
pub const K2_LINE_AIS: u8 = 0b111;

/// Row of B1.
const B1_ROW: usize = 1;
/// Row of H1, H2, H3.
const POINTER_ROW: usize = 3;
/// Row of B2, K1, K2.
const B2_ROW: usize = 4;
/// Row of S1, M1, E2.
const S1_ROW: usize = 8;

const _: () = {
    assert!(STS3C_FRAME_BYTES == 9 * 270 && STS12C_FRAME_BYTES == 9 * 1080);
    assert!(Rate::Sts3c.payload_bytes() == 9 * 260 && Rate::Sts12c.payload_bytes() == 9 * 1040);
};

/// Size and speed of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// 155.52 Mbit/s; with other values in a few bytes, STM-1.
    Sts3c,
    /// 622.08 Mbit/s; STM-4 with one payload.
    Sts12c,
}

impl Rate {
    /// The rate whose frames have this many bytes.
    #[must_use]
    pub const fn of_frame_bytes(frame_bytes: usize) -> Option<Self> {
        match frame_bytes {
            STS3C_FRAME_BYTES => Some(Self::Sts3c),
            STS12C_FRAME_BYTES => Some(Self::Sts12c),
            _ => None,
        }
    }

    /// STS-1s in a frame: n in the table.
    #[must_use]
    pub const fn sts1s(self) -> usize {
        match self {
            Self::Sts3c => 3,
            Self::Sts12c => 12,
        }
    }

    /// Bytes of a row of the frame.
    #[must_use]
    pub const fn row_bytes(self) -> usize {
        90 * self.sts1s()
    }

    /// Bytes of a frame.
    #[must_use]
    pub const fn frame_bytes(self) -> usize {
        ROWS * self.row_bytes()
    }

    /// Columns of section and line overhead.
    #[must_use]
    pub const fn overhead_columns(self) -> usize {
        3 * self.sts1s()
    }

    /// Columns of the SPE.
    #[must_use]
    pub const fn spe_columns(self) -> usize {
        87 * self.sts1s()
    }

    /// Bytes of the SPE.
    #[must_use]
    pub const fn spe_bytes(self) -> usize {
        ROWS * self.spe_columns()
    }

    /// Columns of fixed stuff, next to the path overhead.
    #[must_use]
    pub const fn stuff_columns(self) -> usize {
        self.sts1s() / 3 - 1
    }

    /// Bytes of cells in an SPE.
    #[must_use]
    pub const fn payload_bytes(self) -> usize {
        ROWS * (self.spe_columns() - 1 - self.stuff_columns())
    }

    /// Bits on the line in a second.
    #[must_use]
    pub const fn line_bits_per_second(self) -> u64 {
        self.frame_bytes() as u64 * 8 * FRAMES_PER_SECOND
    }

    /// Bits of cells in a second.
    #[must_use]
    pub const fn payload_bits_per_second(self) -> u64 {
        self.payload_bytes() as u64 * 8 * FRAMES_PER_SECOND
    }

    /// The framing pattern that is looked for ends here: three A1, three A2.
    const fn pattern_end(self) -> usize {
        self.sts1s() + 3
    }

    /// Where the byte in this row and column stands in the frame.
    const fn at(self, row: usize, column: usize) -> usize {
        row * self.row_bytes() + column
    }

    /// The bytes of a row that belong to the SPE.
    fn envelope(self, row: usize, justification: Justification) -> Range<usize> {
        let start = self.at(row, self.overhead_columns());
        let start = match (row, justification) {
            (POINTER_ROW, Justification::Positive) => start + self.sts1s(),
            (POINTER_ROW, Justification::Negative) => start - self.sts1s(),
            _ => start,
        };
        start..self.at(row + 1, 0)
    }

    /// Where the SPE byte `units` times n behind H3 stands, in this frame or, from row 0 on, in
    /// the next.
    const fn at_offset(self, units: usize) -> usize {
        let units = units % POINTER_VALUES as usize;
        let row = (POINTER_ROW + units / 87) % ROWS;
        self.at(row, self.overhead_columns() + units % 87 * self.sts1s())
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "STS-{}c", self.sts1s())
    }
}

/// The exclusive-or of bytes: even parity of each of the eight bits.
fn bip8(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |parity, byte| parity ^ byte)
}

/// A view of the bytes of a frame. Overhead is read and written in a frame that is not
/// scrambled; [`Frame::scramble`] goes there and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<T> {
    rate: Rate,
    buffer: T,
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// A view of `buffer`. Accessors panic if it is shorter than a frame of this rate.
    pub const fn new_unchecked(rate: Rate, buffer: T) -> Self {
        Self { rate, buffer }
    }

    /// A view of `buffer`, whose accessors do not panic.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`] if it is shorter than a frame of this rate.
    pub fn new_checked(rate: Rate, buffer: T) -> Result<Self, Error> {
        need(FORMAT, "frame", buffer.as_ref(), rate.frame_bytes())?;
        Ok(Self { rate, buffer })
    }

    /// The buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// The rate.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer.as_ref()[..self.rate.frame_bytes()]
    }

    /// The byte in this row and column, both from 0.
    #[must_use]
    pub fn byte(&self, row: usize, column: usize) -> u8 {
        self.bytes()[self.rate.at(row, column)]
    }

    /// The pointer of the first STS-1, which is that of the SPE.
    #[must_use]
    pub fn pointer_word(&self) -> PointerWord {
        self.nth_pointer_word(0)
    }

    fn nth_pointer_word(&self, sts1: usize) -> PointerWord {
        let h1 = self.byte(POINTER_ROW, sts1);
        let h2 = self.byte(POINTER_ROW, self.rate.sts1s() + sts1);
        PointerWord::new(u16::from_be_bytes([h1, h2]))
    }

    /// The first STS-1 whose H1 H2 do not say that it belongs to the one before.
    fn not_concatenated(&self) -> Option<usize> {
        let is_free = |&sts1: &usize| !self.nth_pointer_word(sts1).is_concatenation();
        (1..self.rate.sts1s()).find(is_free)
    }

    /// BIP-8 over the whole frame, for B1 of the next one. The frame must be scrambled.
    #[must_use]
    pub fn section_bip(&self) -> u8 {
        bip8(self.bytes())
    }

    /// A BIP-8 for each STS-1 over all but the section overhead, for B2 of the next
    /// frame; what is left of the array is zero. The frame must not be scrambled.
    #[must_use]
    pub fn line_bip(&self) -> [u8; STS1S_MAX] {
        let mut bip = [0; STS1S_MAX];
        for row in 0..ROWS {
            let first = if row < POINTER_ROW {
                self.rate.overhead_columns()
            } else {
                0
            };
            let covered = &self.bytes()[self.rate.at(row, first)..self.rate.at(row + 1, 0)];
            for column_group in covered.chunks_exact(self.rate.sts1s()) {
                bip.iter_mut().zip(column_group).for_each(|(b, c)| *b ^= c);
            }
        }
        bip
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    fn bytes_mut(&mut self) -> &mut [u8] {
        let frame_bytes = self.rate.frame_bytes();
        &mut self.buffer.as_mut()[..frame_bytes]
    }

    /// Replaces the byte in this row and column, both from 0.
    pub fn set_byte(&mut self, row: usize, column: usize, value: u8) {
        let at = self.rate.at(row, column);
        self.bytes_mut()[at] = value;
    }

    /// Scrambles a clear frame, and clears a scrambled one.
    pub fn scramble(&mut self) {
        let first = self.rate.overhead_columns();
        scrambler::apply(&mut self.bytes_mut()[first..]);
    }
}

/// What section and line overhead say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverheadRepr {
    /// Section trace.
    pub j0: u8,
    /// BIP-8 of the frame before.
    pub b1: u8,
    /// Where the SPE begins.
    pub pointer: PointerWord,
    /// A BIP-8 for each STS-1 of the frame before; the rest is zero.
    pub b2: [u8; STS1S_MAX],
    /// Protection switching.
    pub k1: u8,
    /// Protection switching, line RDI and AIS.
    pub k2: u8,
    /// Synchronisation status.
    pub s1: u8,
    /// Line REI: B2 errors that the other end saw.
    pub m1: u8,
}

impl OverheadRepr {
    /// Takes the overhead out of a clear frame.
    ///
    /// # Errors
    ///
    /// [`Fault::Value`] on the framing bytes, and on H1 H2 of the STS-1s behind the first,
    /// which must say that they belong to it. The pointer itself may be anything:
    /// [`pointer::Receiver`] judges it.
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Result<Self, Error> {
        check_framing(frame)?;
        check_concatenation(frame)?;
        Ok(Self::read(frame))
    }

    /// As [`OverheadRepr::parse`], without looking at what is the same in every frame.
    fn read<T: AsRef<[u8]>>(frame: &Frame<T>) -> Self {
        let n = frame.rate.sts1s();
        let mut b2 = [0; STS1S_MAX];
        let stands = &frame.bytes()[frame.rate.at(B2_ROW, 0)..][..n];
        b2[..n].copy_from_slice(stands);
        Self {
            j0: frame.byte(0, 2 * n),
            b1: frame.byte(B1_ROW, 0),
            pointer: frame.pointer_word(),
            b2,
            k1: frame.byte(B2_ROW, n),
            k2: frame.byte(B2_ROW, 2 * n),
            s1: frame.byte(S1_ROW, 0),
            m1: frame.byte(S1_ROW, n + 2),
        }
    }

    /// Bytes of a frame of this rate.
    #[must_use]
    pub const fn buffer_len(&self, rate: Rate) -> usize {
        rate.frame_bytes()
    }

    /// Writes all section and line overhead of a clear frame. What has no field here is zero.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, frame: &mut Frame<T>) {
        let (rate, n) = (frame.rate, frame.rate.sts1s());
        for row in 0..ROWS {
            frame.bytes_mut()[rate.at(row, 0)..][..3 * n].fill(0);
        }
        let (first, other) = (self.pointer, PointerWord::CONCATENATION);
        for sts1 in 0..n {
            frame.set_byte(0, sts1, A1);
            frame.set_byte(0, n + sts1, A2);
            frame.set_byte(0, 2 * n + sts1, if sts1 == 0 { self.j0 } else { Z0 });
            let [h1, h2] = if sts1 == 0 { first } else { other }.get().to_be_bytes();
            frame.set_byte(POINTER_ROW, sts1, h1);
            frame.set_byte(POINTER_ROW, n + sts1, h2);
            frame.set_byte(B2_ROW, sts1, self.b2[sts1]);
        }
        frame.set_byte(B1_ROW, 0, self.b1);
        frame.set_byte(B2_ROW, n, self.k1);
        frame.set_byte(B2_ROW, 2 * n, self.k2);
        frame.set_byte(S1_ROW, 0, self.s1);
        frame.set_byte(S1_ROW, n + 2, self.m1);
    }
}

impl fmt::Display for OverheadRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SONET pointer {}", self.pointer)?;
        match self.k2 & 0b111 {
            K2_LINE_RDI => write!(f, ", line RDI"),
            K2_LINE_AIS => write!(f, ", line AIS"),
            _ => Ok(()),
        }
    }
}

fn check_framing<T: AsRef<[u8]>>(frame: &Frame<T>) -> Result<(), Error> {
    let n = frame.rate.sts1s();
    for column in 0..2 * n {
        let (name, right, allowed) = if column < n {
            ("A1", A1, "f6")
        } else {
            ("A2", A2, "28")
        };
        let found = frame.byte(0, column);
        if found != right {
            let found = found.into();
            let fault = Fault::Value { found, allowed };
            return Err(Error::new(FORMAT, name, column * 8..column * 8 + 8, fault));
        }
    }
    Ok(())
}

fn check_concatenation<T: AsRef<[u8]>>(frame: &Frame<T>) -> Result<(), Error> {
    let Some(sts1) = frame.not_concatenated() else {
        return Ok(());
    };
    let bit = frame.rate.at(POINTER_ROW, sts1) * 8;
    let fault = Fault::Value {
        found: frame.nth_pointer_word(sts1).get().into(),
        allowed: "93ff, in H1 and H2 of every STS-1 behind the first,",
    };
    Err(Error::new(FORMAT, "H1", bit..bit + 8, fault))
}
