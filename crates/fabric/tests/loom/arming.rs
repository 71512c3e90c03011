//! Arming: whoever waits for a bell is rung, as soon as there is something to wait for no
//! longer. Nobody really waits here: when all threads are done, a side that decided to
//! wait for something that is there must have been rung.

use barewire_fabric::doorbell::{Drain, announce_sleep, ring};
use barewire_fabric::frame::{CONTROL_BYTES, RING_BYTES_MIN, STARVED, STATE_DEAF, STATE_FINISHED};
use barewire_fabric::memory::{Fences, Incoming, Outgoing};
use barewire_fabric::queue::Next;
use barewire_fabric::ring::{publish_armed, publish_state};
use barewire_fabric::{MessageReceiver, MessageSender, RingReceiver, RingSender};
use loom::thread;

use crate::ring::{Receiver, Sender, advance, message, receive};
use crate::window::{Barrier, Page, Window};
use crate::{check, check_caught};

/// Both ends of a queue and the windows that each stores through: the sender's first.
fn wired() -> (Sender, Receiver, Window, Window) {
    let (there, back) = (Window::new(RING_BYTES_MIN), Window::new(RING_BYTES_MIN));
    let s = RingSender::new(there.clone(), back.clone(), RING_BYTES_MIN);
    let r = RingReceiver::new(there.clone(), back.clone(), RING_BYTES_MIN);
    let (sender, receiver) = (MessageSender::new(s), MessageReceiver::new(r, 4096));
    (sender, receiver, there, back)
}

/// What can be wrong with arming.
#[derive(Clone, Copy)]
struct Arming {
    barrier: Barrier,
    /// Whether the ring is looked at again after arming.
    looks_again: bool,
    /// Whether arming comes before the barrier, as it must.
    stores_first: bool,
}

impl Arming {
    const RIGHT: Arming = Arming {
        barrier: Barrier::WHOLE,
        looks_again: true,
        stores_first: true,
    };

    fn arm(self, receiver: &mut Receiver, out: &Window) -> bool {
        if !self.stores_first {
            self.barrier.heavy();
            let ready = !receiver.ring().is_empty();
            publish_armed(out, true);
            return ready;
        }
        receiver.ring().arm(&self.barrier) && self.looks_again
    }

    /// One sender of `count` messages and a receiver that arms, takes what is there, and
    /// goes back to polling in between. Bells are counted by the sender.
    fn receiver_waits(self, count: u64, rounds: usize) {
        let (mut sender, mut receiver, _, back) = wired();
        let thread = thread::spawn(move || {
            let mut bells = 0;
            for tag in 0..count {
                let message = message(&mut sender, tag, 8);
                assert_eq!(sender.send_frame(&message), Ok(true));
                bells += u64::from(sender.ring().must_ring(&self.barrier));
            }
            bells
        });
        let mut taken = 0;
        let mut waits = false;
        for _ in 0..rounds {
            if !self.arm(&mut receiver, &back) {
                waits = true;
                break;
            }
            receiver.ring().disarm();
            while receive(&mut receiver, false).unwrap().is_some() {
                taken += 1;
            }
        }
        let bells = thread.join().unwrap();
        if waits && taken < count {
            assert!(bells > 0, "waits for a message that is there");
        }
    }

    /// A sender whose ring is full, and a receiver that reads all of it.
    fn sender_waits(self) {
        let (mut sender, mut receiver, there, _) = wired();
        for _ in 0..3 {
            assert_eq!(sender.send_frame(&[0; 192]), Ok(true));
        }
        let thread = thread::spawn(move || {
            let mut bells = 0;
            for _ in 0..3 {
                let next = receiver.next_message().unwrap();
                receiver.done(&next);
                if receiver.take_told() {
                    bells += u64::from(receiver.ring().must_ring(&self.barrier));
                }
            }
            bells
        });
        let mut waits = !sender.send_frame(&[0; 192]).unwrap();
        if waits {
            waits = if self.stores_first {
                !(sender.ring().arm(&self.barrier, 192).unwrap() && self.looks_again)
            } else {
                self.barrier.heavy();
                let room = sender.ring().reserve(192).unwrap().is_some();
                there.write_u64(STARVED, 1);
                !room
            };
            if !waits {
                sender.ring().disarm();
                assert_eq!(sender.send_frame(&[0; 192]), Ok(true));
            }
        }
        let bells = thread.join().unwrap();
        assert!(!waits || bells > 0, "waits for room that is there");
    }

