//! What runs on a workstation: programs that send and receive blocks.
//!
//! A program is asked what it does next whenever it has nothing to do ([`Runs::next`]), and
//! told what came of it. What its calls cost is the node's.

use std::collections::VecDeque;

use barewire_units::{Duration, Instant, Rng};

use super::running::{Runs, Step};
use super::tcp::{TcpConfig, TcpReceiver, TcpSender};

/// What runs on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Sends blocks, one call after the other; between them it takes what has come.
    Transmit {
        /// Blocks to send.
        blocks: usize,
        /// Their size.
        block_bytes: usize,
    },
    /// Sends a block, waits for it to come back, and begins again.
    Ping {
        /// Blocks to send.
        blocks: usize,
        /// Their size.
        block_bytes: usize,
        /// After how long it gives a block up; `None` for never.
        patience: Option<Duration>,
    },
    /// Sends back what it receives.
    Echo,
    /// Sends what it is handed from outside the model ([`super::Node::send_from_outside`]), and
    /// hands out what it receives ([`super::Node::poll_outside`]).
    Outside,
    /// Sends a stream by TCP.
    TcpSend(TcpConfig),
    /// Receives it.
    TcpReceive(TcpConfig),
}

impl Program {
    /// Lets it run; `rng` fills its blocks.
    pub(super) fn begin(self, rng: Rng) -> Box<dyn Runs> {
        match self {
            Self::Transmit {
                blocks,
                block_bytes,
            } => Box::new(Transmit {
                left: blocks,
                block_bytes,
                rng,
            }),
            Self::Ping {
                blocks,
                block_bytes,
                patience,
            } => Box::new(Ping {
                left: blocks,
                patience: patience.unwrap_or(Duration::MAX),
                block: vec![0; block_bytes],
                give_up_at: None,
                rng,
            }),
            Self::Echo => Box::new(Echo { reply: None }),
            Self::Outside => Box::new(Outside::default()),
            Self::TcpSend(config) => Box::new(TcpSender::new(config)),
            Self::TcpReceive(config) => Box::new(TcpReceiver::new(config)),
        }
    }
}

struct Transmit {
    left: usize,
    block_bytes: usize,
    rng: Rng,
}

impl Runs for Transmit {
    fn next(&mut self, _now: Instant) -> Step {
        if self.left == 0 {
            return Step::Wait;
        }
        let mut block = vec![0; self.block_bytes];
        self.rng.fill_bytes(&mut block);
        Step::Send(block)
    }

    fn handle_sent(&mut self) {
        self.left -= 1;
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }
}

struct Ping {
    /// Blocks that are not back yet, the one under way included.
    left: usize,
    patience: Duration,
    block: Vec<u8>,
    /// A block is under way.
    give_up_at: Option<Instant>,
    rng: Rng,
}

impl Runs for Ping {
    fn next(&mut self, now: Instant) -> Step {
        if self.give_up_at.is_some_and(|at| at <= now) {
            self.give_up_at = None;
            self.left -= 1;
        }
        if self.left == 0 || self.give_up_at.is_some() {
            return Step::Wait;
        }
        self.give_up_at = Some(now.saturating_add(self.patience));
        self.rng.fill_bytes(&mut self.block);
        Step::Send(self.block.clone())
    }

    fn handle_block(&mut self, _now: Instant, block: Vec<u8>) -> bool {
        let intact = self.give_up_at.is_some() && block == self.block;
        if intact {
            self.give_up_at = None;
            self.left -= 1;
        }
        intact
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.give_up_at.filter(|&at| at != Instant::MAX)
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }
}

struct Echo {
    reply: Option<Vec<u8>>,
}

impl Runs for Echo {
    fn next(&mut self, _now: Instant) -> Step {
        self.reply.take().map_or(Step::Wait, Step::Send)
    }

    fn takes_blocks(&self) -> bool {
        self.reply.is_none()
    }

    fn handle_block(&mut self, _now: Instant, block: Vec<u8>) -> bool {
        self.reply = Some(block);
        true
    }
}

#[derive(Default)]
struct Outside {
    to_send: Option<Vec<u8>>,
    received: VecDeque<Vec<u8>>,
}

impl Runs for Outside {
    fn next(&mut self, _now: Instant) -> Step {
        self.to_send.take().map_or(Step::Wait, Step::Send)
    }

    fn handle_block(&mut self, _now: Instant, block: Vec<u8>) -> bool {
        self.received.push_back(block);
        true
    }

    fn takes_from_outside(&self) -> bool {
        self.to_send.is_none()
    }

    fn handle_from_outside(&mut self, block: Vec<u8>) {
        self.to_send = Some(block);
    }

    fn poll_outside(&mut self) -> Option<Vec<u8>> {
        self.received.pop_front()
    }
}
