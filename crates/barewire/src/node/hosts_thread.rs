//! A node's thread for links to other hosts: it accepts at ports, and drives links when nobody else does.
//!
//! Whoever polls or waits on the node drives its links within that call. The thread is there for a node whose owner does
//! something else: what was accepted has to be sent, and what arrives be stored. It sleeps on the links' descriptors.
//! When it wakes while somebody else is about to drive, it leaves it to them for [`GRACE`], and looks again. So it costs at
//! most one wake-up in that time while something moves, and none while nothing does, but for the signs of life.
//!
//! Where a thread polls a link all the time, the descriptor of its carrier is taken out of the set
//! ([`DrivenSet::may_leave_out`]): each packet would cost that thread the way through the sets that nobody sleeps on. Then this
//! thread wakes after [`GRACE`], and has the descriptor tell again if nobody has polled for so long. Each time that somebody
//! has, it sleeps twice as long, up to [`WATCH_MAX`]: each wake-up takes a processor away from whoever polls. So after the end of
//! polling nothing lies there for longer than the polling took.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use barewire_sys::wake::{Epoll, EventFd, Interest};

use crate::error::Result;
use crate::links::driven::DrivenSet;
use crate::log::{self, Level};
use crate::node::hosts::Wish;
use crate::remote::greeter::{Greeted, Greeter};
use crate::remote::greeting::Greeting;
use crate::remote::trust::Trust;

/// How long the thread leaves what has come to others that are about to drive.
const GRACE: Duration = Duration::from_millis(1);
/// The longest sleep while somebody polls.
const WATCH_MAX: Duration = Duration::from_millis(16);
/// Most who may be greeting at a time. Others wait in the kernel.
const GREETERS_MAX: usize = 256;
/// Whoever has said nothing for so long makes room for them,
const SILENCE: Duration = Duration::from_millis(250);
/// and so does who takes longer than this, whatever it says.
const PATIENCE: Duration = Duration::from_secs(2);
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
    fn welcome(&self, greeted: Greeted);
}

/// Who has connected to a port.
struct Stranger {
    /// Where it has connected from.
    address: SocketAddr,
    greeter: Greeter,
    deadline: Instant,
    /// When it was heard last.
    heard: Instant,
}

impl Stranger {
    /// Logs why it is turned away.
    fn refuse(&self, error: &str) {
        log_refusal(self.address, error);
    }

    /// Whether it may be turned away for others that wait.
    fn makes_room(&self, now: Instant) -> bool {
        let age = now + GREETING_TIME - self.deadline;
        now.duration_since(self.heard) > SILENCE || age > PATIENCE
    }
}

/// Whoever has not greeted in time.
const LATE: &str = "it took too long to greet";

/// Logs why who has connected to a port gets no link.
fn log_refusal(address: SocketAddr, error: &str) {
    log::line(Level::Warn, || {
        format!("{address} was turned away at the port: {error}")
    });
}

/// The thread.
pub(super) struct Thread {
    node: Box<dyn Welcome>,
    set: Arc<DrivenSet>,
    bell: Arc<EventFd>,
    wished: Receiver<Wish>,
    epoll: Epoll,
    own: Greeting,
    trust: Trust,
    ports: HashMap<u64, TcpListener>,
    greeters: HashMap<u64, Stranger>,
    /// Whether nobody is accepted at the ports, for want of room.
    is_full: bool,
    next_token: u64,
    timeout: Duration,
}

