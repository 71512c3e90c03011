//! A watch table full of anything, seen by whoever puts into the aperture.
#![no_main]

use barewire_shm::Region;
use barewire_shm::watch::{WatchView, table_bytes};
use libfuzzer_sys::fuzz_target;

const SLOTS: u32 = 16;

fuzz_target!(|data: &[u8]| {
    let Some((sizes, data)) = data.split_at_checked(8) else {
        return;
    };
    let word = |at: usize| usize::from(u16::from_le_bytes([sizes[at], sizes[at + 1]]));
    let bytes = word(0) % 20_000 + 1;
    let region = Region::private(table_bytes(bytes, SLOTS));
    let whole = region.whole();
    let mut at = 0;
    let words = whole.len_bytes() / 8;
    // Places and values, by turns; what is left goes in from the start.
    for piece in data.chunks(10) {
        let mut value = [0; 8];
        let place = match piece {
            [low, high, rest @ ..] => {
                value[..rest.len()].copy_from_slice(rest);
                usize::from(u16::from_le_bytes([*low, *high])) % words
            }
            _ => at % words,
        };
        whole.atomic_store(place * 8, u64::from_le_bytes(value));
        at += 1;
    }
    let view = WatchView::open(&region, bytes, SLOTS).expect("a table of that size");
    let offset = word(2) % bytes;
    let len = word(4) % (bytes - offset) + 1;
    let touches = view.touches(offset, len);
    let mut fired = 0;
    view.matching(offset, len, |hit| {
        assert!(hit.slot < SLOTS);
        fired += 1;
    });
    assert!(fired <= 4096 && (touches || fired <= 4096));
    let _ = view.withdrawn();
});
