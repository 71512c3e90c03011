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
}

/// A segment's worth of data in the card.
#[derive(Clone, Copy, Debug)]
struct Held {
    block: Block,
    segment: Segment,
    sent: bool,
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
        }
    }

    /// Bytes that the program has written.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.written
    }

    /// Whether the program is over and all that it wrote is acknowledged or on its way.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.closed && self.operation.is_none() && self.held.iter().all(|held| held.sent)
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
    pub fn finish(&mut self) {
        match self.operation.take() {
            Some(Operation::Acknowledgement) => self.acknowledge(),
            Some(Operation::Output) => self.output(),
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
        whole && sequence + bytes <= self.edge && self.blocks.free() > 0
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
        !held.sent && held.segment.bytes < self.config.segment_bytes
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
                });
            }
        }
    }

    fn output(&mut self) {
        let next = self.held.iter_mut().find(|held| !held.sent);
        if let (Some(held), Some(headers)) = (next, self.blocks.take()) {
            held.sent = true;
            self.blocks.push_ready(headers, held.segment);
        }
    }

    fn acknowledge(&mut self) {
        let Some(acknowledgement) = self.acknowledgements.pop_front() else {
            return;
        };
        let Acknowledgement {
            sequence,
            window_bytes,
        } = acknowledgement;
        self.acknowledged = self.acknowledged.max(sequence);
        self.edge = self.edge.max(sequence + window_bytes);
        let covered = |held: &Held| held.segment.sequence + held.segment.bytes <= sequence;
        while self.held.front().is_some_and(covered) {
            if let Some(held) = self.held.pop_front() {
                self.blocks.release(held.block);
            }
        }
    }
}
