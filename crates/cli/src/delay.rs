//! How long what a connection or a socket sends waits until the receiving program has taken it, as a histogram, seen
//! from outside. For `top` and `metrics`.
//!
//! No message carries a time, and none is written down. But each end publishes how many bytes it has sent or received
//! since the connection began. So a *probe* reads how many the sender has sent, and then looks at the receiver's counter
//! until it has come that far. The time in between is how long all that had been sent by then still had to wait: the
//! *virtual waiting time* of the queue at a moment that nobody has chosen. Looks follow after 1, 2, 4 ... microseconds,
//! so a probe knows the time to a factor of two, which is as wide as a bucket of the histogram.
//!
//! A probe for which nothing waits counts only if something was sent since the probe before. So silence does not count,
//! and a connection on which nothing is sent shows nothing.
//!
//! The ends of a connection are paired by what their nodes say (`delay/pairs.rs`). Both counters of an accelerated socket
//! are in its stream memory, which is read through the process that sends.
//!
//! Nobody is disturbed beyond reading two cache lines of counters. What they say is the word of two processes, and never
//! trusted: whatever they hold, a probe ends after a second, and there is a bound to all that is kept.

mod histogram;
mod pairs;
mod probes;
mod sampler;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use barewire_shm::counters::{Counter, SlotCopy, SlotView};

use crate::sample::{NodeSample, Sample};
use crate::sockets::memory::Memory;
use crate::sockets::{CountersOut, PreloadedProcess, Socket};
pub use histogram::{Histogram, Recorded, upto_us};
use probes::Ends;
use sampler::Sampler;

/// What is probed: what one end sends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// Of a connection, in one of the uses of its number.
    Connection {
        pid: i32,
        node: String,
        connection: u32,
        state: u64,
    },
    /// Of an accelerated socket.
    Socket {
        pid: i32,
        fds: Vec<i32>,
        ends: [Option<String>; 2],
    },
}

impl Key {
    fn new(node: &NodeSample, connection: &SlotCopy) -> Key {
        Key::Connection {
            pid: node.pid,
            node: node.id.clone(),
            connection: connection.connection,
            state: connection.state,
        }
    }

    fn of_socket(process: &PreloadedProcess, socket: &Socket) -> Key {
        Key::Socket {
            pid: process.pid,
            fds: socket.fds.clone(),
            ends: [socket.local.clone(), socket.remote.clone()],
        }
    }
}

/// What was found out of all that are probed.
#[derive(Clone, Debug, Default)]
pub struct Delays(HashMap<Key, Recorded>);

impl Delays {
    /// Of what a connection sends.
    pub fn of(&self, node: &NodeSample, connection: &SlotCopy) -> Option<&Recorded> {
        self.0.get(&Key::new(node, connection))
    }

    /// Of what a socket sends through shared memory.
    pub fn of_socket(&self, process: &PreloadedProcess, socket: &Socket) -> Option<&Recorded> {
        self.0.get(&Key::of_socket(process, socket))
    }

    /// Those of one connection, for tests of what is shown.
    #[cfg(test)]
    pub fn one(node: &NodeSample, connection: &SlotCopy, delays_ns: &[u64]) -> Delays {
        let mut recorded = Recorded::default();
        for ns in delays_ns {
            recorded.recent.add(*ns);
            recorded.total.add(*ns);
        }
        Delays([(Key::new(node, connection), recorded)].into())
    }
}

/// The two counters of a direction, in other processes.
enum Counters {
    /// In the pages of the two nodes.
    OfPages {
        sender: SlotView,
        receiver: SlotView,
    },
    /// In the stream memory of a socket, as the process that sends has it.
    OfStream(Arc<Memory>, CountersOut),
}

impl Ends for Counters {
    fn sent(&self) -> Option<u64> {
        match self {
            Counters::OfPages { sender, .. } => sender.counter(Counter::BytesOut),
            Counters::OfStream(memory, counters) => counters.put(memory),
        }
    }

    fn taken(&self) -> Option<u64> {
        match self {
            Counters::OfPages { receiver, .. } => receiver.counter(Counter::BytesIn),
            Counters::OfStream(memory, counters) => counters.taken(memory),
        }
    }
}

/// What may be probed: how many bytes it has sent, what it is, and its counters.
type Found = (u64, Key, Counters);

/// Probes the busiest connections, in a thread of its own, until it is dropped.
pub struct Prober {
    sampler: Sampler<Key, Counters>,
    /// What each had sent at the last sample.
    sent_before: HashMap<Key, u64>,
}

impl Prober {
    /// Begins, with none.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start() -> io::Result<Prober> {
        Ok(Prober {
            sampler: Sampler::start()?,
            sent_before: HashMap::new(),
        })
    }

    /// Probes from now on the busiest connections and sockets of a sample, and says what has been found out.
    pub fn follow(&mut self, sample: &Sample) -> Delays {
        let mut found = of_nodes(&sample.nodes);
        found.extend(sample.processes.iter().flat_map(of_process));
        let mut sent = HashMap::new();
        for (bytes, key, _) in &mut found {
            let before = self.sent_before.get(key).copied().unwrap_or(0);
            sent.insert(key.clone(), *bytes);
            *bytes = bytes.saturating_sub(before);
        }
        found.sort_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
        let busiest = found.into_iter().map(|(_, key, ends)| (key, ends));
        self.sampler.watch(busiest);
        self.sent_before = sent;
        Delays(self.sampler.recorded())
    }
}

fn of_nodes(nodes: &[NodeSample]) -> Vec<Found> {
    let watched = |place: pairs::Place| {
        let node = &nodes[place.node];
        let connection = &node.connections[place.connection];
        let view = node.view.as_ref()?;
        view.watch(connection.connection, connection.state)
    };
    let found = |pair: pairs::Pair| {
        let node = &nodes[pair.sender.node];
        let connection = &node.connections[pair.sender.connection];
        let counters = Counters::OfPages {
            sender: watched(pair.sender)?,
            receiver: watched(pair.receiver)?,
        };
        let sent = connection.counters[Counter::BytesOut as usize];
        Some((sent, Key::new(node, connection), counters))
    };
    pairs::pairs(nodes).into_iter().filter_map(found).collect()
}

fn of_process(process: &PreloadedProcess) -> Vec<Found> {
    let sockets = process.sockets.iter();
    let accelerated: Vec<_> = sockets
        .filter_map(|socket| Some((socket, socket.counters_out?)))
        .collect();
    if accelerated.is_empty() {
        return Vec::new();
    }
    let Ok(memory) = Memory::open(process.pid).map(Arc::new) else {
        return Vec::new();
    };
    let found = |(socket, counters): (&Socket, CountersOut)| {
        let counters = Counters::OfStream(Arc::clone(&memory), counters);
        (
            socket.ring_bytes[0],
            Key::of_socket(process, socket),
            counters,
        )
    };
    accelerated.into_iter().map(found).collect()
}

#[cfg(test)]
mod tests;
