//! The receiving host: a program that reads until nothing comes any more.
//!
//! | operation | before it | what it does |
//! |---|---|---|
//! | input | a block on `Rx_ready` | the segment is in the socket's buffer, still in the card |
//! | acknowledgement | one is due | says what came, and how much more may |
//! | wake | asleep, and data again | the program runs on |
//! | call | the program is between two calls | begins a `recv` |
//! | copy | in a call, and data | the block mover empties a block, or its part of one |
//!
//! The upper comes first. An interrupt is taken for the first of the inputs that follow one
//! another. A call ends when it has as much as it asked for, or all that there is;
//! with nothing at all the program sleeps. The window is looked at when a call ends.
//!
//! A segment that is not the next stays in its block until those before it have come, and
//! is acknowledged at once with what is missing: that is the duplicate by which its
//! sender learns of a loss. So is one that has come before. A single segment is
//! acknowledged when the timer strikes, if there is one.

use std::collections::{BTreeMap, VecDeque};

use barewire_units::{Duration, Instant};

use super::{Acknowledgement, Block, Blocks, Costs, Segment, Stack, Window};

#[derive(Clone, Copy, Debug)]
enum Operation {
    Input(Block, Segment),
    Acknowledgement,
    Wake,
    Call,
    Copy(u64),
}

/// Where the program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    BetweenCalls,
    InCall { left: u64 },
    Asleep { left: u64 },
}

/// The receiving host with its card.
pub struct Receiver {
    costs: Costs,
    stack: Stack,
    call_bytes: u64,
    blocks: Blocks<Segment>,
    window: Window,
    /// The socket's buffer: blocks, and what of each the program has not read.
    socket: VecDeque<(Block, u64)>,
    held_bytes: u64,
    read_bytes: u64,
    program: Program,
    /// Acknowledgements that are to be sent.
    due: u64,
    /// Segments behind one that is missing, by their numbers.
    ahead: BTreeMap<u64, (Block, Segment)>,
    delay: Option<Duration>,
    timer: Option<Instant>,
    in_interrupt: bool,
    operation: Option<Operation>,
    acknowledgements: VecDeque<Acknowledgement>,
    lost: u64,
}

impl Receiver {
    /// A program about to read, `call_bytes` in each call.
    #[must_use]
    pub fn new(costs: Costs, stack: Stack, blocks: u16, window: Window, call_bytes: u64) -> Self {
        Self {
            costs,
            stack,
            call_bytes,
            blocks: Blocks::new(blocks),
            window,
            socket: VecDeque::new(),
            held_bytes: 0,
            read_bytes: 0,
            program: Program::BetweenCalls,
            due: 0,
            ahead: BTreeMap::new(),
            delay: None,
            timer: None,
            in_interrupt: false,
            operation: None,
            acknowledgements: VecDeque::new(),
            lost: 0,
        }
    }

    /// The same, with a timer for the acknowledgement of a single segment.
    #[must_use]
    pub fn with_delay(self, delay: Duration) -> Self {
        Self {
            delay: Some(delay),
            ..self
        }
    }

