//! Frames as trees of fields, faults included.

use core::ops::Range;

use super::path_overhead::NAMES;
use super::{A1, B1_ROW, B2_ROW, FORMAT, Frame, J0_NO_TRACE, POINTER_ROW, PathOverhead, ROWS};
use super::{PATH_OVERHEAD_BYTES, Rate, S1_ROW, STS1S_MAX, check_concatenation, check_framing};
use barewire_wire::tree::{Sink, Value};
use barewire_wire::{Error, Fault};

/// The largest frame.
const BUFFER_BYTES: usize = super::STS12C_FRAME_BYTES;

/// Shows the frames in `bytes`, as on the line, one after another: overhead of
/// section, line and path. B1 and B2 are checked from the second frame on. The path overhead
/// is looked for where the pointer of the same frame puts it, as if it had not just moved.
pub fn describe(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let rate = rate_of(bytes);
    let mut before = None;
    let mut rest = bytes;
    let mut at = first_bit;
    loop {
        let (line, after) = rest.split_at(rest.len().min(rate.frame_bytes()));
        sink.open("frame", at..at + line.len() * 8);
        match Frame::new_checked(rate, line) {
            Err(error) => sink.wrong(error.shifted(at)),
            Ok(frame) => before = Some(describe_frame(&frame, before, at, sink)),
        }
        sink.close();
        if after.is_empty() {
            return;
        }
        (rest, at) = (after, at + line.len() * 8);
    }
}

/// An STS-3c frame begins with three A1, an STS-12c frame with twelve. It is the more likely
/// one, so that a wrong bit or two do not matter.
fn rate_of(bytes: &[u8]) -> Rate {
    let places = bytes.iter().take(Rate::Sts12c.sts1s());
    match places.filter(|&&byte| byte == A1).count() {
        8.. => Rate::Sts12c,
        _ => Rate::Sts3c,
    }
}

/// B1 and B2 as the next frame must have them.
type Bips = (u8, [u8; STS1S_MAX]);

fn describe_frame(
    line: &Frame<&[u8]>,
    before: Option<Bips>,
    at: usize,
    sink: &mut dyn Sink,
) -> Bips {
    let rate = line.rate();
    let mut buffer = [0; BUFFER_BYTES];
    let clear = &mut buffer[..rate.frame_bytes()];
    clear.copy_from_slice(line.bytes());
    let mut frame = Frame::new_unchecked(rate, clear);
    frame.scramble();
    let frame = Frame::new_unchecked(rate, &*frame.into_inner());
    let mut shown = Shown { frame, at, sink };
    shown.section(before);
    shown.line(before);
    shown.path();
    (line.section_bip(), frame.line_bip())
}

struct Shown<'a> {
    frame: Frame<&'a [u8]>,
    at: usize,
    sink: &'a mut dyn Sink,
}

