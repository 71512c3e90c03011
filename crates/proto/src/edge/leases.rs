//! Who has which port of the bridge.
//!
//! A port belongs to a user as long as any lease, or any connection in TIME-WAIT, is of it. The user may have one lease
//! to listen there, and one for each connection. Other users are refused. A connection in TIME-WAIT is refused, too;
//! only where its peer opens it anew, and the user listens, may it be leased early.

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::ops::RangeInclusive;

use barewire_units::{Duration, Instant, Rng};

use super::flow::{Flow, HashKey, Keyed, PortKey};
use super::message::{Ask, Protocol, Refusal, Takes};
use super::track::{Ending, Track};
use super::waiting::{Wait, Waiting};

/// A lease: a small number, which is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(u32);

impl LeaseId {
    /// As an index of a table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How much there is to lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Leases in all.
    pub leases_max: u32,
    /// Leases of one user.
    pub user_leases_max: u32,
    /// Connections in TIME-WAIT.
    pub waits_max: usize,
    /// How long they wait.
    pub time_wait: Duration,
    /// Ports for those who do not ask for a certain one: RFC 6056, and Linux's range.
    pub ports: RangeInclusive<u16>,
    /// Ports below this one are for user 0 only.
    pub reserved_below: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            leases_max: 16_384,
            user_leases_max: 4_096,
            waits_max: 65_536,
            time_wait: Duration::from_s(60),
            ports: 32_768..=60_999,
            reserved_below: 1_024,
        }
    }
}

/// What is leased, and to whom.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Address and port at the bridge.
    pub local: SocketAddr,
    /// The other end; `None` for a lease to listen.
    pub remote: Option<SocketAddr>,
    /// The user.
    pub owner: u32,
    /// What the client takes.
    pub takes: Takes,
    /// How far a TCP connection is.
    pub track: Track,
}

impl Lease {
    /// Its connection, if it is for one.
    #[must_use]
    pub fn flow(&self) -> Option<Flow> {
        let (protocol, local) = (self.protocol, self.local);
        self.remote.map(|remote| Flow {
            protocol,
            local,
            remote,
        })
    }
}

/// Who has a port.
#[derive(Clone, Copy, Debug)]
struct PortUse {
    owner: u32,
    /// Leases, and connections in TIME-WAIT.
    uses: u32,
}

/// All leases.
#[derive(Debug)]
pub struct Leases {
    limits: Limits,
    leases: Vec<Option<Lease>>,
    free: Vec<u32>,
    connected: Keyed<Flow, LeaseId>,
    listening: Keyed<PortKey, LeaseId>,
    ports: Keyed<PortKey, PortUse>,
    users: Keyed<u32, u32>,
    waiting: Waiting,
    rng: Rng,
}

/// A lease that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// It.
    pub lease: Lease,
    /// What has to be done.
    pub ending: Ending,
    /// Whether the oldest wait had to go for it.
    pub cut_short: bool,
}

