//! Lines, outputs and switches.
//!
//! Each switch has one buffer that all its outputs share. Few hosts are at one switch. More are
//! at leaves, and each uplink of a leaf leads to another spine; what goes over which spine
//! depends on the packet's flow.
//!
//! | mode | when a queue grows |
//! |---|---|
//! | lossy | a packet that finds its output's queue at its share of what is free is dropped |
//! | lossless | the switch pauses whoever sends to it over a line, while it holds too much that came by that line; what it pauses is the whole line |
//!
//! An output is an output of a card or of a switch. What a switch holds that came by a line is
//! counted with the output that the line begins at.

use std::collections::VecDeque;

use barewire_units::{ByteSize, Duration, Instant, Rate};

crate::parameters! {
    /// A line, from a card to a switch or between switches.
    #[derive(Copy)]
    pub struct LineConfig {
        /// Its rate.
        pub rate: Rate,
        /// Its delay.
        pub delay: Duration,
    }
}

crate::parameters! {
    /// A switch, and how many there are.
    #[derive(Copy)]
    pub struct SwitchConfig {
        /// Hosts at a switch; more hosts are at leaves.
        pub hosts: usize,
        /// Lines from a leaf to spines.
        pub uplinks: usize,
        /// From the head of a packet to its output.
        pub latency: Duration,
        /// A packet goes on before all of it is in.
        pub cut_through: bool,
        /// Its buffer.
        pub buffer: ByteSize,
        /// Lossy: an output may hold so much of what is free, in percent.
        pub share_percent: u64,
        /// It pauses lines, and drops nothing.
        pub lossless: bool,
        /// It pauses a line when it holds more than this that came by it.
        pub pause_above: ByteSize,
        /// The line may go on when it holds less.
        pub resume_below: ByteSize,
        /// Until the other end of the line has understood, beside the delay of the line.
        pub pause_delay: Duration,
    }
}

/// Where a line leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// To a host.
    Host(u32),
    /// To a switch: leaves first, then spines.
    Switch(u32),
}

/// A packet on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<P> {
    /// The host that it is for.
    pub to: u32,
    /// Chooses the spine.
    pub flow: u32,
    /// Bytes on the line.
    pub len_bytes: u64,
    /// What it is.
    pub what: P,
}

/// What a network wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Tell the output that it has to pause, or may go on, after [`Network::pause_delay`].
    Pause(u32, bool),
    /// The output may have something to send.
    Poll(u32),
    /// The packet was dropped.
    Dropped,
}

#[derive(Clone, Debug)]
struct Output<P> {
    to: Node,
    /// The switch that it is an output of.
    of: Option<u32>,
    /// Packets, each with the output that it came from.
    waiting: VecDeque<(Packet<P>, u32)>,
    waiting_bytes: u64,
    /// On the line: bytes, and the output that they came from.
    leaving: Option<(u64, u32)>,
    /// Since when it is paused.
    paused: Option<Instant>,
    paused_for: Duration,
    /// What the switch at the end of its line holds that came by the line.
    beyond_bytes: u64,
    told_to_pause: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Switch {
    held_bytes: u64,
    highest_bytes: u64,
}

/// How hosts and switches are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    hosts: u32,
    each: u32,
    leaves: u32,
    uplinks: u32,
}

impl Topology {
    /// So many hosts.
    #[must_use]
    pub fn new(config: &SwitchConfig, hosts: u32) -> Self {
        let each = config.hosts.max(1) as u32;
        let leaves = hosts.div_ceil(each).max(1);
        Self {
            hosts,
            each,
            leaves,
            uplinks: if leaves > 1 {
                config.uplinks.max(1) as u32
            } else {
                0
            },
        }
    }

    /// The leaf of a host.
    #[must_use]
    pub const fn leaf_of(&self, host: u32) -> u32 {
        host / self.each
    }

