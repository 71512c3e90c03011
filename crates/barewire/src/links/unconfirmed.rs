//! What was sent on a connection to another host, and is not known to have arrived there.
//!
//! The proxy of a link keeps a [`Confirmed`] for each connection: how far the other host's proxy has stored what came, which
//! it says with each record, and how far the other host's program has read, which is the credit that it returns. When the link is lost, it
//! becomes an [`Unconfirmed`]. With the ring into which the sender stores, that gives the messages behind it.
//!
//! The sender takes no room again before it has credit for it. So whatever was published and not read is still in that ring.

use std::collections::VecDeque;

use barewire_fabric::ring::{Mirror, Published, Tally};
use barewire_shm::Window;

use crate::error::Lost;

/// How far the other host has what was sent on one connection. Positions are in lines of the ring.
#[derive(Debug, Default)]
pub(crate) struct Confirmed {
    read: u64,
    arrived: u64,
    /// Bytes of a message that are in front of `read`, if one goes on there.
    begun_bytes: u64,
    /// Of messages of several frames: where each frame ends that was sent and not read, and how many bytes of a message
    /// that goes on there are in front.
    ends: VecDeque<(u64, u64)>,
}

impl Confirmed {
    /// A frame was handed to the network.
    pub fn sent(&mut self, frame: &Published) {
        let begun_bytes = self.ends.back().map_or(self.begun_bytes, |end| end.1);
        match frame.fragment_bytes() {
            Some(bytes) => self.ends.push_back((frame.end(), begun_bytes + bytes)),
            None if begun_bytes > 0 && !frame.is_skip() => self.ends.push_back((frame.end(), 0)),
            None => {}
        }
    }

    /// The program there has read up to a position. What can not be is ignored here: the sender finds it out. `sent`: as
    /// much was handed to the network.
    pub fn read(&mut self, position: u64, sent: u64) {
        if position <= self.read || position > sent {
            return;
        }
        self.read = position;
        self.arrived = self.arrived.max(position);
        while self.ends.front().is_some_and(|end| end.0 <= position) {
            self.begun_bytes = self.ends.pop_front().map_or(0, |end| end.1);
        }
    }

    /// What came has been stored there up to a position, whose low half this is; `false` if that is more than was sent.
    #[must_use]
    pub fn arrived(&mut self, position: u32, sent: u64) -> bool {
        let further = position.wrapping_sub(self.arrived as u32);
        let position = self.arrived + u64::from(further);
        if position > sent {
            return false;
        }
        self.arrived = position;
        true
    }

    /// As it is when the link is lost.
    pub fn into_unconfirmed(self, ring_bytes: usize) -> Unconfirmed {
        Unconfirmed {
            ring_bytes,
            read: self.read,
            arrived: self.arrived,
            begun_bytes: self.begun_bytes,
        }
    }
}

/// How far the other host had what was sent on one connection, when the link was lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unconfirmed {
    ring_bytes: usize,
    read: u64,
    arrived: u64,
    begun_bytes: u64,
}

