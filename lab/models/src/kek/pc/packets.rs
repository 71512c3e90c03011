//! Packets of programs outside the model: what they cost is modelled, what is in them is not.
//!
//! ```text
//! program -> copied to the socket -> sent: TCP or UDP, IP, driver -> discipline, card
//! program <- copied from the socket <- received: driver, IP, TCP or UDP <- card
//! ```
//! A segment of TCP without data is the kernel's own: no program copies it.

use std::collections::VecDeque;

use crate::kek::{Body, Frame};

/// Packets at a PC, beside those on its card.
#[derive(Default)]
pub(super) struct Packets {
    /// A program writes it.
    writing: Option<(Frame, Vec<u8>)>,
    /// It is the kernel's, with what the discipline sees of it.
    to_send: Option<(Frame, Vec<u8>)>,
    /// Packets in the socket, and their bytes.
    to_read: VecDeque<Frame>,
    to_read_bytes: u64,
    /// The reading program sleeps.
    asleep: bool,
    read: VecDeque<Frame>,
    lost: VecDeque<Frame>,
}

impl Packets {
    pub fn takes(&self) -> bool {
        self.writing.is_none() && self.to_send.is_none()
    }

    /// A packet to send, and its headers.
    pub fn offer(&mut self, frame: Frame, headers: Vec<u8>) {
        let place = match frame.body {
            Body::Packet { is_ack: true, .. } => &mut self.to_send,
            _ => &mut self.writing,
        };
        *place = Some((frame, headers));
    }

    /// Bytes of the packet that a program can write now.
    pub fn to_write_bytes(&self) -> Option<u64> {
        Some(bytes_of(&self.writing.as_ref()?.0))
    }

    /// It is written.
    pub fn written(&mut self) {
        self.to_send = self.writing.take();
    }

    /// The packet that the kernel can send now.
    pub fn to_send(&self) -> Option<Frame> {
        Some(self.to_send.as_ref()?.0)
    }

    /// It is sent: its headers.
    pub fn sent(&mut self) -> Vec<u8> {
        self.to_send
            .take()
            .map_or(Vec::new(), |(_, headers)| headers)
    }

    /// A packet is through IP; the socket holds at most `buffer_bytes`.
    pub fn received(&mut self, frame: Frame, buffer_bytes: u64) {
        let Body::Packet { len, is_ack, .. } = frame.body else {
            return;
        };
        if is_ack {
            self.read.push_back(frame);
        } else if self.to_read_bytes + len > buffer_bytes {
            self.lost.push_back(frame);
        } else {
            self.asleep |= self.to_read.is_empty();
            self.to_read_bytes += len;
            self.to_read.push_back(frame);
        }
    }

    /// Bytes of the packet that a program can read now.
    pub fn to_read_bytes(&self) -> Option<u64> {
        self.to_read.front().map(bytes_of)
    }

    /// The reading program runs; whether it slept.
    pub fn wake(&mut self) -> bool {
        core::mem::take(&mut self.asleep)
    }

    /// It has read a packet.
    pub fn finish_read(&mut self) {
        if let Some(frame) = self.to_read.pop_front() {
            self.to_read_bytes -= bytes_of(&frame);
            self.read.push_back(frame);
        }
    }

    /// A packet is lost; frames of the streams are counted elsewhere.
    pub fn lose(&mut self, frame: Frame) {
        if matches!(frame.body, Body::Packet { .. }) {
            self.lost.push_back(frame);
        }
    }

    pub fn take_read(&mut self) -> Option<Frame> {
        self.read.pop_front()
    }

    pub fn take_lost(&mut self) -> Option<Frame> {
        self.lost.pop_front()
    }
}

fn bytes_of(frame: &Frame) -> u64 {
    match frame.body {
        Body::Packet { len, .. } | Body::Data { len, .. } => len,
        Body::Ack { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Into a program that does not read in time: its socket holds so much, and the rest is lost.
    #[test]
    fn a_full_socket_loses_packets_of_programs_alone() {
        let packet = |id, is_ack| Frame {
            from: 0,
            to: 1,
            flow: u8::MAX,
            body: Body::Packet {
                id,
                len: 900,
                is_ack,
            },
        };
        let mut packets = Packets::default();
        for id in 0..3 {
            packets.received(packet(id, false), 2_000);
        }
        packets.received(packet(3, true), 2_000);
        assert_eq!(packets.take_lost(), Some(packet(2, false)));
        assert_eq!(packets.take_read(), Some(packet(3, true)));
        assert_eq!((packets.to_read_bytes(), packets.wake()), (Some(900), true));
        packets.finish_read();
        packets.received(packet(4, false), 2_000);
        assert!(!packets.wake(), "it reads");
        packets.finish_read();
        packets.finish_read();
        let read: Vec<_> = std::iter::from_fn(|| packets.take_read()).collect();
        assert_eq!(read, [0, 1, 4].map(|id| packet(id, false)));
        assert_eq!((packets.to_read_bytes(), packets.take_lost()), (None, None));
    }
}
