//! One host with its card: what each is at.

use std::collections::VecDeque;

use barewire_models::host::{Bus, Coalescer, Costs, Level, Levels, Memory};
use barewire_models::workbench::{Frame, Framing, Piece, Receiver, Transmitter};
use barewire_units::{Duration, Instant};

use super::super::parameters::Parameters;
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
            Self::SendDriver | Self::TakeDriver => Part::Driver,
            Self::Fill(_) | Self::Read(_) => Part::Words,
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
    /// For a slot of the card.
    Slot,
    /// For room in the transmit FIFO.
    Room,
}

/// The message that the program sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub message: u32,
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

/// A piece that driver or program take from the card.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taking {
    pub piece: Piece,
    /// Bytes of it and its descriptor that are still to be read by words.
    pub left_bytes: u64,
}

/// A host.
pub(crate) struct Station {
    pub(super) parameters: Parameters,
    pub(super) framing: Framing,
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
    pub(super) inbox: VecDeque<u32>,
    pub(super) inbox_bytes: u64,
    pub(super) received_last: bool,

    pub(super) slots_used: usize,
    pub(super) fetching: VecDeque<Fetching>,
    /// Bytes of the burst under way: of all, and of the piece itself.
    pub(super) fetch_burst: Option<(u64, u64)>,
    pub(super) transmitter: Transmitter,
    /// A frame that the card works on, and one that it has made.
    pub(super) making: Option<Frame>,
    pub(super) made: Option<Frame>,
    /// The frame that leaves.
    pub(super) leaving: Option<Frame>,
    pub(super) wire_busy: Duration,

    /// Frames on their way from this card to the switch, and on the last link to it.
    pub(super) to_switch: VecDeque<Frame>,
    pub(super) to_card: VecDeque<Frame>,
    /// Frames that the card looks at, one after the other.
    pub(super) looking: VecDeque<Frame>,
    pub(super) receiver: Receiver,
    pub(super) store_burst: u64,
    pub(super) coalescer: Coalescer,
    pub(super) taking: [Option<Taking>; 2],
    pub(super) interrupts: u64,
}

impl Station {
    pub(super) fn new(parameters: &Parameters) -> Self {
        Self {
            framing: parameters.framing(),
            levels: Levels::new(parameters.host.processors == 2),
            costs: parameters.host.costs,
            memory: parameters.host.memory,
            bus: Bus::new(parameters.host.bus),
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
            slots_used: 0,
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
            taking: [None; 2],
            interrupts: 0,
            parameters: parameters.clone(),
        }
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
    pub(super) fn has_received(&self, polls: bool) -> bool {
        !self.inbox.is_empty() || (polls && self.receiver.waiting() > 0)
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
        self.wire_busy
    }

    /// Interrupts taken.
    pub(crate) fn interrupts(&self) -> u64 {
        self.interrupts
    }

    /// Frames sent, and what became of those received.
    #[cfg(test)]
    pub(crate) fn frames(&self) -> (u64, barewire_models::workbench::ReceiverStats, u64) {
        let (made, open) = (self.transmitter.frames(), self.receiver.open_frames());
        (made, self.receiver.stats(), open)
    }
}
