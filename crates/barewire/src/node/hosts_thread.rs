//! A node's thread for links to other hosts: it accepts at ports, and drives links when nobody else does.
//!
//! Whoever polls or waits on the node drives its links within that call. The thread is there for a node whose owner does
//! something else: what was accepted has to be sent, and what arrives be stored. It sleeps on the links' descriptors.
//! When it wakes while somebody else is about to drive, it leaves it to them for [`GRACE`], and looks again. So it costs at
//! most one wake-up in that time while something moves, and none while nothing does, but for the signs of life.

use std::collections::HashMap;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use barewire_carrier::Carrier;
use barewire_carrier::tcp::TcpCarrier;
use barewire_sys::wake::{Epoll, EventFd, Interest};

use crate::error::Result;
use crate::links::driven::DrivenSet;
use crate::node::hosts::Wish;
use crate::remote::greeter::Greeter;
use crate::remote::greeting::Greeting;

/// How long the thread leaves what has come to others that are about to drive.
const GRACE: Duration = Duration::from_millis(1);
/// Those who have connected to a port and not yet said who they are: the oldest make room.
const GREETERS_MAX: usize = 256;
/// How long they may take.
pub(super) const GREETING_TIME: Duration = Duration::from_secs(5);
/// Signs of life within the time after which a link is lost.
const PINGS_PER_TIMEOUT: u32 = 4;

const TOKEN_BELL: u64 = 0;
const TOKEN_SET: u64 = 1;

/// What the thread asks of its node.
pub(super) trait Welcome: Send {
    /// Whether the node is still there.
    fn is_there(&self) -> bool;
    /// A node on another host has greeted us at a port.
    fn welcome(&self, carrier: Box<dyn Carrier>, theirs: &Greeting);
}

/// The thread.
pub(super) struct Thread {
    node: Box<dyn Welcome>,
    set: Arc<DrivenSet>,
    bell: Arc<EventFd>,
    wished: Receiver<Wish>,
    epoll: Epoll,
    own: Greeting,
    ports: HashMap<u64, TcpListener>,
    greeters: HashMap<u64, (Greeter, Instant)>,
    next_token: u64,
    timeout: Duration,
}

impl Thread {
    pub fn new(
        node: Box<dyn Welcome>,
        set: Arc<DrivenSet>,
        (bell, wished): (Arc<EventFd>, Receiver<Wish>),
        own: Greeting,
        timeout: Duration,
    ) -> Result<Thread> {
        let epoll = Epoll::new()?;
        epoll.add(&*bell, TOKEN_BELL, Interest::READ)?;
        epoll.add(&*set, TOKEN_SET, Interest::READ)?;
        Ok(Thread {
            node,
            set,
            bell,
            wished,
            epoll,
            own,
            ports: HashMap::new(),
            greeters: HashMap::new(),
            // Beyond those of ports.
            next_token: 1 << 32,
            timeout: timeout.max(Duration::from_millis(20)),
        })
    }

    pub fn run(mut self) {
        let ping_after = self.timeout / PINGS_PER_TIMEOUT;
        let mut next_tick = Instant::now() + ping_after;
        let mut events = Vec::with_capacity(64);
        while self.node.is_there() {
            events.clear();
            let left = next_tick.saturating_duration_since(Instant::now());
            let longest = if self.set.is_empty() && self.greeters.is_empty() {
                None
            } else {
                Some(left)
            };
            if self.epoll.wait(&mut events, longest).is_err() {
                return;
            }
            let mut must_drive = false;
            for event in &events {
                match event.token {
                    TOKEN_BELL => self.hear_bell(),
                    TOKEN_SET => must_drive = true,
                    token if self.ports.contains_key(&token) => self.accept(token),
                    token => self.greet(token),
                }
            }
            if must_drive {
                self.drive();
            }
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + ping_after;
                self.tick(ping_after);
            }
        }
    }

    fn hear_bell(&mut self) {
        let _ = self.bell.drain();
        while let Ok(wish) = self.wished.try_recv() {
            match wish {
                Wish::Open { token, listener } => {
                    if self.epoll.add(&listener, token, Interest::READ).is_ok() {
                        self.ports.insert(token, listener);
                    }
                }
                Wish::Close { token } => {
                    if let Some(listener) = self.ports.remove(&token) {
                        let _ = self.epoll.remove(&listener);
                    }
                }
            }
        }
    }

    /// Something has come, or can be sent: does it if nobody else does.
    fn drive(&self) {
        if self.set.is_left_to_others(GRACE) {
            std::thread::sleep(GRACE);
            if self.set.was_driven_within(GRACE) {
                return;
            }
        }
        for driven in self.set.snapshot().iter() {
            driven.drive();
            if driven.has_ended() {
                self.set.remove(driven);
            }
        }
        while !self.set.may_sleep() {
            for driven in self.set.snapshot().iter() {
                driven.drive();
            }
        }
    }

    fn tick(&mut self, ping_after: Duration) {
        let now = Instant::now();
        for driven in self.set.snapshot().iter() {
            driven.tick(
                ping_after.as_nanos() as u64 / 2,
                self.timeout.as_nanos() as u64,
            );
            if driven.has_ended() {
                self.set.remove(driven);
            }
        }
        self.greeters.retain(|_, (_, deadline)| *deadline > now);
    }

    /// Takes those who have connected to a port.
    fn accept(&mut self, port: u64) {
        let Some(listener) = self.ports.get(&port) else {
            return;
        };
        match listener.accept() {
            Ok((stream, _)) => self.receive_stranger(stream),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // No descriptors are left: who waits, waits in the kernel.
            Err(_) => std::thread::sleep(GRACE),
        }
    }

    fn receive_stranger(&mut self, stream: TcpStream) {
        let Ok(carrier) = TcpCarrier::new(stream) else {
            return;
        };
        if self.greeters.len() >= GREETERS_MAX {
            let oldest = self.greeters.iter().min_by_key(|(token, _)| **token);
            if let Some(token) = oldest.map(|(token, _)| *token) {
                self.greeters.remove(&token);
            }
        }
        self.next_token += 1;
        let token = self.next_token;
        let greeter = Greeter::new(Box::new(carrier), &self.own);
        if self
            .epoll
            .add(greeter.carrier.descriptor(), token, Interest::READ)
            .is_ok()
        {
            let deadline = Instant::now() + GREETING_TIME;
            self.greeters.insert(token, (greeter, deadline));
            self.greet(token);
        }
    }

    /// Goes on with greeting who has connected to a port.
    fn greet(&mut self, token: u64) {
        let Some((greeter, _)) = self.greeters.get_mut(&token) else {
            return;
        };
        let theirs = match greeter.step() {
            Ok(None) => {
                let interest = greeter.interest();
                let _ = self
                    .epoll
                    .modify(greeter.carrier.descriptor(), token, interest);
                return;
            }
            Ok(Some(theirs)) => Some(theirs),
            // A stranger, who gets to hear nothing but our greeting.
            Err(_) => None,
        };
        let Some((greeter, _)) = self.greeters.remove(&token) else {
            return;
        };
        let _ = self.epoll.remove(greeter.carrier.descriptor());
        // One on this host comes back by shared memory.
        if let Some(theirs) = theirs.filter(|theirs| !self.own.is_local_to(theirs)) {
            self.node.welcome(greeter.carrier, &theirs);
        }
    }
}
