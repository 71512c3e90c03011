//! The sending host: a program that sends messages until its time is over.
//!
//! | operation | before it | what it does |
//! |---|---|---|
//! | acknowledgement | one has come | frees the blocks that it covers, moves the window |
//! | output | a segment may go | headers into a block of their own, both to `Tx_ready` |
//! | call | the program is between two calls | begins a `send` |
//! | wake | asleep, and room again | the program runs on |
//! | copy | in a call, and room | fills the block at the end of the queue |
//!
//! The upper comes first. A block is filled by as many messages as it takes to have a whole
//! segment; one that is not whole goes only when nothing is on its way (Nagle), or
//! behind the last message. The program is woken when there is room for a segment, or
//! for what is left of its message.

use std::collections::VecDeque;

use barewire_units::{Duration, Instant};

use super::congestion::{Congestion, Recovery};
use super::{Acknowledgement, Block, Blocks, Costs, Segment, Stack};

/// What a sender is told before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// Way of the data.
    pub stack: Stack,
    /// Blocks of the card.
    pub blocks: u16,
    /// Longest segment.
    pub segment_bytes: u64,
    /// Socket buffer.
    pub buffer_bytes: u64,
    /// Bytes of a message.
    pub message_bytes: u64,
    /// No call begins after this.
    pub until: Instant,
    /// What it does about loss; `None` where nothing is lost.
    pub recovery: Option<Recovery>,
}

/// A segment's worth of data in the card.
#[derive(Clone, Copy, Debug)]
struct Held {
    block: Block,
    segment: Segment,
    /// It need not be sent again, as far as is known.
    sent: bool,
    /// It was sent once, and so does not grow any more.
    fixed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Acknowledgement,
    Output,
    Call,
    Wake,
    Copy(u64),
}

/// The sending host with its card.
pub struct Sender {
    costs: Costs,
    config: SenderConfig,
    blocks: Blocks<Segment>,
    /// In the order of the stream, from the first that is not acknowledged.
    held: VecDeque<Held>,
    acknowledgements: VecDeque<Acknowledgement>,
    acknowledged: u64,
    /// Up to where the receiver lets us send.
    edge: u64,
    /// Bytes that the program has written.
    written: u64,
    left_of_message: u64,
    asleep: bool,
    closed: bool,
    operation: Option<Operation>,
    congestion: Option<Congestion>,
    timer: Option<Instant>,
    timeouts: u64,
    sent_again: u64,
}

impl Sender {
    /// A program about to send; the receiver's window is `window_bytes`.
    #[must_use]
    pub fn new(costs: Costs, config: SenderConfig, window_bytes: u64) -> Self {
        Self {
            costs,
            config,
            blocks: Blocks::new(config.blocks),
            held: VecDeque::new(),
            acknowledgements: VecDeque::new(),
            acknowledged: 0,
            edge: window_bytes,
            written: 0,
            left_of_message: 0,
            asleep: false,
            closed: false,
            operation: None,
            congestion: config
                .recovery
                .map(|recovery| Congestion::new(recovery, config.segment_bytes)),
            timer: None,
            timeouts: 0,
            sent_again: 0,
        }
    }

    /// Segments that were sent again, and times that the timer struck.
    #[must_use]
    pub fn repairs(&self) -> (u64, u64) {
        (self.sent_again, self.timeouts)
    }

