//! Two real threads, real atomics, hundreds of thousands of messages.

#[path = "common/memory.rs"]
mod memory;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use barewire_fabric::doorbell::{Drain, PAGE_WORDS, announce_awake, announce_sleep, ring};
use barewire_fabric::memory::SharedWords;
use barewire_fabric::queue::Next;
use barewire_fabric::{MessageReceiver, MessageSender, SendProgress, StreamReceiver, StreamSender};
use barewire_units::Rng;
use memory::{FullFences, Region, content};

/// Longer than any wait that ends.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sizes of messages: mostly small, sometimes of several frames.
fn size(rng: &mut Rng, ring_bytes: usize) -> usize {
    let bound = match rng.below(100) {
        0..=79 => 64,
        80..=98 => ring_bytes / 4,
        _ => 2 * ring_bytes,
    };
    rng.index(bound)
}

/// Sends `count` messages; calls `published` whenever something may have been published.
fn send_all(
    mut sender: MessageSender<Region, Region>,
    count: u64,
    seed: u64,
    mut published: impl FnMut(&mut MessageSender<Region, Region>),
) {
    let ring_bytes = sender.ring().ring_bytes();
    let mut rng = Rng::from_seed(seed);
    let mut number = 0;
    while number < count {
        let left = count - number;
        if number % 7 == 0 && left >= 5 {
            let batch: Vec<_> = (number..number + 5)
                .map(|number| content(number, size(&mut rng, ring_bytes), 0))
                .collect();
            let mut rest = &batch[..];
            while let Some(first) = rest.first() {
                let mut sent = sender.send_batch(rest).unwrap();
                let mut progress = SendProgress::default();
                while sent == 0 {
                    // Too long for a frame, or no room: in parts as room comes.
                    sent = usize::from(sender.send_part(first, &mut progress).unwrap());
                    published(&mut sender);
                    thread::yield_now();
                }
                rest = &rest[sent..];
                published(&mut sender);
            }
            number += 5;
            continue;
        }
        let message = content(number, size(&mut rng, ring_bytes), 0);
        let mut progress = SendProgress::default();
        while !sender.send_part(&message, &mut progress).unwrap() {
            published(&mut sender);
            thread::yield_now();
        }
        published(&mut sender);
        number += 1;
    }
}

/// Takes and checks all there is; returns how many.
fn take_all(
    receiver: &mut MessageReceiver<Region, Region>,
    rng: &mut Rng,
    ring_bytes: usize,
    mut number: u64,
) -> u64 {
    let mut buffer = vec![0; ring_bytes];
    loop {
        let next = receiver.next_message().unwrap();
        let bytes = match &next {
            Next::Nothing => return number,
            Next::Assembled => receiver.assembled(),
            Next::InPlace(located) => {
                let into = &mut buffer[..located.len_bytes];
                receiver.copy_out(located, into);
                into
            }
        };
        let len = size(rng, ring_bytes);
        assert!(
            bytes == content(number, len, 0),
            "message {number} of {len}"
        );
        receiver.done(&next);
        number += 1;
    }
}

#[test]
fn messages_between_two_threads() {
    for (ring_bytes, count) in [(1024, 150_000), (4096, 150_000), (65536, 50_000)] {
        let (sender, receiver) = Region::ends(ring_bytes);
        let sender = MessageSender::new(sender);
        let mut receiver = MessageReceiver::new(receiver, 1 << 20);
        let thread = thread::spawn(move || send_all(sender, count, 3, |_| ()));
        let mut rng = Rng::from_seed(3);
        // On a busy machine each yield takes long: what counts is that it goes on.
        let mut last_new = Instant::now();
        let mut number = 0;
        while number < count {
            let before = number;
            number = take_all(&mut receiver, &mut rng, ring_bytes, number);
            if number > before {
                last_new = Instant::now();
            } else {
                assert!(last_new.elapsed() < PATIENCE, "stuck at {number}");
                thread::yield_now();
            }
        }
        thread.join().unwrap();
        assert!(!receiver.maybe_ready());
    }
}

