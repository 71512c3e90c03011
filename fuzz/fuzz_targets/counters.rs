//! A counters page full of anything, seen by `barewire ls`.
#![no_main]

use barewire_shm::Region;
use barewire_shm::counters::{Counter, CounterView, MAGIC, QUEUE_COUNTERS, VERSION};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((first, data)) = data.split_at_checked(2) else {
        return;
    };
    let region = Region::private(usize::from(u16::from_le_bytes([first[0], first[1]])).max(64));
    let whole = region.whole();
    let len = data.len().min(whole.len_bytes());
    whole.write_bytes(0, &data[..len]);
    if first[0] & 1 == 0 {
        whole.atomic_store(0, MAGIC);
        whole.atomic_store(8, VERSION);
    }
    let Some(view) = CounterView::open(&region) else {
        return;
    };
    let _ = view.identity();
    for (counter, _) in QUEUE_COUNTERS {
        let _ = view.queue_counter(counter);
    }
    for number in 0..view.slots_used() {
        if let Some(copy) = view.slot(number) {
            assert!(copy.name.chars().count() <= 32);
            let watched = view.watch(number, copy.state).expect("it has the slot");
            let _ = watched.counter(Counter::BytesIn);
        }
    }
    assert!(view.slot(u32::MAX).is_none());
});
