//! A host's way to the link: write buffer, I/O bus, card.
//!
//! ```text
//! processor ─► write buffer ─► bus ─► packets ─► link
//! memory    ◄───────────────── bus ◄─ packets ◄─ link    (tripwires are looked up here)
//! memory    ─► DMA ──────────► bus ─► packets ─► link
//! ```
//!
//! - The processor posts stores into entries of the write buffer and goes on; it waits
//!   when no entry is free. An ordered store waits until all before it are on the card.
//! - The bus does one burst at a time, in turn: a store, a packet coming in, a piece of a
//!   DMA transfer. Who is master of a burst decides what it costs beside its words.
//! - A burst that begins where the last packet in the card ends becomes part of it, as
//!   long as that packet waits for the link. So a copy by the processor, which comes in
//!   small bursts, does not drown the link in headers.
//!
//! Source: clan02; 32 B entries as in the 21164's write buffer.

use std::collections::VecDeque;

use barewire_fabric::aperture::Action;
use barewire_units::{ByteSize, Duration};

use super::costs::{BusConfig, CardConfig, HostCosts, LinkConfig};
use super::memory::{Memory, Operation, Store};
use super::tripwire::{Cam, Place};

/// What an interface is made of.
#[derive(Clone, Debug)]
pub struct InterfaceConfig {
    /// The processor and its write buffer.
    pub host: HostCosts,
    /// The I/O bus.
    pub bus: BusConfig,
    /// The card.
    pub card: CardConfig,
    /// The link to the switch.
    pub link: LinkConfig,
}

fn bytes_of(size: ByteSize) -> usize {
    size.as_usize().unwrap_or(usize::MAX)
}

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cargo {
    /// Its payload is to be stored.
    Store {
        /// Bytes of the same transfer in packets before it.
        before: usize,
        /// And in packets behind it: tripwires fire with the last.
        after: usize,
    },
    /// Its payload is the operands of an operation.
    Ask {
        /// The host that is to be answered.
        from: u8,
        /// The answer's number.
        tag: u32,
        /// What is to be done.
        operation: Operation,
    },
    /// Its payload is what was there.
    Answer {
        /// The number of the question.
        tag: u32,
        /// Whether it was done.
        accepted: bool,
    },
}

impl Cargo {
    /// A transfer of a single packet.
    pub const WHOLE: Self = Self::Store {
        before: 0,
        after: 0,
    };
}

/// Bytes on their way to a region of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The host.
    pub to: u8,
    /// The region there.
    pub region: usize,
    /// Offset in the region.
    pub offset: usize,
    /// What it is for.
    pub cargo: Cargo,
    /// The payload.
    pub bytes: Vec<u8>,
}

impl Packet {
    /// Bytes of the header in [`Packet::encode`].
    pub const HEADER_BYTES: usize = 24;

    /// As bytes, for captures. The source prints no format, so this one is ours:
    ///
    /// ```text
    /// | to 1 | from 1 | kind 1: 0 store, 1 load, 2 add, 3 exchange, 4 answer, 5 refusal | 0 1 |
    /// | region 4 | offset 8 | before, or tag 4 | after, or 0 4 | payload |
    /// ```
    ///
    /// Numbers are big-endian. What the link's overhead holds beside that is not there.
    #[must_use]
    pub fn encode(&self, from: u8) -> Vec<u8> {
        let (kind, first, second) = match self.cargo {
            Cargo::Store { before, after } => (0, before as u32, after as u32),
            Cargo::Ask { tag, operation, .. } => match operation {
                Operation::Load(_) => (1, tag, 0),
                Operation::Add(_) => (2, tag, 0),
                Operation::Exchange(..) => (3, tag, 0),
            },
            Cargo::Answer { tag, accepted } => (if accepted { 4 } else { 5 }, tag, 0),
        };
        let mut bytes = vec![self.to, from, kind, 0];
        bytes.extend((self.region as u32).to_be_bytes());
        bytes.extend((self.offset as u64).to_be_bytes());
        bytes.extend(first.to_be_bytes());
        bytes.extend(second.to_be_bytes());
        bytes.extend(&self.bytes);
        bytes
    }

    /// Bytes that it moves over the bus of the host that it has come to.
    fn arrival_bytes(&self) -> usize {
        match self.cargo {
            Cargo::Ask { operation, .. } => operation.bus_bytes(),
            Cargo::Store { .. } | Cargo::Answer { .. } => self.bytes.len(),
        }
    }
}