#[test]
fn bytes_between_two_threads() {
    const TOTAL: usize = 4 << 20;
    for ring_bytes in [1024, 65536] {
        let (sender, receiver) = Region::ends(ring_bytes);
        let mut sender = StreamSender::new(sender);
        let mut receiver = StreamReceiver::new(receiver);
        let source = Arc::new(content(1, TOTAL, 0));
        let expected = source.clone();
        let thread = thread::spawn(move || {
            let mut rng = Rng::from_seed(4);
            let mut at = 0;
            while at < source.len() {
                let end = source.len().min(at + rng.index(9000));
                match sender.write(&source[at..end]).unwrap() {
                    0 => thread::yield_now(),
                    written => at += written,
                }
            }
        });
        let mut rng = Rng::from_seed(5);
        let mut buffer = vec![0; 9000];
        let mut at = 0;
        let mut last_new = Instant::now();
        while at < expected.len() {
            let len = 1 + rng.index(8999);
            let got = receiver.read(&mut buffer[..len]).unwrap();
            assert!(buffer[..got] == expected[at..at + got], "at {at}");
            at += got;
            if got > 0 {
                last_new = Instant::now();
            } else {
                assert!(last_new.elapsed() < PATIENCE, "stuck at {at}");
                thread::yield_now();
            }
        }
        thread.join().unwrap();
    }
}

/// A doorbell page in this process.
struct Page(Vec<AtomicU64>);

impl SharedWords for Page {
    fn load(&self, index: usize) -> u64 {
        // Ordering: Acquire pairs with the release halves of `or` and `store`.
        self.0[index].load(Ordering::Acquire)
    }

    fn store(&self, index: usize, value: u64) {
        // Ordering: Release pairs with the Acquire of `load`.
        self.0[index].store(value, Ordering::Release);
    }

    fn or(&self, index: usize, bits: u64) -> u64 {
        // Ordering: AcqRel pairs with itself and `take`: who takes a bit sees what its
        // ringer stored before.
        self.0[index].fetch_or(bits, Ordering::AcqRel)
    }

    fn take(&self, index: usize) -> u64 {
        // Ordering: AcqRel, as in `or`.
        self.0[index].swap(0, Ordering::AcqRel)
    }

    fn settle(&self) {
        // Ordering: SeqCst pairs with `fence`: the bit or the sleep word is seen.
        fence(Ordering::SeqCst);
    }

    fn fence(&self) {
        // Ordering: SeqCst pairs with `settle`.
        fence(Ordering::SeqCst);
    }
}

/// The receiver sleeps whenever nothing is there; nobody polls. A lost wake-up shows as a
/// sleep that outlasts all patience.
#[test]
fn a_sleeper_is_woken_for_every_message() {
    const COUNT: u64 = 150_000;
    const SOURCE: u32 = 4099;
    let (sender, receiver) = Region::ends(4096);
    let sender = MessageSender::new(sender);
    let mut receiver = MessageReceiver::new(receiver, 1 << 20);
    let page = Arc::new(Page((0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect()));
    let bell = page.clone();
    let owner = thread::current();
    assert!(!receiver.ring().arm(&FullFences));
    let thread = thread::spawn(move || {
        let mut woken = 0;
        send_all(sender, COUNT, 6, |sender| {
            if sender.ring().must_ring(&FullFences) {
                let sleep = ring(&*bell, SOURCE);
                if sleep % 2 == 1 && sleep != woken {
                    woken = sleep;
                    owner.unpark();
                }
            }
        });
        woken / 2
    });
    let mut rng = Rng::from_seed(6);
    let mut drain = Drain::default();
    let (mut number, mut sequence) = (0, 0);
    while number < COUNT {
        while let Some(source) = drain.next_source(&*page) {
            assert_eq!(source, SOURCE);
            number = take_all(&mut receiver, &mut rng, 4096, number);
        }
        if number < COUNT && announce_sleep(&*page, sequence + 1) {
            let begin = Instant::now();
            // A wake-up meant for an earlier sleep may end this one: then look again.
            thread::park_timeout(PATIENCE);
            assert!(begin.elapsed() < PATIENCE, "asleep at message {number}");
        }
        sequence += 2;
        announce_awake(&*page, sequence);
    }
    println!("slept {} times", thread.join().unwrap());
}
