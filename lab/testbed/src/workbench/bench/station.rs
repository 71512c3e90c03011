//! One host with its cards: what each is at. The cards share the processor, the memory and the bus.

use std::collections::VecDeque;

use barewire_models::host::{Bus, Coalescer, Costs, Level, Levels, Memory};
use barewire_models::workbench::{Frame, Framing, Piece, Receiver, Transmitter};
use barewire_units::{Duration, Instant};

use super::super::parameters::{By, Parameters};
use super::super::path::{Part, StepId};

/// An operation of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// The program's work on a message.
    Work(u32),
    SendCall,
    SendCopy,
    SendSum,
    SendDriver,
    /// So many bytes of the piece to the card, by words or stores.
    Fill(u64),
    SendReturn,
    ReceiveCall,
    Switch,
    ReceiveReturn,
    ReceiveCopy,
    /// A look by a program that polls.
    Poll,
    /// The driver's work on a piece that is passed on.
    ForwardDriver,
    /// So many bytes of it to the card, by words or stores.
    ForwardFill(u64),
    /// The entry of the handler.
    Entry,
    /// So many bytes of a piece from the card, by words.
    Read(u64),
    TakeDriver,
    TakeSum,
}

impl Doing {
    pub(super) const fn part(self) -> Part {
        match self {
            Self::Work(_) => Part::Program,
            Self::SendCall | Self::SendReturn | Self::ReceiveCall | Self::ReceiveReturn => {
                Part::Call
            }
            Self::SendCopy | Self::ReceiveCopy => Part::Copy,
            Self::SendSum | Self::TakeSum => Part::Checksum,
            Self::SendDriver | Self::TakeDriver | Self::ForwardDriver => Part::Driver,
            Self::Fill(_) | Self::Read(_) | Self::ForwardFill(_) => Part::Words,
            Self::Switch | Self::Poll => Part::Wake,
            Self::Entry => Part::Interrupt,
        }
    }
}

/// What the program waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// For nothing: it has an operation.
    No,
    /// For the experiment, which has been told something.
    Told,
    /// For a message: it sleeps, or polls.
    Message,
    /// For its processor to wake up.
    Processor,
    /// For a slot of the card, or for the handler to be done with its own words to it.
    Slot,
    /// For room in the transmit FIFO.
    Room,
}

/// A card of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub host: u16,
    /// 0 for the first of the host's, or its only one.
    pub card: u8,
}

impl At {
    /// The first card of a host.
    pub(crate) const fn first(host: u16) -> Self {
        Self { host, card: 0 }
    }
}

/// A host of a network that is not the bench's own.
#[derive(Clone, Debug)]
pub(crate) struct HostParts {
    /// Of each card; the host's own part is the same in all of them.
    pub cards: Vec<Parameters>,
    /// For each host, the card towards it. A host with one card needs none.
    pub ways: Vec<u8>,
    /// Bytes of messages for others that wait for a card, if it passes them on.
    pub forwards: Option<u64>,
}

/// A message that leaves by a card, from the program or passed on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub message: u32,
    pub card: u8,
    pub piece: Piece,
    /// Bytes of the piece and its descriptor that the processor has moved.
    pub filled_bytes: u64,
}

/// A piece that the card fetches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetching {
    /// Of its descriptor and of itself.
    pub left_bytes: u64,
    /// Of itself.
    pub payload_bytes: u64,
}

/// A piece that driver or program take from a card.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taking {
    pub card: u8,
    pub piece: Piece,
    /// Bytes of it and its descriptor that are still to be read by words.
    pub left_bytes: u64,
}

/// Messages of others that wait for a card, of a host that forwards.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub waiting: VecDeque<u32>,
    /// Of those that wait, and of the one under way.
    pub held_bytes: u64,
    /// The one under way.
    pub now: Option<Sending>,
}

/// What a host has passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Forwarded {
    pub messages: u64,
    /// Messages for which no room was left.
    pub lost: u64,
    /// The most that waited for one card.
    pub highest_bytes: u64,
}

