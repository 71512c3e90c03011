//! A host that answers requests in the ways that CLAN was measured against: over a socket
//! on Gigabit Ethernet, or over a VIA card.
//!
//! ```text
//! frame ─► card ─(interrupt, held back)─► protocol, per frame ─► socket queue ─► program
//! ```
//!
//! The protocol runs before the program, whatever waits for the program: so with a queue
//! that drops, more load means less service. A VIA card has no interrupt on this path
//! and nothing between card and program, but each message costs a completion of its own.
//! Costs are per message: that is the level at which the source compares.

use std::collections::VecDeque;

use barewire_units::{Duration, Instant};

use crate::host::Processor;

crate::parameters! {
    /// What a message costs.
    #[derive(Copy, PartialEq, Eq)]
    pub struct RivalConfig {
        /// From host to host, which is the way's matter and not the host's.
        pub one_way: Duration,
        /// How long the card holds an interrupt back after the first frame.
        pub held_back: Duration,
        /// Interrupt and protocol, per frame.
        pub protocol: Duration,
        /// The program: receive, answer, send.
        pub program: Duration,
        /// Requests that the socket holds; more are dropped.
        pub queue: usize,
    }
}

/// What the processor has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A frame has gone through the protocol.
    Protocol,
    /// A request has been answered; its tag.
    Answer(u64),
}

/// The host.
#[derive(Debug)]
pub struct Rival {
    config: RivalConfig,
    processor: Processor,
    /// Tags of the requests on the card.
    card: VecDeque<u64>,
    /// When the frames on the card may be taken.
    interrupt: Option<Instant>,
    socket: VecDeque<u64>,
    running: Option<(Task, u64, Instant)>,
    dropped: u64,
}

impl Rival {
    /// A host with nothing to do.
    #[must_use]
    pub const fn new(config: RivalConfig) -> Self {
        Rival {
            config,
            processor: Processor::new(),
            card: VecDeque::new(),
            interrupt: None,
            socket: VecDeque::new(),
            running: None,
            dropped: 0,
        }
    }

    /// A request, named by `tag`, has come in.
    pub fn handle_frame(&mut self, now: Instant, tag: u64) {
        self.card.push_back(tag);
        self.interrupt.get_or_insert(now + self.config.held_back);
        self.begin(now);
    }

    /// Requests that found the socket full.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// When [`Rival::poll`] wants to be called.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        match self.running {
            Some((_, _, end)) => Some(end),
            None if self.card.is_empty() => None,
            None => self.interrupt,
        }
    }

    /// Ends what is over and begins what comes next; says what is over.
    pub fn poll(&mut self, now: Instant) -> Option<Task> {
        let done = match self.running {
            Some((task, tag, end)) if end <= now => {
                self.running = None;
                if task == Task::Protocol {
                    self.enqueue(tag);
                }
                Some(task)
            }
            _ => None,
        };
        self.begin(now);
        done
    }

    fn enqueue(&mut self, tag: u64) {
        if self.socket.len() < self.config.queue {
            self.socket.push_back(tag);
        } else {
            self.dropped += 1;
        }
    }

    fn begin(&mut self, now: Instant) {
        if self.running.is_some() {
            return;
        }
        let due = self.interrupt.is_some_and(|at| at <= now);
        let frame = if due { self.card.pop_front() } else { None };
        if let Some(tag) = frame {
            let end = self.processor.begin(now, self.config.protocol);
            self.running = Some((Task::Protocol, tag, end));
        } else if let Some(tag) = self.socket.pop_front() {
            let end = self.processor.begin(now, self.config.program);
            self.running = Some((Task::Answer(tag), tag, end));
        }
        if due && self.card.is_empty() {
            self.interrupt = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ORIGIN + Duration::from_us(us)
    }

    #[test]
    fn the_protocol_goes_before_the_program_and_a_full_socket_drops() {
        let mut host = Rival::new(RivalConfig {
            one_way: Duration::ZERO,
            held_back: Duration::from_us(5),
            protocol: Duration::from_us(2),
            program: Duration::from_us(10),
            queue: 2,
        });
        for tag in 0..4 {
            host.handle_frame(at(0), tag);
        }
        let mut seen = Vec::new();
        while let Some(deadline) = host.next_deadline() {
            if let Some(task) = host.poll(deadline) {
                seen.push((deadline.since_origin().as_us(), task));
            }
        }
        let protocol = [7, 9, 11, 13].map(|us| (us, Task::Protocol));
        assert_eq!(seen[..4], protocol);
        assert_eq!(seen[4..], [(23, Task::Answer(0)), (33, Task::Answer(1))]);
        assert_eq!(host.dropped(), 2);
    }
}
