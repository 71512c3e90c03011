//! The switch with large frames on every input, and priority frames among them: how long
//! these wait.

use barewire_des::{Class, Event, Node, Simulator, World};
use barewire_formats::jetstream::{CELL_FRAME_BYTES, FRAME_BYTES_MAX};
use barewire_models::jetstream::{Packet, Switch, SwitchConfig};
use barewire_units::{ByteSize, Duration, Instant, Rng};

/// Priority frames of a run.
const PROBES: u64 = 400;

#[derive(Clone, Copy, Debug)]
enum SwitchEvent {
    Large,
    Probe,
    Timer,
}

impl Event for SwitchEvent {
    fn digest(&self) -> u64 {
        *self as u64
    }
}

struct Port {
    switch: Switch,
    rng: Rng,
    period: Duration,
    /// When each priority frame was whole.
    probes: Vec<Instant>,
    longest: Duration,
}

/// The longest wait of a priority frame, from whole to its first bit out, where one other
/// input sends frames of the largest size to the same port and never leaves it idle for
/// long; and the hash of the events.
pub fn longest_wait(config: SwitchConfig, rng: Rng) -> (Duration, u64) {
    // One large frame at a time, and a tenth of the time none.
    let large = config.channel.time_to_send(ByteSize::from(FRAME_BYTES_MAX));
    let mut port = Port {
        switch: Switch::new(config),
        rng,
        period: large + large / 10,
        probes: Vec::new(),
        longest: Duration::ZERO,
    };
    let mut sim = Simulator::new();
    sim.at(Instant::ORIGIN, Class::NORMAL, Node(0), SwitchEvent::Large);
    sim.at(Instant::ORIGIN, Class::NORMAL, Node(1), SwitchEvent::Probe);
    sim.run(&mut port);
    (port.longest, sim.trace_hash())
}

impl World for Port {
    type Event = SwitchEvent;

    fn handle(&mut self, event: SwitchEvent, sim: &mut Simulator<SwitchEvent>) {
        let now = sim.now();
        match event {
            SwitchEvent::Large if (self.probes.len() as u64) < PROBES => {
                self.enter(now, u64::MAX, FRAME_BYTES_MAX as u64, false);
                sim.after(self.period, Class::NORMAL, Node(0), SwitchEvent::Large);
            }
            SwitchEvent::Probe if (self.probes.len() as u64) < PROBES => {
                let id = self.probes.len() as u64;
                self.probes.push(now);
                self.enter(now, id, CELL_FRAME_BYTES as u64, true);
                let gap = Duration::from_ps(self.rng.below(4 * self.period.as_ps()));
                sim.after(gap, Class::NORMAL, Node(1), SwitchEvent::Probe);
            }
            SwitchEvent::Large | SwitchEvent::Probe => {}
            SwitchEvent::Timer => self.switch.handle_timer(now),
        }
        while let Some(departure) = self.switch.poll() {
            if let Some(whole) = self.probes.get(departure.id as usize) {
                self.longest = self.longest.max(departure.began - *whole);
            }
        }
        if let Some(deadline) = self.switch.next_deadline() {
            sim.at(deadline, Class::FIRST, Node(2), SwitchEvent::Timer);
        }
    }
}

impl Port {
    fn enter(&mut self, now: Instant, id: u64, bytes: u64, priority: bool) {
        let packet = Packet {
            id,
            output: 0,
            bytes,
            priority,
            tail: now,
        };
        self.switch.handle_frame(now, packet);
    }
}
