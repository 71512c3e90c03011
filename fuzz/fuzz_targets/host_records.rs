//! A node to which another host, once it has greeted, says anything.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| barewire::fuzzing::host_records(data));