/// A card.
pub(super) struct Card {
    pub parameters: Parameters,
    pub framing: Framing,
    /// What its frames say they are from: different for each card of all hosts.
    pub id: u16,
    pub slots_used: usize,
    /// Whose words go to it: those of a piece are not mixed with those of another.
    pub filled_by: Option<Level>,
    pub fetching: VecDeque<Fetching>,
    /// Bytes of the burst under way: of all, and of the piece itself.
    pub fetch_burst: Option<(u64, u64)>,
    pub transmitter: Transmitter,
    /// A frame that the card works on, and one that it has made.
    pub making: Option<Frame>,
    pub made: Option<Frame>,
    /// The frame that leaves.
    pub leaving: Option<Frame>,
    pub wire_busy: Duration,

    /// Frames on their way from this card to the switch, and on the last link to it.
    pub to_switch: VecDeque<Frame>,
    pub to_card: VecDeque<Frame>,
    /// Frames that the card looks at, one after the other.
    pub looking: VecDeque<Frame>,
    pub receiver: Receiver,
    pub store_burst: u64,
    pub coalescer: Coalescer,
    /// Its interrupt waits for the handler, which is at another card.
    pub interrupts: bool,
    pub queue: Queue,
}

impl Card {
    fn new(parameters: &Parameters, id: u16) -> Self {
        Self {
            framing: parameters.framing(),
            id,
            slots_used: 0,
            filled_by: None,
            fetching: VecDeque::new(),
            fetch_burst: None,
            transmitter: Transmitter::new(parameters.transmitter()),
            making: None,
            made: None,
            leaving: None,
            wire_busy: Duration::ZERO,
            to_switch: VecDeque::new(),
            to_card: VecDeque::new(),
            looking: VecDeque::new(),
            receiver: Receiver::new(parameters.receiver()),
            store_burst: 0,
            coalescer: Coalescer::new(parameters.coalesce()),
            interrupts: false,
            queue: Queue::default(),
            parameters: parameters.clone(),
        }
    }
}

/// A host: what its cards share.
pub(crate) struct Station {
    pub(super) cards: Vec<Card>,
    /// For each host, the card towards it; empty, and the first leads to all.
    ways: Vec<u8>,
    /// Whether its program polls its cards.
    pub(super) polls: bool,
    pub(super) levels: Levels,
    pub(super) costs: Costs,
    pub(super) memory: Memory,
    pub(super) bus: Bus,
    /// By level: the operation under way, and its step.
    pub(super) doing: [Option<Doing>; 2],
    pub(super) step: [StepId; 2],
    /// The program's step that an interrupt holds up, and since when.
    pub(super) held_up: Option<(StepId, Instant)>,
    /// For when the last event of the processor was scheduled.
    pub(super) scheduled: Option<Instant>,

    pub(super) waiting: Waiting,
    pub(super) outbox: VecDeque<u32>,
    /// The program wants no message until it has sent one.
    pub(super) rests: bool,
    pub(super) work: Option<(u32, Duration)>,
    pub(super) sending: Option<Sending>,
    /// Messages for the program, each with the card that it came by.
    pub(super) inbox: VecDeque<(u32, u8)>,
    pub(super) inbox_bytes: u64,
    pub(super) received_last: bool,

    pub(super) taking: [Option<Taking>; 2],
    /// The card that the handler is at, and the one that is looked at next by a poll.
    pub(super) serving: u8,
    pub(super) polled: u8,
    pub(super) interrupts: u64,

    /// Bytes that wait for each card, of a host that forwards.
    pub(super) forwards: Option<u64>,
    /// The card that the handler passes something on to.
    pub(super) forwarding: u8,
    pub(super) forwarded: Forwarded,
}

impl Station {
    /// A host with one card; `host` is its number.
    pub(super) fn new(parameters: &Parameters, host: u16) -> Self {
        let parts = HostParts {
            cards: vec![parameters.clone()],
            ways: Vec::new(),
            forwards: None,
        };
        Self::with(&parts, &mut std::iter::once(host))
    }