    /// Switches.
    #[must_use]
    pub const fn switches(&self) -> u32 {
        self.leaves + self.uplinks
    }

    /// Outputs: of each host, of each leaf to each host, to each spine, of each spine.
    fn outputs(&self) -> impl Iterator<Item = (Node, Option<u32>)> + use<> {
        let it = *self;
        let cards = (0..it.hosts).map(move |host| (Node::Switch(it.leaf_of(host)), None));
        let down = (0..it.hosts).map(move |host| (Node::Host(host), Some(it.leaf_of(host))));
        let up = (0..it.leaves * it.uplinks).map(move |nth| {
            (
                Node::Switch(it.leaves + nth % it.uplinks),
                Some(nth / it.uplinks),
            )
        });
        let spines = (0..it.leaves * it.uplinks).map(move |nth| {
            (
                Node::Switch(nth % it.leaves),
                Some(it.leaves + nth / it.leaves),
            )
        });
        cards.chain(down).chain(up).chain(spines)
    }

    /// The output that a packet takes at a switch.
    #[must_use]
    pub fn output(&self, switch: u32, to: u32, flow: u32) -> u32 {
        let leaf = self.leaf_of(to);
        if switch == leaf {
            return self.hosts + to;
        }
        if switch < self.leaves {
            // Fibonacci hashing: neighbouring flows take different spines.
            let spine = (u64::from(flow).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
            return 2 * self.hosts + switch * self.uplinks + spine % self.uplinks;
        }
        let spine = switch - self.leaves;
        2 * self.hosts + self.leaves * self.uplinks + spine * self.leaves + leaf
    }
}

/// The network.
#[derive(Clone, Debug)]
pub struct Network<P> {
    line: LineConfig,
    config: SwitchConfig,
    topology: Topology,
    outputs: Vec<Output<P>>,
    switches: Vec<Switch>,
    dropped: u64,
}

impl<P: Copy> Network<P> {
    /// An idle network of so many hosts.
    #[must_use]
    pub fn new(line: LineConfig, config: SwitchConfig, hosts: u32) -> Self {
        let topology = Topology::new(&config, hosts);
        let output = |(to, of)| Output {
            to,
            of,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            leaving: None,
            paused: None,
            paused_for: Duration::ZERO,
            beyond_bytes: 0,
            told_to_pause: false,
        };
        Self {
            line,
            config,
            topology,
            outputs: topology.outputs().map(output).collect(),
            switches: vec![Switch::default(); topology.switches() as usize],
            dropped: 0,
        }
    }

    /// Who is where.
    #[must_use]
    pub const fn topology(&self) -> Topology {
        self.topology
    }

    /// Packets that were dropped.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The most that a switch held.
    #[must_use]
    pub fn highest_bytes(&self) -> u64 {
        let all = self.switches.iter().map(|switch| switch.highest_bytes);
        all.max().unwrap_or(0)
    }

    /// For how long outputs of cards, and outputs of switches, were paused, all together.
    #[must_use]
    pub fn paused(&self, now: Instant) -> [Duration; 2] {
        let hosts = self.topology.hosts as usize;
        let all = |outputs: &[Output<P>]| {
            outputs.iter().fold(Duration::ZERO, |all, output| {
                let still = output
                    .paused
                    .map(|since| now.saturating_duration_since(since));
                all.saturating_add(output.paused_for)
                    .saturating_add(still.unwrap_or(Duration::ZERO))
            })
        };
        [all(&self.outputs[..hosts]), all(&self.outputs[hosts..])]
    }

    /// Lines that begin at cards, and at switches.
    #[must_use]
    pub fn lines(&self) -> [u32; 2] {
        let hosts = self.topology.hosts;
        [hosts, self.outputs.len() as u32 - hosts]
    }

    /// From the decision to pause to the pause.
    #[must_use]
    pub fn pause_delay(&self) -> Duration {
        self.line.delay + self.config.pause_delay
    }

