//! Events for another process of this host, over a queue of the user-level network.
//!
//! The builder listens at `NAME-events-BUILDER`; a [`Consumer`](crate::consumer::Consumer) connects. The
//! newest connection is the one that counts. All numbers are little-endian.
//!
//! | message | bytes | what |
//! |---|---|---|
//! | first to the consumer | 8 | `BWHANDOV` |
//! | | 4 | run |
//! | | 2 | builder |
//! | | 2 | zero |
//! | others to it | at most 32 KiB | records one after the other, as in a file: [`crate::record`] |
//! | from the consumer | 8 | events that it has done with, on this connection |
//!
//! An event is kept until the consumer has done with it. A consumer that comes gets all that are
//! kept, first those that one before it had and had not done with: each event is taken at least
//! once, and twice only by another consumer. With `sink.consumer = "wait"` an event counts as
//! closed when it was taken, so a slow consumer holds back the whole run by `assignment.window`;
//! with `"drop"` what finds no room in `sink.buffer` is dropped with account.

use std::collections::VecDeque;
use std::time::Instant;

use barewire::{Connection, Event, Listener, Node, NodeConfig, Spin};

use super::counts::SinkCounts;
use crate::clock::system_time;
use crate::config::{Config, SinkKind};
use crate::net::{NetError, RETRY};
use crate::record::{self, Stored};

/// First in the first message.
pub(crate) const MAGIC: &[u8; 8] = b"BWHANDOV";
/// Bytes of the first message.
pub(crate) const GREETING_BYTES: usize = 16;
/// Most bytes of a message.
pub(crate) const MESSAGE_BYTES_MAX: usize = 32 << 10;
/// For the words of a consumer.
const RING_BYTES: usize = 64 << 10;
/// Events that wait, however small.
const WAITING_MAX: usize = 1 << 16;

#[derive(Debug)]
struct Kept {
    event: u64,
    record: Vec<u8>,
}

/// A consumer that is connected.
#[derive(Debug)]
struct Taker {
    connection: Connection,
    greeted: bool,
    /// Of the kept events, those that it was sent whole, and bytes of the next one.
    sent: usize,
    sent_bytes: usize,
    /// Events that it has done with.
    done: u64,
}

/// The queue of a builder.
#[derive(Debug)]
pub struct HandOver {
    node: Node,
    _listener: Listener,
    name: String,
    greeting: Vec<u8>,
    requests: Vec<Event>,
    taker: Option<Taker>,
    kept: VecDeque<Kept>,
    kept_bytes: u64,
    message: Vec<u8>,
    /// Drops what does not fit these bytes; `None`: waits.
    room_bytes: Option<u64>,
    end_by: Option<Instant>,
    taken: u64,
    dropped: u64,
}

impl HandOver {
    /// Listens for consumers.
    ///
    /// # Errors
    ///
    /// The name is taken, or the machine refuses something.
    pub fn open(config: &Config, run: u32, builder: u16) -> Result<Self, NetError> {
        let node = Node::with_config(NodeConfig {
            spin: Spin::Never,
            ring_bytes: RING_BYTES,
            ..NodeConfig::default()
        })?;
        let name = name_of(config, builder);
        let mut greeting = MAGIC.to_vec();
        greeting.extend(run.to_le_bytes());
        greeting.extend(builder.to_le_bytes());
        greeting.extend([0; 2]);
        let room_bytes = match config.sink {
            SinkKind::HandOver { room_bytes } => room_bytes,
            _ => None,
        };
        // The name of one that has just died may be taken for a moment.
        let deadline = Instant::now() + system_time(config.patience);
        let listener = loop {
            match node.listen(&name) {
                Err(_) if Instant::now() < deadline => std::thread::sleep(RETRY),
                listener => break listener?,
            }
        };
        Ok(Self {
            node,
            _listener: listener,
            name,
            greeting,
            requests: Vec::new(),
            taker: None,
            kept: VecDeque::new(),
            kept_bytes: 0,
            message: Vec::with_capacity(MESSAGE_BYTES_MAX),
            room_bytes,
            end_by: None,
            taken: 0,
            dropped: 0,
        })
    }

