//! The switch that the rings would have hung on, as far as the paper estimates it: how
//! long a priority frame waits behind a frame of the largest size.
//!
//! Ports are joined by one bus that carries the traffic of all, or by a channel for each
//! output. Either carries one frame at a time, those of the priority path first. A switch
//! that can suspend breaks a frame off for a priority frame and goes on with it after. With
//! cut-through a frame may begin when its head is there, and then ends no sooner than its
//! tail comes; without, it begins when the whole of it is there.
//!
//! Source: jet93, section 3.5; cut-through and suspension are its suggestions.

use std::collections::VecDeque;

use barewire_units::{ByteSize, Duration, Instant, Rate};

/// What joins the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// One bus, as fast as all channels together.
    Bus,
    /// A channel for each output.
    Space,
}

/// What a switch is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Ports.
    pub ports: usize,
    /// Rate of a channel, as far as it is frames.
    pub channel: Rate,
    /// What joins the ports.
    pub division: Division,
    /// A priority frame suspends another.
    pub suspend: bool,
    /// A frame may begin before its tail is there.
    pub cut_through: bool,
}

/// A frame in the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The caller's name for it.
    pub id: u64,
    /// Port that it leaves by.
    pub output: usize,
    /// Its length.
    pub bytes: u64,
    /// Whether it takes the priority path.
    pub priority: bool,
    /// When its last bit is there.
    pub tail: Instant,
}

/// A frame that has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The caller's name for it.
    pub id: u64,
    /// When it began to leave.
    pub began: Instant,
    /// When its last bit left.
    pub ended: Instant,
}

/// A frame that begins to leave, and goes on to its end unless it is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// The caller's name for it.
    pub id: u64,
    /// Whether it can still be suspended.
    pub suspendable: bool,
    /// When its last bit will leave.
    pub ends: Instant,
}

/// A frame that is on its way through, or was.
#[derive(Clone, Copy, Debug)]
struct Passing {
    packet: Packet,
    began: Instant,
    /// Time that it still needs, from when it goes on.
    left: Duration,
    ends: Instant,
}

/// A bus or a channel.
#[derive(Default)]
struct Server {
    priority: VecDeque<Packet>,
    other: VecDeque<Packet>,
    passing: Option<Passing>,
    suspended: Option<Passing>,
}

/// The switch.
pub struct Switch {
    config: SwitchConfig,
    servers: Vec<Server>,
    /// Frames whose tail is awaited.
    arriving: Vec<Packet>,
    begun: VecDeque<Beginning>,
    left: VecDeque<Departure>,
}

impl Switch {
    /// A switch with nothing in it. It has at least one port.
    #[must_use]
    pub fn new(config: SwitchConfig) -> Self {
        let servers = match config.division {
            Division::Bus => 1,
            Division::Space => config.ports.max(1),
        };
        Self {
            config,
            servers: (0..servers).map(|_| Server::default()).collect(),
            arriving: Vec::new(),
            begun: VecDeque::new(),
            left: VecDeque::new(),
        }
    }

    /// What it is made of.
    #[must_use]
    pub fn config(&self) -> SwitchConfig {
        self.config
    }

    /// The head of a frame is there.
    pub fn handle_frame(&mut self, now: Instant, packet: Packet) {
        if self.config.cut_through || packet.tail <= now {
            self.enqueue(now, packet);
        } else {
            self.arriving.push(packet);
        }
    }

    /// When [`Switch::handle_timer`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let tails = self.arriving.iter().map(|packet| packet.tail);
        let passing = self.servers.iter().filter_map(|server| server.passing);
        tails.chain(passing.map(|passing| passing.ends)).min()
    }

    /// The deadline has come.
    pub fn handle_timer(&mut self, now: Instant) {
        for index in 0..self.servers.len() {
            let server = &mut self.servers[index];
            if let Some(passing) = server.passing.take_if(|passing| passing.ends <= now) {
                self.left.push_back(Departure {
                    id: passing.packet.id,
                    began: passing.began,
                    ended: passing.ends,
                });
                self.serve(now, index);
            }
        }
        let whole = |packet: &Packet| packet.tail <= now;
        let (there, arriving) = self.arriving.iter().partition(|packet| whole(packet));
        self.arriving = arriving;
        let there: Vec<Packet> = there;
        for packet in there {
            self.enqueue(now, packet);
        }
    }

    /// The next frame that has left.
    pub fn poll(&mut self) -> Option<Departure> {
        self.left.pop_front()
    }

    /// The next frame that has begun to leave.
    pub fn poll_begun(&mut self) -> Option<Beginning> {
        self.begun.pop_front()
    }

    fn rate(&self) -> Rate {
        match self.config.division {
            Division::Space => self.config.channel,
            Division::Bus => {
                let ports = self.config.ports.max(1) as u64;
                Rate::from_bps(self.config.channel.as_bps().saturating_mul(ports))
            }
        }
    }

    fn enqueue(&mut self, now: Instant, packet: Packet) {
        let index = packet.output % self.servers.len();
        let server = &mut self.servers[index];
        if packet.priority {
            server.priority.push_back(packet);
        } else {
            server.other.push_back(packet);
        }
        let suspends = self.config.suspend && packet.priority;
        if let Some(mut broken_off) = server
            .passing
            .take_if(|passing| suspends && !passing.packet.priority)
        {
            broken_off.left = broken_off.ends.saturating_duration_since(now);
            server.suspended = Some(broken_off);
        }
        self.serve(now, index);
    }

    /// Lets the next frame pass, if none does.
    fn serve(&mut self, now: Instant, index: usize) {
        let rate = self.rate();
        let server = &mut self.servers[index];
        if server.passing.is_some() {
            return;
        }
        let fresh = |packet: Packet| Passing {
            packet,
            began: now,
            left: rate.time_to_send(ByteSize::from_bytes(packet.bytes)),
            ends: now,
        };
        let next = server.priority.pop_front().map(fresh);
        let suspended = next.is_none().then(|| server.suspended.take()).flatten();
        let goes_on = suspended.is_some();
        let next = next.or(suspended);
        let next = next.or_else(|| server.other.pop_front().map(fresh));
        server.passing = next.map(|passing| Passing {
            ends: now.saturating_add(passing.left).max(passing.packet.tail),
            ..passing
        });
        if let Some(passing) = server.passing.filter(|_| !goes_on) {
            self.begun.push_back(Beginning {
                id: passing.packet.id,
                suspendable: self.config.suspend && !passing.packet.priority,
                ends: passing.ends,
            });
        }
    }
}