impl Thread {
    pub fn new(
        node: Box<dyn Welcome>,
        set: Arc<DrivenSet>,
        (bell, wished): (Arc<EventFd>, Receiver<Wish>),
        (own, trust): (Greeting, Trust),
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
            trust,
            ports: HashMap::new(),
            greeters: HashMap::new(),
            is_full: false,
            // Beyond those of ports.
            next_token: 1 << 32,
            timeout: timeout.max(Duration::from_millis(20)),
        })
    }

    pub fn run(mut self) {
        let ping_after = self.timeout / PINGS_PER_TIMEOUT;
        let mut next_tick = Instant::now() + ping_after;
        let mut events = Vec::with_capacity(64);
        let mut watch = GRACE;
        while self.node.is_there() {
            events.clear();
            let left = next_tick.saturating_duration_since(Instant::now());
            let is_restless = |stranger: &Stranger| stranger.greeter.wait_for().is_none();
            let longest = if self.greeters.values().any(is_restless) {
                Some(GRACE)
            } else if self.is_full {
                Some(left.min(SILENCE / 10))
            } else if self.set.is_empty() && self.greeters.is_empty() {
                None
            } else {
                Some(left)
            };
            let longest = match self.set.is_watched() {
                true => Some(longest.map_or(watch, |time| time.min(watch))),
                false => longest,
            };
            if self.epoll.wait(&mut events, longest).is_err() {
                return;
            }
            if self.set.is_watched() {
                watch = self.watched(watch);
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
            self.greet_restless();
            if self.is_full {
                self.make_room();
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

    /// Somebody has polled: sees whether that goes on. Returns how long it does not look again.
    fn watched(&self, for_time: Duration) -> Duration {
        if self.set.was_driven_within(GRACE) {
            return (for_time * 2).min(WATCH_MAX);
        }
        self.set.end_watch();
        self.set.drive_until_idle();
        GRACE
    }

    fn hear_bell(&mut self) {
        let _ = self.bell.drain();
        while let Ok(wish) = self.wished.try_recv() {
            match wish {
                Wish::Open { token, listener } => {
                    if self.is_full || self.epoll.add(&listener, token, Interest::READ).is_ok() {
                        self.ports.insert(token, listener);
                    }
                }
                Wish::Close { token } => {
                    if let Some(listener) = self.ports.remove(&token) {
                        // It is not in the set while there is no room.
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
        self.set.drive_until_idle();
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
        self.turn_away(|stranger| stranger.deadline <= now);
    }

    /// Takes one who has connected to a port.
    fn accept(&mut self, port: u64) {
        if self.greeters.len() >= GREETERS_MAX {
            self.is_full = true;
            for listener in self.ports.values() {
                let _ = self.epoll.remove(listener);
            }
            return self.make_room();
        }
        let Some(listener) = self.ports.get(&port) else {
            return;
        };
        match listener.accept() {
            Ok((stream, address)) => self.receive_stranger(stream, address),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // No descriptors are left: who waits, waits in the kernel.
            Err(_) => std::thread::sleep(GRACE),
        }
    }

    /// Turns those away that take too long.
    fn turn_away(&mut self, is_late: impl Fn(&Stranger) -> bool) {
        self.greeters.retain(|_, stranger| {
            let stays = !is_late(stranger);
            if !stays {
                stranger.refuse(LATE);
            }
            stays
        });
    }

    /// Turns those away who are silent, if somebody waits at a port; and accepts again, if there is room.
    fn make_room(&mut self) {
        if self.greeters.len() >= GREETERS_MAX {
            let now = Instant::now();
            self.turn_away(|stranger| stranger.makes_room(now));
        }
        if self.greeters.len() < GREETERS_MAX {
            self.is_full = false;
            for (token, listener) in &self.ports {
                let _ = self.epoll.add(listener, *token, Interest::READ);
            }
        }
    }

    fn receive_stranger(&mut self, stream: TcpStream, address: SocketAddr) {
        match Greeter::accept(stream, &self.trust, &self.own) {
            Ok(greeter) => {
                self.next_token += 1;
                let now = Instant::now();
                let stranger = Stranger {
                    address,
                    greeter,
                    deadline: now + GREETING_TIME,
                    heard: now,
                };
                self.greeters.insert(self.next_token, stranger);
                self.greet(self.next_token);
            }
            // One that is gone already is nobody. But the keys may be gone, too.
            Err(error) => log_refusal(address, &error),
        }
    }

    /// Goes on with who has connected to a port.
    fn greet(&mut self, token: u64) {
        let Some(stranger) = self.greeters.get_mut(&token) else {
            return;
        };
        stranger.heard = Instant::now();
        let greeter = &mut stranger.greeter;
        if let Some((descriptor, _)) = greeter.wait_for() {
            // It is not in the set the first time; and another one may come in its place.
            let _ = self.epoll.remove(descriptor);
        }
        match greeter.step() {
            Ok(None) => {
                if let Some((descriptor, interest)) = greeter.wait_for() {
                    // If it can not be waited for, its time passes.
                    let _ = self.epoll.add(descriptor, token, interest);
                }
            }
            Ok(Some(greeted)) => {
                self.greeters.remove(&token);
                // One on this host comes back by shared memory.
                if !self.own.is_local_to(&greeted.theirs) {
                    self.node.welcome(greeted);
                }
            }
            // What is wrong with it, the handshake has told it as far as that gives nothing away.
            Err(error) => {
                stranger.refuse(&error);
                self.greeters.remove(&token);
            }
        }
    }

    /// Goes on with those whom no descriptor announces.
    fn greet_restless(&mut self) {
        let is_restless = |stranger: &Stranger| stranger.greeter.wait_for().is_none();
        let all = self.greeters.iter();
        let restless: Vec<u64> = all
            .filter(|(_, s)| is_restless(s))
            .map(|(t, _)| *t)
            .collect();
        for token in restless {
            self.greet(token);
        }
    }
}
