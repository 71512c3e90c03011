//! What a NIC knows: VIs, completion queues, registered memory, listeners, and what programs are to hear.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Instant;

use barewire::{Connection, ConnectionId, Event, Listener, Node, Request};
use barewire_proto::via::credit::{Credit, Offered};
use barewire_proto::via::descriptor::{Limits, Side, Work};
use barewire_proto::via::protection::Regions;
use barewire_proto::via::queue::WorkQueue;
use barewire_proto::via::state::ViState;

use crate::memory::Descriptor;
use crate::raw::{AsyncError, Code, CqHandler, ErrorHandler, UNRELIABLE, ViHandler};
use crate::records::{Asked, Told};

/// Most bytes of one transfer.
pub(crate) const TRANSFER_BYTES_MAX: u32 = 64 << 10;
/// The receive ring of a connection: a quarter of it takes the longest record. Its pages are taken as they are used.
pub(crate) const RING_BYTES: usize = 512 << 10;
/// Most descriptors in a work queue.
pub(crate) const DESCRIPTORS_MAX: u32 = 1024;
/// Most VIs, completion queues, protection tags of a NIC.
pub(crate) const OBJECTS_MAX: usize = 1024;
/// Most regions of a NIC.
pub(crate) const REGIONS_MAX: usize = 65_536;

/// What the lock of a NIC guards. VIs, completion queues and requests are named by their handles.
pub(crate) struct Inner {
    pub(crate) node: Node,
    pub(crate) device: u8,
    /// Whether the program has closed it.
    pub(crate) closed: bool,
    /// VIs that have asked for a connection.
    pub(crate) pending: usize,
    pub(crate) regions: Regions,
    pub(crate) tags: HashSet<usize>,
    pub(crate) vis: BTreeMap<usize, Vi>,
    pub(crate) queues: HashMap<usize, Completions>,
    pub(crate) requests: HashMap<usize, Pending>,
    /// The VIs of connections, open and begun.
    pub(crate) by_connection: HashMap<ConnectionId, usize>,
    /// The VI of the last message.
    pub(crate) recent: Option<usize>,
    pub(crate) listening: HashMap<String, Listening>,
    /// A connection of the node with itself, by which its thread is woken.
    pub(crate) waker: Option<[Connection; 2]>,
    /// Whether a thread of the program took what was to wake the helper.
    pub(crate) woke_program: bool,
    pub(crate) error_handler: Option<(usize, ErrorHandler)>,
    /// Calls of the program's functions that are due.
    pub(crate) due: VecDeque<Due>,
    /// Whether there is a thread for them.
    pub(crate) calls: bool,
    /// Whether something has happened that a waiting thread may wait for.
    pub(crate) changed: bool,
    /// Threads of the program that sleep.
    pub(crate) sleepers: u32,
    /// Calls of the program that looked for messages.
    pub(crate) polls: u64,
    /// VIs whose connections may have more: a node repeats that they are ready only to the thread that it told first.
    pub(crate) busy: Vec<usize>,
    pub(crate) events: Vec<Event>,
    pub(crate) staging: Vec<u8>,
}

/// A VI.
pub(crate) struct Vi {
    pub(crate) state: ViState,
    pub(crate) told: Told,
    pub(crate) tag: usize,
    pub(crate) sends: Queue,
    pub(crate) receives: Queue,
    pub(crate) link: Option<Box<Link>>,
    pub(crate) connecting: Option<Connecting>,
    /// What became of the last request of this VI, and of the other end's VI.
    pub(crate) outcome: Option<Result<Told, Code>>,
}

impl Vi {
    pub(crate) fn queue(&mut self, side: Side) -> &mut Queue {
        match side {
            Side::Send => &mut self.sends,
            Side::Receive => &mut self.receives,
        }
    }

    /// Whether an error breaks the connection.
    pub(crate) fn is_reliable(&self) -> bool {
        self.told.reliability != UNRELIABLE
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            transfer_bytes_max: self.told.transfer_bytes_max,
            rdma_read: self.is_reliable(),
        }
    }
}

/// A work queue, and who hears of what is done in it.
pub(crate) struct Queue {
    pub(crate) work: WorkQueue<Posted>,
    pub(crate) completions: Option<usize>,
    pub(crate) notify: VecDeque<(usize, ViHandler)>,
}

impl Queue {
    pub(crate) fn new(completions: Option<usize>) -> Queue {
        Queue {
            work: WorkQueue::new(DESCRIPTORS_MAX as usize),
            completions,
            notify: VecDeque::new(),
        }
    }
}

/// A descriptor that was posted.
pub(crate) struct Posted {
    pub(crate) descriptor: Descriptor,
    /// The region that it lies in.
    pub(crate) handle: u32,
    /// What it asks for, or the bits that say what is wrong with it.
    pub(crate) work: Result<Work, u32>,
    /// The bits of its operation.
    pub(crate) operation: u32,
    /// What became of it.
    pub(crate) status: u32,
}

/// A completion queue.
#[derive(Default)]
pub(crate) struct Completions {
    pub(crate) entries: VecDeque<(usize, Side)>,
    pub(crate) notify: VecDeque<(usize, CqHandler)>,
    /// Work queues that are bound to it.
    pub(crate) users: usize,
}

/// A client that waits for an answer.
pub(crate) struct Pending {
    pub(crate) request: Request,
    pub(crate) asked: Asked,
}

/// A name that is listened to.
pub(crate) struct Listening {
    pub(crate) _listener: Listener,
    /// Threads, or VIs, that wait for a request.
    pub(crate) waiting: usize,
    pub(crate) arrived: VecDeque<Pending>,
}

/// A connection that this end has asked for.
pub(crate) struct Connecting {
    pub(crate) asked: Asked,
    pub(crate) deadline: Option<Instant>,
    pub(crate) phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// To try again at this time.
    Pausing(Instant),
    Calling(ConnectionId),
    /// The connection is open; the attributes of the other end are still to come.
    Greeting,
    /// The other end is to call.
    Listening,
}

/// The connection of a VI.
pub(crate) struct Link {
    pub(crate) connection: Connection,
    pub(crate) flow: Flow,
}

/// What is on its way in a connection.
#[derive(Default)]
pub(crate) struct Flow {
    /// Whether both ends know each other's VI.
    pub(crate) established: bool,
    pub(crate) offered: Offered,
    pub(crate) credit: Credit,
    /// Sends, writes and reads: sent, and received.
    pub(crate) sent: u64,
    pub(crate) got: u64,
    /// How many of the latter the other end knows to be in memory.
    pub(crate) done_told: u64,
    /// Those that were sent, and of whose end the other end tells.
    pub(crate) waiting: VecDeque<Waiting>,
    /// Reads of the other end that are to be answered.
    pub(crate) replies: VecDeque<Reply>,
    /// For the last record, there was no room.
    pub(crate) is_full: bool,
}

/// An operation whose end the other end tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// Its number in the connection.
    pub(crate) number: u64,
    /// Its number in the send queue.
    pub(crate) posted: u64,
    pub(crate) is_read: bool,
}

/// A read of the other end, which was permitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    pub(crate) number: u64,
    pub(crate) handle: u32,
    pub(crate) address: u64,
    pub(crate) len_bytes: u32,
}

/// A function of the program that is to be called.
pub(crate) enum Due {
    Descriptor(ViHandler, usize, usize, Descriptor),
    Entry(CqHandler, usize, usize, Side),
    Error(ErrorHandler, usize, usize, AsyncError),
}
