//! Check codes: CRC-32 of AAL5 beside the crates it could be taken from, and the
//! Internet checksum, alone and fused with the copy.

use std::cell::RefCell;
use std::hint::black_box;

use barewire_formats::aal5;
use barewire_wire::checksum;

use crate::harness::{Case, Effort, Target, measure};
use crate::yardstick::{memcpy, random_bytes};

/// CRC-32 over whole PDUs.
pub fn crc32(effort: Effort) -> usize {
    [9_180, 65_535]
        .into_iter()
        .map(|len| crc32_of(len, effort))
        .sum()
}

fn crc32_of(len: usize, effort: Effort) -> usize {
    let bytes = random_bytes(len);
    let bytes = bytes.as_slice();
    let to = RefCell::new(vec![0; len]);
    let tables = crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_BZIP2);
    let cases = vec![
        memcpy(bytes, &to),
        Case::new(
            "wire::aal5::crc32",
            &[Target::RatioTo("crc-fast", 0.9)],
            move || aal5::crc32(black_box(bytes)),
        ),
        Case::new("crc-fast", &[], move || {
            crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Bzip2, black_box(bytes))
        }),
        Case::new("crc, 16 tables", &[], move || {
            tables.checksum(black_box(bytes))
        }),
        Case::new("crc32fast (another polynomial)", &[], move || {
            crc32fast::hash(black_box(bytes))
        }),
    ];
    measure("CRC-32 of AAL5", len as u64, cases, effort)
}

/// The copy fused with the checksum.
pub fn checksum(effort: Effort) -> usize {
    let lens = [1_500, 4_096, 9_000, 16_384, 65_536];
    lens.into_iter().map(|len| checksum_of(len, effort)).sum()
}

fn checksum_of(len: usize, effort: Effort) -> usize {
    let bytes = random_bytes(len);
    let bytes = bytes.as_slice();
    // One destination for all: where it lies decides much.
    let to = RefCell::new(vec![0; len]);
    let cases = vec![
        memcpy(bytes, &to),
        Case::new(
            "copy and sum, fused",
            &[
                Target::RatioTo("memcpy", 0.8),
                Target::RatioTo("copy, then sum", 1.0),
            ],
            || {
                let mut to = to.borrow_mut();
                let sum = checksum::copy_and_sum(&mut to, black_box(bytes));
                black_box(&mut *to);
                sum
            },
        ),
        Case::new("copy, then sum", &[], || {
            let mut to = to.borrow_mut();
            to.copy_from_slice(black_box(bytes));
            checksum::sum(black_box(&to))
        }),
        Case::new("sum alone", &[], || checksum::sum(black_box(bytes))),
    ];
    measure("Internet checksum", len as u64, cases, effort)
}
