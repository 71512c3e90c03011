//! Ports in TIME-WAIT: connections whose lease has ended, and which their peers may still send segments of.
//!
//! | the connection ended | a segment of the peer | the answer |
//! |---|---|---|
//! | with a RST for a client that went | any with an acknowledgment | RST with the number that the peer expects |
//! | in order, both FINs have passed | with data or FIN, all of the client's acknowledged | ACK |
//! | in order | with data or FIN, not all acknowledged: nobody can repeat the rest | RST |
//! | either | a RST, or an acknowledgment alone | none |
//!
//! So a peer that the first RST did not reach, or reached with a wrong number, gets the right one when it sends
//! (RFC 5961, 3: it answers a wrong number with an acknowledgment). Segments of the client itself cannot come: its
//! lease has ended.

use alloc::collections::VecDeque;

use barewire_units::{Duration, Instant};

use super::flow::{Flow, HashKey, Keyed, rebased};
use super::packet::{Segment, tcp_flags};

/// A connection whose port waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    until: Instant,
    /// Who had it.
    pub owner: u32,
    client_next: u32,
    peer_next: u32,
    is_aborted: bool,
}

/// An answer to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpAnswer {
    /// Its sequence number.
    pub sequence: u32,
    /// Its acknowledgment number.
    pub acknowledgment: u32,
    /// Its flags.
    pub flags: u8,
}

/// All that wait.
#[derive(Debug)]
pub struct Waiting {
    time: Duration,
    max: usize,
    waits: Keyed<Flow, Wait>,
    /// In the order in which they end. One may be there that has gone: then its time is another.
    order: VecDeque<(Instant, Flow)>,
}

impl Waiting {
    /// Waits of so long, at most so many.
    #[must_use]
    pub fn new(time: Duration, max: usize, key: HashKey) -> Self {
        let (waits, order) = (Keyed::with_hasher(key), VecDeque::new());
        Self {
            time,
            max: max.max(1),
            waits,
            order,
        }
    }

    /// That of a connection.
    #[must_use]
    pub fn get(&self, flow: &Flow) -> Option<&Wait> {
        self.waits.get(flow)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waits.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    /// Begins one. If there are too many, the oldest goes: its connection and owner are returned.
    pub fn begin(
        &mut self,
        now: Instant,
        flow: Flow,
        owner: u32,
        [client_next, peer_next]: [u32; 2],
        is_aborted: bool,
    ) -> Option<(Flow, u32)> {
        let until = now.saturating_add(self.time);
        let wait = Wait {
            until,
            owner,
            client_next,
            peer_next,
            is_aborted,
        };
        let mut gone = None;
        if self.order.len() >= self.max {
            gone = self
                .order
                .pop_front()
                .and_then(|(until, flow)| self.take(until, &flow));
        }
        self.waits.insert(flow, wait);
        self.order.push_back((until, flow));
        gone
    }

    /// Ends one early, since the connection is opened anew.
    pub fn remove(&mut self, flow: &Flow) -> Option<Wait> {
        self.waits.remove(flow)
    }

    /// One whose time is over, with its owner.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Flow, u32)> {
        while let Some(&(until, flow)) = self.order.front() {
            if until > now {
                return None;
            }
            self.order.pop_front();
            if let Some(gone) = self.take(until, &flow) {
                return Some(gone);
            }
        }
        None
    }

    /// Time counts from `by` later on.
    pub fn rebase(&mut self, by: Duration) {
        let of_order = self.order.iter_mut().map(|(until, _)| until);
        let of_waits = self.waits.values_mut().map(|wait| &mut wait.until);
        for until in of_order.chain(of_waits) {
            *until = rebased(*until, by);
        }
    }

    /// When the next one may be over.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.order.front().map(|(until, _)| *until)
    }

    fn take(&mut self, until: Instant, flow: &Flow) -> Option<(Flow, u32)> {
        let is_it = self.waits.get(flow).is_some_and(|wait| wait.until == until);
        let wait = if is_it { self.waits.remove(flow) } else { None };
        wait.map(|wait| (*flow, wait.owner))
    }
}

impl Wait {
    /// What a segment of the peer is answered with.
    #[must_use]
    pub fn answer(&self, segment: &Segment) -> Option<TcpAnswer> {
        if segment.has(tcp_flags::RST) || !segment.has(tcp_flags::ACK) {
            return None;
        }
        let reset = TcpAnswer {
            sequence: segment.acknowledgment,
            acknowledgment: 0,
            flags: tcp_flags::RST,
        };
        if self.is_aborted {
            return Some(reset);
        }
        let carries = segment.payload_bytes != 0 || segment.has(tcp_flags::FIN);
        let answer = match segment.acknowledgment == self.client_next {
            true => TcpAnswer {
                sequence: self.client_next,
                acknowledgment: self.peer_next,
                flags: tcp_flags::ACK,
            },
            false => reset,
        };
        carries.then_some(answer)
    }

    /// Whether the peer may open the connection anew with this segment (RFC 9293, 3.6.1).
    #[must_use]
    pub fn may_open_anew(&self, segment: &Segment) -> bool {
        is_opening(segment) && super::track::is_after(segment.sequence, self.peer_next)
    }
}

/// Whether a segment opens a connection.
#[must_use]
pub const fn is_opening(segment: &Segment) -> bool {
    segment.flags & (tcp_flags::SYN | tcp_flags::ACK | tcp_flags::RST | tcp_flags::FIN)
        == tcp_flags::SYN
}
