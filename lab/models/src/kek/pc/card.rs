//! The AceNIC: descriptors, two firmware processors, DMA, wire, interrupts.
//!
//! ```text
//! descriptor ring -> firmware -> DMA -> card's memory -> wire
//! host's memory   <- DMA <- firmware <- card's memory <- wire
//! ```
//!
//! All steps work at the same time on different frames. Each of the two firmware
//! processors takes a fixed time for a frame and for an interrupt, whatever the frame's
//! length and whatever host it is in. Descriptors and status words are moved with the
//! frame. Half of the memory is for each direction.

use std::collections::VecDeque;

use barewire_units::{ByteSize, Duration, Instant, Rate};

use super::happening::Happening;
use crate::host::{Coalesce, Coalescer, Notice, Processor};
use crate::kek::{Frame, Pci, Stage};

crate::parameters! {
    /// A card.
    #[derive(Copy, PartialEq, Eq)]
    pub struct Nic {
        /// Its memory.
        pub memory: ByteSize,
        /// Rate of its link.
        pub rate: Rate,
        /// Firmware: a frame.
        pub frame: Duration,
        /// Firmware: an interrupt.
        pub interrupt: Duration,
        /// Moved beside a frame: descriptor and status.
        pub descriptor: ByteSize,
        /// Descriptors for frames to send.
        pub send_ring: usize,
        /// Buffers for frames received.
        pub receive_ring_normal: usize,
        /// The same, for jumbo frames.
        pub receive_ring_jumbo: usize,
        /// Sent frames that bring an interrupt at once.
        pub send_frames: usize,
        /// Received frames that do.
        pub receive_frames_normal: usize,
        /// The same, of jumbo frames.
        pub receive_frames_jumbo: usize,
    }
}

/// A card, and how its driver sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicConfig {
    /// The card.
    pub nic: Nic,
    /// Whether it receives jumbo frames.
    pub jumbo: bool,
    /// Longest time to the interrupt for a sent frame.
    pub send_delay: Duration,
    /// The same for a received one.
    pub receive_delay: Duration,
}

impl NicConfig {
    const fn receive_ring(&self) -> usize {
        match self.jumbo {
            true => self.nic.receive_ring_jumbo,
            false => self.nic.receive_ring_normal,
        }
    }

    const fn send_coalesce(&self) -> Coalesce {
        Coalesce {
            delay: self.send_delay,
            frames: self.nic.send_frames,
        }
    }

    const fn receive_coalesce(&self) -> Coalesce {
        Coalesce {
            delay: self.receive_delay,
            frames: match self.jumbo {
                true => self.nic.receive_frames_jumbo,
                false => self.nic.receive_frames_normal,
            },
        }
    }
}

type Outbox = VecDeque<(Instant, Happening)>;

pub(super) struct Card {
    nic: Nic,
    pci: Pci,
    send_firmware: Processor,
    send_stage: Stage<Frame>,
    send_dma: Stage<Frame>,
    wire: Stage<Frame>,
    send_coalescer: Coalescer,
    /// Bytes that the card has fetched, or is fetching, and not sent.
    send_held_bytes: u64,
    /// Descriptors in use, and those of them that are done with.
    send_used: usize,
    send_done: usize,
    receive_firmware: Processor,
    receive_stage: Stage<Frame>,
    receive_dma: Stage<Frame>,
    receive_coalescer: Coalescer,
    receive_held_bytes: u64,
    /// Buffers that the card may fill.
    receive_free: usize,
    received: Vec<Frame>,
    overruns: u64,
}

impl Card {
    pub fn new(config: NicConfig, pci: Pci) -> Self {
        Self {
            nic: config.nic,
            pci,
            send_firmware: Processor::new(),
            send_stage: Stage::default(),
            send_dma: Stage::default(),
            wire: Stage::default(),
            send_coalescer: Coalescer::new(config.send_coalesce()),
            send_held_bytes: 0,
            send_used: 0,
            send_done: 0,
            receive_firmware: Processor::new(),
            receive_stage: Stage::default(),
            receive_dma: Stage::default(),
            receive_coalescer: Coalescer::new(config.receive_coalesce()),
            receive_held_bytes: 0,
            receive_free: config.receive_ring(),
            received: Vec::new(),
            overruns: 0,
        }
    }

    /// Whether there is a descriptor for a frame to send.
    pub fn has_room(&self) -> bool {
        self.send_used < self.nic.send_ring
    }

    pub fn overruns(&self) -> u64 {
        self.overruns
    }

    /// A frame to send.
    pub fn post(&mut self, now: Instant, frame: Frame, out: &mut Outbox) {
        self.send_used += 1;
        self.send_stage.push(frame);
        self.advance(now, out);
    }

