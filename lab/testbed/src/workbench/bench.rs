//! Hosts with cards, the links between them and the switch, driven by the event kernel.
//!
//! | event | what has ended |
//! |---|---|
//! | `Cpu` | an operation of program or handler, if it is time |
//! | `Woken` | the processor has woken up |
//! | `Fetched`, `Stored` | a burst of the card out of the host, into it |
//! | `Made`, `Looked` | the card's work on a frame to send, on one received |
//! | `Sent`, `PortSent` | a frame has left a card, an output of the switch |
//! | `Arrived`, `Switched` | it is at the other card, through the switch |
//! | `Due` | interrupts have been held back long enough |
//! | `Tick` | a time that the experiment has set |
//!
//! A host has one card or several, which share its processor and its bus; one that forwards passes
//! on what comes for others. What a program does is the experiment's matter: it is told of [`Note`]s, and posts
//! messages. Conservation: each message is under way, received, or lost at one [`Place`].

mod forward;
mod receive;
mod send;
mod station;
mod wire;

use std::collections::VecDeque;

use barewire_des::{Class, Event, Node, Simulator, World};
use barewire_models::host::Level;
use barewire_models::output::Output;
use barewire_models::workbench::Frame;
use barewire_units::{Duration, Instant};

use super::capture;
use super::parameters::Parameters;
use super::path::{Part, Paths, StepId};
use crate::experiment::LinkCapture;
use station::{Card, Doing, Station, Waiting};

pub(crate) use station::{At, HostParts};

/// What has ended, at which card, host or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Cpu,
    Woken,
    Fetched,
    Stored,
    Made,
    Looked,
    Sent,
    PortSent,
    Arrived,
    Switched,
    Due,
    /// Something beyond the cards: [`Bench::beyond`].
    Beyond(u32),
    Tick(u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// What is the host's own is said to be at its first card.
    pub at: At,
    pub what: What,
    pub step: StepId,
}

impl Event for Ended {
    fn digest(&self) -> u64 {
        let what = match self.what {
            What::Cpu => 0,
            What::Woken => 1,
            What::Fetched => 2,
            What::Stored => 3,
            What::Made => 4,
            What::Looked => 5,
            What::Sent => 6,
            What::PortSent => 7,
            What::Arrived => 8,
            What::Switched => 9,
            What::Due => 10,
            What::Beyond(number) => 1 << 40 | u64::from(number),
            What::Tick(number) => 11 + u64::from(number),
        };
        u64::from(self.at.card) << 58 | what << 16 | u64::from(self.at.host)
    }
}

pub(crate) type Sim = Simulator<Ended>;

/// Where a message was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The output buffer of the switch.
    Switch,
    /// The receive FIFO of the card.
    Fifo,
    /// The same, because the card had no buffers in the host.
    Buffers,
    /// Before the program that was to receive it.
    Socket,
}

impl Place {
    pub(crate) const ALL: [Self; 4] = [Self::Switch, Self::Fifo, Self::Buffers, Self::Socket];
}

/// What has become of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    UnderWay,
    Lost(Place),
    Received,
}

/// A message. Who it is about, `about`, is the experiment's matter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub from: u16,
    pub to: u16,
    /// The sender's card that it leaves by, where that is not the one towards the receiver.
    pub card: Option<u8>,
    pub bytes: u64,
    pub about: u64,
    pub fate: Fate,
    got_bytes: u64,
}

/// What the experiment is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// The call that sent the message has returned.
    Returned(u32),
    /// The program has the message.
    Received(u32),
    /// The work on it is done.
    Worked(u32),
    /// The time that was set has come.
    Tick(u32),
}

/// An experiment: what the programs do.
pub(crate) trait Job {
    /// Does what follows from `note` at `host`.
    fn note(&mut self, host: u16, note: Note, bench: &mut Bench, sim: &mut Sim);
}

/// Everything on the bench.
pub(crate) struct Bench {
    stations: Vec<Station>,
    /// The outputs of the switch, one for each host; none without a switch.
    ports: Vec<Output<Frame>>,
    pub messages: Vec<Message>,
    pub paths: Paths,
    /// The step that has just ended.
    pub cause: StepId,
    notes: VecDeque<(u16, Note)>,
    /// What cards hand over to a network that is not the bench's own; without one, the bench
    /// carries the frames itself.
    handed: Option<VecDeque<Handed>>,
    /// Messages that were lost, where a network is told of them.
    pub lost: Vec<u32>,
    pub captures: Vec<LinkCapture>,
}

