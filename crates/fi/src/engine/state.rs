//! What an endpoint knows: its peers and connections, and the operations that have not ended.

use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use barewire::{Connection, ConnectionId, Error, Event, Listener, Node};
use barewire_proto::matching::Matching;

use super::buffers::{Buffers, Released, Share};
use crate::memory::{Context, Lent};
use crate::raw;
use crate::records::{Label, Long, RECORD_BYTES_MAX, Record};
use crate::regions::Regions;

/// How long the names of endpoints are: `fi-`, 8 hexadecimal digits of the process, `-`, 16 random ones.
pub(crate) const NAME_BYTES: usize = 28;

/// The name of an endpoint.
pub(crate) type Name = [u8; NAME_BYTES];

/// An endpoint.
pub(crate) struct Engine {
    pub(crate) node: Node,
    pub(super) _listener: Listener,
    pub(super) name: Name,
    /// By which a receiver makes sure that it reads the memory of this process.
    pub(super) mark: Box<u64>,
    pub(super) peers: Vec<Peer>,
    pub(super) by_name: HashMap<Name, usize>,
    /// By the number of the connection.
    pub(super) links: Vec<Option<Box<Link>>>,
    /// The connection of the last message.
    pub(super) recent: usize,
    /// The connection to look at next.
    pub(super) next_link: usize,
    pub(super) tagged: Matching<Receive, Arrived, Context>,
    pub(super) plain: Matching<Receive, Arrived, Context>,
    /// Those of `plain`.
    pub(super) buffers: Buffers,
    pub(super) regions: Arc<Regions>,
    pub(super) next_number: u64,
    /// Long messages that their receivers do not have yet.
    pub(super) sends: HashMap<u64, LongSend>,
    /// Long messages that come in pieces.
    pub(super) pulls: HashMap<u64, Pulling>,
    /// Peers for which something waits.
    pub(super) busy: Vec<usize>,
    /// What a short record is put together in.
    pub(super) staging: Box<[u8]>,
    /// What a short record is received into.
    pub(super) arriving: Box<[u8]>,
    pub(super) events: Vec<Event>,
    pub(super) turns: u32,
    /// Turns since there was a message in the connection of the last one.
    pub(super) quiet: u32,
    /// What has ended, and must be told.
    pub(crate) ended: Ended,
    /// What has ended, for counters.
    pub(crate) counted: Vec<Counted>,
}

/// What a counter does not know yet of an endpoint that is bound to it.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) counter: usize,
    /// Which operations it counts: `FI_SEND`, `FI_RECV`, `FI_READ`, `FI_WRITE`, `FI_REMOTE_READ`, `FI_REMOTE_WRITE`.
    pub(crate) kinds: u64,
    pub(crate) done: u64,
    pub(crate) failed: u64,
}

/// What has ended at an endpoint, and must be told. If one queue tells the ends of both directions, they are in one list.
#[derive(Default)]
pub(crate) struct Ended {
    pub(crate) lists: [VecDeque<Completion>; 2],
    /// For each direction, which list it uses, if there is a queue for it.
    pub(crate) places: [Option<usize>; 2],
}

/// The places of the directions in [`Ended`].
pub(crate) const RECEIVES: usize = 0;
pub(crate) const SENDS: usize = 1;

impl Ended {
    #[inline]
    pub(super) fn push(&mut self, direction: usize, done: Completion) {
        if let Some(place) = self.places[direction] {
            self.lists[place].push_back(done);
        }
    }
}

/// Another endpoint, or this one as its own peer.
pub(super) struct Peer {
    pub(super) name: Name,
    pub(super) out: Out,
    /// What waits for room, or for the connection.
    pub(super) backlog: VecDeque<Queued>,
    pub(super) reading: Reading,
    /// Its process, as the kernel knows it, once there was a connection.
    pub(super) pid: Option<i32>,
}

/// The way to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Out {
    /// Nothing was sent yet.
    Idle,
    Connecting(ConnectionId),
    /// The number of the connection.
    Open(usize),
    /// It ended, with this error number.
    Lost(c_int),
}

/// Whether the memory of a peer can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Untried,
    Works,
    Refused,
}

/// A connection to a peer.
pub(super) struct Link {
    pub(super) connection: Connection,
    pub(super) peer: usize,
}

/// What waits for room in a connection.
pub(super) enum Queued {
    Record {
        bytes: [u8; RECORD_BYTES_MAX],
        len_bytes: usize,
    },
    /// A record with the bytes that follow it.
    Bytes(Vec<u8>),
    Whole {
        label: Label,
        payload: Payload,
        ending: Ending,
    },
    /// A long message, in pieces: the next byte, and the end.
    Pieces {
        send: u64,
        receive: u64,
        at: usize,
        end: usize,
    },
}

