//! The network of the swarm: fragments may be lost, doubled, spoilt and slow; control is in order.

use alloc::collections::BTreeMap;

use barewire_units::{Duration, Instant, Rng};

use super::Message;
use crate::evb::Fragment;

pub struct Net {
    pub random: Rng,
    pub queue: BTreeMap<(Instant, u64), Message>,
    pub sequence: u64,
    pub loss: u64,
    pub double: u64,
    pub spoil: u64,
    pub lost: u64,
    pub doubled: u64,
    /// Fragments that came to a dead builder.
    pub unheard: u64,
    /// When the last word from one to the other is there: control is in order.
    pub control: BTreeMap<(u32, u32), Instant>,
}

impl Net {
    pub fn at(&mut self, at: Instant, message: Message) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), message);
    }

    pub fn say(&mut self, now: Instant, channel: (u32, u32), message: Message) {
        let at = now + Duration::from_us(self.random.below(300));
        let last = self.control.entry(channel).or_insert(at);
        *last = at.max(*last);
        let at = *last;
        self.at(at, message);
    }

    pub fn send(&mut self, now: Instant, builder: u16, fragment: Fragment) {
        if self.random.ratio(self.loss, 100) {
            self.lost += 1;
            return;
        }
        let copies = 1 + u64::from(self.random.ratio(self.double, 100));
        self.doubled += copies - 1;
        for _ in 0..copies {
            let slow = self.random.ratio(1, 50);
            let most = if slow { 40_000 } else { 200 };
            let at = now + Duration::from_us(self.random.below(most));
            let intact = !self.random.ratio(self.spoil, 100);
            self.at(
                at,
                Message::Arrived(builder, Fragment { intact, ..fragment }),
            );
        }
    }
}
