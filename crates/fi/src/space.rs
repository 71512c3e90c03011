//! What the objects of a domain share, under one lock: endpoints, completion queues, tables of addresses.
//!
//! A program that has asked for `FI_THREAD_DOMAIN` promises that its calls for a domain and its objects do not overlap.
//! Then there is no lock: to take one and give it back costs as much as the rest of a call.

use std::cell::UnsafeCell;
use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_proto::matching::Pattern;

use crate::arithmetic::Kind;
use crate::engine::receiving::Peek;
use crate::engine::remote::Operation;
use crate::engine::sending::Outgoing;
use crate::engine::state::{Completion, Counted, Engine, Name, RECEIVES, SENDS};
use crate::memory::{Context, Lent};
use crate::raw;
use crate::regions::{Place, Regions};

/// Completions that one read may take of a queue so that the next one looks whether there are more.
const READ_AGAIN_FROM: usize = 32;

/// What programs get that do not say how much of a buffer for several messages may be left.
const MANY_BYTES_MIN: usize = 64;

/// The shared state of a domain.
pub(crate) struct Space {
    /// `None`: the program calls from one thread at a time.
    lock: Option<Mutex<()>>,
    inner: UnsafeCell<Inner>,
}

// SAFETY: only `Space::lock` reaches the state. Either the lock is held meanwhile, or the program has promised that no
// two of its calls overlap; and the state may go from thread to thread.
unsafe impl Sync for Space where Inner: core::marker::Send {}

/// The state of a domain, for one call.
pub(crate) struct Guard<'a> {
    inner: &'a mut Inner,
    _held: Option<MutexGuard<'a, ()>>,
}

impl Deref for Guard<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        self.inner
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        self.inner
    }
}

/// What the lock guards. Objects are named by their places, which are not used again.
#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) endpoints: Vec<Option<Bound>>,
    pub(crate) queues: Vec<Option<Queue>>,
    pub(crate) tables: Vec<Option<Table>>,
    pub(crate) regions: Arc<Regions>,
    pub(crate) counters: Vec<Option<Counter>>,
}

/// A counter of operations that have ended.
#[derive(Default)]
pub(crate) struct Counter {
    pub(crate) done: u64,
    pub(crate) failed: u64,
    /// The endpoints that are bound to it.
    endpoints: Vec<usize>,
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
    /// A buffer for several messages takes no more when less than this is left of it.
    pub(crate) many_bytes_min: usize,
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
    /// The endpoints that are bound to it.
    pub(crate) endpoints: Vec<usize>,
    /// Whose completions it has: endpoints, and which list of theirs.
    parts: Vec<(usize, usize)>,
    /// The part that the next read begins with.
    first: usize,
    /// What endpoints have left that are closed, and the senders' addresses.
    left: VecDeque<(Completion, u64)>,
    /// The last read has found out that there is no more.
    is_exhausted: bool,
    /// Reads that found nothing, one after the other.
    pub(crate) idle: u32,
    /// What [`worked`](crate::engine::worked) said at the last of them.
    pub(crate) seen: u32,
}

impl Queue {
    /// Takes the completions of an endpoint that `bound` has bound to it, at its place among the queues.
    pub(crate) fn add(&mut self, own: usize, endpoint: usize, bound: &Bound) {
        self.remove(endpoint);
        self.endpoints.push(endpoint);
        let ways = [(RECEIVES, bound.receives), (SENDS, bound.sends)];
        for (direction, _) in ways.iter().filter(|(_, way)| way.queue == Some(own)) {
            let list = bound.engine.ended.places[*direction];
            let part = list.map(|list| (endpoint, list));
            if let Some(part) = part.filter(|part| !self.parts.contains(part)) {
                self.parts.push(part);
            }
        }
    }

    fn remove(&mut self, endpoint: usize) {
        self.endpoints.retain(|&other| other != endpoint);
        self.parts.retain(|&(other, _)| other != endpoint);
        self.first = 0;
    }

    /// The only part, if nothing else is to be told.
    #[inline]
    fn lone_part(&self) -> Option<(usize, usize)> {
        match (&self.parts[..], self.left.is_empty()) {
            ([part], true) => Some(*part),
            _ => None,
        }
    }

