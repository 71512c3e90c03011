//! Credits and the header of a message: what keeps a receiver from ever being without a posted
//! buffer, as pure arithmetic.
//!
//! Each message, whatever it holds, takes one of the receiver's buffers. A sender may have as
//! many messages under way as the receiver has buffers. Each header says how many messages its
//! sender has used up so far, that is, how many buffers it has posted again.
//!
//! The last buffer is kept for a message that gives some back. So the two sides never wait for
//! each other: of the last messages that both have sent, the one that arrives last gives its
//! receiver at least one buffer.
//!
//! Messages are used up in the order in which they came. So a sender also learns from this
//! number that all it has sent was read, see [`Flow::is_all_read`]. A side that has heard that
//! no more will come tells the number as soon as it has read all. It does so once for each
//! message with bytes or flags, so that such answers do not answer each other.
//!
//! The header, little endian:
//!
//! ```text
//! byte   0..4   messages used up by the sender of this one, modulo 2^32
//!        4..6   number of this message, modulo 2^16
//!        6      flags: 1 the sender sends no more bytes, 2 it reads none either
//!        7      zero
//! ```

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 8;

/// The sender sends no more bytes.
pub(crate) const FINISHED: u8 = 1;
/// The sender does not read any more.
pub(crate) const CLOSED: u8 = 2;

/// The fewest buffers of a side. Below three, a sender could wait for what is not worth telling.
pub(crate) const BUFFERS_MIN: u32 = 4;

/// How many messages are used up, at least, before a message is sent only to tell so. If it
/// were one, such messages would answer each other for ever.
const WORTH_TELLING_MIN: u32 = 2;

/// What both sides have sent and used up.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Buffers of ours.
    own: u32,
    /// Buffers of the other side.
    peer: u32,
    /// Messages that we have sent.
    sent: u32,
    /// Of these, how many the other side has used up, as far as we know.
    acknowledged: u32,
    /// Messages that have arrived.
    arrived: u32,
    /// Of these, how many we have used up.
    consumed: u32,
    /// Of these, how many the other side knows of.
    told: u32,
    /// How many we had sent with the last message that the other side has to answer.
    last_to_answer: u32,
    /// A message has arrived that we have to answer, and have not.
    has_to_answer: bool,
}

impl Flow {
    /// At the beginning of a link, between a side with `own` buffers and one with `peer`.
    pub(crate) fn new(own: u32, peer: u32) -> Flow {
        Flow {
            own,
            peer,
            sent: 0,
            acknowledged: 0,
            arrived: 0,
            consumed: 0,
            told: 0,
            last_to_answer: 0,
            has_to_answer: false,
        }
    }

    /// Messages of ours that the other side has not used up, as far as we know.
    pub(crate) fn unacknowledged(&self) -> u32 {
        self.sent.wrapping_sub(self.acknowledged)
    }

    fn room(&self) -> u32 {
        self.peer - self.unacknowledged()
    }

    /// Used up and not told.
    fn owed(&self) -> u32 {
        self.consumed.wrapping_sub(self.told)
    }

    /// Whether a message with bytes may be sent now.
    pub(crate) fn may_send(&self) -> bool {
        self.room() > 1 || (self.room() == 1 && self.owed() > 0)
    }

    /// Whether a message that only gives buffers back should be sent now, and may be.
    pub(crate) fn should_tell(&self) -> bool {
        self.room() > 0 && self.owed() >= WORTH_TELLING_MIN.max(self.own / 4)
    }

    /// Whether the other side waits to hear that all was read, and may be told.
    pub(crate) fn may_answer(&self) -> bool {
        self.room() > 0 && self.has_to_answer && self.consumed == self.arrived
    }

    /// Whether the other side has read all that we have sent, so far as it matters.
    pub(crate) fn is_all_read(&self) -> bool {
        self.acknowledged.wrapping_sub(self.last_to_answer) as i32 >= 0
    }