    /// Where consumers connect.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One more event.
    pub fn add(&mut self, event: u64, missing: u32, fragments: &[Stored]) {
        let mut record = Vec::new();
        record::append(&mut record, event, missing, fragments);
        let bytes = record.len() as u64;
        let full = |room| self.kept.len() >= WAITING_MAX || self.kept_bytes + bytes > room;
        if self.room_bytes.is_some_and(full) {
            self.dropped += 1;
            return;
        }
        self.kept_bytes += bytes;
        self.kept.push_back(Kept { event, record });
    }

    /// The first event that is not closed before it was taken.
    pub fn first_awaited(&self) -> Option<u64> {
        let first = self.kept.front().map(|it| it.event);
        first.filter(|_| self.room_bytes.is_none())
    }

    /// What is not taken by then is dropped.
    pub fn end_by(&mut self, deadline: Instant) {
        self.end_by = Some(deadline);
    }

    /// What became of events.
    pub fn sums(&self) -> SinkCounts {
        SinkCounts {
            taken: self.taken,
            dropped: self.dropped,
            waiting: self.kept.len() as u64,
        }
    }

    /// Lets a consumer in, hears and sends.
    ///
    /// # Errors
    ///
    /// Those of the machine.
    pub fn work(&mut self) -> Result<(), NetError> {
        let mut requests = core::mem::take(&mut self.requests);
        self.node.poll(&mut requests, 64)?;
        for event in requests.drain(..) {
            let Event::Request(request) = event else {
                continue;
            };
            // One that has gone meanwhile is no fault of ours.
            if let Ok(connection) = request.accept() {
                self.taker = Some(Taker {
                    connection,
                    greeted: false,
                    sent: 0,
                    sent_bytes: 0,
                    done: 0,
                });
            }
        }
        self.requests = requests;
        // That a consumer has gone, or speaks nonsense, ends its connection and nothing else.
        if self.talk().is_err() {
            self.taker = None;
        }
        if self.end_by.is_some_and(|it| Instant::now() >= it) {
            self.dropped += self.kept.len() as u64;
            self.kept.clear();
            self.kept_bytes = 0;
            self.taker = None;
        }
        Ok(())
    }

    fn talk(&mut self) -> Result<(), Gone> {
        let Some(taker) = &mut self.taker else {
            return Ok(());
        };
        let mut word = [0; 8];
        while let Some(len) = taker.connection.try_recv(&mut word)? {
            let done = u64::from_le_bytes(word);
            let count = done
                .checked_sub(taker.done)
                .filter(|_| len == 8)
                .ok_or(Gone)?;
            let count = usize::try_from(count)
                .ok()
                .filter(|&it| it <= taker.sent)
                .ok_or(Gone)?;
            taker.done = done;
            taker.sent -= count;
            self.taken += count as u64;
            let gone = self.kept.drain(..count);
            self.kept_bytes -= gone.map(|it| it.record.len() as u64).sum::<u64>();
        }
        if !taker.greeted {
            taker.greeted = taker.connection.try_send(&self.greeting)?;
        }
        while taker.greeted && taker.sent < self.kept.len() {
            let (sent, sent_bytes) = gather(&self.kept, taker, &mut self.message);
            if !taker.connection.try_send(&self.message)? {
                break;
            }
            (taker.sent, taker.sent_bytes) = (sent, sent_bytes);
        }
        Ok(())
    }
}

/// A consumer that is there no more, or not one of ours.
struct Gone;

impl From<barewire::Error> for Gone {
    fn from(_: barewire::Error) -> Self {
        Self
    }
}

/// Fills a message with what comes next, and says what is next after that.
fn gather(kept: &VecDeque<Kept>, taker: &Taker, message: &mut Vec<u8>) -> (usize, usize) {
    message.clear();
    let (mut at, mut from) = (taker.sent, taker.sent_bytes);
    while let Some(next) = kept.get(at) {
        let rest = &next.record[from..];
        let count = rest.len().min(MESSAGE_BYTES_MAX - message.len());
        message.extend_from_slice(&rest[..count]);
        if count < rest.len() {
            return (at, from + count);
        }
        (at, from) = (at + 1, 0);
    }
    (at, 0)
}

/// Where consumers of a builder's events connect.
pub(crate) fn name_of(config: &Config, builder: u16) -> String {
    format!("{}-events-{builder}", config.name)
}
