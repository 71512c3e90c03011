//! Which connections of the nodes of this host are the two ends of one.
//!
//! Each end names its peer's process, and the number that the connection has there. A process may have several nodes, so
//! the sizes of the rings and the name have to fit as well. Where more than one would fit, none is taken.

use std::collections::HashMap;

use barewire_shm::counters::SlotCopy;

use crate::sample::NodeSample;

/// A connection of a node, by their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which node.
    pub node: usize,
    /// Which of its connections.
    pub connection: usize,
}

/// A connection, seen from one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The end that sends.
    pub sender: Place,
    /// The other one.
    pub receiver: Place,
}

/// What both ends of a connection say of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Said<'a> {
    /// Process, number and size of the ring into which it sends, of this end.
    own: (u32, u32, u32),
    /// Of the other one.
    peer: (u32, u32, u32),
    name: &'a str,
}

impl<'a> Said<'a> {
    /// `None` if the other end is on another host, or was not said.
    fn new(node: &NodeSample, connection: &'a SlotCopy) -> Option<Said<'a>> {
        let pid = u32::try_from(node.pid).ok()?;
        if connection.remote.is_some() || connection.peer_pid == 0 {
            return None;
        }
        Some(Said {
            own: (pid, connection.connection, connection.ring_bytes_out),
            peer: (
                connection.peer_pid,
                connection.peer_connection?,
                connection.ring_bytes_in,
            ),
            name: &connection.name,
        })
    }

    /// What the other end has to say.
    fn mirrored(&self) -> Said<'a> {
        Said {
            own: self.peer,
            peer: self.own,
            name: self.name,
        }
    }
}

/// All connections of which both ends are seen, once from each end.
pub fn pairs(nodes: &[NodeSample]) -> Vec<Pair> {
    let mut places: HashMap<Said<'_>, Vec<Place>> = HashMap::new();
    for (node, of) in nodes.iter().enumerate() {
        for (connection, copy) in of.connections.iter().enumerate() {
            if let Some(said) = Said::new(of, copy) {
                let place = Place { node, connection };
                places.entry(said).or_default().push(place);
            }
        }
    }
    let mut pairs = Vec::new();
    for (said, here) in &places {
        let there = said.mirrored();
        let found = match (here.as_slice(), places.get(&there).map(Vec::as_slice)) {
            // Two nodes of one process, with the same number.
            ([one, other], _) if there == *said => Some([(*one, *other), (*other, *one)].to_vec()),
            ([one], Some([other])) if there != *said => Some([(*one, *other)].to_vec()),
            _ => None,
        };
        let found = found.into_iter().flatten();
        pairs.extend(found.map(|(sender, receiver)| Pair { sender, receiver }));
    }
    pairs
}