impl Leases {
    /// No leases yet.
    #[must_use]
    pub fn new(limits: Limits, key: HashKey, rng: Rng) -> Self {
        let waiting = Waiting::new(limits.time_wait, limits.waits_max, key);
        Self {
            limits,
            leases: Vec::new(),
            free: Vec::new(),
            connected: Keyed::with_hasher(key),
            listening: Keyed::with_hasher(key),
            ports: Keyed::with_hasher(key),
            users: Keyed::with_hasher(key),
            waiting,
            rng,
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.leases.len() - self.free.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many connections are in TIME-WAIT.
    #[must_use]
    pub fn waits(&self) -> usize {
        self.waiting.len()
    }

    /// A lease.
    #[must_use]
    pub fn get(&self, id: LeaseId) -> Option<&Lease> {
        self.leases.get(id.index())?.as_ref()
    }

    /// A lease, to be changed.
    pub fn get_mut(&mut self, id: LeaseId) -> Option<&mut Lease> {
        self.leases.get_mut(id.index())?.as_mut()
    }

    /// The lease of a connection.
    #[must_use]
    pub fn connected(&self, flow: &Flow) -> Option<LeaseId> {
        self.connected.get(flow).copied()
    }

    /// The lease that listens at a port.
    #[must_use]
    pub fn listening(&self, port: &PortKey) -> Option<LeaseId> {
        self.listening.get(port).copied()
    }

    /// The connection in TIME-WAIT.
    #[must_use]
    pub fn waiting(&self, flow: &Flow) -> Option<&Wait> {
        self.waiting.get(flow)
    }

    /// Grants what a user asks for, at an address of the bridge.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn grant(&mut self, owner: u32, ask: &Ask, address: IpAddr) -> Result<LeaseId, Refusal> {
        let of_user = self.users.get(&owner).copied().unwrap_or(0);
        if of_user >= self.limits.user_leases_max {
            return Err(Refusal::TooManyOfUser(self.limits.user_leases_max));
        }
        if self.len() >= self.limits.leases_max as usize {
            return Err(Refusal::TooMany(self.limits.leases_max));
        }
        let port = match ask.local_port {
            0 => self.any_port(ask.protocol, address)?,
            port if port < self.limits.reserved_below && owner != 0 => {
                return Err(Refusal::PortReserved(port));
            }
            port => port,
        };
        let lease = Lease {
            protocol: ask.protocol,
            local: SocketAddr::new(address, port),
            remote: (!ask.is_listening()).then_some(ask.remote),
            owner,
            takes: ask.takes,
            track: Track::default(),
        };
        self.check_port(&lease)?;
        Ok(self.insert(lease))
    }

    /// Whether the port is the user's to lease so.
    fn check_port(&self, lease: &Lease) -> Result<(), Refusal> {
        let (key, port) = (PortKey::of(lease.protocol, lease.local), lease.local.port());
        let Some(used) = self.ports.get(&key) else {
            return Ok(());
        };
        let listening = self.listening.contains_key(&key);
        let is_taken = match lease.flow() {
            Some(flow) => self.connected.contains_key(&flow),
            None => listening,
        };
        if is_taken {
            return Err(Refusal::PortTaken(port));
        }
        if used.owner != lease.owner {
            let has_lease = listening
                || self
                    .leases
                    .iter()
                    .flatten()
                    .any(|other| PortKey::of(other.protocol, other.local) == key);
            return Err(if has_lease {
                Refusal::PortTaken(port)
            } else {
                Refusal::TimeWait(port)
            });
        }
        match lease.flow() {
            Some(flow) if self.waiting.get(&flow).is_some() && !listening => {
                Err(Refusal::TimeWait(port))
            }
            _ => Ok(()),
        }
    }

    /// A port that nobody has, from a random one on.
    fn any_port(&mut self, protocol: Protocol, address: IpAddr) -> Result<u16, Refusal> {
        let (first, last) = (*self.limits.ports.start(), *self.limits.ports.end());
        let count = u32::from(last.saturating_sub(first)) + 1;
        let from = self.rng.below(u64::from(count)) as u32;
        let port_at = |step: u32| first + ((from + step) % count) as u16;
        let is_free = |port: &u16| {
            !self
                .ports
                .contains_key(&PortKey::of(protocol, SocketAddr::new(address, *port)))
        };
        (0..count)
            .map(port_at)
            .find(is_free)
            .ok_or(Refusal::NoPorts(count))
    }

    fn insert(&mut self, lease: Lease) -> LeaseId {
        let id = LeaseId(self.free.pop().unwrap_or(self.leases.len() as u32));
        let key = PortKey::of(lease.protocol, lease.local);
        self.use_port(key, lease.owner);
        match lease.flow() {
            Some(flow) => {
                if self.waiting.remove(&flow).is_some() {
                    self.free_port(key);
                }
                self.connected.insert(flow, id);
            }
            None => {
                self.listening.insert(key, id);
            }
        }
        *self.users.entry(lease.owner).or_insert(0) += 1;
        match self.leases.get_mut(id.index()) {
            Some(place) => *place = Some(lease),
            None => self.leases.push(Some(lease)),
        }
        id
    }

    fn use_port(&mut self, key: PortKey, owner: u32) {
        self.ports
            .entry(key)
            .or_insert(PortUse { owner, uses: 0 })
            .uses += 1;
    }

    fn free_port(&mut self, key: PortKey) {
        if let Some(used) = self.ports.get_mut(&key) {
            used.uses = used.uses.saturating_sub(1);
            if used.uses == 0 {
                self.ports.remove(&key);
            }
        }
    }

    /// Ends a lease. `None`: there is no such.
    pub fn end(&mut self, now: Instant, id: LeaseId) -> Option<Ended> {
        let lease = self.leases.get_mut(id.index())?.take()?;
        self.free.push(id.0);
        let key = PortKey::of(lease.protocol, lease.local);
        if let Some(count) = self.users.get_mut(&lease.owner) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.users.remove(&lease.owner);
            }
        }
        let mut ended = Ended {
            lease,
            ending: Ending::Free,
            cut_short: false,
        };
        match lease.flow() {
            Some(flow) => {
                self.connected.remove(&flow);
                if lease.protocol == Protocol::Tcp {
                    ended.ending = lease.track.ending();
                }
                if ended.ending != Ending::Free {
                    let numbers = [lease.track.client_next(), lease.track.peer_next()];
                    let is_aborted = ended.ending == Ending::Abort;
                    // The port goes on being used.
                    self.use_port(key, lease.owner);
                    let gone = self
                        .waiting
                        .begin(now, flow, lease.owner, numbers, is_aborted);
                    ended.cut_short = gone.is_some();
                    gone.into_iter().for_each(|(flow, _)| {
                        self.free_port(PortKey::of(flow.protocol, flow.local))
                    });
                }
            }
            None => {
                self.listening.remove(&key);
            }
        }
        self.free_port(key);
        Some(ended)
    }

    /// Time counts from `by` later on.
    pub fn rebase(&mut self, by: Duration) {
        self.waiting.rebase(by);
    }

    /// Frees the ports whose wait is over.
    pub fn handle_time(&mut self, now: Instant) {
        while let Some((flow, _)) = self.waiting.pop_due(now) {
            self.free_port(PortKey::of(flow.protocol, flow.local));
        }
    }

    /// When [`handle_time`](Self::handle_time) has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.waiting.next_deadline()
    }
}

#[cfg(test)]
mod tests;
