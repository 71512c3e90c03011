//! Connections between sources and builders: the sender and receiver of the KEK model, and which
//! fragment ends where in the stream.

use crate::kek::ethernet::RUN;
use std::collections::{BTreeMap, VecDeque};

use barewire_models::tcp::{Receiver, ReceiverConfig, Sender, SenderConfig};
use barewire_proto::evb::{BuilderId, Fragment, Piece, SourceId};
use barewire_units::{Duration, Instant};

/// A connection, both ends of it.
pub struct Connection {
    pub source: u16,
    pub builder: u16,
    pub sender: Sender,
    pub receiver: Receiver,
    written: u64,
    /// Bytes that were sent once at least.
    sent: u64,
    /// Where fragments end that were not delivered.
    ends: VecDeque<(u64, Fragment)>,
    /// Among the source's connections that may have something to send.
    pub queued: bool,
    /// The source was told that there is no room.
    pub full: bool,
    /// When each end's timer fires, if it is set.
    pub sender_tick: Option<Instant>,
    pub receiver_tick: Option<Instant>,
}

impl Connection {
    /// The source writes a piece.
    pub fn write(&mut self, piece: &Piece) {
        self.sender.write(piece.bytes, piece.ends());
        self.written += piece.bytes;
        if piece.ends() {
            let fragment = Fragment {
                run: RUN,
                event: piece.event,
                source: SourceId(self.source),
                sequence: piece.sequence,
                bytes: piece.fragment_bytes,
                intact: true,
            };
            self.ends.push_back((self.written, fragment));
        }
    }

    /// Notes a segment that goes; whether one like it has gone before.
    pub fn note_sent(&mut self, seq: u64, len: u64) -> bool {
        let again = seq < self.sent;
        self.sent = self.sent.max(seq + len);
        again
    }

    /// The next fragment that the builder has read whole.
    pub fn delivered(&mut self) -> Option<Fragment> {
        let &(end, fragment) = self.ends.front()?;
        if end > self.receiver.read_bytes() {
            return None;
        }
        self.ends.pop_front();
        Some(fragment)
    }
}

/// All connections that were used.
pub struct Connections {
    configs: (SenderConfig, ReceiverConfig),
    index: BTreeMap<(u16, u16), u32>,
    all: Vec<Connection>,
}

impl Connections {
    pub const fn new(configs: (SenderConfig, ReceiverConfig)) -> Self {
        Self {
            configs,
            index: BTreeMap::new(),
            all: Vec::new(),
        }
    }

    /// The connection from `source` to `builder`; set up if this is its first use.
    pub fn between(&mut self, source: u16, builder: BuilderId) -> u32 {
        let (sender, receiver) = self.configs;
        let all = &mut self.all;
        let entry = self.index.entry((source, builder.0));
        *entry.or_insert_with(|| {
            all.push(Connection {
                source,
                builder: builder.0,
                sender: Sender::new(sender, receiver.buffer_bytes),
                receiver: Receiver::new(receiver),
                written: 0,
                sent: 0,
                ends: VecDeque::new(),
                queued: false,
                full: false,
                sender_tick: None,
                receiver_tick: None,
            });
            // At most 2000 x 2000.
            all.len() as u32 - 1
        })
    }

    pub fn at(&mut self, number: u32) -> &mut Connection {
        &mut self.all[number as usize]
    }
}

/// The first tick of the kernels' timers at or after `at`.
pub fn tick_from(at: Instant, tick: Duration) -> Instant {
    let (at, tick) = (at.since_origin().as_ps(), tick.as_ps().max(1));
    Instant::from_ps(at.div_ceil(tick).saturating_mul(tick))
}
