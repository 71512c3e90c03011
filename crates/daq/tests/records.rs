//! Files of events made of anything, read in all ways: as the fuzz target `daq_record` does it.

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