/// What a card tells the network beyond it, where that is not the bench's own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handed {
    /// A frame has begun to leave: the network says when it has left, by
    /// [`Bench::occupy`] or [`Bench::depart`].
    Begins { at: At, frame: Frame, step: StepId },
    /// Its last bit has left.
    Ends { at: At, frame: Frame, step: StepId },
    /// A host has got a message for another, which it passes on.
    Passed { message: u32 },
}

/// The bench and what runs on it.
pub(crate) struct Running<J> {
    pub bench: Bench,
    pub job: J,
}

impl Bench {
    /// So many hosts of the parameters' kind, all asleep; up to `packets` of each link are
    /// recorded.
    pub(crate) fn new(parameters: &Parameters, hosts: u16, packets: usize) -> Self {
        let framing = parameters.framing();
        let switched = hosts > 2 || parameters.switch.between_two;
        let buffer_bytes = parameters.switch.buffer.as_bytes();
        let ports = if switched { hosts } else { 0 };
        let mut captures = Vec::new();
        if packets > 0 {
            let capture = |name| LinkCapture::new(name, capture::link_type(&framing), packets);
            captures.extend((0..hosts).map(|host| capture(format!("from host {host}"))));
            captures.extend((0..ports).map(|port| capture(format!("switch to host {port}"))));
        }
        Self {
            stations: (0..hosts)
                .map(|host| Station::new(parameters, host))
                .collect(),
            ports: (0..ports).map(|_| Output::new(buffer_bytes)).collect(),
            messages: Vec::new(),
            paths: Paths::new(),
            cause: StepId::NONE,
            notes: VecDeque::new(),
            handed: None,
            lost: Vec::new(),
            captures,
        }
    }

    /// Hosts and cards of different kinds, on a network of somebody else: what their cards send
    /// is taken by [`Bench::poll_handed`].
    pub(crate) fn apart(hosts: &[HostParts]) -> Self {
        // The first cards have the numbers of their hosts, the others those behind.
        let mut others = hosts.len() as u16..;
        let station = |(host, parts): (usize, &HostParts)| {
            let mut ids = std::iter::once(host as u16).chain(others.by_ref());
            Station::with(parts, &mut ids)
        };
        Self {
            stations: hosts.iter().enumerate().map(station).collect(),
            ports: Vec::new(),
            messages: Vec::new(),
            paths: Paths::new(),
            cause: StepId::NONE,
            notes: VecDeque::new(),
            handed: Some(VecDeque::new()),
            lost: Vec::new(),
            captures: Vec::new(),
        }
    }

    /// The parameters of a card and its host.
    pub(crate) fn of(&self, at: At) -> &Parameters {
        &self.stations[usize::from(at.host)].cards[usize::from(at.card)].parameters
    }

    fn card(&mut self, at: At) -> &mut Card {
        self.stations[usize::from(at.host)].card(at.card)
    }

    /// What a card has handed over, if the network is not the bench's own.
    pub(crate) fn poll_handed(&mut self) -> Option<Handed> {
        self.handed.as_mut()?.pop_front()
    }

    /// The frame that leaves a card has left at `end`: until then the line is busy, `step`.
    pub(crate) fn occupy(&mut self, at: At, end: Instant, step: StepId, sim: &mut Sim) {
        let card = self.card(at);
        let time = end.saturating_duration_since(sim.now());
        card.wire_busy = card.wire_busy.saturating_add(time);
        self.at(end, at, What::Sent, step, sim);
    }

    /// The frame that leaves a card has left now, `step` being why.
    pub(crate) fn depart(&mut self, at: At, step: StepId, sim: &mut Sim) {
        self.cause = step;
        self.frame_sent(at, sim);
    }

