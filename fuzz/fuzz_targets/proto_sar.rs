//! Any cells and commands into both reassemblers and the streaming segmenter, as the
//! tests of `barewire-proto` do it.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../lab/classic/tests/sar/drive.rs"]
mod drive;

fuzz_target!(|data: &[u8]| drive::drive(data));
