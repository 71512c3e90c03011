//! Files of events, read record by record, at places of an index, and in memory, as the property
//! test of the event builder does it.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/daq/tests/drive/record.rs"]
mod record;

fuzz_target!(|data: &[u8]| record::drive(data));
