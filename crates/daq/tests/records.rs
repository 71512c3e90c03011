//! Files of events made of anything, read in all ways: as the fuzz targets `daq_record` and `daq_hdf5` do it.

#[path = "drive/hdf5.rs"]
mod hdf5;
#[path = "drive/record.rs"]
mod record;

use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn all_ways_to_read_a_file_agree(script in vec(any::<u8>(), 0..200)) {
        record::drive(&script);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn hdf5_files_of_any_bytes_are_read_without_harm(script in vec(any::<u8>(), 0..60)) {
        hdf5::drive(&script);
    }
}