impl From<Record> for Queued {
    fn from(record: Record) -> Queued {
        let mut bytes = [0; RECORD_BYTES_MAX];
        let len_bytes = record.write(&mut bytes);
        Queued::Record { bytes, len_bytes }
    }
}

/// The bytes of a message that waits.
pub(super) enum Payload {
    Lent(Lent),
    /// A copy: the program has its memory back.
    Kept(Vec<u8>),
}

/// How the end of a send is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub(super) context: Context,
    pub(super) report: bool,
    pub(super) flags: u64,
    pub(super) tag: u64,
}

/// What its receiver does not have yet: a long message, or what is written into its memory, or what it reads.
pub(super) struct LongSend {
    pub(super) peer: usize,
    pub(super) memory: Lent,
    /// Nothing is told of the end of what a peer reads.
    pub(super) ending: Option<Ending>,
    /// Whether the receiver has asked for its pieces.
    pub(super) pulled: bool,
    /// The key of the region that a peer reads; 0 if it is a send.
    pub(super) region: u64,
}

/// A receive.
pub(crate) struct Receive {
    pub(crate) memory: Lent,
    pub(crate) context: Context,
    /// Whether success is told.
    pub(crate) report: bool,
    /// What it is of a buffer that takes several messages.
    pub(crate) share: Option<Share>,
}

impl Receive {
    /// Takes out the part for a message of this length, if this is a buffer that then has room for more.
    #[inline]
    pub(super) fn split(&mut self, len_bytes: usize) -> Option<Receive> {
        let share = self.share?;
        let left = self.memory.len_bytes().checked_sub(len_bytes)?;
        (left >= share.bytes_min).then(|| Receive {
            memory: self.memory.take_front(len_bytes),
            context: self.context,
            report: self.report,
            share: Some(Share {
                is_rest: false,
                ..share
            }),
        })
    }
}

/// What comes in pieces.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// A message.
    Message,
    /// What a peer writes into memory of this process.
    Write,
    /// What this process reads from a peer's memory.
    Read(Ending),
}

/// A receive whose message comes in pieces.
pub(super) struct Pulling {
    pub(super) receive: Receive,
    pub(super) purpose: Purpose,
    /// The key of the region that a peer writes into, or 0.
    pub(super) region: u64,
    pub(super) peer: usize,
    pub(super) label: Label,
    pub(super) send: u64,
    pub(super) len_bytes: usize,
    pub(super) at: usize,
    pub(super) wanted: usize,
}

/// A message that arrived before its receive.
pub(super) struct Arrived {
    pub(super) label: Label,
    pub(super) body: Body,
}

pub(super) enum Body {
    Whole(Vec<u8>),
    Long(Long),
}

impl Arrived {
    pub(super) fn len_bytes(&self) -> usize {
        match &self.body {
            Body::Whole(bytes) => bytes.len(),
            Body::Long(long) => usize::try_from(long.len_bytes).unwrap_or(usize::MAX),
        }
    }
}

/// What a completion says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub(crate) context: Context,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: usize,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    /// The peer whose message was received.
    pub(crate) source: Option<u32>,
    /// The error number; 0 if there was no error.
    pub(crate) error: c_int,
    /// Bytes of the message that did not fit.
    pub(crate) over: usize,
}

