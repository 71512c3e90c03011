//! What the objects of a domain share, under one lock: endpoints, completion queues, tables of addresses.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use barewire_proto::matching::Pattern;

use crate::engine::receiving::Peek;
use crate::engine::sending::Outgoing;
use crate::engine::state::{Completion, Engine, Name};
use crate::memory::{Context, Lent};
use crate::raw;

/// The shared state of a domain.
#[derive(Default)]
pub(crate) struct Space(Mutex<Inner>);

/// What the lock guards. Objects are named by their places, which are not used again.
#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) endpoints: Vec<Option<Bound>>,
    pub(crate) queues: Vec<Option<Queue>>,
    pub(crate) tables: Vec<Option<Table>>,
}

/// An endpoint, and what it is bound to.
pub(crate) struct Bound {
    pub(crate) engine: Engine,
    pub(crate) enabled: bool,
    /// Whether a receive may name its only sender. If not, what it names does not matter.
    directed: bool,
    pub(crate) sends: Way,
    pub(crate) receives: Way,
    pub(crate) table: Option<usize>,
    /// The peer of each address of the table that was used.
    peers: Vec<Option<usize>>,
}

/// How completions of one direction are told.
#[derive(Clone, Copy, Default)]
pub(crate) struct Way {
    pub(crate) queue: Option<usize>,
    /// Only those that are asked for.
    pub(crate) selective: bool,
    /// What calls without flags have.
    pub(crate) flags: u64,
}

impl Way {
    /// Whether success of an operation with these flags is told.
    fn reports(&self, flags: u64) -> bool {
        self.queue.is_some() && (!self.selective || flags & raw::FI_COMPLETION != 0)
    }
}

/// A completion queue.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) entries: VecDeque<(usize, Completion)>,
    /// The endpoints that are bound to it.
    pub(crate) endpoints: Vec<usize>,
    /// Reads that found nothing, one after the other.
    pub(crate) idle: u32,
}

/// A table of addresses.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) names: Vec<Option<Name>>,
    pub(crate) by_name: HashMap<Name, u64>,
}

impl Table {
    /// Adds an address, and returns its number.
    pub(crate) fn insert(&mut self, name: Name) -> u64 {
        let number = self.names.len() as u64;
        self.names.push(Some(name));
        *self.by_name.entry(name).or_insert(number)
    }

    pub(crate) fn name(&self, address: u64) -> Option<Name> {
        let at = usize::try_from(address).ok()?;
        self.names.get(at).copied().flatten()
    }
}

/// A send of a program.
pub(crate) struct Send {
    pub(crate) to: u64,
    pub(crate) memory: Lent,
    pub(crate) label: crate::records::Label,
    pub(crate) context: Context,
    /// `None`: those of the endpoint.
    pub(crate) flags: Option<u64>,
    pub(crate) inject: bool,
}

/// A receive of a program.
pub(crate) struct Wanted {
    pub(crate) tagged: bool,
    pub(crate) from: u64,
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
    pub(crate) memory: Lent,
    pub(crate) context: Context,
    /// `None`: those of the endpoint.
    pub(crate) flags: Option<u64>,
}

impl Space {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic was reported by the call that it ended.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts an object into its table, and returns its place.
pub(crate) fn place<T>(all: &mut Vec<Option<T>>, object: T) -> usize {
    all.push(Some(object));
    all.len() - 1
}

impl Bound {
    pub(crate) fn new(engine: Engine, caps: u64, sends: u64, receives: u64) -> Bound {
        let way = |flags| Way {
            flags,
            ..Way::default()
        };
        Bound {
            engine,
            enabled: false,
            directed: caps & raw::FI_DIRECTED_RECV != 0,
            sends: way(sends),
            receives: way(receives),
            table: None,
            peers: Vec::new(),
        }
    }
}

impl Inner {
    #[inline]
    fn enabled(&mut self, endpoint: usize) -> Result<&mut Bound, c_int> {
        match self.endpoints.get_mut(endpoint) {
            Some(Some(bound)) if bound.enabled => Ok(bound),
            _ => Err(raw::FI_EOPBADSTATE),
        }
    }

    /// The peer that an address of an endpoint's table stands for.
    #[inline]
    fn peer(&mut self, endpoint: usize, address: u64) -> Result<usize, c_int> {
        let bound = self.enabled(endpoint)?;
        let at = usize::try_from(address).map_err(|_| raw::FI_EINVAL)?;
        if let Some(&Some(peer)) = bound.peers.get(at) {
            return Ok(peer);
        }
        let table = bound.table.ok_or(raw::FI_ENOAV)?;
        let table = self.tables[table].as_ref().ok_or(raw::FI_ENOAV)?;
        let name = table.name(address).ok_or(raw::FI_EINVAL)?;
        let bound = self.enabled(endpoint)?;
        let peer = bound.engine.peer(&name);
        if bound.peers.len() <= at {
            bound.peers.resize(at + 1, None);
        }
        bound.peers[at] = Some(peer);
        Ok(peer)
    }