    /// `frame` will have come to the card `to` at `at`, in the order of these calls.
    pub(crate) fn bring(
        &mut self,
        (to, frame): (At, Frame),
        at: Instant,
        step: StepId,
        sim: &mut Sim,
    ) {
        self.card(to).to_card.push_back(frame);
        self.at(at, to, What::Arrived, step, sim);
    }

    /// Tells the network beyond the cards, [`What::Beyond`], in the order of `node`.
    pub(crate) fn beyond(&self, at: Instant, node: u16, number: u32, step: StepId, sim: &mut Sim) {
        self.at(at, At::first(node), What::Beyond(number), step, sim);
    }

    /// What the experiment is to be told next.
    pub(crate) fn poll_note(&mut self) -> Option<(u16, Note)> {
        self.notes.pop_front()
    }

    /// Gives the program at `from` a message to send.
    pub(crate) fn post(&mut self, from: u16, to: u16, bytes: u64, about: u64) -> u32 {
        let number = self.messages.len() as u32;
        self.messages.push(Message {
            from,
            to,
            card: None,
            bytes,
            about,
            fate: Fate::UnderWay,
            got_bytes: 0,
        });
        self.stations[usize::from(from)].outbox.push_back(number);
        number
    }

    /// Messages that the program at `host` has not begun to send.
    pub(crate) fn posted(&self, host: u16) -> usize {
        self.stations[usize::from(host)].outbox.len()
    }

    /// Those messages, the next one first.
    pub(crate) fn outbox(&self, host: u16) -> impl Iterator<Item = u32> {
        self.stations[usize::from(host)].outbox.iter().copied()
    }

    /// Lets the program at `host` work on a message before it does anything else.
    pub(crate) fn work(&mut self, host: u16, message: u32, time: Duration) {
        self.stations[usize::from(host)].work = Some((message, time));
    }

    /// The program at `host` wants no message until it has sent one.
    pub(crate) fn rest(&mut self, host: u16) {
        self.stations[usize::from(host)].rests = true;
    }

    /// Tells the experiment at a time: [`Note::Tick`].
    pub(crate) fn tick(&mut self, host: u16, number: u32, at: Instant, sim: &mut Sim) {
        let step = self.step(Part::Wait, host, sim.now());
        self.at(at, At::first(host), What::Tick(number), step, sim);
    }

    pub(crate) fn station(&self, host: u16) -> &Station {
        &self.stations[usize::from(host)]
    }

    pub(crate) fn port(&self, host: u16) -> Option<&Output<Frame>> {
        self.ports.get(usize::from(host))
    }

    /// Messages with this fate.
    pub(crate) fn count(&self, fate: Fate) -> u64 {
        let with = self.messages.iter().filter(|message| message.fate == fate);
        with.count() as u64
    }

    fn step(&mut self, part: Part, host: u16, start: Instant) -> StepId {
        self.paths.begin(part, host, start, self.cause)
    }

    fn at(&self, time: Instant, at: At, what: What, step: StepId, sim: &mut Sim) {
        sim.at(time, Class::NORMAL, Node(at.host), Ended { at, what, step });
    }

    /// A step that begins now and ends at `end` with an event.
    fn until(&mut self, end: Instant, part: Part, at: At, what: What, sim: &mut Sim) {
        let step = self.step(part, at.host, sim.now());
        self.at(end, at, what, step, sim);
    }

    pub(crate) fn handle(&mut self, Ended { at, what, step }: Ended, sim: &mut Sim) {
        let host = at.host;
        self.cause = step;
        match what {
            What::Cpu => self.processor_done(host, sim),
            What::Woken => self.begin_switch(host, sim),
            What::Fetched => self.fetched(at, sim),
            What::Stored => self.stored(at, sim),
            What::Made => self.frame_made(at, sim),
            What::Looked => self.frame_looked_at(at, sim),
            What::Sent => self.frame_sent(at, sim),
            What::PortSent => self.port_sent(at, sim),
            What::Arrived => self.frame_arrived(at, sim),
            What::Switched => self.frame_switched(at, sim),
            What::Due => self.interrupt_due(at, sim),
            // The network's matter, which looks at it before this does.
            What::Beyond(_) => {}
            What::Tick(number) => self.notes.push_back((host, Note::Tick(number))),
        }
    }