    /// Hands at most `count` completions to `give` that closed endpoints have left. Returns how many, and whether the
    /// next one is a failure.
    #[inline]
    fn take_left(
        &mut self,
        count: usize,
        give: &mut impl FnMut(usize, &Completion, u64),
    ) -> (usize, bool) {
        let mut taken = 0;
        while taken < count {
            match self.left.front() {
                Some((done, _)) if done.error != 0 => return (taken, true),
                Some((done, source)) => give(taken, done, *source),
                None => break,
            }
            self.left.pop_front();
            taken += 1;
        }
        (taken, false)
    }
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

/// What is done with a peer's memory.
pub(crate) enum Access {
    Read,
    Write,
    Atomic(Atomic),
}

/// An atomic operation, but for what it changes the memory with.
pub(crate) struct Atomic {
    pub(crate) kind: Kind,
    pub(crate) len_bytes: usize,
    pub(crate) compare: Option<Lent>,
    /// Where what was there before goes.
    pub(crate) result: Option<Lent>,
}

/// What a program does with a peer's memory.
pub(crate) struct Remote {
    pub(crate) access: Access,
    pub(crate) peer: u64,
    pub(crate) memory: Lent,
    pub(crate) place: Place,
    pub(crate) data: Option<u32>,
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
    /// A domain with nothing in it. `is_serial`: no two calls overlap.
    pub(crate) fn new(is_serial: bool) -> Space {
        Space {
            lock: (!is_serial).then(Mutex::default),
            inner: UnsafeCell::default(),
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_> {
        // A panic was reported by the call that it ended.
        let held = self.lock.as_ref().map(Mutex::lock);
        let held = held.map(|held| held.unwrap_or_else(PoisonError::into_inner));
        Guard {
            // SAFETY: nobody else has a reference: they would hold the lock, or be in a call that overlaps with this one.
            // No call of this crate asks for the state again before it has dropped the guard.
            inner: unsafe { &mut *self.inner.get() },
            _held: held,
        }
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
            many_bytes_min: MANY_BYTES_MIN,
            peers: Vec::new(),
        }
    }

    /// Has completions of one direction go to this queue.
    pub(crate) fn bind_queue(&mut self, direction: usize, queue: usize, selective: bool) {
        let way = match direction {
            SENDS => &mut self.sends,
            _ => &mut self.receives,
        };
        way.queue = Some(queue);
        way.selective = selective;
        let is_one = self.sends.queue == self.receives.queue;
        self.engine.ended.places = [
            self.receives.queue.map(|_| RECEIVES),
            self.sends
                .queue
                .map(|_| if is_one { RECEIVES } else { SENDS }),
        ];
    }

    /// Hands completions of one list to `give`, until `taken` is `count`. Returns whether the next one is a failure.
    #[inline]
    fn hand_out(
        &mut self,
        list: usize,
        taken: &mut usize,
        count: usize,
        sources: Option<&[Option<Table>]>,
        give: &mut impl FnMut(usize, &Completion, u64),
    ) -> bool {
        while *taken < count {
            let source = match (self.engine.ended.lists[list].front(), sources) {
                (None, _) => return false,
                (Some(done), _) if done.error != 0 => return true,
                (Some(done), Some(tables)) => self.address_of(tables, done.source),
                (Some(_), None) => raw::FI_ADDR_NOTAVAIL,
            };
            if let Some(done) = self.engine.ended.lists[list].pop_front() {
                give(*taken, &done, source);
            }
            *taken += 1;
        }
        false
    }

    /// The address of a sender in the table, if it is there.
    fn address_of(&self, tables: &[Option<Table>], source: Option<u32>) -> u64 {
        let table = self.table.and_then(|at| tables[at].as_ref());
        let name = source.and_then(|peer| self.engine.name_of(peer));
        let found = table
            .zip(name)
            .map(|(table, name)| table.by_name.get(&name).copied());
        found.flatten().unwrap_or(raw::FI_ADDR_NOTAVAIL)
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
        self.find_peer(endpoint, at, address)
    }

    /// As [`Inner::peer`], for the first time.
    #[cold]
    #[inline(never)]
    fn find_peer(&mut self, endpoint: usize, at: usize, address: u64) -> Result<usize, c_int> {
        let table = self.enabled(endpoint)?.table.ok_or(raw::FI_ENOAV)?;
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
        bound.engine.send(peer, send.memory, &outgoing)
    }

    /// Begins to read or write a peer's memory.
    pub(crate) fn access(&mut self, endpoint: usize, remote: Remote) -> Result<(), c_int> {
        let peer = self.peer(endpoint, remote.peer)?;
        let bound = self.enabled(endpoint)?;
        let flags = remote.flags.unwrap_or(bound.sends.flags);
        let outgoing = Outgoing {
            label: crate::records::Label {
                tag: None,
                data: remote.data,
            },
            context: remote.context,
            report: !remote.inject && bound.sends.reports(flags),
            inject: remote.inject || flags & raw::FI_INJECT != 0,
            delivery: true,
        };
        let (memory, place) = (remote.memory, remote.place);
        match remote.access {
            Access::Read => bound.engine.read(peer, memory, place, &outgoing),
            Access::Write => bound.engine.write(peer, memory, place, &outgoing),
            Access::Atomic(atomic) => {
                let operation = Operation {
                    kind: atomic.kind,
                    len_bytes: atomic.len_bytes,
                    with: memory,
                    compare: atomic.compare,
                    result: atomic.result,
                };
                bound.engine.atomic(peer, operation, place, &outgoing)
            }
        }
    }

    /// Has a counter count operations of these kinds at an endpoint.
    pub(crate) fn bind_counter(
        &mut self,
        endpoint: usize,
        counter: usize,
        kinds: u64,
    ) -> Result<(), c_int> {
        let of = self.counters[counter].as_mut().ok_or(raw::FI_EINVAL)?;
        let bound = self.endpoints[endpoint].as_mut().ok_or(raw::FI_EINVAL)?;
        bound.engine.counted.push(Counted {
            counter,
            kinds,
            done: 0,
            failed: 0,
        });
        if !of.endpoints.contains(&endpoint) {
            of.endpoints.push(endpoint);
        }
        Ok(())
    }

    /// A counter, after the operations of its endpoints were taken further.
    pub(crate) fn counter(&mut self, counter: usize) -> Option<&mut Counter> {
        let of = self.counters.get_mut(counter)?.as_mut()?;
        for &endpoint in &of.endpoints {
            if let Some(Some(bound)) = self.endpoints.get_mut(endpoint) {
                if bound.enabled {
                    bound.engine.progress();
                }
                for counted in &mut bound.engine.counted {
                    if counted.counter == counter {
                        of.done = of.done.wrapping_add(std::mem::take(&mut counted.done));
                        of.failed = of.failed.wrapping_add(std::mem::take(&mut counted.failed));
                    }
                }
            }
        }
        Some(of)
    }

    /// How many failures a counter is known to have.
    pub(crate) fn failures(&self, counter: usize) -> u64 {
        let of = self.counters.get(counter).and_then(Option::as_ref);
        of.map_or(0, |of| of.failed)
    }

    /// Removes a counter, if no endpoint is bound to it.
    pub(crate) fn remove_counter(&mut self, counter: usize) -> Result<(), c_int> {
        match &self.counters[counter] {
            Some(of) if !of.endpoints.is_empty() => Err(raw::FI_EBUSY),
            _ => {
                self.counters[counter] = None;
                Ok(())
            }
        }
    }

    /// Takes a memory region back.
    pub(crate) fn remove_region(&mut self, key: u64) {
        self.regions.remove(key);
        for bound in self.endpoints.iter_mut().flatten() {
            bound.engine.forget_region(key);
        }
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
            share: None,
        };
        let pattern = Pattern {
            source,
            tag: wanted.tag,
            ignore: wanted.ignore,
        };
        let (tagged, context) = (wanted.tagged, wanted.context);
        let has = |flag| flags & flag != 0 && wanted.flags.is_some();
        let looks = has(raw::FI_PEEK | raw::FI_CLAIM | raw::FI_DISCARD);
        if !tagged && flags & raw::FI_MULTI_RECV != 0 {
            // The parts of several pieces could not be told.
            if looks || receive.memory.address().is_none() {
                return Err(raw::FI_EINVAL);
            }
            let bytes_min = bound.many_bytes_min;
            bound.engine.receive_many(pattern, receive, bytes_min);
        } else if has(raw::FI_PEEK) {
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
        Ok(())
    }

    /// Ends the posted receive of this context, if there is one.
    pub(crate) fn cancel(&mut self, endpoint: usize, context: Context) -> Result<(), c_int> {
        self.enabled(endpoint)?.engine.cancel(context);
        Ok(())
    }

    /// Takes the operations of all endpoints of a queue further, unless as many as `count` have ended already. Then hands
    /// at most `count` completions of success to `give`, with their number and, if that is asked for, the address of
    /// the sender. Returns how many.
    ///
    /// # Errors
    /// `FI_EAVAIL`: the next one is a failure.
    #[inline]
    pub(crate) fn read(
        &mut self,
        queue: usize,
        count: usize,
        wants_sources: bool,
        mut give: impl FnMut(usize, &Completion, u64),
    ) -> Result<usize, c_int> {
        let of = self.queue(queue)?;
        if std::mem::take(&mut of.is_exhausted) && count > 0 {
            return Ok(0);
        }
        if let Some((endpoint, list)) = of.lone_part() {
            let bound = self.enabled(endpoint)?;
            if bound.engine.ended.lists[list].len() < count.max(1) {
                bound.engine.progress();
            }
            if bound.engine.ended.lists[list].is_empty() {
                return Ok(0);
            }
        } else {
            self.progress(queue, count.max(1))?;
        }
        let sources = wants_sources.then_some(&self.tables[..]);
        let of = self.queues[queue].as_mut().ok_or(raw::FI_EINVAL)?;
        let (mut taken, mut failed) = of.take_left(count, &mut give);
        for turn in 0..of.parts.len() {
            let at = of.first + turn;
            let at = at.checked_sub(of.parts.len()).unwrap_or(at);
            let (endpoint, list) = of.parts[at];
            if let Some(Some(bound)) = self.endpoints.get_mut(endpoint) {
                failed |= bound.hand_out(list, &mut taken, count, sources, &mut give);
            }
            if taken == count || failed {
                // The others come first the next time.
                of.first = if at + 1 < of.parts.len() { at + 1 } else { 0 };
                break;
            }
        }
        of.is_exhausted = 0 < taken && taken < count.min(READ_AGAIN_FROM) && !failed;
        match failed && taken == 0 {
            true => Err(raw::FI_EAVAIL),
            false => Ok(taken),
        }
    }

    /// Takes the next failure out of a queue.
    pub(crate) fn read_failure(&mut self, queue: usize) -> Result<Completion, c_int> {
        let of = self.queues[queue].as_mut().ok_or(raw::FI_EINVAL)?;
        if of.left.front().is_some_and(|(done, _)| done.error != 0) {
            let left = of.left.pop_front();
            return left.map(|(done, _)| done).ok_or(raw::FI_EAGAIN);
        }
        for &(endpoint, list) in &of.parts {
            let Some(Some(bound)) = self.endpoints.get_mut(endpoint) else {
                continue;
            };
            let list = &mut bound.engine.ended.lists[list];
            if list.front().is_some_and(|done| done.error != 0) {
                return list.pop_front().ok_or(raw::FI_EAGAIN);
            }
        }
        Err(raw::FI_EAGAIN)
    }

    #[inline]
    pub(crate) fn queue(&mut self, queue: usize) -> Result<&mut Queue, c_int> {
        let of = self.queues.get_mut(queue).and_then(Option::as_mut);
        of.ok_or(raw::FI_EINVAL)
    }

    /// Has the queues of an endpoint take its completions.
    pub(crate) fn bind_endpoint(&mut self, endpoint: usize) -> Result<(), c_int> {
        let bound = self.endpoints[endpoint].as_ref().ok_or(raw::FI_EINVAL)?;
        for at in [bound.receives.queue, bound.sends.queue]
            .into_iter()
            .flatten()
        {
            let queue = self.queues[at].as_mut().ok_or(raw::FI_EINVAL)?;
            queue.add(at, endpoint, bound);
        }
        Ok(())
    }

    /// Takes the operations of all endpoints of a queue further, unless so many have ended already.
    #[inline]
    fn progress(&mut self, queue: usize, enough: usize) -> Result<(), c_int> {
        let of = self.queues[queue].as_mut().ok_or(raw::FI_EINVAL)?;
        let mut ended = of.left.len();
        for &(endpoint, list) in &of.parts {
            let bound = self.endpoints.get(endpoint).and_then(Option::as_ref);
            ended += bound.map_or(0, |bound| bound.engine.ended.lists[list].len());
        }
        if ended >= enough {
            return Ok(());
        }
        for &endpoint in &of.endpoints {
            if let Some(Some(bound)) = self.endpoints.get_mut(endpoint) {
                if bound.enabled {
                    bound.engine.progress();
                }
            }
        }
        Ok(())
    }

    /// Removes an endpoint. What has ended there can still be read.
    pub(crate) fn remove_endpoint(&mut self, endpoint: usize) {
        let Some(mut bound) = self.endpoints.get_mut(endpoint).and_then(Option::take) else {
            return;
        };
        bound.engine.linger();
        for counted in &bound.engine.counted {
            if let Some(Some(counter)) = self.counters.get_mut(counted.counter) {
                counter.done = counter.done.wrapping_add(counted.done);
                counter.failed = counter.failed.wrapping_add(counted.failed);
                counter.endpoints.retain(|&other| other != endpoint);
            }
        }
        for queue in self.queues.iter_mut().flatten() {
            for &(of, list) in &queue.parts {
                if of == endpoint {
                    for done in std::mem::take(&mut bound.engine.ended.lists[list]) {
                        let source = bound.address_of(&self.tables, done.source);
                        queue.left.push_back((done, source));
                    }
                }
            }
            queue.remove(endpoint);
        }
    }
}