impl Engine {
    /// The peer of this name.
    pub(crate) fn peer(&mut self, name: &Name) -> usize {
        if let Some(&peer) = self.by_name.get(name) {
            return peer;
        }
        self.peers.push(Peer {
            name: *name,
            out: Out::Idle,
            backlog: VecDeque::new(),
            reading: Reading::Untried,
            pid: None,
        });
        self.by_name.insert(*name, self.peers.len() - 1);
        self.peers.len() - 1
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    pub(super) fn matching(&mut self, tagged: bool) -> &mut Matching<Receive, Arrived, Context> {
        match tagged {
            true => &mut self.tagged,
            false => &mut self.plain,
        }
    }

    /// Counts the end of an operation of one of these kinds.
    #[inline]
    pub(super) fn count(&mut self, kinds: u64, is_failure: bool) {
        for counted in &mut self.counted {
            if counted.kinds & kinds != 0 {
                counted.done += u64::from(!is_failure);
                counted.failed += u64::from(is_failure);
            }
        }
    }

    /// Tells the end of a send.
    #[inline]
    pub(super) fn end_send(&mut self, ending: &Ending, error: Option<c_int>) {
        self.count(ending.flags, error.is_some());
        if ending.report || error.is_some() {
            let done = Completion {
                context: ending.context,
                flags: ending.flags,
                len: 0,
                buf: 0,
                data: 0,
                tag: ending.tag,
                source: None,
                error: error.unwrap_or(0),
                over: 0,
            };
            self.ended.push(SENDS, done);
        }
    }

    /// Tells the end of a receive: `len` bytes of a message of `sent` came.
    #[inline]
    pub(super) fn end_receive(
        &mut self,
        receive: &Receive,
        label: &Label,
        peer: usize,
        sent: usize,
    ) {
        let len = sent.min(receive.memory.len_bytes());
        let over = sent - len;
        self.count(raw::FI_RECV, over > 0);
        let share = receive.share;
        let mut released = share.and_then(|share| self.buffers.end(share));
        if receive.report || over > 0 {
            let mut done = received(receive.context, label, Some(peer as u32));
            done.len = len;
            done.buf = receive.memory.start().expose_provenance();
            if over > 0 {
                (done.error, done.over) = (raw::FI_ETRUNC, over);
            } else if released.is_some_and(|released| released.error.is_none()) {
                done.flags |= raw::FI_MULTI_RECV;
                released = None;
            }
            self.ended.push(RECEIVES, done);
        }
        self.tell_released(receive.context, released);
    }

    /// Tells that the program has a buffer back.
    fn tell_released(&mut self, context: Context, released: Option<Released>) {
        let Some(released) = released else {
            return;
        };
        let label = Label {
            tag: None,
            data: None,
        };
        let mut done = received(context, &label, None);
        done.flags = match released.error {
            Some(error) => {
                self.count(raw::FI_RECV, true);
                done.error = error;
                done.flags | raw::FI_MULTI_RECV
            }
            None => raw::FI_MULTI_RECV,
        };
        self.ended.push(RECEIVES, done);
    }

    /// Tells that a receive ended whose message did not come to its end.
    pub(super) fn lose_receive(&mut self, receive: &Receive, label: &Label, error: c_int) {
        self.fail_receive(receive.context, label, error);
        let released = receive.share.and_then(|share| self.buffers.end(share));
        self.tell_released(receive.context, released);
    }

    /// Tells that a posted receive gets no message any more.
    pub(super) fn withdraw_receive(&mut self, receive: &Receive, label: &Label, error: c_int) {
        match receive.share {
            Some(share) => {
                let released = self.buffers.withdraw(share, error);
                self.tell_released(receive.context, released);
            }
            None => self.fail_receive(receive.context, label, error),
        }
    }

    /// Tells that a receive ended without a message.
    pub(super) fn fail_receive(&mut self, context: Context, label: &Label, error: c_int) {
        // A peek that has found nothing is no receive.
        if error != raw::FI_ENOMSG {
            self.count(raw::FI_RECV, true);
        }
        let mut done = received(context, label, None);
        done.error = error;
        self.ended.push(RECEIVES, done);
    }

    /// Tells of a message that waits for its receive.
    pub(super) fn tell_found(&mut self, done: Completion) {
        self.ended.push(RECEIVES, done);
    }

    /// The name of a peer.
    pub(crate) fn name_of(&self, peer: u32) -> Option<Name> {
        self.peers.get(peer as usize).map(|peer| peer.name)
    }
}

/// The completion of a receive, without what is not always there.
#[inline]
pub(super) fn received(context: Context, label: &Label, source: Option<u32>) -> Completion {
    let kind = match label.tag {
        Some(_) => raw::FI_TAGGED,
        None => raw::FI_MSG,
    };
    let data = match label.data {
        Some(_) => raw::FI_REMOTE_CQ_DATA,
        None => 0,
    };
    Completion {
        context,
        flags: raw::FI_RECV | kind | data,
        len: 0,
        buf: 0,
        data: label.data.unwrap_or_default().into(),
        tag: label.tag.unwrap_or_default(),
        source,
        error: 0,
        over: 0,
    }
}

/// libfabric's number for an error of the network.
pub(super) fn error_number(error: &Error) -> c_int {
    match error {
        Error::PeerGone | Error::PeerDied { .. } | Error::Finished => raw::FI_ECONNRESET,
        Error::NoSuchName { .. } | Error::Refused { .. } => raw::FI_EHOSTUNREACH,
        _ => raw::FI_EOTHER,
    }
}

/// A number of memory that is only told.
pub(crate) fn pointer(address: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address)
}
