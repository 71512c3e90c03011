//! A ring full of anything, looked at from outside by `barewire dump`.
#![no_main]

use barewire_fabric::frame::{
    CONTROL_BYTES, LINE_BYTES, is_of_last_lap, pack, region_bytes, unpack,
};
use barewire_fabric::survey::{Control, Ending, survey};
use barewire_shm::Region;
use libfuzzer_sys::fuzz_target;

const RING_BYTES: usize = 1024;

fuzz_target!(|data: &[u8]| {
    let Some((first, data)) = data.split_at_checked(10) else {
        return;
    };
    let reader = u64::from_le_bytes(first[..8].try_into().unwrap());
    let headers_max = usize::from(first[8]);
    let region = Region::private(region_bytes(RING_BYTES));
    let whole = region.whole();
    let len = data.len().min(whole.len_bytes());
    whole.write_bytes(0, &data[..len]);
    if first[9] & 1 == 0 {
        // So that the walk gets somewhere: positions that fit, whatever else the headers say.
        for line in 0..(RING_BYTES / LINE_BYTES) as u64 {
            let position = reader.wrapping_add(line);
            let place = position as usize % (RING_BYTES / LINE_BYTES);
            let at = CONTROL_BYTES + place * LINE_BYTES;
            let header = whole.atomic_load(at) & !(0xff_ffff << 8);
            whole.atomic_store(at, header | (position & 0xff_ffff) << 8);
        }
    }
    let _ = Control::read(&whole);
    let found = survey(whole, RING_BYTES, reader, headers_max).expect("a ring");
    let lines = (RING_BYTES / LINE_BYTES) as u64;
    assert!(found.frames <= lines && found.headers.len() <= headers_max);
    assert!(found.headers.len() as u64 <= found.frames);
    assert!(found.payload_bytes <= RING_BYTES as u64);
    for header in &found.headers {
        assert!(header.offset_bytes + header.len_bytes <= RING_BYTES);
        // It says what it would be built from.
        let begin = header.offset_bytes % LINE_BYTES;
        let begin = if begin == 0 { LINE_BYTES } else { begin };
        let built = pack(header.kind, begin, header.len_bytes, header.position);
        assert!(unpack(built, header.position).is_ok());
        assert!(!is_of_last_lap(built, header.position, lines));
    }
    // Memory that does not change holds one lap at most.
    assert_ne!(found.ending, Ending::Moving);
});
