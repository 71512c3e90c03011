//! The programs at the ends of connections, and the ends themselves.

use barewire_des::stats::Histogram;
use barewire_fabric::frame::region_bytes;
use barewire_fabric::queue::Next;
use barewire_fabric::{
    MessageReceiver, MessageSender, RingReceiver, RingSender, SendProgress, Violation,
};
use barewire_models::clan::{Loads, Memory, Stores};
use barewire_models::rdma::Writer;
use barewire_units::{Duration, Instant};

/// A message begins with when it was begun, in picoseconds.
pub(super) const STAMP_BYTES: usize = 8;

/// What an end does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Takes what comes, and works so long on each message.
    Take(Duration),
    /// Sends so many messages, as fast as they go.
    Send(u64),
    /// Sends so many, each when the one before has been answered.
    Ask(u64),
    /// Answers.
    Answer,
}

/// An end of a connection.
pub(super) struct End {
    pub(super) host: u32,
    pub(super) core: usize,
    /// The side of the link that it uses.
    pub(super) side: u32,
    /// Where what it receives is counted.
    pub(super) class: usize,
    pub(super) task: Task,
    /// Its messages are bare writes of the card, without a ring.
    pub(super) bare: bool,
    pub(super) memory: Memory,
    pub(super) writer: Writer,
    sender: MessageSender<Stores, Loads>,
    receiver: MessageReceiver<Loads, Stores>,
    pub(super) message_bytes: usize,
    progress: SendProgress,
    /// The stamp of the message being sent.
    begun: Option<u64>,
    /// Stamps of messages that have to be answered.
    asked: Vec<u64>,
    /// It waits for room.
    pub(super) blocked: bool,
    /// What the card has told of it since it was looked at, and whether its core knows.
    pub(super) notices: u64,
    pub(super) ready: bool,
    /// Its core knows that it may have something to send.
    pub(super) runnable: bool,
    pub(super) received_bytes: u64,
    /// Of all messages, never set back: how many, and the sum of their stamps.
    pub(super) sent: (u64, u64),
    pub(super) received: (u64, u64),
    /// Messages whose bytes were not those that were sent.
    pub(super) torn: u64,
}

/// What was received by the ends of a class since it was set back.
#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// From the beginning of sending a message until it was received; or until its answer was.
    pub(super) latency_ps: Histogram,
}

/// What sending came to.
pub(super) struct Sent {
    pub(super) put_bytes: u64,
    pub(super) more: bool,
}

impl End {
    pub(super) fn new(place: (u32, usize, u32), ring_bytes: usize, message_bytes: usize) -> Self {
        let memory = Memory::default();
        let len_bytes = region_bytes(ring_bytes);
        let region = memory.add_region(len_bytes);
        let (out, inn) = (memory.stores(0, region, len_bytes), memory.loads(region));
        let sender = RingSender::new(out.clone(), inn.clone(), ring_bytes);
        let receiver = RingReceiver::new(inn, out, ring_bytes);
        End {
            host: place.0,
            core: place.1,
            side: place.2,
            class: 0,
            task: Task::Take(Duration::ZERO),
            bare: false,
            sender: MessageSender::new(sender),
            receiver: MessageReceiver::new(receiver, usize::MAX),
            memory,
            writer: Writer::default(),
            message_bytes,
            progress: SendProgress::default(),
            begun: None,
            asked: Vec::new(),
            blocked: false,
            notices: 0,
            ready: false,
            runnable: false,
            received_bytes: 0,
            sent: (0, 0),
            received: (0, 0),
            torn: 0,
        }
    }

    /// Lines that the peer has not given back.
    #[cfg(test)]
    pub(super) fn head_and_tail(&mut self) -> (u64, u64) {
        (
            self.sender.ring().head_lines(),
            self.receiver.ring().tail_lines(),
        )
    }

    /// Whether it has a message to send.
    pub(super) fn has_message(&self) -> bool {
        self.begun.is_some()
            || match self.task {
                Task::Take(_) | Task::Ask(0) | Task::Send(0) => false,
                Task::Send(_) => true,
                Task::Ask(_) => self.sent.0 == self.received.0,
                Task::Answer => !self.asked.is_empty(),
            }
    }

