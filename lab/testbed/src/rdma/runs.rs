//! Who talks to whom in an experiment, and what is counted.

use barewire_des::Simulator;
use barewire_units::{Duration, Instant, Rng};

use super::parameters::Parameters;
use super::program::{Class, Task};
use super::world::{Joined, Rack, Sim};
use crate::figures::{mbps, us};

/// More than are sent in any run.
const ENDLESS: u64 = u64::MAX;

/// Messages over rings of a size.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) ring_bytes: usize,
    pub(super) message_bytes: usize,
}

impl Shape {
    fn joined(self, hosts: [u32; 2]) -> Joined {
        Joined {
            hosts,
            ring_bytes: self.ring_bytes,
            message_bytes: self.message_bytes,
            own_link: false,
        }
    }
}

/// When senders begin at the latest, until when nothing is counted, and for how long it is.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) jitter: Duration,
    pub(super) warm_up: Duration,
    pub(super) time: Duration,
}

/// What a run came to, while it was counted.
pub(super) struct Run {
    pub(super) classes: Vec<Class>,
    /// Bytes by receiving end.
    pub(super) received_bytes: Vec<u64>,
    pub(super) highest_bytes: u64,
    pub(super) dropped: u64,
    pub(super) repeated: u64,
    pub(super) misses: u64,
    /// Of all time of cards' and of switches' lines, in percent.
    pub(super) paused_percent: [f64; 2],
    pub(super) pairs: usize,
    pub(super) hash: u64,
}

impl Run {
    /// What a class received.
    pub(super) fn mbps(&self, class: usize, times: Times) -> Option<f64> {
        mbps(self.classes[class].bytes, times.time)
    }

    /// A latency of a class, which so many of 1000 do not exceed.
    pub(super) fn latency_us(&self, class: usize, per_mille: u16) -> Option<f64> {
        let latency = &self.classes[class].latency_ps;
        (latency.count() > 0).then(|| latency.per_mille(per_mille) as f64 / 1e6)
    }

    /// How equal the ends' shares are (Jain's index): 1 if all have received the same.
    pub(super) fn fairness(&self, ends: impl Iterator<Item = usize>) -> f64 {
        let bytes: Vec<f64> = ends.map(|end| self.received_bytes[end] as f64).collect();
        let (sum, squares) = bytes.iter().fold((0.0, 0.0), |(sum, squares), it| {
            (sum + it, squares + it * it)
        });
        sum * sum / (squares * bytes.len() as f64)
    }
}

/// A rack in which nothing has begun.
fn rack(parameters: &Parameters, hosts: u32, classes: usize) -> (Rack, Sim) {
    let mut rack = Rack::new(parameters, hosts);
    rack.classes = vec![Class::default(); classes];
    (rack, Simulator::new())
}

fn measure(mut rack: Rack, mut sim: Sim, times: Times) -> Run {
    let counts = |rack: &Rack| {
        let dropped = rack.network().dropped();
        [dropped, rack.repeated(), rack.misses()]
    };
    sim.run_until(Instant::ORIGIN + times.warm_up, &mut rack);
    rack.set_back();
    let before = counts(&rack);
    let paused = rack.network().paused(sim.now());
    sim.run_until(Instant::ORIGIN + times.warm_up + times.time, &mut rack);
    let sound = rack.ends.iter().all(|end| end.torn == 0) && rack.violations == 0;
    debug_assert!(sound, "the rings carry what was sent");
    let [dropped, repeated, misses] = counts(&rack);
    let now_paused = rack.network().paused(sim.now());
    let lines = rack.network().lines();
    Run {
        received_bytes: rack.ends.iter().map(|end| end.received_bytes).collect(),
        highest_bytes: rack.network().highest_bytes(),
        dropped: dropped - before[0],
        repeated: repeated - before[1],
        misses: misses - before[2],
        paused_percent: [0, 1].map(|i| {
            let whole = us(times.time) * f64::from(lines[i]);
            100.0 * us(now_paused[i] - paused[i]) / whole
        }),
        pairs: rack.pairs(),
        hash: sim.trace_hash(),
        classes: std::mem::take(&mut rack.classes),
    }
}

/// Round trips between two hosts; `bare`: of the card's writes, without rings and programs. Half
/// of the mean round trip in microseconds, and the trace.
pub(super) fn ping(parameters: &Parameters, shape: Shape, rounds: u64, bare: bool) -> (f64, u64) {
    let (mut rack, mut sim) = rack(parameters, 2, 1);
    let [asks, answers] = rack.connect(&shape.joined([0, 1]));
    rack.plug_in();
    for end in [asks, answers] {
        rack.ends[end as usize].bare = bare;
    }
    rack.ends[answers as usize].task = Task::Answer;
    rack.begin(asks, Task::Ask(rounds), Instant::ORIGIN, &mut sim);
    sim.run(&mut rack);
    // The last answer is the last event of a program.
    let per_round = us(rack.last_received.since_origin()) / rounds as f64;
    (per_round / 2.0, sim.trace_hash())
}