    /// An output pauses, or may go on.
    pub fn handle_pause(&mut self, now: Instant, output: u32, pause: bool) {
        let output = &mut self.outputs[output as usize];
        if let Some(since) = output.paused.take() {
            output.paused_for += now.saturating_duration_since(since);
        }
        output.paused = pause.then_some(now);
    }

    /// Whether an output of a card would take a packet now and send it.
    #[must_use]
    pub fn is_free(&self, output: u32) -> bool {
        let output = &self.outputs[output as usize];
        output.leaving.is_none() && output.paused.is_none() && output.waiting.is_empty()
    }

    /// A card has a packet for its output.
    pub fn send(&mut self, host: u32, packet: Packet<P>) {
        let output = &mut self.outputs[host as usize];
        output.waiting_bytes += packet.len_bytes;
        output.waiting.push_back((packet, host));
    }

    /// A packet that `from` has sent is at a switch.
    pub fn handle_packet(
        &mut self,
        switch: u32,
        from: u32,
        packet: Packet<P>,
        act: &mut impl FnMut(Action),
    ) {
        let to = self.topology.output(switch, packet.to, packet.flow);
        let it = &mut self.switches[switch as usize];
        let output = &mut self.outputs[to as usize];
        let free = self.config.buffer.as_bytes().saturating_sub(it.held_bytes);
        let share = u128::from(free) * u128::from(self.config.share_percent) / 100;
        let over =
            !self.config.lossless && u128::from(output.waiting_bytes + packet.len_bytes) > share;
        if over || packet.len_bytes > free {
            self.dropped += 1;
            return act(Action::Dropped);
        }
        it.held_bytes += packet.len_bytes;
        it.highest_bytes = it.highest_bytes.max(it.held_bytes);
        output.waiting_bytes += packet.len_bytes;
        output.waiting.push_back((packet, from));
        let line = &mut self.outputs[from as usize];
        line.beyond_bytes += packet.len_bytes;
        let above = line.beyond_bytes > self.config.pause_above.as_bytes();
        if self.config.lossless && above && !line.told_to_pause {
            line.told_to_pause = true;
            act(Action::Pause(from, true));
        }
        act(Action::Poll(to));
    }

    /// The packet that begins to leave by an output now, if one can: where it goes, when it is
    /// there (its head, if a switch needs no more), and when the line is free.
    pub fn poll(
        &mut self,
        now: Instant,
        output: u32,
    ) -> Option<(Packet<P>, Node, Instant, Instant)> {
        let output = &mut self.outputs[output as usize];
        if output.leaving.is_some() || output.paused.is_some() {
            return None;
        }
        let (packet, from) = output.waiting.pop_front()?;
        output.leaving = Some((packet.len_bytes, from));
        let free = now
            + self
                .line
                .rate
                .time_to_send(ByteSize::from_bytes(packet.len_bytes));
        let there = match output.to {
            Node::Switch(_) if self.config.cut_through => now + self.config.latency,
            Node::Switch(_) => free + self.config.latency,
            Node::Host(_) => free,
        };
        Some((packet, output.to, there + self.line.delay, free))
    }

    /// The tail of a packet has left an output.
    pub fn handle_sent(&mut self, output: u32, act: &mut impl FnMut(Action)) {
        let it = &mut self.outputs[output as usize];
        let Some((len_bytes, from)) = it.leaving.take() else {
            return;
        };
        it.waiting_bytes -= len_bytes;
        if let Some(switch) = it.of {
            self.switches[switch as usize].held_bytes -= len_bytes;
            let line = &mut self.outputs[from as usize];
            line.beyond_bytes -= len_bytes;
            if line.told_to_pause && line.beyond_bytes < self.config.resume_below.as_bytes() {
                line.told_to_pause = false;
                act(Action::Pause(from, false));
            }
        }
        act(Action::Poll(output));
    }
}