    /// Puts as much of a message into the ring as fits.
    pub(super) fn send(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Result<Sent, Violation> {
        let stamp = self.stamp(now);
        buffer.clear();
        buffer.resize(self.message_bytes, 0);
        mark(buffer, stamp);
        let before = self.progress.sent_bytes;
        let whole = self.sender.send_part(buffer, &mut self.progress)?;
        let put_bytes = (self.progress.sent_bytes - before) as u64;
        if whole {
            self.was_sent(stamp);
        }
        self.blocked = !whole;
        Ok(Sent {
            put_bytes,
            more: whole && self.has_message(),
        })
    }

    /// When the message that is being sent was begun; an answer has the stamp of what it answers.
    fn stamp(&mut self, now: Instant) -> u64 {
        let first = self.asked.first().copied();
        *self
            .begun
            .get_or_insert(first.unwrap_or(now.since_origin().as_ps()))
    }

    fn was_sent(&mut self, stamp: u64) {
        self.progress = SendProgress::default();
        self.begun = None;
        count(&mut self.sent, stamp);
        match &mut self.task {
            Task::Send(left) | Task::Ask(left) => *left -= 1,
            Task::Answer => drop(self.asked.remove(0)),
            Task::Take(_) => {}
        }
    }

    /// A message that goes without the ring.
    pub(super) fn send_bare(&mut self, now: Instant) -> Vec<u8> {
        let mut bytes = vec![0; self.message_bytes];
        let stamp = self.stamp(now);
        mark(&mut bytes, stamp);
        self.was_sent(stamp);
        bytes
    }

    /// Takes a message, if one is there: its length and its stamp.
    pub(super) fn receive(
        &mut self,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<(u64, u64)>, Violation> {
        let next = self.receiver.next_message()?;
        match &next {
            Next::Nothing => return Ok(None),
            Next::InPlace(located) => {
                buffer.resize(located.len_bytes, 0);
                self.receiver.copy_out(located, buffer);
            }
            Next::Assembled => {
                buffer.clear();
                buffer.extend_from_slice(self.receiver.assembled());
            }
        }
        self.receiver.done(&next);
        Ok(Some(self.was_received(buffer)))
    }

    /// A message has come without the ring.
    pub(super) fn receive_bare(&mut self, offset: usize, buffer: &mut Vec<u8>) -> (u64, u64) {
        use barewire_fabric::memory::Incoming;
        buffer.resize(self.message_bytes, 0);
        self.receiver.ring().incoming().read(offset, buffer);
        self.was_received(buffer)
    }

    fn was_received(&mut self, bytes: &[u8]) -> (u64, u64) {
        let stamp = stamp_of(bytes);
        count(&mut self.received, stamp);
        self.torn += u64::from(bytes.len() != self.message_bytes || !is_whole(bytes, stamp));
        self.received_bytes += bytes.len() as u64;
        if self.task == Task::Answer {
            self.asked.push(stamp);
        }
        (bytes.len() as u64, stamp)
    }

    /// Whether another message may be there.
    pub(super) fn maybe_ready(&self) -> bool {
        self.receiver.maybe_ready()
    }
}

fn count(counts: &mut (u64, u64), stamp: u64) {
    counts.0 += 1;
    counts.1 = counts.1.wrapping_add(stamp);
}

/// A message is its stamp, then zeros, then the stamp again if there is room.
fn mark(bytes: &mut [u8], stamp: u64) {
    let stamp = stamp.to_le_bytes();
    bytes[..STAMP_BYTES].copy_from_slice(&stamp);
    let len = bytes.len();
    if len >= 2 * STAMP_BYTES {
        bytes[len - STAMP_BYTES..].copy_from_slice(&stamp);
    }
}

fn stamp_of(bytes: &[u8]) -> u64 {
    let stamp = bytes.get(..STAMP_BYTES).and_then(|it| it.try_into().ok());
    u64::from_le_bytes(stamp.unwrap_or_default())
}

fn is_whole(bytes: &[u8], stamp: u64) -> bool {
    let Some(middle) = bytes.get(STAMP_BYTES..bytes.len().max(2 * STAMP_BYTES) - STAMP_BYTES)
    else {
        return bytes.len() < 2 * STAMP_BYTES;
    };
    let end = &bytes[bytes.len() - STAMP_BYTES..];
    middle.iter().all(|&byte| byte == 0) && end == stamp.to_le_bytes()
}