    /// A frame from the wire; `false` if there is no memory for it.
    pub fn receive(&mut self, now: Instant, frame: Frame, out: &mut Outbox) -> bool {
        let held = self.receive_held_bytes + frame.stored_bytes();
        if held > self.nic.memory.as_bytes() / 2 {
            self.overruns += 1;
            return false;
        }
        self.receive_held_bytes = held;
        self.receive_stage.push(frame);
        self.advance(now, out);
        true
    }

    /// The driver frees the descriptors of sent frames, takes the received ones and
    /// gives new buffers for them.
    pub fn reap(&mut self, now: Instant, received: &mut VecDeque<Frame>, out: &mut Outbox) {
        self.send_used -= self.send_done;
        self.send_done = 0;
        self.receive_free += self.received.len();
        received.extend(self.received.drain(..));
        self.advance(now, out);
    }

    /// A step of the card is over; the frame that has left, if one has.
    pub fn handle(&mut self, now: Instant, what: Happening, out: &mut Outbox) -> Option<Frame> {
        let mut left = None;
        match what {
            Happening::SendFirmware => {
                let frame = self.send_stage.finish();
                frame.into_iter().for_each(|it| self.send_dma.push(it));
            }
            Happening::SendDma => {
                let frame = self.send_dma.finish();
                frame.into_iter().for_each(|it| self.wire.push(it));
                self.send_done += 1;
                let notice = self.send_coalescer.note(now);
                self.follow(now, notice, Happening::SendTimer, out);
            }
            Happening::SendWire => {
                left = self.wire.finish();
                self.send_held_bytes -= left.map_or(0, |frame| frame.stored_bytes());
            }
            Happening::ReceiveFirmware => {
                let frame = self.receive_stage.finish();
                frame.into_iter().for_each(|it| self.receive_dma.push(it));
            }
            Happening::ReceiveDma => {
                if let Some(frame) = self.receive_dma.finish() {
                    self.receive_held_bytes -= frame.stored_bytes();
                    self.received.push(frame);
                }
                let notice = self.receive_coalescer.note(now);
                self.follow(now, notice, Happening::ReceiveTimer, out);
            }
            Happening::SendTimer if self.send_coalescer.handle_timer(now) => {
                self.follow(now, Notice::Interrupt, what, out);
            }
            Happening::ReceiveTimer if self.receive_coalescer.handle_timer(now) => {
                self.follow(now, Notice::Interrupt, what, out);
            }
            _ => {}
        }
        self.advance(now, out);
        left
    }

    fn follow(&mut self, now: Instant, notice: Notice, timer: Happening, out: &mut Outbox) {
        match notice {
            Notice::Wait => {}
            Notice::Arm(at) => out.push_back((at, timer)),
            Notice::Interrupt => {
                let firmware = match timer {
                    Happening::SendTimer => &mut self.send_firmware,
                    _ => &mut self.receive_firmware,
                };
                let at = firmware.begin(now, self.nic.interrupt);
                out.push_back((at, Happening::Interrupt));
            }
        }
    }

    /// Begins every step that can be begun.
    fn advance(&mut self, now: Instant, out: &mut Outbox) {
        self.advance_send(now, out);
        self.advance_receive(now, out);
    }

    fn advance_send(&mut self, now: Instant, out: &mut Outbox) {
        let room = (self.nic.memory.as_bytes() / 2).saturating_sub(self.send_held_bytes);
        let next = self.send_stage.next();
        if let Some(frame) = next.filter(|frame| frame.stored_bytes() <= room) {
            self.send_held_bytes += frame.stored_bytes();
            self.send_stage.begin();
            let done = self.send_firmware.begin(now, self.nic.frame);
            out.push_back((done, Happening::SendFirmware));
        }
        if let Some(frame) = self.send_dma.next() {
            let bytes = frame.stored_bytes() + self.nic.descriptor.as_bytes();
            self.send_dma.begin();
            out.push_back((self.pci.begin(now, bytes), Happening::SendDma));
        }
        if let Some(frame) = self.wire.next() {
            let time = self.nic.rate.time_to_send(wire_size(frame));
            self.wire.begin();
            out.push_back((now.saturating_add(time), Happening::SendWire));
        }
    }

    fn advance_receive(&mut self, now: Instant, out: &mut Outbox) {
        if self.receive_stage.next().is_some() && self.receive_free > 0 {
            self.receive_free -= 1;
            self.receive_stage.begin();
            let done = self.receive_firmware.begin(now, self.nic.frame);
            out.push_back((done, Happening::ReceiveFirmware));
        }
        if let Some(frame) = self.receive_dma.next() {
            let bytes = frame.stored_bytes() + self.nic.descriptor.as_bytes();
            self.receive_dma.begin();
            out.push_back((self.pci.begin(now, bytes), Happening::ReceiveDma));
        }
    }
}

fn wire_size(frame: &Frame) -> ByteSize {
    ByteSize::from_bytes(frame.wire_bytes())
}