    /// When [`Sender::handle_timer`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timer
    }

    /// The deadline has come: what is on its way counts as lost.
    pub fn handle_timer(&mut self, now: Instant) {
        if self.timer.is_none_or(|timer| timer > now) {
            return;
        }
        let flight_bytes = self.flight_bytes();
        let Some(congestion) = &mut self.congestion else {
            return;
        };
        congestion.timed_out(flight_bytes);
        self.timer = Some(congestion.due(now));
        self.timeouts += 1;
        self.held.iter_mut().for_each(|held| held.sent = false);
        let probe = self.acknowledged + self.config.segment_bytes;
        self.edge = self.edge.max(probe);
    }

    /// Bytes that the program has written.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.written
    }

    /// Whether the program is over and all that it wrote is acknowledged or, where nothing is
    /// lost, on its way.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let done = match self.congestion {
            Some(_) => self.held.is_empty(),
            None => self.held.iter().all(|held| held.sent),
        };
        self.closed && self.operation.is_none() && done
    }

    /// An acknowledgement has come.
    pub fn handle_acknowledgement(&mut self, acknowledgement: Acknowledgement) {
        self.acknowledgements.push_back(acknowledgement);
    }

    /// The segment that the hardware sends next, and the block of its headers.
    pub fn poll(&mut self) -> Option<(Block, Segment)> {
        self.blocks.pop_ready()
    }

    /// The hardware has sent it: the headers' block is free.
    pub fn handle_sent(&mut self, headers: Block) {
        self.blocks.release(headers);
    }

    /// Begins the next operation, if the processor is idle and there is one; how long it
    /// takes. [`Sender::finish`] is due then.
    pub fn start(&mut self, now: Instant) -> Option<Duration> {
        if self.operation.is_some() {
            return None;
        }
        let operation = self.choose(now)?;
        self.operation = Some(operation);
        let (costs, stack) = (&self.costs, self.config.stack);
        Some(match operation {
            Operation::Acknowledgement => {
                costs.interrupt.saturating_add(costs.acknowledgement_input)
            }
            Operation::Output => {
                let next = self.held.iter().find(|held| !held.sent);
                costs.output(stack, next.map_or(0, |held| held.segment.bytes))
            }
            Operation::Call => costs.system_call,
            Operation::Wake => costs.context_switch,
            Operation::Copy(bytes) => costs.copy_from_program(stack, bytes),
        })
    }

    /// The operation is over.
    pub fn finish(&mut self, now: Instant) {
        match self.operation.take() {
            Some(Operation::Acknowledgement) => self.acknowledge(now),
            Some(Operation::Output) => self.output(now),
            Some(Operation::Call) => self.left_of_message = self.config.message_bytes,
            Some(Operation::Wake) => self.asleep = false,
            Some(Operation::Copy(bytes)) => self.copy(bytes),
            None => {}
        }
    }

    fn choose(&mut self, now: Instant) -> Option<Operation> {
        if !self.acknowledgements.is_empty() {
            return Some(Operation::Acknowledgement);
        }
        self.closed |= self.left_of_message == 0 && now >= self.config.until;
        if self.may_output() {
            return Some(Operation::Output);
        }
        if self.closed {
            return None;
        }
        if self.left_of_message == 0 {
            return Some(Operation::Call);
        }
        let room = self.room();
        let wanted = self.left_of_message.min(self.config.segment_bytes);
        self.asleep |= room == 0;
        match (self.asleep, room) {
            (true, room) if room > 0 && self.buffer_room() >= wanted => Some(Operation::Wake),
            (true, _) => None,
            (false, room) => Some(Operation::Copy(room)),
        }
    }

    /// Whether the first segment that is not yet sent may go.
    fn may_output(&self) -> bool {
        let Some(held) = self.held.iter().find(|held| !held.sent) else {
            return false;
        };
        let Segment { sequence, bytes } = held.segment;
        let idle = sequence == self.acknowledged;
        let whole = bytes == self.config.segment_bytes || idle || self.closed;
        let end = sequence + bytes;
        whole && end <= self.edge.min(self.congestion_edge()) && self.blocks.free() > 0
    }

    /// Up to where the congestion window lets us send.
    fn congestion_edge(&self) -> u64 {
        self.congestion.map_or(u64::MAX, |congestion| {
            self.acknowledged.saturating_add(congestion.window_bytes())
        })
    }

    /// Bytes that are sent and not acknowledged.
    fn flight_bytes(&self) -> u64 {
        let sent = self.held.iter().filter(|held| held.sent);
        sent.map(|held| held.segment.bytes).sum()
    }

    /// Bytes that the next copy could take. A block is kept back for headers.
    fn room(&self) -> u64 {
        let in_block = match self.held.back() {
            Some(last) if self.is_open(last) => self.config.segment_bytes - last.segment.bytes,
            _ if self.blocks.free() > 1 => self.config.segment_bytes,
            _ => 0,
        };
        in_block.min(self.buffer_room()).min(self.left_of_message)
    }

    fn buffer_room(&self) -> u64 {
        self.acknowledged + self.config.buffer_bytes - self.written
    }

    fn is_open(&self, held: &Held) -> bool {
        !held.fixed && held.segment.bytes < self.config.segment_bytes
    }

    fn copy(&mut self, bytes: u64) {
        self.left_of_message -= bytes;
        let sequence = self.written;
        self.written += bytes;
        let open = self.held.back().is_some_and(|last| self.is_open(last));
        match self.held.back_mut() {
            Some(last) if open => last.segment.bytes += bytes,
            _ => {
                let Some(block) = self.blocks.take() else {
                    return;
                };
                self.held.push_back(Held {
                    block,
                    segment: Segment { sequence, bytes },
                    sent: false,
                    fixed: false,
                });
            }
        }
    }

    fn output(&mut self, now: Instant) {
        let next = self.held.iter_mut().find(|held| !held.sent);
        let (Some(held), Some(headers)) = (next, self.blocks.take()) else {
            return;
        };
        let again = std::mem::replace(&mut held.fixed, true);
        held.sent = true;
        let segment = held.segment;
        self.sent_again += u64::from(again);
        self.blocks.push_ready(headers, segment);
        if let Some(congestion) = &mut self.congestion {
            congestion.sent(now, segment.sequence + segment.bytes, again);
            let due = congestion.due(now);
            self.timer.get_or_insert(due);
        }
    }

    fn acknowledge(&mut self, now: Instant) {
        let Some(acknowledgement) = self.acknowledgements.pop_front() else {
            return;
        };
        let Acknowledgement {
            sequence,
            window_bytes,
        } = acknowledgement;
        let edge = sequence + window_bytes;
        let duplicate = sequence == self.acknowledged && edge <= self.edge;
        let new = sequence > self.acknowledged;
        self.acknowledged = self.acknowledged.max(sequence);
        self.edge = self.edge.max(edge);
        let covered = |held: &Held| held.segment.sequence + held.segment.bytes <= sequence;
        while self.held.front().is_some_and(covered) {
            if let Some(held) = self.held.pop_front() {
                self.blocks.release(held.block);
            }
        }
        let flight_bytes = self.flight_bytes();
        let Some(congestion) = &mut self.congestion else {
            return;
        };
        if new {
            congestion.acknowledged(now, sequence);
            let due = congestion.due(now);
            self.timer = (!self.held.is_empty()).then_some(due);
        } else if duplicate && flight_bytes > 0 && congestion.duplicate(flight_bytes) {
            if let Some(first) = self.held.front_mut() {
                first.sent = false;
            }
        }
    }
}