    /// The header of the next message.
    pub(crate) fn header(&self, flags: u8) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&self.consumed.to_le_bytes());
        header[4..6].copy_from_slice(&(self.sent as u16).to_le_bytes());
        header[6] = flags;
        header
    }

    /// The provider has taken the message with the last [`Flow::header`]. It has bytes or flags
    /// that the other side has to answer, or it has not.
    pub(crate) fn sent(&mut self, needs_answer: bool) {
        self.sent = self.sent.wrapping_add(1);
        if needs_answer {
            self.last_to_answer = self.sent;
        }
        if self.consumed == self.arrived {
            self.has_to_answer = false;
        }
        self.told = self.consumed;
    }

    /// A message has arrived, with bytes or without. Gives its flags.
    ///
    /// # Errors
    /// What is wrong with its header.
    pub(crate) fn arrive(
        &mut self,
        header: [u8; HEADER_BYTES],
        has_bytes: bool,
    ) -> Result<u8, &'static str> {
        let [c0, c1, c2, c3, n0, n1, flags, zero] = header;
        let used_up = u32::from_le_bytes([c0, c1, c2, c3]);
        if u16::from_le_bytes([n0, n1]) != self.arrived as u16 {
            return Err("a message is missing, or came twice");
        }
        if used_up.wrapping_sub(self.acknowledged) > self.unacknowledged() {
            return Err("more messages are said to be read than were sent");
        }
        if flags & !(FINISHED | CLOSED) != 0 || zero != 0 {
            return Err("a header has unknown bits");
        }
        if self.arrived.wrapping_sub(self.told) >= self.own {
            return Err("more messages came than there are buffers");
        }
        self.acknowledged = used_up;
        self.arrived = self.arrived.wrapping_add(1);
        self.has_to_answer |= has_bytes || flags != 0;
        Ok(flags)
    }

    /// A message was used up, and its buffer posted again.
    pub(crate) fn consume(&mut self) {
        debug_assert_ne!(self.consumed, self.arrived);
        self.consumed = self.consumed.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_units::Rng;
    use std::collections::VecDeque;

    /// Two sides in lockstep with a wire that delays.
    struct Side {
        flow: Flow,
        /// What is on the way to this side: headers, and whether there are bytes.
        inbox: VecDeque<([u8; HEADER_BYTES], bool)>,
        /// Arrived and not read: whether there are bytes.
        unread: VecDeque<bool>,
        to_send: u32,
        got: u32,
    }

    fn send(sides: &mut [Side; 2], from: usize, has_bytes: bool) {
        let header = sides[from].flow.header(0);
        sides[from].flow.sent(has_bytes);
        let to = &mut sides[1 - from];
        to.inbox.push_back((header, has_bytes));
        assert!(
            to.inbox.len() + to.unread.len() <= to.flow.own as usize,
            "no buffer"
        );
    }

    /// One step of one side; `false` if there was nothing to do.
    fn step(sides: &mut [Side; 2], which: usize, chance: u64) -> bool {
        let side = &mut sides[which];
        match chance {
            0 => {
                let Some((header, has_bytes)) = side.inbox.pop_front() else {
                    return false;
                };
                side.flow.arrive(header, has_bytes).unwrap();
                side.unread.push_back(has_bytes);
            }
            1 => {
                let Some(has_bytes) = side.unread.pop_front() else {
                    return false;
                };
                side.got += u32::from(has_bytes);
                side.flow.consume();
            }
            2 if side.to_send > 0 && side.flow.may_send() => {
                side.to_send -= 1;
                send(sides, which, true);
            }
            3 if side.flow.should_tell() || side.flow.may_answer() => send(sides, which, false),
            _ => return false,
        }
        true
    }

    #[test]
    fn no_buffer_is_missing_and_nobody_waits_for_ever() {
        for seed in 0..400 {
            let mut rng = Rng::from_seed(seed);
            let buffers = |rng: &mut Rng| BUFFERS_MIN + (rng.next_u64() % 9) as u32;
            let (one, other) = (buffers(&mut rng), buffers(&mut rng));
            let to_send = [300, (rng.next_u64() % 300) as u32];
            let side = |own, peer, to_send| Side {
                // Counters wrap on the way.
                flow: Flow {
                    sent: u32::MAX - 50,
                    acknowledged: u32::MAX - 50,
                    arrived: u32::MAX - 50,
                    consumed: u32::MAX - 50,
                    told: u32::MAX - 50,
                    last_to_answer: u32::MAX - 50,
                    ..Flow::new(own, peer)
                },
                inbox: VecDeque::new(),
                unread: VecDeque::new(),
                to_send,
                got: 0,
            };
            let mut sides = [side(one, other, to_send[0]), side(other, one, to_send[1])];
            let mut idle = 0;
            while idle < 400 {
                let (which, chance) = (rng.next_u64() % 2, rng.next_u64() % 4);
                match step(&mut sides, which as usize, chance) {
                    true => idle = 0,
                    false => idle += 1,
                }
            }
            let got = [sides[1].got, sides[0].got];
            assert_eq!(got, to_send, "seed {seed}, buffers {one} and {other}");
            let all_read = sides.each_ref().map(|side| side.flow.is_all_read());
            assert_eq!(all_read, [true; 2], "seed {seed}");
        }
    }

    #[test]
    fn lies_are_refused() {
        let mut flow = Flow::new(2, 4);
        let good = Flow::new(4, 2).header(FINISHED);
        for (at, byte) in [(0, 1), (3, 1), (4, 1), (5, 1), (6, 4), (7, 1)] {
            let mut header = good;
            header[at] = byte;
            assert!(flow.arrive(header, true).is_err(), "byte {at}");
        }
        assert_eq!(flow.arrive(good, true), Ok(FINISHED));
        // The same once more.
        assert!(flow.arrive(good, true).is_err());
        let numbered = |number: u8| [0, 0, 0, 0, number, 0, 0, 0];
        assert_eq!(flow.arrive(numbered(1), true), Ok(0));
        // Both buffers are taken.
        assert!(flow.arrive(numbered(2), true).is_err());
    }
}
