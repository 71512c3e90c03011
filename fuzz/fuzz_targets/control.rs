//! The parser of control messages: what it takes apart, it puts together again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| barewire::fuzzing::control(data));