    fn without_light() -> Arming {
        let mut arming = Arming::RIGHT;
        arming.barrier.light = false;
        arming
    }

    fn without_heavy() -> Arming {
        let mut arming = Arming::RIGHT;
        arming.barrier.heavy = false;
        arming
    }

    fn without_second_look() -> Arming {
        Arming {
            looks_again: false,
            ..Arming::RIGHT
        }
    }

    fn look_then_store() -> Arming {
        Arming {
            stores_first: false,
            ..Arming::RIGHT
        }
    }
}

#[test]
fn an_armed_receiver_is_rung() {
    check(|| Arming::RIGHT.receiver_waits(1, 1));
    check(|| Arming::RIGHT.receiver_waits(2, 3));
}

#[test]
fn a_starved_sender_is_rung() {
    check(|| Arming::RIGHT.sender_waits());
}

#[test]
fn a_missing_light_fence_is_caught() {
    check_caught("light fence (armed)", || {
        Arming::without_light().receiver_waits(1, 1);
    });
    check_caught("light fence (starved)", || {
        Arming::without_light().sender_waits();
    });
}

#[test]
fn a_missing_heavy_fence_is_caught() {
    check_caught("heavy fence (armed)", || {
        Arming::without_heavy().receiver_waits(1, 1);
    });
    check_caught("heavy fence (starved)", || {
        Arming::without_heavy().sender_waits();
    });
}

#[test]
fn arming_without_a_second_look_is_caught() {
    check_caught("no second look (armed)", || {
        Arming::without_second_look().receiver_waits(1, 1);
    });
    check_caught("no second look (starved)", || {
        Arming::without_second_look().sender_waits();
    });
}

#[test]
fn looking_before_arming_is_caught() {
    check_caught("ARMED stored after the look", || {
        Arming::look_then_store().receiver_waits(1, 1);
    });
    check_caught("STARVED stored after the look", || {
        Arming::look_then_store().sender_waits();
    });
}

/// The end of a stream wakes an armed receiver, and what was published before the end is
/// seen by who sees the end.
#[test]
fn the_end_is_rung_and_comes_last() {
    check(|| {
        let (mut sender, mut receiver, there, _) = wired();
        let thread = thread::spawn(move || {
            let message = message(&mut sender, 1, 8);
            assert_eq!(sender.send_frame(&message), Ok(true));
            let bell = sender.ring().must_ring(&Barrier::WHOLE);
            publish_state(&there, STATE_FINISHED);
            bell | sender.ring().must_ring(&Barrier::WHOLE)
        });
        // What the window's user does: the flag first, then the ring.
        if receiver.ring().peer_finished() {
            assert!(receive(&mut receiver, false).unwrap().is_some());
            assert!(receiver.ring().is_empty());
        } else if receiver.ring().is_empty() && !receiver.ring().arm(&Barrier::WHOLE) {
            assert!(thread.join().unwrap(), "waits for an end that has come");
            return;
        }
        thread.join().unwrap();
    });
}

/// A starved sender learns that its peer went deaf, by `arm` or by the bell.
fn deaf(barrier: Barrier) {
    let (mut sender, mut receiver, _, back) = wired();
    for _ in 0..3 {
        assert_eq!(sender.send_frame(&[0; 192]), Ok(true));
    }
    let thread = thread::spawn(move || {
        publish_state(&back, STATE_DEAF);
        receiver.ring().must_ring(&barrier)
    });
    let goes_on = sender.ring().arm(&barrier, 192).unwrap();
    let bell = thread.join().unwrap();
    assert!(goes_on || bell, "waits for a peer that went deaf");
}