/// A transfer that the card makes by itself, from memory to a peer's region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The host that it goes to.
    pub to: u8,
    /// The region there.
    pub region: usize,
    /// Offset in the region.
    pub offset: usize,
    /// What is transferred.
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
enum Burst {
    Store(Store),
    Arrival(Packet),
    Piece(Packet),
}

/// An operation's number, and what was there; `None` if it was refused.
pub type Answer = (u32, Option<Vec<u8>>);

/// What came of a burst.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Bytes that are now in memory.
    pub delivered_bytes: usize,
    /// What tripwires do about it.
    pub fired: Vec<Action>,
    /// The answer to an operation.
    pub answer: Option<Answer>,
}

/// The interface of one host.
#[derive(Debug)]
pub struct Interface {
    config: InterfaceConfig,
    memory: Memory,
    cam: Cam,
    /// What the processor is about to post.
    posting: VecDeque<Store>,
    buffer: VecDeque<Store>,
    arrivals: VecDeque<Packet>,
    transfers: VecDeque<(Transfer, usize)>,
    questions: VecDeque<Packet>,
    bus: Option<Burst>,
    /// Time that the bus and the link have been busy.
    busy: [Duration; 2],
    /// Packets that were not for where they came to.
    refused: u64,
    /// Who was on the bus last: 0 store, 1 arrival, 2 transfer.
    last: usize,
    waiting: VecDeque<Packet>,
    waiting_bytes: usize,
    link_busy: bool,
}

impl Interface {
    /// An interface to `memory` with nothing to do.
    #[must_use]
    pub fn new(config: InterfaceConfig, memory: Memory) -> Self {
        Interface {
            cam: Cam::new(config.card.cam_entries),
            config,
            memory,
            posting: VecDeque::new(),
            buffer: VecDeque::new(),
            arrivals: VecDeque::new(),
            transfers: VecDeque::new(),
            questions: VecDeque::new(),
            bus: None,
            busy: [Duration::ZERO; 2],
            refused: 0,
            last: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            link_busy: false,
        }
    }

    /// The tripwires.
    pub fn cam(&mut self) -> &mut Cam {
        &mut self.cam
    }

    /// Takes what the program has stored. Whether the processor has to wait then.
    pub fn post(&mut self) -> bool {
        while let Some(store) = self.memory.take_issued() {
            self.posting.push_back(store);
        }
        self.fill_buffer();
        self.processor_waits()
    }

    /// Whether the processor waits for the write buffer.
    #[must_use]
    pub fn processor_waits(&self) -> bool {
        !self.posting.is_empty()
    }

    /// Begins a transfer by the card.
    pub fn start_transfer(&mut self, transfer: Transfer) {
        self.transfers.push_back((transfer, 0));
    }

    /// Begins an operation at a peer; the answer comes with a [`Done`].
    pub fn ask(&mut self, question: Packet) {
        self.questions.push_back(question);
    }

    /// All stores that were posted are on the card, and all that it is to transfer.
    #[must_use]
    pub fn has_taken_all(&self) -> bool {
        let outgoing = matches!(self.bus, Some(Burst::Store(_) | Burst::Piece(_)));
        self.posting.is_empty()
            && self.buffer.is_empty()
            && self.transfers.is_empty()
            && self.questions.is_empty()
            && !outgoing
    }

    /// How long bus and link have been busy.
    #[must_use]
    pub const fn busy(&self) -> [Duration; 2] {
        self.busy
    }

    /// Packets that were for no place, or for one that is not the peer's to use.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// A packet has come in from the link.
    pub fn handle_packet(&mut self, packet: Packet) {
        self.arrivals.push_back(packet);
    }