    /// A host with its cards, each with one of `ids`; it has one at least.
    pub(super) fn with(parts: &HostParts, ids: &mut dyn Iterator<Item = u16>) -> Self {
        let cards = parts.cards.iter().zip(ids);
        let own = &parts.cards[0];
        Self {
            cards: cards.map(|(card, id)| Card::new(card, id)).collect(),
            ways: parts.ways.clone(),
            polls: own.notice.by == By::Poll,
            levels: Levels::new(own.host.processors == 2),
            costs: own.host.costs,
            memory: own.host.memory,
            bus: Bus::new(own.host.bus),
            doing: [None; 2],
            step: [StepId::NONE; 2],
            held_up: None,
            scheduled: None,
            waiting: Waiting::Message,
            outbox: VecDeque::new(),
            rests: false,
            work: None,
            sending: None,
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            received_last: false,
            taking: [None; 2],
            serving: 0,
            polled: 0,
            interrupts: 0,
            forwards: parts.forwards,
            forwarding: 0,
            forwarded: Forwarded::default(),
        }
    }

    pub(super) fn card(&mut self, card: u8) -> &mut Card {
        &mut self.cards[usize::from(card)]
    }

    /// The card by which messages go to a host.
    pub(super) fn way(&self, to: u16) -> u8 {
        self.ways.get(usize::from(to)).copied().unwrap_or(0)
    }

    /// Cards in turn, from `first` on.
    pub(super) fn turn(&self, first: u8) -> impl Iterator<Item = u8> + use<> {
        let all = self.cards.len() as u8;
        (first..all).chain(0..first.min(all))
    }

    /// Whether the handler looks at a card in any case: it is there, or has been asked to come.
    pub(super) fn is_served(&self, card: u8) -> bool {
        let is_there = !self.levels.is_idle(Level::Handler) && self.serving == card;
        is_there || self.cards[usize::from(card)].interrupts
    }

    /// Notes that the handler works, if it does, while the program has something to do.
    pub(super) fn note_held_up(&mut self, now: Instant) {
        let both = self.doing.iter().all(Option::is_some);
        if both && !self.levels.has_two_processors() && self.held_up.is_none() {
            self.held_up = Some((self.step[Level::Program as usize], now));
        }
    }

    /// Whether there is something for the program: what its system has for it, or, for one
    /// that polls, what the card has.
    pub(super) fn has_received(&self) -> bool {
        !self.inbox.is_empty() || (self.polls && self.has_pieces())
    }

    /// Whether a card has a whole piece for the host.
    pub(super) fn has_pieces(&self) -> bool {
        self.cards.iter().any(|card| card.receiver.waiting() > 0)
    }

    /// Time of all operations of its processors.
    pub(crate) fn busy_time(&self) -> Duration {
        let program = self.levels.busy_time(Level::Program);
        program.saturating_add(self.levels.busy_time(Level::Handler))
    }

    /// Time of all transfers on its bus.
    pub(crate) fn bus_time(&self) -> Duration {
        self.bus.busy_time()
    }

    /// Time that its frames have taken on the link.
    pub(crate) fn wire_time(&self) -> Duration {
        let times = self.cards.iter().map(|card| card.wire_busy);
        times.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Interrupts taken.
    pub(crate) fn interrupts(&self) -> u64 {
        self.interrupts
    }

    /// What it has passed on, if it forwards.
    pub(crate) fn forwarded(&self) -> Option<Forwarded> {
        self.forwards.map(|_| self.forwarded)
    }

    /// Frames sent by the first card, and what became of those that it received.
    #[cfg(test)]
    pub(crate) fn frames(&self) -> (u64, barewire_models::workbench::ReceiverStats, u64) {
        let Card {
            transmitter,
            receiver,
            ..
        } = &self.cards[0];
        (
            transmitter.frames(),
            receiver.stats(),
            receiver.open_frames(),
        )
    }
}
