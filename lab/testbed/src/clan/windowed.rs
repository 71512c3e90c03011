//! A stream that a window bounds: over a socket on Gigabit Ethernet, or over VIA.
//!
//! ```text
//! program ─copy─► buffer ─► frames ─► line ─► card ─(held back)─► copy ─► program
//!                    ▲                                              │
//!                    └────────────── update: so much was read ◄─────┘
//! ```
//!
//! At most a buffer is under way: of a socket the send and the receive buffer, which have
//! the same size; of VIA the receive descriptors that are posted, told to the sender by
//! software. The copies are in and out of it, as for CLAN's Queue.

use barewire_des::{Class, Event, Node, Simulator, World};
use barewire_models::host::Processor;
use barewire_models::parameters;
use barewire_units::{ByteSize, Duration, Instant, Rate};

use crate::figures::us;

parameters! {
    /// What it costs.
    #[derive(Copy)]
    pub struct Stream {
        /// Payload of a frame, or of a descriptor's buffer.
        pub frame: ByteSize,
        /// What a frame has on the line beside it.
        pub overhead: ByteSize,
        pub line: Rate,
        /// Card, switch and line, beside the frame's own time.
        pub one_way: Duration,
        /// How long a card holds its interrupt back.
        pub held_back: Duration,
        /// To send a frame, and to receive one, beside the copy.
        pub send: Duration,
        pub receive: Duration,
        /// To send an update, and to take one in.
        pub update: Duration,
        /// Frames that are read before an update goes back.
        pub frames_per_update: u64,
        pub copy: Rate,
    }
}

#[derive(Clone, Copy, Debug)]
pub enum StreamEvent {
    /// The sender is done with a frame.
    Made,
    /// A frame is in the receiver's card.
    Arrived,
    /// The receiver's card interrupts.
    Interrupt,
    /// The receiver's program has read a frame.
    Read,
    /// So many frames are free again, says an update in the sender's card.
    Update(u64),
    /// The sender has taken it in.
    Opened(u64),
}

impl Event for StreamEvent {
    fn digest(&self) -> u64 {
        match *self {
            Self::Made => 1,
            Self::Arrived => 2,
            Self::Interrupt => 3,
            Self::Read => 4,
            Self::Update(frames) => frames << 8 | 5,
            Self::Opened(frames) => frames << 8 | 6,
        }
    }
}

struct Pair {
    stream: Stream,
    window_frames: u64,
    under_way: u64,
    most: u64,
    making: bool,
    sender: Processor,
    receiver: Processor,
    line_free: Instant,
    interrupt_due: bool,
    on_card: u64,
    unread: u64,
    reading: bool,
    read: u64,
    not_told: u64,
}

/// What a stream gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Streamed {
    /// Of the payload.
    pub mbit_s: f64,
    /// Most payload under way at once.
    pub most_bytes: u64,
    pub hash: u64,
}

/// Streams for so long, the first fifth left out; nothing if no frame fits the buffer.
pub fn run(stream: &Stream, buffer: ByteSize, time: Duration) -> Option<Streamed> {
    let frame = stream.frame.as_bytes();
    let window_frames = buffer.as_bytes() / frame.max(1);
    if window_frames == 0 {
        return None;
    }
    let mut pair = Pair {
        stream: *stream,
        window_frames,
        under_way: 0,
        most: 0,
        making: false,
        sender: Processor::new(),
        receiver: Processor::new(),
        line_free: Instant::ORIGIN,
        interrupt_due: false,
        on_card: 0,
        unread: 0,
        reading: false,
        read: 0,
        not_told: 0,
    };
    let mut sim = Simulator::new();
    pair.make(&mut sim);
    let from = Instant::ORIGIN + time / 5;
    sim.run_until(from, &mut pair);
    let before = pair.read;
    sim.run_until(Instant::ORIGIN + time, &mut pair);
    let bits = (pair.read - before) * frame * 8;
    Some(Streamed {
        mbit_s: bits as f64 / us(sim.now() - from),
        most_bytes: pair.most * frame,
        hash: sim.trace_hash(),
    })
}

impl Pair {
    fn copy(&self) -> Duration {
        self.stream.copy.time_to_send(self.stream.frame)
    }

    fn make(&mut self, sim: &mut Simulator<StreamEvent>) {
        if self.making || self.under_way >= self.window_frames {
            return;
        }
        self.making = true;
        self.under_way += 1;
        self.most = self.most.max(self.under_way);
        let cost = self.stream.send + self.copy();
        let end = self.sender.begin(sim.now(), cost);
        sim.at(end, Class::NORMAL, Node(0), StreamEvent::Made);
    }

    fn made(&mut self, sim: &mut Simulator<StreamEvent>) {
        self.making = false;
        let bytes = self.stream.frame.as_bytes() + self.stream.overhead.as_bytes();
        let time = self.stream.line.time_to_send(ByteSize::from_bytes(bytes));
        self.line_free = self.line_free.max(sim.now()) + time;
        let at = self.line_free + self.stream.one_way;
        sim.at(at, Class::NORMAL, Node(1), StreamEvent::Arrived);
        self.make(sim);
    }

    fn arrived(&mut self, sim: &mut Simulator<StreamEvent>) {
        self.on_card += 1;
        if !self.interrupt_due {
            self.interrupt_due = true;
            let wait = self.stream.held_back;
            sim.after(wait, Class::NORMAL, Node(1), StreamEvent::Interrupt);
        }
    }

    fn read_next(&mut self, sim: &mut Simulator<StreamEvent>) {
        if self.reading || self.unread == 0 {
            return;
        }
        self.reading = true;
        let cost = self.stream.receive + self.copy();
        let end = self.receiver.begin(sim.now(), cost);
        sim.at(end, Class::NORMAL, Node(1), StreamEvent::Read);
    }

    fn has_read(&mut self, sim: &mut Simulator<StreamEvent>) {
        self.reading = false;
        self.unread -= 1;
        self.read += 1;
        self.not_told += 1;
        // With a window of less than that nobody would ever be told.
        let enough = self.stream.frames_per_update.min(self.window_frames);
        if self.not_told >= enough {
            let told = std::mem::take(&mut self.not_told);
            let sent = self.receiver.begin(sim.now(), self.stream.update);
            let at = sent + self.stream.one_way + self.stream.held_back;
            sim.at(at, Class::NORMAL, Node(0), StreamEvent::Update(told));
        }
        self.read_next(sim);
    }
}

impl World for Pair {
    type Event = StreamEvent;

    fn handle(&mut self, event: StreamEvent, sim: &mut Simulator<StreamEvent>) {
        match event {
            StreamEvent::Made => self.made(sim),
            StreamEvent::Arrived => self.arrived(sim),
            StreamEvent::Interrupt => {
                self.interrupt_due = false;
                self.unread += std::mem::take(&mut self.on_card);
                self.read_next(sim);
            }
            StreamEvent::Read => self.has_read(sim),
            StreamEvent::Update(frames) => {
                let end = self.sender.begin(sim.now(), self.stream.update);
                sim.at(end, Class::NORMAL, Node(0), StreamEvent::Opened(frames));
            }
            StreamEvent::Opened(frames) => {
                self.under_way -= frames;
                self.make(sim);
            }
        }
    }
}
