//! What a source changes in pieces on their way out so that fragments are faulty on purpose, and what it sends
//! later or again. Its core knows nothing of it: to the core a fragment is sent when its last piece was taken.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use barewire_proto::evb::BuilderId;

use crate::config::Config;
use crate::faults::{Fault, FaultCounts, Faults};
use crate::limits::EVENT_NUMBERS;
use crate::wire::PieceHeader;

/// The faulty fragments of a source.
pub(super) struct Faulty {
    faults: Faults,
    delay: Duration,
    seed: u64,
    piece_bytes: u64,
    /// To be sent again, at once.
    again: VecDeque<(BuilderId, PieceHeader)>,
    /// To be sent later, in the order of their times.
    late: VecDeque<(Instant, BuilderId, PieceHeader)>,
    /// What was sent faulty, in this run.
    pub counts: FaultCounts,
}

impl Faulty {
    /// `None` if nothing is to be faulty.
    pub fn new(config: &Config) -> Option<Self> {
        let faults = config.faults;
        faults.any().then(|| Self {
            faults,
            delay: crate::clock::system_time(faults.delay),
            seed: config.seed,
            piece_bytes: config.source.piece_bytes,
            again: VecDeque::new(),
            late: VecDeque::new(),
            counts: FaultCounts::default(),
        })
    }

    /// Another run begins.
    pub fn begin(&mut self) {
        self.again.clear();
        self.late.clear();
        self.counts = FaultCounts::default();
    }

    /// What is to be sent now in place of a piece. Its `crc` is what the right check code is mixed with.
    pub fn pass(
        &mut self,
        now: Instant,
        builder: BuilderId,
        mut header: PieceHeader,
    ) -> Option<PieceHeader> {
        let Some(fault) = self.faults.of(self.seed, header.source, header.event) else {
            return Some(header);
        };
        if header.ends() {
            self.counts.note(fault);
        }
        match fault {
            // All of its pieces, so that they are one fragment.
            Fault::Number => header.event += EVENT_NUMBERS,
            _ if !header.ends() => {}
            Fault::Late => {
                self.late.push_back((now + self.delay, builder, header));
                return None;
            }
            Fault::Twice => self.send_again(builder, header),
            Fault::Size if header.fragment_bytes == 0 => {
                (header.fragment_bytes, header.bytes) = (1, 1);
            }
            Fault::Size => {
                header.fragment_bytes -= 1;
                header.bytes -= 1;
            }
            Fault::Check => header.crc = 1,
        }
        Some(header)
    }

    fn send_again(&mut self, builder: BuilderId, header: PieceHeader) {
        let mut offset = 0;
        loop {
            let left = header.fragment_bytes - offset;
            let bytes = u64::from(left).min(self.piece_bytes) as u32;
            let piece = PieceHeader {
                offset,
                bytes,
                ..header
            };
            self.again.push_back((builder, piece));
            offset += bytes;
            if piece.ends() {
                return;
            }
        }
    }

    /// A piece whose time has come, or with `all` any, if there is room on the way to its builder.
    pub fn due(
        &mut self,
        now: Instant,
        all: bool,
        has_room: impl Fn(BuilderId) -> bool,
    ) -> Option<(BuilderId, PieceHeader)> {
        if self.again.front().is_some_and(|it| has_room(it.0)) {
            return self.again.pop_front();
        }
        let is_due =
            |it: &(Instant, BuilderId, PieceHeader)| (all || it.0 <= now) && has_room(it.1);
        match self.late.front().is_some_and(is_due) {
            true => self.late.pop_front().map(|(_, to, header)| (to, header)),
            false => None,
        }
    }

    /// How long until something is due.
    pub fn pause(&self, now: Instant) -> Option<Duration> {
        let first = self.late.front();
        first.map(|it| it.0.saturating_duration_since(now))
    }

    /// Whether nothing is to be sent any more.
    pub fn is_empty(&self) -> bool {
        self.again.is_empty() && self.late.is_empty()
    }
}