    /// Takes an address out of a table.
    pub(crate) fn remove_address(&mut self, table: usize, address: u64) -> Result<(), c_int> {
        let at = usize::try_from(address).map_err(|_| raw::FI_EINVAL)?;
        let entry = self.tables[table].as_mut().ok_or(raw::FI_EINVAL)?;
        let name = entry.names.get_mut(at).and_then(Option::take);
        let name = name.ok_or(raw::FI_EINVAL)?;
        if entry.by_name.get(&name) == Some(&address) {
            entry.by_name.remove(&name);
        }
        for bound in self.endpoints.iter_mut().flatten() {
            if bound.table == Some(table) && at < bound.peers.len() {
                bound.peers[at] = None;
            }
        }
        Ok(())
    }

    /// Begins a send.
    pub(crate) fn send(&mut self, endpoint: usize, send: Send) -> Result<(), c_int> {
        let peer = self.peer(endpoint, send.to)?;
        let bound = self.enabled(endpoint)?;
        let flags = send.flags.unwrap_or(bound.sends.flags);
        let outgoing = Outgoing {
            label: send.label,
            context: send.context,
            report: !send.inject && bound.sends.reports(flags),
            inject: send.inject || flags & raw::FI_INJECT != 0,
            delivery: flags & (raw::FI_DELIVERY_COMPLETE | raw::FI_MATCH_COMPLETE) != 0,
        };
        bound.engine.send(peer, send.memory, &outgoing)?;
        self.collect(endpoint);
        Ok(())
    }

    /// Posts a receive, peeks, or receives what was claimed.
    pub(crate) fn receive(&mut self, endpoint: usize, wanted: Wanted) -> Result<(), c_int> {
        let directed = self.enabled(endpoint)?.directed;
        let source = match wanted.from {
            raw::FI_ADDR_UNSPEC => None,
            _ if !directed => None,
            from => Some(self.peer(endpoint, from)? as u64),
        };
        let bound = self.enabled(endpoint)?;
        let flags = wanted.flags.unwrap_or(bound.receives.flags);
        let receive = crate::engine::state::Receive {
            memory: wanted.memory,
            context: wanted.context,
            report: bound.receives.reports(flags),
        };
        let pattern = Pattern {
            source,
            tag: wanted.tag,
            ignore: wanted.ignore,
        };
        let (tagged, context) = (wanted.tagged, wanted.context);
        let has = |flag| flags & flag != 0 && wanted.flags.is_some();
        if has(raw::FI_PEEK) {
            let peek = match (has(raw::FI_CLAIM), has(raw::FI_DISCARD)) {
                (_, true) => Peek::Discard,
                (true, _) => Peek::Claim,
                _ => Peek::Look,
            };
            bound.engine.progress();
            bound.engine.peek(tagged, &pattern, context, peek);
        } else if has(raw::FI_CLAIM) {
            let done = match has(raw::FI_DISCARD) {
                true => bound.engine.discard(tagged, context),
                false => bound.engine.receive_claimed(tagged, receive),
            };
            if !done {
                return Err(raw::FI_ENOMSG);
            }
        } else {
            bound.engine.receive(tagged, pattern, receive);
        }
        self.collect(endpoint);
        Ok(())
    }

    /// Ends the posted receive of this context, if there is one.
    pub(crate) fn cancel(&mut self, endpoint: usize, context: Context) -> Result<(), c_int> {
        self.enabled(endpoint)?.engine.cancel(context);
        self.collect(endpoint);
        Ok(())
    }

    /// Takes what has ended at an endpoint to its queues.
    #[inline]
    pub(crate) fn collect(&mut self, endpoint: usize) {
        let Some(Some(bound)) = self.endpoints.get_mut(endpoint) else {
            return;
        };
        while let Some(done) = bound.engine.ended.pop_front() {
            let way = match done.of_send {
                true => bound.sends,
                false => bound.receives,
            };
            if let Some(Some(queue)) = way.queue.and_then(|at| self.queues.get_mut(at)) {
                queue.entries.push_back((endpoint, done));
            }
        }
    }

    /// Takes the operations of all endpoints of a queue further, unless the queue has as many entries already.
    #[inline]
    pub(crate) fn progress(&mut self, queue: usize, entries: usize) {
        let Some(Some(of)) = self.queues.get(queue) else {
            return;
        };
        if of.entries.len() >= entries.max(1) {
            return;
        }
        for at in 0..of.endpoints.len() {
            let Some(Some(of)) = self.queues.get(queue) else {
                return;
            };
            let endpoint = of.endpoints[at];
            if let Ok(bound) = self.enabled(endpoint) {
                bound.engine.progress();
                self.collect(endpoint);
            }
        }
    }

    /// The address of a sender in an endpoint's table, if it is there.
    pub(crate) fn address_of(&self, endpoint: usize, source: Option<Name>) -> u64 {
        let bound = self.endpoints.get(endpoint).and_then(Option::as_ref);
        let table = bound.and_then(|bound| bound.table);
        let table = table.and_then(|at| self.tables[at].as_ref());
        let found = table
            .zip(source)
            .map(|(table, name)| table.by_name.get(&name).copied());
        found.flatten().unwrap_or(raw::FI_ADDR_NOTAVAIL)
    }

    /// Removes an endpoint.
    pub(crate) fn remove_endpoint(&mut self, endpoint: usize) {
        for queue in self.queues.iter_mut().flatten() {
            queue.endpoints.retain(|&other| other != endpoint);
        }
        if let Some(mut bound) = self.endpoints.get_mut(endpoint).and_then(Option::take) {
            bound.engine.linger();
        }
    }
}