/// A stream of messages over so many connections between two hosts.
pub(super) fn stream(parameters: &Parameters, shape: Shape, connections: u32, times: Times) -> Run {
    let (mut rack, mut sim) = rack(parameters, 2, 1);
    for _ in 0..connections {
        let [sends, _] = rack.connect(&shape.joined([0, 1]));
        rack.begin(sends, Task::Send(ENDLESS), Instant::ORIGIN, &mut sim);
    }
    rack.plug_in();
    measure(rack, sim, times)
}

/// Who sends beside an incast.
pub(super) const INCAST: usize = 0;
/// From a host that takes part in the incast to another receiver.
pub(super) const SAME_HOST: usize = 1;
/// From a host that does not.
pub(super) const SAME_LEAF: usize = 2;

/// Many hosts send to one. With `bystanders` there are two more receivers beside that one, at
/// its leaf: the last sender sends to one of them as well, and one more host, at the last
/// sender's leaf if that has room, to the other.
pub(super) fn incast(
    parameters: &Parameters,
    shape: Shape,
    (senders, bystanders): (u32, bool),
    times: Times,
    seed: u64,
) -> Run {
    let first = if bystanders { 3 } else { 1 };
    let hosts = match bystanders {
        true => first + senders.max(1) + 1,
        false => first + senders,
    };
    let (mut rack, mut sim) = rack(parameters, hosts, 3);
    let rng = Rng::from_seed(seed);
    let flow = |rack: &mut Rack, sim: &mut Sim, hosts: [u32; 2], class| {
        let [sends, takes] = rack.connect(&shape.joined(hosts));
        rack.ends[takes as usize].class = class;
        let mut rng = rng.fork_nth("begin", sends.into());
        let late = Duration::from_ps(rng.in_range(0..=times.jitter.as_ps()));
        rack.begin(sends, Task::Send(ENDLESS), Instant::ORIGIN + late, sim);
    };
    for sender in first..first + senders {
        flow(&mut rack, &mut sim, [sender, 0], INCAST);
    }
    if bystanders {
        flow(&mut rack, &mut sim, [hosts - 2, 1], SAME_HOST);
        flow(&mut rack, &mut sim, [hosts - 1, 2], SAME_LEAF);
    }
    rack.plug_in();
    measure(rack, sim, times)
}

/// Every host sends to every other one, over so many connections each; `own_links`: each
/// connection has a link of its own.
pub(super) fn all_to_all(
    parameters: &Parameters,
    shape: Shape,
    (hosts, connections, own_links): (u32, u32, bool),
    times: Times,
    seed: u64,
) -> Run {
    let (mut rack, mut sim) = rack(parameters, hosts, 1);
    let rng = Rng::from_seed(seed);
    // Each begins with its neighbour: shifted, so that not all begin with the same one.
    for distance in 1..=hosts / 2 {
        for near in 0..hosts {
            let far = (near + distance) % hosts;
            if 2 * distance == hosts && far < near {
                continue;
            }
            for _ in 0..connections {
                let joined = Joined {
                    own_link: own_links,
                    ..shape.joined([near, far])
                };
                for end in rack.connect(&joined) {
                    let mut rng = rng.fork_nth("begin", end.into());
                    let late = Duration::from_ps(rng.in_range(0..=times.jitter.as_ps()));
                    rack.begin(end, Task::Send(ENDLESS), Instant::ORIGIN + late, &mut sim);
                }
            }
        }
    }
    rack.plug_in();
    measure(rack, sim, times)
}

/// A core sends to two hosts. The program at the one works so long on each message.
pub(super) fn slow_receiver(
    parameters: &Parameters,
    shape: Shape,
    works: Duration,
    times: Times,
) -> Run {
    let mut parameters = parameters.clone();
    parameters.host.cores = 1;
    let (mut rack, mut sim) = rack(&parameters, 3, 2);
    for (class, works) in [(0, works), (1, Duration::ZERO)] {
        let [sends, takes] = rack.connect(&shape.joined([0, 1 + class as u32]));
        let takes = &mut rack.ends[takes as usize];
        (takes.class, takes.task) = (class, Task::Take(works));
        rack.begin(sends, Task::Send(ENDLESS), Instant::ORIGIN, &mut sim);
    }
    rack.plug_in();
    measure(rack, sim, times)
}
