//! Two stations over a network that loses, doubles, delays and reorders, and that sometimes
//! is cut or forgets a station; data cells travel beside the signalling.
//!
//! What holds: data never arrive at another call than the one they were sent on; when the
//! network heals, both ends agree on every call; when it is cut for good, every call ends.

use std::vec;
use std::vec::Vec;

use barewire_formats::msnl::{Message, Port};
use barewire_units::{Duration, Rng};
use proptest::prelude::*;

use super::*;

/// A command of a user, or a stroke of fate.
#[derive(Clone, Copy, Debug)]
enum Command {
    Connect { by: usize },
    Close { by: usize, pick: usize },
    Decide { by: usize, accept: bool },
    Data { by: usize },
    Cut { on: bool },
    Restart { who: usize },
}

/// What is under way.
#[derive(Clone, Debug)]
enum Cell {
    Signal(MessageRepr),
    /// Sent to a VCI of the call that its receiver numbers so.
    Data {
        vci: u16,
        call: u32,
    },
}

#[derive(Clone, Debug)]
struct World {
    rng: Rng,
    now: Instant,
    configs: [Config; 2],
    stations: [Network; 2],
    incoming: [Vec<u32>; 2],
    /// In order of arrival: when, at which station, what.
    cells: Vec<(Instant, usize, Cell)>,
    loss_percent: u64,
    cut: bool,
    restarts: u32,
    delivered: usize,
}

impl World {
    /// Stations with this many VCIs each: the fewer, the sooner one is used again.
    fn new(seed: u64, loss_percent: u64, vcis: u16) -> Self {
        let vcis = 40..=39 + vcis;
        let config = |station| Config {
            vcis: vcis.clone(),
            ..config(station)
        };
        let configs = [config(1), config(2)];
        Self {
            rng: Rng::from_seed(seed),
            now: ms(0),
            stations: configs.clone().map(|config| Network::new(config).unwrap()),
            configs,
            incoming: [vec![], vec![]],
            cells: vec![],
            loss_percent,
            cut: false,
            restarts: 0,
            delivered: 0,
        }
    }

    /// Loses a cell, or sends it once or twice.
    fn send(&mut self, to: usize, cell: &Cell) {
        if self.cut || self.rng.ratio(self.loss_percent, 100) {
            return;
        }
        let copies = 1 + u64::from(self.rng.ratio(self.loss_percent, 100));
        for _ in 0..copies {
            let delay = self.rng.in_range(0..=TIMING.cell_lifetime.as_ps());
            let at = self.now + Duration::from_ps(delay);
            let place = self.cells.partition_point(|(other, _, _)| *other <= at);
            self.cells.insert(place, (at, to, cell.clone()));
        }
    }

    fn drain_all(&mut self) {
        for station in 0..2 {
            while let Some(action) = self.stations[station].poll_action() {
                match action {
                    Action::Send(message) => {
                        let view = Message::new_unchecked(message.to_bytes());
                        assert_eq!(MessageRepr::parse(&view), Ok(message));
                        let to = usize::from(message.destination) - 1;
                        self.send(to, &Cell::Signal(message));
                    }
                    Action::Incoming { call, .. } => self.incoming[station].push(call),
                    Action::Opened { .. } | Action::Closed { .. } => {}
                }
            }
        }
    }

    /// Whoever holds the VCI that a cell was sent to must be the call that it was sent on.
    fn deliver(&mut self, to: usize, cell: &Cell) {
        match *cell {
            Cell::Signal(message) => self.stations[to].handle_message(self.now, &message),
            Cell::Data { vci, call } => {
                let mut calls = self.stations[to].associations();
                let holder =
                    calls.find(|(_, held)| held.receive_at.is_some_and(|port| port.vci == vci));
                if let Some((holder, _)) = holder {
                    assert_eq!(holder, call, "data of one call arrived at another");
                    self.delivered += 1;
                }
            }
        }
    }

    /// Lets everything happen that is due until `end`.
    fn run_until(&mut self, end: Instant) {
        loop {
            self.drain_all();
            self.check();
            let deadlines = self.stations.iter().filter_map(Network::next_deadline);
            let arrival = self.cells.first().map(|(at, _, _)| *at);
            match deadlines.chain(arrival).min().filter(|&next| next <= end) {
                Some(next) => self.now = self.now.max(next),
                None => break,
            }
            if arrival.is_some_and(|at| at <= self.now) {
                let (_, to, cell) = self.cells.remove(0);
                self.deliver(to, &cell);
            } else {
                let now = self.now;
                self.stations
                    .iter_mut()
                    .for_each(|station| station.handle_timeout(now));
            }
        }
        self.now = self.now.max(end);
    }

    /// No station may send on a VCI that its peer has given to another call.
    fn check(&self) {
        for (sender, receiver) in [(0, 1), (1, 0)] {
            for (_, call) in self.stations[sender].associations() {
                let Some(port) = call.send_to else {
                    continue;
                };
                let another = self.stations[receiver]
                    .associations()
                    .find(|(number, held)| {
                        *number != call.peer_reference && held.receive_at == Some(port)
                    });
                assert_eq!(another, None, "{call:?} at {}", self.now);
            }
        }
    }