    /// Nothing is on its way through this interface.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.posting.is_empty()
            && self.buffer.is_empty()
            && self.arrivals.is_empty()
            && self.transfers.is_empty()
            && self.questions.is_empty()
            && self.bus.is_none()
            && self.waiting.is_empty()
            && !self.link_busy
    }

    fn fill_buffer(&mut self) {
        while let Some(store) = self.posting.front_mut() {
            let storing = matches!(self.bus, Some(Burst::Store(_)));
            let drained = self.buffer.is_empty() && !storing;
            if self.buffer.len() >= self.config.host.write_entries || store.ordered && !drained {
                return;
            }
            self.buffer
                .push_back(store.split_entry(bytes_of(self.config.host.write_entry)));
            if store.bytes.is_empty() {
                self.posting.pop_front();
            }
        }
    }

    /// Begins the next burst if the bus is free, and says how long it takes; then
    /// [`Interface::handle_burst_end`].
    pub fn poll_bus(&mut self) -> Option<Duration> {
        if self.bus.is_some() {
            return None;
        }
        let turn = self.last;
        for turn in (turn + 1..=turn + 3).map(|turn| turn % 3) {
            if let Some(burst) = self.take_burst(turn) {
                let (bytes, begin) = match &burst {
                    Burst::Store(store) => (store.bytes.len(), self.config.bus.processor_burst),
                    Burst::Arrival(packet) => (packet.arrival_bytes(), self.config.bus.card_burst),
                    Burst::Piece(packet) => (packet.bytes.len(), self.config.bus.card_burst),
                };
                let words = (bytes as u64).div_ceil(self.config.bus.word.as_bytes().max(1));
                self.last = turn;
                self.bus = Some(burst);
                self.fill_buffer();
                let time = begin + self.config.bus.clock * words;
                self.busy[0] += time;
                return Some(time);
            }
        }
        None
    }

    fn take_burst(&mut self, turn: usize) -> Option<Burst> {
        let room = self.waiting_bytes < bytes_of(self.config.card.fifo);
        match turn {
            0 if room => self.buffer.pop_front().map(Burst::Store),
            1 => self.arrivals.pop_front().map(Burst::Arrival),
            2 if room => self.take_piece().map(Burst::Piece),
            _ => None,
        }
    }

    fn take_piece(&mut self) -> Option<Packet> {
        if let Some(question) = self.questions.pop_front() {
            return Some(question);
        }
        let (transfer, before) = self.transfers.front_mut()?;
        let max = bytes_of(self.config.link.payload_max).max(1);
        let len = transfer.bytes.len().min(max);
        let rest = transfer.bytes.split_off(len);
        let piece = Packet {
            to: transfer.to,
            region: transfer.region,
            offset: transfer.offset,
            cargo: Cargo::Store {
                before: *before,
                after: rest.len(),
            },
            bytes: std::mem::replace(&mut transfer.bytes, rest),
        };
        transfer.offset += len;
        *before += len;
        if transfer.bytes.is_empty() {
            self.transfers.pop_front();
        }
        Some(piece)
    }

    /// The burst is over.
    pub fn handle_burst_end(&mut self) -> Done {
        let done = match self.bus.take() {
            None => Done::default(),
            Some(Burst::Arrival(packet)) => self.arrived(packet),
            Some(Burst::Piece(packet)) => self.send(packet),
            Some(Burst::Store(store)) => self.send(Packet {
                to: store.to,
                region: store.region,
                offset: store.offset,
                cargo: Cargo::WHOLE,
                bytes: store.bytes,
            }),
        };
        self.fill_buffer();
        done
    }

    fn arrived(&mut self, packet: Packet) -> Done {
        let mut done = Done::default();
        let (region, offset) = (packet.region, packet.offset);
        let place = Place::Own(region);
        match packet.cargo {
            Cargo::Store { before, after } => {
                if !self.memory.deliver(region, offset, &packet.bytes) {
                    self.refused += 1;
                    return done;
                }
                done.delivered_bytes = packet.bytes.len();
                if after == 0 {
                    let len_bytes = before + packet.bytes.len();
                    let begin = offset.saturating_sub(before);
                    done.fired = self.cam.touch(place, begin, len_bytes);
                }
            }
            Cargo::Ask {
                from,
                tag,
                operation,
            } => {
                let found = self.memory.operate(region, offset, operation);
                let accepted = found.is_some();
                self.refused += u64::from(!accepted);
                let (bytes, replaced) = found.unwrap_or_default();
                if replaced {
                    done.fired = self.cam.touch(place, offset, bytes.len());
                }
                self.enqueue(Packet {
                    to: from,
                    cargo: Cargo::Answer { tag, accepted },
                    bytes,
                    ..packet
                });
            }
            Cargo::Answer { tag, accepted } => {
                done.answer = Some((tag, accepted.then_some(packet.bytes)));
            }
        }
        done
    }

    /// Sends what the host wants to send; tripwires on what it does to others fire.
    fn send(&mut self, packet: Packet) -> Done {
        let mut done = Done::default();
        let place = Place::Peer {
            host: packet.to,
            region: packet.region,
        };
        if let Cargo::Store { before, after: 0 } = packet.cargo {
            let begin = packet.offset.saturating_sub(before);
            done.fired = self.cam.touch(place, begin, before + packet.bytes.len());
        }
        self.enqueue(packet);
        done
    }

    fn enqueue(&mut self, packet: Packet) {
        self.waiting_bytes += packet.bytes.len();
        let max = bytes_of(self.config.link.payload_max);
        match self.waiting.back_mut() {
            Some(last)
                if (last.to, last.region) == (packet.to, packet.region)
                    && (last.cargo, packet.cargo) == (Cargo::WHOLE, Cargo::WHOLE)
                    && last.offset + last.bytes.len() == packet.offset
                    && last.bytes.len() + packet.bytes.len() <= max =>
            {
                last.bytes.extend_from_slice(&packet.bytes);
            }
            _ => self.waiting.push_back(packet),
        }
    }

    /// Begins to send the next packet if the link is free, and says how long it takes;
    /// then [`Interface::handle_link_free`].
    pub fn poll_link(&mut self) -> Option<(Packet, Duration)> {
        if self.link_busy {
            return None;
        }
        let packet = self.waiting.pop_front()?;
        self.waiting_bytes -= packet.bytes.len();
        self.link_busy = true;
        let payload = ByteSize::from(packet.bytes.len());
        let bytes = payload.as_bytes() + self.config.link.overhead.as_bytes();
        let time = self
            .config
            .link
            .rate
            .time_to_send(ByteSize::from_bytes(bytes));
        self.busy[1] += time;
        Some((packet, time))
    }

    /// The tail of the packet has left.
    pub fn handle_link_free(&mut self) {
        self.link_busy = false;
    }
}