impl Shown<'_> {
    /// The bits of `count` bytes from this row and column on.
    fn bits(&self, row: usize, column: usize, count: usize) -> Range<usize> {
        let bit = self.at + self.frame.rate.at(row, column) * 8;
        bit..bit + count * 8
    }

    fn overhead_rows(&self, first: usize, end: usize) -> Range<usize> {
        let start = self.bits(first, 0, 0).start;
        start
            ..self
                .bits(end - 1, self.frame.rate.overhead_columns(), 0)
                .end
    }

    fn byte(&mut self, name: &str, row: usize, column: usize) {
        let value = Value::Hex(self.frame.byte(row, column).into());
        self.sink.field(name, self.bits(row, column, 1), value);
    }

    fn bytes(&mut self, name: &str, row: usize, column: usize, count: usize) {
        let frame = self.frame;
        let start = frame.rate.at(row, column);
        let value = Value::Bytes(&frame.buffer[start..start + count]);
        self.sink.field(name, self.bits(row, column, count), value);
    }

    fn wrong(&mut self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.sink.wrong(error.shifted(self.at));
        }
    }

    /// Says so if a parity byte is not what the frame before asks for.
    fn parity(&mut self, name: &'static str, row: usize, column: usize, expected: u8) {
        let found = self.frame.byte(row, column);
        if found != expected {
            let (computed, found) = (expected.into(), found.into());
            let fault = Fault::Check { computed, found };
            let error = Error::new(FORMAT, name, self.bits(row, column, 1), fault);
            self.sink.wrong(error);
        }
    }

    fn section(&mut self, before: Option<Bips>) {
        let n = self.frame.rate.sts1s();
        self.sink
            .open("section overhead", self.overhead_rows(0, POINTER_ROW));
        self.bytes("A1", 0, 0, n);
        self.bytes("A2", 0, n, n);
        self.wrong(check_framing(&self.frame));
        let j0 = self.frame.byte(0, 2 * n);
        let name = if j0 == J0_NO_TRACE { "no trace" } else { "" };
        let value = Value::Code(j0.into(), name);
        self.sink.field("J0", self.bits(0, 2 * n, 1), value);
        self.bytes("Z0", 0, 2 * n + 1, n - 1);
        self.byte("B1", B1_ROW, 0);
        if let Some((b1, _)) = before {
            self.parity("B1", B1_ROW, 0, b1);
        }
        for (row, column, name) in [
            (1, 1, "E1"),
            (1, 2, "F1"),
            (2, 0, "D1"),
            (2, 1, "D2"),
            (2, 2, "D3"),
        ] {
            self.byte(name, row, column * n);
        }
        self.sink.close();
    }

    fn line(&mut self, before: Option<Bips>) {
        let n = self.frame.rate.sts1s();
        self.sink
            .open("line overhead", self.overhead_rows(POINTER_ROW, ROWS));
        self.pointer();
        self.bytes("B2", B2_ROW, 0, n);
        for (sts1, b2) in before.iter().flat_map(|(_, b2)| b2[..n].iter().enumerate()) {
            self.parity("B2", B2_ROW, sts1, *b2);
        }
        self.byte("K1", B2_ROW, n);
        self.byte("K2", B2_ROW, 2 * n);
        self.byte("S1", S1_ROW, 0);
        self.byte("M1", S1_ROW, n + 2);
        self.byte("E2", S1_ROW, 2 * n);
        self.sink.close();
    }

    fn pointer(&mut self) {
        let n = self.frame.rate.sts1s();
        let word = self.frame.pointer_word();
        let (h1, h2) = (self.bits(POINTER_ROW, 0, 1), self.bits(POINTER_ROW, n, 1));
        let name = if word.ndf_enabled() {
            "new pointer"
        } else {
            ""
        };
        let ndf = Value::Code(u64::from(word.get() >> 12), name);
        self.sink.field("NDF", h1.start..h1.start + 4, ndf);
        // Its ten bits stand in two bytes that are not neighbours.
        let value = Value::Uint(word.value().into());
        self.sink.field("pointer", h2.clone(), value);
        if word.valid_value().is_none() {
            let found = word.value().into();
            let allowed = "a pointer of 0 to 782";
            let fault = Fault::Value { found, allowed };
            self.sink.wrong(Error::new(FORMAT, "pointer", h2, fault));
        }
        self.bytes("H1", POINTER_ROW, 0, n);
        self.bytes("H2", POINTER_ROW, n, n);
        self.wrong(check_concatenation(&self.frame));
        self.bytes("H3", POINTER_ROW, 2 * n, n);
    }

    fn path(&mut self) {
        let Some(pointer) = self.frame.pointer_word().valid_value() else {
            return;
        };
        let rate = self.frame.rate;
        self.sink
            .open("path overhead", self.bits(0, 0, rate.frame_bytes()));
        let places: [usize; PATH_OVERHEAD_BYTES] =
            core::array::from_fn(|row| rate.at_offset(usize::from(pointer) + 87 * row));
        let overhead = PathOverhead::new_unchecked(places.map(|at| self.frame.buffer[at]));
        for (row, name) in NAMES.into_iter().enumerate() {
            let bit = self.at + places[row] * 8;
            let value = Value::Hex(overhead.byte(row).into());
            self.sink.field(name, bit..bit + 8, value);
        }
        if let Err(error) = overhead.check_label() {
            // Its bits are counted as if the rows stood one behind another.
            let first_bit = self.at + places[error.first_bit / 8] * 8;
            self.sink.wrong(Error { first_bit, ..error });
        }
        self.sink.close();
    }
}
