//! A network whose idle rings leave turns out is, to the picosecond, one whose rings never do.

use proptest::prelude::*;

use super::*;
use crate::carried::at_us;
use crate::emulation::Emulated;
use crate::experiment::{Progress, Setting};
use crate::jetstream::System;
use crate::jetstream::experiments::{emulated, interworking, switch};
use crate::system::System as _;

type Makes = fn(&Setting<'_>, &Wanted) -> Result<Made, SystemError>;

/// A ring, rings at a switch, and a ring beside ATM: with the inputs of their experiments.
const NETWORKS: [(&str, u16, Makes); 3] = [
    ("ring", 4, emulated::emulated),
    ("switch", 16, switch::emulated),
    ("interworking", 8, interworking::emulated),
];

fn make(which: usize, era: HostEra, lose: f64) -> Emulation {
    let (experiment, stations, make) = NETWORKS[which];
    let experiments = System.experiments();
    let found = experiments.iter().find(|it| it.name == experiment);
    let setting = Setting {
        parameters: System.parameters(),
        inputs: found.expect("an experiment").inputs,
        seed: 3,
        packets_per_link: 0,
        progress: &Progress::default(),
    };
    let wanted = Wanted {
        stations,
        host_era: era,
        mtu_bytes: None,
        lose,
        packets_per_link: 0,
    };
    let made = make(&setting, &wanted).expect("a network");
    Emulation::new(made, setting.seed, &wanted).expect("it comes up")
}

fn lan(network: &mut Emulation) -> &mut crate::jetstream::lan::Lan {
    let lan = network.carrying.network.medium.lan_mut();
    lan.expect("a ring")
}

/// A packet: so long after the one before, from, to, how long.
#[derive(Clone, Copy, Debug)]
enum After {
    Time(Duration),
    /// At the very time at which the token next comes to a station.
    Token,
}

type Sent = (After, u16, u16, usize);

fn sent() -> impl Strategy<Value = Sent> {
    let time = (0..3_000_000_000_u64, 0..20_u32).prop_map(|(ps, shift)| ps >> shift);
    let after = prop_oneof![
        3 => time.prop_map(|ps| After::Time(Duration::from_ps(ps))),
        1 => Just(After::Token),
    ];
    (after, any::<u16>(), any::<u16>(), 20..9_000_usize)
}

fn left(network: &mut Emulation) -> Vec<crate::emulation::Departure> {
    std::iter::from_fn(|| network.poll()).collect()
}

/// Both take the same packets at the same times; how often turns were being left out when one came.
fn compare(networks: [Emulation; 2], packets: &[Sent]) -> Result<usize, TestCaseError> {
    let [mut resting, mut restless] = networks;
    lan(&mut restless).never_rest();
    let stations = restless.carrying.hosts.len() as u16;
    let mut rested = 0;
    for (number, &(after, from, to, bytes)) in packets.iter().enumerate() {
        let at = match after {
            After::Time(time) => restless.now() + time,
            After::Token => restless.next_at().expect("a token"),
        };
        for network in [&mut resting, &mut restless] {
            network.run_to(at);
        }
        let token = |network: &Emulation| network.view().carriers;
        prop_assert_eq!(token(&resting), token(&restless));
        rested += usize::from(lan(&mut resting).is_resting());
        for network in [&mut resting, &mut restless] {
            let packet = vec![number as u8; bytes];
            network.send(at, from % stations, to % stations, packet);
        }
        // What any packet but one that is too long has them do.
        prop_assert!(!lan(&mut resting).is_resting());
        prop_assert_eq!(lan(&mut resting).states(), lan(&mut restless).states());
        prop_assert_eq!(resting.next_at(), restless.next_at());
        prop_assert_eq!(left(&mut resting), left(&mut restless));
    }
    for network in [&mut resting, &mut restless] {
        network.run_to(network.now() + Duration::from_ms(5));
    }
    prop_assert_eq!(left(&mut resting), left(&mut restless));
    prop_assert_eq!(resting.account(), restless.account());
    prop_assert_eq!(resting.view(), restless.view());
    Ok(rested)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn nothing_happens_at_another_time(
        which in 0..NETWORKS.len(),
        takes_time in any::<bool>(),
        loses in any::<bool>(),
        packets in prop::collection::vec(sent(), 1..25),
    ) {
        let era = if takes_time { HostEra::Plan } else { HostEra::None };
        let lose = if loses { 0.01 } else { 0.0 };
        let networks = [0, 1].map(|_| make(which, era, lose));
        compare(networks, &packets)?;
    }
}

/// On each of them, also after many turns, at any phase.
#[test]
fn turns_are_left_out_and_made_up_for() {
    for (which, (name, ..)) in NETWORKS.iter().enumerate() {
        let gap = |number: u64| Duration::from_ps(1_700_000_017 + 1_234_567 * number);
        let packets: Vec<Sent> = (0..12)
            .map(|number| {
                (
                    After::Time(gap(number)),
                    number as u16,
                    number as u16 + 1,
                    40,
                )
            })
            .collect();
        let networks = [0, 1].map(|_| make(which, HostEra::None, 0.0));
        let rested = compare(networks, &packets).expect("the same");
        assert_eq!(rested, packets.len(), "{name}");
    }
}

#[test]
fn an_idle_ring_has_nothing_to_do() {
    for (which, (name, ..)) in NETWORKS.iter().enumerate() {
        let mut network = make(which, HostEra::Plan, 0.0);
        network.run_to(at_us(200));
        assert_eq!(network.next_at(), None, "{name}");
        network.send(at_us(60_000_000), 0, 1, vec![1; 300]);
        assert!(network.next_at().is_some());
        network.run_to(at_us(60_010_000));
        assert_eq!((network.next_at(), network.account().given), (None, 1));
        // The start, two turns, a packet, and two more: a minute of turns would be millions.
        assert!(network.sim.fired() < 3_000, "{}", network.sim.fired());
    }
}
