//! A connection's end with its program.

use barewire_units::Instant;

use crate::kek::{Body, Frame};
use crate::tcp::{Receiver, Sender};

enum End {
    Sending(Sender),
    Receiving(Receiver),
}

/// A connection's end, and the program that writes or reads there without end.
pub(super) struct Socket {
    pub flow: u8,
    to: u8,
    message_bytes: u64,
    /// What is left of the message that the program is in; 0 between two.
    left_bytes: u64,
    asleep: bool,
    end: End,
}

impl Socket {
    pub fn sending(flow: u8, to: u8, message_bytes: u64, sender: Sender) -> Self {
        Self::new(flow, to, message_bytes, End::Sending(sender))
    }

    pub fn receiving(flow: u8, to: u8, message_bytes: u64, receiver: Receiver) -> Self {
        Self::new(flow, to, message_bytes, End::Receiving(receiver))
    }

    fn new(flow: u8, to: u8, message_bytes: u64, end: End) -> Self {
        Self {
            flow,
            to,
            message_bytes,
            left_bytes: 0,
            asleep: false,
            end,
        }
    }

    pub fn sender(&self) -> Option<&Sender> {
        match &self.end {
            End::Sending(sender) => Some(sender),
            End::Receiving(_) => None,
        }
    }

    pub fn receiver(&self) -> Option<&Receiver> {
        match &self.end {
            End::Receiving(receiver) => Some(receiver),
            End::Sending(_) => None,
        }
    }

    /// Whether the program has begun a message and not finished it.
    pub fn in_message(&self) -> bool {
        self.left_bytes > 0
    }

    /// Bytes that the program can move now, a segment at most. A writer that found the
    /// buffer full sleeps until a third of it is free; a reader until there is anything.
    pub fn work(&mut self, segment_bytes: u64) -> u64 {
        let left = match self.left_bytes {
            0 => self.message_bytes,
            left => left,
        };
        let wanted = left.min(segment_bytes);
        match &self.end {
            End::Sending(sender) => {
                let enough = if self.asleep {
                    wanted.max(sender.buffer_bytes() / 3)
                } else {
                    wanted
                };
                if sender.room() < enough {
                    self.asleep = true;
                    return 0;
                }
                wanted
            }
            End::Receiving(receiver) => {
                let bytes = wanted.min(receiver.readable());
                self.asleep |= bytes == 0;
                bytes
            }
        }
    }

    /// The program runs; whether it slept.
    pub fn wake(&mut self) -> bool {
        core::mem::take(&mut self.asleep)
    }

    /// The program has moved `bytes`; the window's update to send, if it is time for one.
    pub fn finish_work(&mut self, bytes: u64, from: u8) -> Option<Frame> {
        if self.left_bytes == 0 {
            self.left_bytes = self.message_bytes;
        }
        self.left_bytes -= bytes;
        let ended = self.left_bytes == 0;
        let tells = match &mut self.end {
            End::Sending(sender) => {
                sender.write(bytes, ended);
                false
            }
            End::Receiving(receiver) => receiver.take(bytes),
        };
        tells.then(|| self.acknowledge(from)).flatten()
    }

    pub fn next_segment(&mut self, now: Instant, from: u8) -> Option<Frame> {
        let End::Sending(sender) = &mut self.end else {
            return None;
        };
        let segment = sender.poll(now)?;
        let body = Body::Data {
            seq: segment.seq,
            len: segment.len,
        };
        Some(self.frame(from, body))
    }

    /// A received frame; the acknowledgement to send at once, if any.
    pub fn handle_frame(&mut self, now: Instant, frame: Frame, from: u8) -> Option<Frame> {
        match (&mut self.end, frame.body) {
            (End::Sending(sender), Body::Ack { ack, edge }) => {
                sender.handle_ack(now, ack, edge);
                None
            }
            (End::Receiving(receiver), Body::Data { seq, len }) => {
                let at_once = receiver.handle_segment(now, seq, len);
                at_once.then(|| self.acknowledge(from)).flatten()
            }
            _ => None,
        }
    }

    /// A tick; the acknowledgement to send, if one was delayed long enough.
    pub fn handle_tick(&mut self, now: Instant, from: u8) -> Option<Frame> {
        match &mut self.end {
            End::Sending(sender) => {
                sender.handle_tick(now);
                None
            }
            End::Receiving(receiver) => {
                let due = receiver.handle_tick(now);
                due.then(|| self.acknowledge(from)).flatten()
            }
        }
    }

    fn acknowledge(&mut self, from: u8) -> Option<Frame> {
        let End::Receiving(receiver) = &mut self.end else {
            return None;
        };
        let (ack, edge) = receiver.acknowledge();
        Some(self.frame(from, Body::Ack { ack, edge }))
    }

    fn frame(&self, from: u8, body: Body) -> Frame {
        Frame {
            from,
            to: self.to,
            flow: self.flow,
            body,
        }
    }
}
