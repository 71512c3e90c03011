//! Carries packets from outside: each is a message to its peer. The program polls its connections in turn; after the
//! window it sleeps until a tripwire fires, or a packet comes from outside.

use std::collections::VecDeque;

use barewire_fabric::queue::Next;
use barewire_models::clan::HostCosts;
use barewire_units::{Duration, Instant};

use crate::clan::end::End;
use crate::clan::step::Step;

enum Phase {
    Choosing,
    Looking(usize),
    /// Since when looks are left out.
    Watching(Instant),
    /// From a peer, where it lies, and what it is.
    Receiving(usize, Next, Vec<u8>),
    Sending,
}

/// Sends and receives packets.
pub struct Carrier {
    costs: HostCosts,
    /// The host takes no time: it looks at all at once, and does not poll.
    is_timeless: bool,
    /// By peer; none to itself.
    ends: Vec<Option<End>>,
    outgoing: Option<(usize, Vec<u8>)>,
    /// There was no room for it.
    is_blocked: bool,
    received: VecDeque<Vec<u8>>,
    phase: Phase,
    /// Looks and sends in turn; which peer is looked at next.
    is_turn_to_send: bool,
    looks: usize,
    /// When it last did anything but look.
    busy_at: Instant,
    is_asleep: bool,
}

impl Carrier {
    /// Over connections to peers, by their number.
    pub fn new(costs: HostCosts, is_timeless: bool, ends: Vec<Option<End>>) -> Self {
        Self {
            costs,
            is_timeless,
            ends,
            outgoing: None,
            is_blocked: false,
            received: VecDeque::new(),
            phase: Phase::Choosing,
            is_turn_to_send: false,
            looks: 0,
            busy_at: Instant::ORIGIN,
            is_asleep: false,
        }
    }

    /// Whether it takes a packet.
    pub fn takes(&self) -> bool {
        self.outgoing.is_none()
    }

    /// A packet for a peer, from outside.
    pub fn offer(&mut self, peer: usize, packet: Vec<u8>) {
        self.outgoing = Some((peer, packet));
    }

    /// It goes on by itself, without an interrupt: its program has a packet.
    pub fn rouse(&mut self) {
        self.is_asleep = false;
    }

    /// The next packet that has come.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.received.pop_front()
    }

    /// Whether it sleeps.
    pub fn is_asleep(&self) -> bool {
        self.is_asleep
    }

    /// The operation before is over.
    pub fn step(&mut self, now: Instant) -> Step {
        let was_asleep = std::mem::take(&mut self.is_asleep);
        match std::mem::replace(&mut self.phase, Phase::Choosing) {
            Phase::Choosing => {}
            Phase::Looking(peer) => {
                if let Some(step) = self.receive(peer) {
                    return step;
                }
            }
            Phase::Watching(since) => {
                let peer = self.watched(now.saturating_duration_since(since));
                if let Some(step) = self.receive(peer) {
                    return step;
                }
            }
            Phase::Receiving(peer, next, packet) => {
                if let Some(end) = &mut self.ends[peer] {
                    end.rx.done(&next);
                }
                self.received.push_back(packet);
                self.busy_at = now;
            }
            Phase::Sending => self.send(now),
        }
        if was_asleep {
            self.busy_at = now;
            return Step::Run(self.costs.dispatch);
        }
        self.choose(now)
    }

    fn is_ready(&self, peer: usize) -> bool {
        let end = self.ends[peer].as_ref();
        end.is_some_and(|end| end.rx.maybe_ready())
    }

    /// Begins to receive what a peer has sent.
    fn receive(&mut self, peer: usize) -> Option<Step> {
        if !self.is_ready(peer) {
            return None;
        }
        let end = self.ends[peer].as_mut()?;
        let next = end.rx.next_message().expect("an honest peer");
        let packet = match &next {
            Next::Nothing => return None,
            Next::InPlace(located) => {
                let mut packet = vec![0; located.len_bytes];
                end.rx.copy_out(located, &mut packet);
                packet
            }
            Next::Assembled => end.rx.assembled().to_vec(),
        };
        let time = self.costs.receive(packet.len());
        self.phase = Phase::Receiving(peer, next, packet);
        Some(Step::Run(time))
    }

    fn send(&mut self, now: Instant) {
        let Some((peer, packet)) = &self.outgoing else {
            return;
        };
        let sent = match &mut self.ends[*peer] {
            Some(end) => end.tx.send_frame(packet).expect("an honest peer"),
            None => true,
        };
        self.is_blocked = !sent;
        if sent {
            self.outgoing = None;
            self.busy_at = now;
        }
    }

    /// Looks at a connection between two packets that it sends.
    fn choose(&mut self, now: Instant) -> Step {
        if self.is_timeless {
            return self.choose_at_once();
        }
        self.is_turn_to_send = !self.is_turn_to_send;
        if self.outgoing.is_some() && self.is_turn_to_send {
            self.phase = Phase::Sending;
            // Whoever has found no room only looks whether there is some.
            return Step::Run(match self.is_blocked {
                true => self.costs.poll,
                false => self.costs.send,
            });
        }
        let poll = self.costs.poll;
        if (0..self.ends.len()).any(|peer| self.is_ready(peer)) {
            self.phase = Phase::Looking(self.next_peer());
            return Step::Run(poll);
        }
        // There is nothing to see until something arrives, be it credit.
        let until = match (&self.outgoing, self.is_blocked) {
            (None, _) => Some(self.busy_at + self.costs.poll_window),
            (Some(_), true) => None,
            (Some(_), false) => Some(now),
        };
        if self.outgoing.is_none() && until.is_some_and(|until| until <= now) {
            return self.sleep();
        }
        self.phase = Phase::Watching(now);
        self.is_turn_to_send = false;
        Step::Watch { poll, until }
    }

    /// The peer whose turn it is after so long without a look.
    fn watched(&mut self, time: Duration) -> usize {
        let looks = time.as_ps() / self.costs.poll.as_ps().max(1);
        let peers = self.ends.iter().flatten().count().max(1) as u64;
        for _ in 0..(looks.max(1) - 1) % peers {
            self.next_peer();
        }
        self.next_peer()
    }

    /// The next peer in turn.
    fn next_peer(&mut self) -> usize {
        let count = self.ends.len();
        let mut order = (1..=count).map(|offset| (self.looks + offset) % count);
        let peer = order.find(|peer| self.ends[*peer].is_some());
        self.looks = peer.unwrap_or(0);
        self.looks
    }

    fn choose_at_once(&mut self) -> Step {
        for _ in 0..self.ends.len() {
            let peer = self.next_peer();
            if let Some(step) = self.receive(peer) {
                return step;
            }
        }
        if self.outgoing.is_some() && !self.is_blocked {
            self.phase = Phase::Sending;
            return Step::Run(Duration::ZERO);
        }
        // What comes next may be room.
        self.is_blocked = false;
        self.sleep()
    }

    fn sleep(&mut self) -> Step {
        self.is_asleep = true;
        Step::Sleep
    }
}