#[cfg(test)]
mod tests {
    use barewire_fabric::memory::Outgoing;
    use barewire_units::Rate;

    use super::*;

    fn interface() -> (Interface, Memory) {
        let memory = Memory::default();
        memory.add_region(4096);
        let config = InterfaceConfig {
            host: HostCosts {
                write_entry: ByteSize::from_bytes(32),
                write_entries: 2,
                poll: Duration::ZERO,
                send: Duration::ZERO,
                receive: Duration::ZERO,
                line: Duration::ZERO,
                dispatch: Duration::ZERO,
                poll_window: Duration::ZERO,
                wake: Duration::ZERO,
            },
            bus: BusConfig {
                clock: Duration::from_ns(30),
                word: ByteSize::from_bytes(8),
                processor_burst: Duration::from_ns(100),
                card_burst: Duration::from_ns(60),
            },
            card: CardConfig {
                latency: Duration::ZERO,
                fifo: ByteSize::from_kib(1),
                cam_entries: 1,
            },
            link: LinkConfig {
                rate: Rate::from_gbps(1),
                payload_max: ByteSize::from_bytes(256),
                overhead: ByteSize::from_bytes(12),
            },
        };
        (Interface::new(config, memory.clone()), memory)
    }

    #[test]
    fn the_processor_waits_for_entries_and_at_a_barrier() {
        let (mut interface, memory) = interface();
        let out = memory.stores(1, 0, 4096);
        out.write(0, &[1; 64]);
        assert!(!interface.post());
        out.publish_u64(64, 1);
        assert!(interface.post(), "two entries before it");
        assert_eq!(interface.poll_bus(), Some(Duration::from_ns(220)));
        interface.handle_burst_end();
        assert!(interface.processor_waits());
        assert_eq!(interface.poll_bus(), Some(Duration::from_ns(220)));
        assert!(interface.processor_waits(), "the second is on the bus");
        interface.handle_burst_end();
        assert!(!interface.processor_waits());
        assert_eq!(interface.poll_bus(), Some(Duration::from_ns(130)));
    }

    #[test]
    fn bursts_in_a_row_share_a_packet_while_the_link_is_busy() {
        let (mut interface, memory) = interface();
        memory.stores(1, 0, 4096).write(0, &[1; 160]);
        interface.post();
        let mut lens = Vec::new();
        while interface.poll_bus().is_some() {
            interface.handle_burst_end();
            lens.extend(interface.poll_link().map(|(packet, _)| packet.bytes.len()));
        }
        interface.handle_link_free();
        let (packet, time) = interface.poll_link().expect("the rest");
        assert_eq!((lens, packet.bytes.len()), (vec![32], 128));
        assert_eq!(time, Duration::from_ns(140 * 8));
    }

