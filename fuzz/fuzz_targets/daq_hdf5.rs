//! HDF5 files of events with false addresses, lengths and counts, read event by event and by number, as the
//! property test of the event builder does it.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/daq/tests/drive/hdf5.rs"]
mod hdf5;

fuzz_target!(|data: &[u8]| hdf5::drive(data));