    /// When [`Receiver::handle_timer`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timer
    }

    /// The deadline has come.
    pub fn handle_timer(&mut self, now: Instant) {
        if self.timer.take_if(|timer| *timer <= now).is_some() {
            self.due = self.due.max(1);
        }
    }

    /// Blocks of the card that hold nothing.
    #[must_use]
    pub fn free_blocks(&self) -> usize {
        self.blocks.free()
    }

    /// Bytes that the program has read.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Segments for which there was no block, or that had come before.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The hardware has a segment, whole: into a free block, and on to `Rx_ready`.
    pub fn handle_segment(&mut self, segment: Segment) {
        match self.blocks.take() {
            Some(block) => self.blocks.push_ready(block, segment),
            None => self.lost += 1,
        }
    }

    /// The acknowledgement that is sent next.
    pub fn poll(&mut self) -> Option<Acknowledgement> {
        self.acknowledgements.pop_front()
    }

    /// Begins the next operation, if the processor is idle and there is one; how long it
    /// takes. [`Receiver::finish`] is due then.
    pub fn start(&mut self) -> Option<Duration> {
        if self.operation.is_some() {
            return None;
        }
        let operation = self.choose();
        let first = !std::mem::replace(
            &mut self.in_interrupt,
            matches!(operation, Some(Operation::Input(..))),
        );
        self.operation = operation;
        let (costs, stack) = (&self.costs, self.stack);
        Some(match operation? {
            Operation::Input(_, segment) => {
                let interrupt = if first {
                    costs.interrupt
                } else {
                    Duration::ZERO
                };
                costs.input(stack, segment.bytes).saturating_add(interrupt)
            }
            Operation::Acknowledgement => costs.acknowledgement_output,
            Operation::Wake => costs.context_switch,
            Operation::Call => costs.system_call,
            Operation::Copy(bytes) => costs.copy_to_program(stack, bytes),
        })
    }

    /// The operation is over.
    pub fn finish(&mut self, now: Instant) {
        match self.operation.take() {
            Some(Operation::Input(block, segment)) => self.input(now, block, segment),
            Some(Operation::Acknowledgement) => {
                self.due = self.due.saturating_sub(1);
                self.timer = None;
                let acknowledgement = self.window.acknowledge(self.held_bytes);
                self.acknowledgements.push_back(acknowledgement);
            }
            Some(Operation::Wake) => {
                if let Program::Asleep { left } = self.program {
                    self.program = Program::InCall { left };
                }
            }
            Some(Operation::Call) => {
                let left = self.call_bytes;
                self.program = Program::InCall { left };
            }
            Some(Operation::Copy(bytes)) => self.copy(bytes),
            None => {}
        }
    }

    fn choose(&mut self) -> Option<Operation> {
        if let Some((block, segment)) = self.blocks.pop_ready() {
            return Some(Operation::Input(block, segment));
        }
        if self.due > 0 {
            return Some(Operation::Acknowledgement);
        }
        let front_bytes = self.socket.front().map(|(_, bytes)| *bytes);
        match (self.program, front_bytes) {
            (Program::BetweenCalls, _) => Some(Operation::Call),
            (Program::Asleep { .. }, Some(_)) => Some(Operation::Wake),
            (Program::Asleep { .. }, None) => None,
            (Program::InCall { left }, Some(bytes)) => Some(Operation::Copy(bytes.min(left))),
            (Program::InCall { left }, None) => {
                self.program = Program::Asleep { left };
                None
            }
        }
    }

    fn input(&mut self, now: Instant, block: Block, segment: Segment) {
        if segment.sequence > self.window.next() {
            if let Some((block, _)) = self.ahead.insert(segment.sequence, (block, segment)) {
                self.blocks.release(block);
                self.lost += 1;
            }
            self.due += 1;
            return;
        }
        if !self.window.handle_segment(segment) {
            self.lost += 1;
            self.blocks.release(block);
            self.due += 1;
            return;
        }
        let filled = !self.ahead.is_empty();
        self.take_in(block, segment);
        while let Some((block, segment)) = self.ahead.remove(&self.window.next()) {
            self.window.handle_segment(segment);
            self.take_in(block, segment);
        }
        if filled || self.window.is_due(self.held_bytes) {
            self.due = self.due.max(1);
        } else if let Some(delay) = self.delay {
            self.timer.get_or_insert(now.saturating_add(delay));
        }
    }

    /// The segment is in the socket's buffer.
    fn take_in(&mut self, block: Block, segment: Segment) {
        self.socket.push_back((block, segment.bytes));
        self.held_bytes += segment.bytes;
    }

    fn copy(&mut self, bytes: u64) {
        self.held_bytes -= bytes;
        self.read_bytes += bytes;
        if let Some((block, left)) = self.socket.front_mut() {
            *left -= bytes;
            if *left == 0 {
                self.blocks.release(*block);
                self.socket.pop_front();
            }
        }
        let Program::InCall { left } = self.program else {
            return;
        };
        let left = left - bytes;
        if left == 0 || self.socket.is_empty() {
            self.program = Program::BetweenCalls;
            if self.window.is_due(self.held_bytes) {
                self.due = self.due.max(1);
            }
        } else {
            self.program = Program::InCall { left };
        }
    }
}