#[test]
fn a_starved_sender_learns_of_deafness() {
    check(|| deaf(Barrier::WHOLE));
}

#[test]
fn deafness_without_a_heavy_fence_is_caught() {
    check_caught("heavy fence removed", || {
        deaf(Barrier {
            heavy: false,
            ..Barrier::WHOLE
        })
    });
}

/// Message, arming, doorbell and sleep together. The receiver is awake and polls; nothing
/// is there, so it arms, drains its page and sleeps.
fn end_to_end(barrier: Barrier, settles: bool, fences: bool, count: u64) {
    let (mut sender, mut receiver, _, _) = wired();
    advance(&mut sender, &mut receiver, 2);
    let page = std::sync::Arc::new(Page::with(settles, fences));
    let shared = page.clone();
    let thread = thread::spawn(move || {
        let mut woken = false;
        for tag in 0..count {
            let message = message(&mut sender, tag, 8);
            assert_eq!(sender.send_frame(&message), Ok(true));
            if sender.ring().must_ring(&barrier) {
                woken |= ring(&*shared, 3) % 2 == 1;
            }
        }
        woken
    });
    let mut taken = 0;
    let mut asleep = false;
    let mut take_all = |receiver: &mut Receiver| {
        while let Next::InPlace(located) = receiver.next_message().unwrap() {
            receiver.done(&Next::InPlace(located));
            taken += 1;
        }
    };
    take_all(&mut receiver);
    if receiver.ring().arm(&barrier) {
        // It stays armed: from here on there is a bell for every message.
        take_all(&mut receiver);
    }
    let mut drain = Drain::default();
    while let Some(source) = drain.next_source(&*page) {
        assert_eq!(source, 3);
        take_all(&mut receiver);
    }
    if announce_sleep(&*page, 1) {
        asleep = true;
    } else {
        while drain.next_source(&*page).is_some() {
            take_all(&mut receiver);
        }
    }
    let woken = thread.join().unwrap();
    if !woken && asleep {
        assert_eq!(taken, count, "asleep while a message is there");
        return;
    }
    // Awake: a bit must lead to whatever is left.
    while drain.next_source(&*page).is_some() {
        take_all(&mut receiver);
    }
    assert_eq!(taken, count, "a message without a bit");
}

#[test]
fn a_message_wakes_a_sleeper() {
    check(|| end_to_end(Barrier::WHOLE, true, true, 1));
    check(|| end_to_end(Barrier::WHOLE, true, true, 2));
}

#[test]
fn each_missing_fence_is_caught_end_to_end() {
    let whole = Barrier::WHOLE;
    check_caught("light fence", move || {
        let barrier = Barrier {
            light: false,
            ..whole
        };
        end_to_end(barrier, true, true, 1);
    });
    check_caught("heavy fence", move || {
        let barrier = Barrier {
            heavy: false,
            ..whole
        };
        end_to_end(barrier, true, true, 1);
    });
    check_caught("settle", move || end_to_end(whole, false, true, 2));
    check_caught("fence before sleep", move || {
        end_to_end(whole, true, false, 2);
    });
}

/// A bit taken from the page leads to the message that was published before it.
#[test]
fn a_bit_makes_its_message_visible() {
    check(|| {
        let (mut sender, mut receiver, there, back) = wired();
        publish_armed(&back, true);
        let page = std::sync::Arc::new(Page::new());
        let shared = page.clone();
        let thread = thread::spawn(move || {
            let message = message(&mut sender, 9, 8);
            assert_eq!(sender.send_frame(&message), Ok(true));
            assert!(sender.ring().must_ring(&Barrier::WHOLE));
            ring(&*shared, 325);
        });
        if Drain::default().next_source(&*page) == Some(325) {
            assert!(there.read_u64(CONTROL_BYTES) != 0);
            assert!(receive(&mut receiver, false).unwrap().is_some());
        }
        thread.join().unwrap();
    });
}
