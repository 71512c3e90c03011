//! How long what a connection sends waits until the receiving program has taken it, as a histogram, seen from outside.
//! For `top` and `metrics`.
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
//! Nobody is disturbed beyond reading two cache lines of counters. What they say is the word of two processes, and never
//! trusted: whatever they hold, a probe ends after a second, and there is a bound to all that is kept.

mod histogram;
mod pairs;
mod probes;
mod sampler;

use std::collections::HashMap;
use std::io;

use barewire_shm::counters::{Counter, SlotCopy, SlotView};

use crate::sample::{NodeSample, Sample};
pub use histogram::{BUCKETS, Histogram, Recorded, upto_us};
use probes::Ends;
use sampler::Sampler;

/// What a connection sends, in one of its uses of its number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pid: i32,
    node: String,
    connection: u32,
    state: u64,
}

impl Key {
    fn new(node: &NodeSample, connection: &SlotCopy) -> Key {
        Key {
            pid: node.pid,
            node: node.id.clone(),
            connection: connection.connection,
            state: connection.state,
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

/// The two ends of a direction, in the pages of their nodes.
struct PageEnds {
    sender: SlotView,
    receiver: SlotView,
}

impl Ends for PageEnds {
    fn sent(&self) -> Option<u64> {
        self.sender.counter(Counter::BytesOut)
    }

    fn taken(&self) -> Option<u64> {
        self.receiver.counter(Counter::BytesIn)
    }
}

/// Probes the busiest connections, in a thread of its own, until it is dropped.
pub struct Prober {
    sampler: Sampler<Key, PageEnds>,
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

    /// Probes from now on the busiest connections of a sample, and says what has been found out.
    pub fn follow(&mut self, sample: &Sample) -> Delays {
        let mut found = Vec::new();
        let mut sent = HashMap::new();
        for pair in pairs::pairs(&sample.nodes) {
            let [from, to] = [pair.sender, pair.receiver];
            let Some(ends) = ends(&sample.nodes, from, to) else {
                continue;
            };
            let node = &sample.nodes[from.node];
            let connection = &node.connections[from.connection];
            let key = Key::new(node, connection);
            let now = connection.counters[Counter::BytesOut as usize];
            let before = self.sent_before.get(&key).copied().unwrap_or(0);
            sent.insert(key.clone(), now);
            found.push((now.saturating_sub(before), key, ends));
        }
        found.sort_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
        let busiest = found.into_iter().map(|(_, key, ends)| (key, ends));
        self.sampler.watch(busiest);
        self.sent_before = sent;
        Delays(self.sampler.recorded())
    }
}

/// The counters of both ends.
fn ends(nodes: &[NodeSample], from: pairs::Place, to: pairs::Place) -> Option<PageEnds> {
    let watched = |place: pairs::Place| {
        let node = &nodes[place.node];
        let connection = &node.connections[place.connection];
        let view = node.view.as_ref()?;
        view.watch(connection.connection, connection.state)
    };
    Some(PageEnds {
        sender: watched(from)?,
        receiver: watched(to)?,
    })
}

#[cfg(test)]
mod tests;
