//! A doorbell page in which a peer sets anything between any two steps of its owner.
#![no_main]

use barewire_fabric::doorbell::{
    Drain, PAGE_BYTES, PAGE_WORDS, SOURCES_MAX, announce_awake, announce_sleep, pending, ring,
    sweep,
};
use barewire_shm::Region;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let page = Region::private(PAGE_BYTES).whole();
    let mut drain = Drain::default();
    let mut sequence = 0;
    for piece in data.chunks(11) {
        let [op, low, high, rest @ ..] = piece else {
            break;
        };
        let mut value = [0; 8];
        value[..rest.len()].copy_from_slice(rest);
        let value = u64::from_le_bytes(value);
        let word = usize::from(u16::from_le_bytes([*low, *high])) % PAGE_WORDS;
        match op % 6 {
            0 | 1 => page.atomic_store(word * 8, value),
            2 => {
                let _ = ring(&page, value as u32 % SOURCES_MAX);
            }
            3 => sweep(&page),
            4 => {
                sequence += 2;
                let _ = announce_sleep(&page, sequence - 1);
                announce_awake(&page, sequence);
            }
            _ => {
                for _ in 0..value % 512 {
                    match drain.next_source(&page) {
                        Some(source) => assert!(source < SOURCES_MAX),
                        None => break,
                    }
                }
            }
        }
    }
    // Whatever it was, it ends.
    let most = SOURCES_MAX as usize + 64 * 64 + 64;
    let mut calls = 0;
    while drain.next_source(&page).is_some() || !drain.is_idle() || pending(&page) {
        calls += 1;
        assert!(calls <= most, "a page of so many bits has no more");
    }
});