    /// Begins an operation of a level, which is idle.
    fn begin(&mut self, host: u16, level: Level, doing: Doing, cost: Duration, sim: &mut Sim) {
        let step = self.step(doing.part(), host, sim.now());
        let station = &mut self.stations[usize::from(host)];
        station.step[level as usize] = step;
        station.doing[level as usize] = Some(doing);
        station.levels.begin(level, sim.now(), cost);
        station.note_held_up(sim.now());
        self.schedule_processor(host, sim);
    }

    fn schedule_processor(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let deadline = station.levels.next_deadline();
        if let Some(end) = deadline.filter(|_| deadline != station.scheduled) {
            station.scheduled = deadline;
            self.at(end, At::first(host), What::Cpu, StepId::NONE, sim);
        }
    }

    /// It is time for the operation of a level, or was before an interrupt came.
    fn processor_done(&mut self, host: u16, sim: &mut Sim) {
        let now = sim.now();
        let station = &mut self.stations[usize::from(host)];
        if station.scheduled == Some(now) {
            station.scheduled = None;
        }
        if let Some(level) = station.levels.poll(now) {
            self.cause = station.step[level as usize];
            if let Some(doing) = station.doing[level as usize].take() {
                self.done(host, level, doing, sim);
            }
        }
        self.schedule_processor(host, sim);
    }

    fn done(&mut self, host: u16, level: Level, doing: Doing, sim: &mut Sim) {
        match doing {
            Doing::Work(message) => self.tell(host, Note::Worked(message)),
            Doing::SendCall => self.next_piece(host, sim),
            Doing::SendCopy => self.sum_piece(host, sim),
            Doing::SendSum => self.find_slot(host, sim),
            Doing::SendDriver => self.hand_over(host, sim),
            Doing::Fill(bytes) => self.filled(host, bytes, sim),
            Doing::SendReturn => self.send_returned(host),
            Doing::ReceiveCall => self.receive_called(host, sim),
            Doing::Switch => self.begin_receive_return(host, sim),
            Doing::ReceiveReturn => self.copy_out(host, sim),
            Doing::ReceiveCopy => self.received(host),
            Doing::Poll => self.take_piece(host, level, sim),
            Doing::Entry => self.handler_goes_on(host, sim),
            Doing::Read(bytes) => self.piece_read(host, level, bytes, sim),
            Doing::TakeDriver => self.sum_taken(host, level, sim),
            Doing::TakeSum => self.piece_taken(host, level, sim),
            Doing::ForwardDriver => self.forward_handed_over(host, sim),
            Doing::ForwardFill(bytes) => self.forward_filled(host, bytes, sim),
        }
    }

    /// Tells the experiment; the program goes on when it has been told.
    fn tell(&mut self, host: u16, note: Note) {
        self.stations[usize::from(host)].waiting = Waiting::Told;
        self.notes.push_back((host, note));
    }

    /// Lets a program go on that has nothing under way: it works, sends, or receives.
    pub(crate) fn go_on(&mut self, host: u16, sim: &mut Sim) {
        let station = &mut self.stations[usize::from(host)];
        let asked = station.waiting == Waiting::Message
            && (station.work.is_some() || !station.outbox.is_empty());
        if !asked && station.waiting != Waiting::Told {
            return;
        }
        if let Some((message, time)) = station.work.take() {
            station.waiting = Waiting::No;
            self.begin(host, Level::Program, Doing::Work(message), time, sim);
            return;
        }
        // What was received goes before the next that is sent, and the other way round.
        let receives = station.has_received() && !station.received_last;
        if !station.outbox.is_empty() && !receives {
            station.waiting = Waiting::No;
            station.received_last = false;
            station.rests = false;
            self.begin_send(host, sim);
        } else if station.rests {
            station.waiting = Waiting::Message;
        } else {
            self.look_for_message(host, sim);
        }
    }
}

impl<J: Job> World for Running<J> {
    type Event = Ended;

    fn handle(&mut self, event: Ended, sim: &mut Sim) {
        self.bench.handle(event, sim);
        while let Some((host, note)) = self.bench.notes.pop_front() {
            self.job.note(host, note, &mut self.bench, sim);
            self.bench.go_on(host, sim);
        }
    }
}