    fn obey(&mut self, command: Command) {
        let now = self.now;
        // A station may refuse: its tables are full, or the call is over.
        match command {
            Command::Connect { by } => {
                let _ = self.stations[by].connect(now, 2 - by as u16, 7);
            }
            Command::Decide { by, accept } => {
                let Some(call) = self.incoming[by].pop() else {
                    return;
                };
                let station = &mut self.stations[by];
                let _ = if accept {
                    station.accept(now, call)
                } else {
                    station.reject(now, call, Reason::Unknown(200))
                };
            }
            Command::Close { by, pick } => {
                let call = self.stations[by].associations().nth(pick);
                if let Some((call, _)) = call {
                    let _ = self.stations[by].close(now, call, Reason::Normal);
                }
            }
            Command::Data { by } => {
                let calls: Vec<_> = self.stations[by].associations().collect();
                for (_, call) in calls {
                    if let Some(Port { vci, .. }) = call.send_to {
                        let call = call.peer_reference;
                        (0..3).for_each(|_| self.send(1 - by, &Cell::Data { vci, call }));
                    }
                }
            }
            Command::Cut { on } => self.cut = on,
            Command::Restart { who } => {
                self.restarts += 1;
                let config = Config {
                    first_reference: 10_000 * self.restarts,
                    ..self.configs[who].clone()
                };
                self.stations[who] = Network::after_restart(config, now).unwrap();
                self.incoming[who].clear();
            }
        }
    }

    /// The calls of a station, all open: own number, peer's number, own port, peer's port.
    fn open_calls(&self, station: usize) -> Vec<(u32, u32, Option<Port>, Option<Port>)> {
        let calls = self.stations[station].associations();
        calls
            .map(|(number, call)| {
                assert_eq!(call.state, State::Open, "{number} is still {call:?}");
                (number, call.peer_reference, call.receive_at, call.send_to)
            })
            .collect()
    }
}

fn commands() -> impl Strategy<Value = Vec<(u64, Command)>> {
    let by = || 0..2_usize;
    let command = prop_oneof![
        6 => by().prop_map(|by| Command::Connect { by }),
        6 => (by(), prop::bool::weighted(0.8))
            .prop_map(|(by, accept)| Command::Decide { by, accept }),
        4 => (by(), 0..4_usize).prop_map(|(by, pick)| Command::Close { by, pick }),
        8 => by().prop_map(|by| Command::Data { by }),
        1 => any::<bool>().prop_map(|on| Command::Cut { on }),
        1 => by().prop_map(|who| Command::Restart { who }),
    ];
    // Pauses in steps of 10 us: most well below the lifetime of a cell, some up to 20 ms.
    let pause = prop_oneof![4 => 0..40_u64, 1 => 0..2000_u64];
    proptest::collection::vec((pause, command), 1..80)
}

/// Longer than any call can stay in a state other than open.
fn long_enough() -> Duration {
    (TIMING.decision + TIMING.give_up * 3 + TIMING.probe_interval + TIMING.quarantine()) * 2
}

/// A seed, a loss in percent, a number of VCIs.
fn worlds() -> impl Strategy<Value = World> {
    (any::<u64>(), 0..60_u64, 1..5_u16).prop_map(|(seed, loss, vcis)| World::new(seed, loss, vcis))
}

fn live_through(mut world: World, commands: Vec<(u64, Command)>) -> World {
    for (pause, command) in commands {
        world.run_until(world.now + Duration::from_us(10 * pause));
        world.obey(command);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn when_the_network_heals_both_ends_agree(
        world in worlds(),
        commands in commands(),
    ) {
        let mut world = live_through(world, commands);
        (world.cut, world.loss_percent) = (false, 0);
        world.run_until(world.now + long_enough());
        let (mut of_a, mut of_b) = (world.open_calls(0), world.open_calls(1));
        of_b.iter_mut().for_each(|call| *call = (call.1, call.0, call.3, call.2));
        of_a.sort_unstable();
        of_b.sort_unstable();
        prop_assert_eq!(of_a, of_b);
    }

    #[test]
    fn when_the_network_is_cut_everything_ends(
        world in worlds(),
        commands in commands(),
    ) {
        let mut world = live_through(world, commands);
        world.cut = true;
        world.run_until(world.now + long_enough());
        for station in &world.stations {
            prop_assert_eq!(station.associations().count(), 0);
            prop_assert_eq!(station.next_deadline(), None);
        }
    }
}

/// The properties above would also hold of a network on which nothing ever happens.
#[test]
fn calls_do_open_and_data_do_arrive() {
    let mut world = World::new(1, 20, 4);
    let (mut opened, mut vcis) = (0, vec![]);
    for round in 0..60 {
        let by = round % 2;
        let pause = |world: &mut World, pause| world.run_until(world.now + pause);
        world.obey(Command::Connect { by });
        pause(&mut world, Duration::from_ms(12));
        let accept = true;
        world.obey(Command::Decide { by: 1 - by, accept });
        pause(&mut world, Duration::from_ms(12));
        world.obey(Command::Data { by });
        let calls: Vec<_> = world.stations[by].associations().collect();
        opened += calls
            .iter()
            .filter(|(_, call)| call.send_to.is_some())
            .count();
        vcis.extend(calls.iter().filter_map(|(_, call)| call.receive_at));
        pause(&mut world, Duration::from_ms(2));
        let by = round / 2 % 2;
        world.obey(Command::Close { by, pick: 0 });
        pause(&mut world, Duration::from_ms(200));
    }
    vcis.sort_unstable();
    vcis.dedup();
    assert!(opened > 30, "{opened}");
    assert!(world.delivered > 30, "{}", world.delivered);
    // Four VCIs served all of them.
    assert_eq!(vcis.len(), 4);
}
