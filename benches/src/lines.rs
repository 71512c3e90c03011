//! Line codes: 4B5B and NRZI, both ways. Bytes are bytes of data.

use std::cell::RefCell;
use std::hint::black_box;

use barewire_formats::line::{Decoder, Encoder};

use crate::harness::{Case, Effort, Target, measure};
use crate::yardstick::{memcpy, random_bytes};

const TARGET: &[Target] = &[Target::BytesPerSecond(1e9)];

/// Bytes to levels and back.
pub fn line_code(effort: Effort) -> usize {
    let bytes = random_bytes(9_180);
    let bytes = bytes.as_slice();
    let to = RefCell::new(vec![0; bytes.len()]);
    let line_bytes = Encoder::new().line_bytes(bytes.len() * 2);
    let mut line = vec![0; line_bytes];
    Encoder::new().data(bytes, &mut line).expect("room");
    let coded = line.clone();
    let mut data = vec![0; bytes.len() + 1];
    let cases = vec![
        memcpy(bytes, &to),
        Case::new("4B5B + NRZI encode", TARGET, || {
            let mut encoder = Encoder::new();
            let taken = encoder.data(black_box(bytes), &mut line);
            black_box(&mut line);
            taken
        }),
        Case::new("4B5B + NRZI decode", TARGET, || {
            let mut decoder = Decoder::new();
            let mut faults = 0;
            let given = decoder.data(black_box(&coded), &mut data, |_| faults += 1);
            black_box(&mut data);
            (given, faults)
        }),
    ];
    measure("line code", bytes.len() as u64, cases, effort)
}