    #[test]
    fn an_arrival_is_in_memory_when_its_tripwire_fires() {
        use barewire_fabric::aperture::Mode;
        use barewire_fabric::memory::Incoming;
        let (mut interface, memory) = interface();
        let armed = interface.cam().arm(
            Place::Own(0),
            (8, 8),
            Mode::Sticky,
            Action::Enqueue { cookie: 5 },
        );
        assert!(armed.is_ok());
        let packet = Packet {
            to: 0,
            region: 0,
            offset: 0,
            cargo: Cargo::WHOLE,
            bytes: vec![7; 16],
        };
        interface.handle_packet(packet);
        assert_eq!(interface.poll_bus(), Some(Duration::from_ns(120)));
        assert_eq!(memory.loads(0).read_u64(8), 0);
        let done = interface.handle_burst_end();
        assert_eq!(done.fired, [Action::Enqueue { cookie: 5 }]);
        assert_eq!(memory.loads(0).read_u64(8), u64::from_ne_bytes([7; 8]));
        assert!(interface.is_idle());
    }

    /// Carries packets from one interface to another until nothing is left.
    fn carry(near: &mut Interface, far: &mut Interface) -> (Done, Vec<Packet>) {
        let (mut all, mut carried) = (Done::default(), Vec::new());
        loop {
            while near.poll_bus().is_some() {
                let done = near.handle_burst_end();
                all.fired.extend(done.fired);
            }
            let Some((packet, _)) = near.poll_link() else {
                return (all, carried);
            };
            near.handle_link_free();
            carried.push(packet.clone());
            far.handle_packet(packet);
        }
    }

    #[test]
    fn a_transfer_of_several_packets_fires_once_at_either_end() {
        use barewire_fabric::aperture::Mode;
        let ((mut near, _), (mut far, memory)) = (interface(), interface());
        let out = Place::Peer { host: 1, region: 0 };
        let enqueue = |cookie| Action::Enqueue { cookie };
        let range = (10, 300);
        assert!(near.cam().arm(out, range, Mode::Sticky, enqueue(1)).is_ok());
        let own = Place::Own(0);
        assert!(far.cam().arm(own, range, Mode::Sticky, enqueue(2)).is_ok());
        near.start_transfer(Transfer {
            to: 1,
            region: 0,
            offset: 0,
            bytes: vec![3; 700],
        });
        assert!(!near.has_taken_all());
        let (done, packets) = carry(&mut near, &mut far);
        assert_eq!((done.fired, packets.len()), (vec![enqueue(1)], 3));
        let mut fired = Vec::new();
        while far.poll_bus().is_some() {
            fired.push(far.handle_burst_end().fired);
        }
        assert_eq!(fired, [vec![], vec![], vec![enqueue(2)]], "with the last");
        assert_eq!(memory.used_bytes().1, 700);
        let header = &packets[2].encode(0)[..Packet::HEADER_BYTES];
        let expected = [
            &[1, 0, 0, 0][..],
            &[0; 4],
            &512_u64.to_be_bytes(),
            &512_u32.to_be_bytes(),
            &[0; 4],
        ];
        assert_eq!(header, expected.concat());
    }

    #[test]
    fn an_operation_is_answered_or_refused() {
        let ((mut near, _), (mut far, memory)) = (interface(), interface());
        let ask = |offset, operation: Operation| Packet {
            to: 1,
            region: 0,
            offset,
            cargo: Cargo::Ask {
                from: 0,
                tag: 9,
                operation,
            },
            bytes: operation.operands(),
        };
        let mut answered = |question: Packet| {
            near.ask(question);
            carry(&mut near, &mut far);
            carry(&mut far, &mut near);
            assert!(near.poll_bus().is_some());
            near.handle_burst_end().answer.expect("an answer")
        };
        let zero = Some(vec![0; 8]);
        assert_eq!(answered(ask(8, Operation::Add(5))), (9, zero));
        let five = Some(5_u64.to_ne_bytes().to_vec());
        assert_eq!(answered(ask(8, Operation::Load(8))), (9, five));
        assert_eq!(answered(ask(4090, Operation::Load(8))), (9, None));
        memory.close_region(0);
        assert_eq!(answered(ask(8, Operation::Load(8))), (9, None));
        assert_eq!(far.refused(), 2);
    }
}