impl Unconfirmed {
    /// What may be lost of what was published in `ring`, until now.
    pub fn lost(&self, ring: &Window) -> Lost {
        let mut mirror = Mirror::beginning_at(ring.clone(), self.ring_bytes, self.read);
        let (mut unread, mut under_way) = (Tally::default(), Tally::default());
        unread.begun_bytes = self.begun_bytes;
        // The sender of this process has written the ring. If there is nonsense in it all the same, what is in front of it
        // is counted.
        if mirror.count(self.arrived, &mut unread).is_ok() {
            under_way.begun_bytes = unread.begun_bytes;
            let _ = mirror.count(u64::MAX, &mut under_way);
        }
        Lost {
            messages: under_way.messages,
            bytes: under_way.bytes,
            unread_messages: unread.messages,
            unread_bytes: unread.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use barewire_fabric::frame::{CONTROL_BYTES, region_bytes};
    use barewire_fabric::memory::Outgoing;
    use barewire_fabric::ring::{RingReceiver, RingSender};
    use barewire_fabric::{MessageSender, SendProgress};
    use barewire_sys::memory::{Access, Memfd};

    use super::*;

    const RING_BYTES: usize = 64 << 10;

    fn region() -> Window {
        let memfd = Memfd::create_sealed("test-ring", region_bytes(RING_BYTES)).unwrap();
        memfd.map(Access::ReadWrite).unwrap().whole()
    }

    struct Sending {
        ring: Window,
        sender: MessageSender<Window, Window>,
        mirror: Mirror<Window>,
        confirmed: Confirmed,
        back: Window,
    }

    impl Sending {
        fn new() -> Sending {
            let (ring, back) = (region(), region());
            let sender = RingSender::new(ring.clone(), back.clone(), RING_BYTES);
            Sending {
                sender: MessageSender::new(sender),
                mirror: Mirror::new(ring.clone(), RING_BYTES),
                confirmed: Confirmed::default(),
                ring,
                back,
            }
        }

        fn send(&mut self, message: &[u8]) {
            let sent = self.sender.send_part(message, &mut SendProgress::default());
            assert_eq!(sent, Ok(true));
        }

        /// Hands over so many frames; returns the position behind them.
        fn hand_over(&mut self, frames: usize) -> u64 {
            for _ in 0..frames {
                let frame = self.mirror.peek().unwrap().unwrap();
                self.mirror.advance(&frame);
                self.confirmed.sent(&frame);
            }
            self.mirror.position()
        }

        fn lost(self) -> [u64; 4] {
            let unconfirmed = self.confirmed.into_unconfirmed(RING_BYTES);
            let lost = unconfirmed.lost(&self.ring);
            let unread = [lost.unread_messages, lost.unread_bytes];
            [lost.messages, lost.bytes, unread[0], unread[1]]
        }
    }

    #[test]
    fn what_waits_is_under_way_or_unread_is_told_apart() {
        let mut it = Sending::new();
        for len in [10, 20, 30, 40] {
            it.send(&vec![1; len]);
        }
        let one = it.hand_over(1);
        let two = it.hand_over(1);
        let three = it.hand_over(1);
        it.confirmed.read(one, three);
        assert!(it.confirmed.arrived(two as u32, three));
        // Whoever claims more is not believed.
        assert!(!it.confirmed.arrived(three as u32 + 1, three));
        it.confirmed.read(three + 1, three);
        assert_eq!(it.lost(), [2, 70, 1, 20]);
    }

    #[test]
    fn a_message_of_several_frames_is_lost_whole() {
        let len = 40_000;
        for arrived_frames in 0..3 {
            let mut it = Sending::new();
            it.send(&vec![1; len]);
            it.send(&[2; 5]);
            let arrived = it.hand_over(arrived_frames);
            let sent = it.hand_over(1);
            assert!(it.confirmed.arrived(arrived as u32, sent));
            // Part of it was read: the room is taken again.
            it.confirmed.read(arrived, sent);
            if arrived > 0 {
                it.ring.write(CONTROL_BYTES, &[0; 64]);
            }
            assert_eq!(it.lost(), [2, len as u64 + 5, 0, 0], "{arrived_frames}");
        }
    }

    #[test]
    fn messages_that_share_a_frame_count_each_and_laps_do_not_matter() {
        let mut it = Sending::new();
        let mut reader = RingReceiver::new(it.ring.clone(), it.back.clone(), RING_BYTES);
        let mut expected = 0;
        for lap in 0..40_u64 {
            let batch: Vec<_> = (0..9).map(|at| vec![7; 100 * at]).collect();
            assert_eq!(it.sender.send_batch(&batch), Ok(9));
            while let Some(frame) = it.mirror.peek().unwrap() {
                it.mirror.advance(&frame);
                it.confirmed.sent(&frame);
            }
            let sent = it.mirror.position();
            if lap < 39 {
                while let Some(frame) = reader.peek().unwrap() {
                    reader.release(&frame);
                }
                // All is read; the sender gets its credit.
                it.confirmed.read(reader.tail_lines(), sent);
            } else {
                expected = 9;
            }
        }
        assert_eq!(it.lost(), [expected, 3600, 0, 0]);
    }
}
