//! Stories of single calls, told message by message.

mod lossy;

use core::ops::RangeInclusive;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

use barewire_formats::msnl::Port;
use barewire_units::{Duration, Graph};
use proptest::prelude::*;

use super::*;

pub(super) const TIMING: Timing = Timing {
    retry_first: Duration::from_ms(3),
    retry_max: Duration::from_ms(12),
    give_up: Duration::from_ms(60),
    decision: Duration::from_ms(30),
    probe_interval: Duration::from_ms(50),
    cell_lifetime: Duration::from_ms(1),
};

pub(super) fn config(station: u16) -> Config {
    Config {
        station,
        first_reference: u32::from(station) * 100,
        calls_max: 8,
        vcis: 40..=43,
        receive_channels: 0b0010,
        timing: TIMING,
    }
}

fn network(station: u16) -> Network {
    Network::new(config(station)).unwrap()
}

const fn ms(ms: u64) -> Instant {
    Instant::from_ps(ms * 1_000_000_000)
}

/// The messages that wait to be sent, and what else the core wants.
fn drain(network: &mut Network) -> (Vec<MessageRepr>, Vec<Action>) {
    let (mut messages, mut others) = (vec![], vec![]);
    while let Some(action) = network.poll_action() {
        match action {
            Action::Send(message) => messages.push(message),
            other => others.push(other),
        }
    }
    (messages, others)
}

/// The one message that waits, and nothing else.
#[track_caller]
fn sent(network: &mut Network) -> MessageRepr {
    match drain(network) {
        (messages, others) if messages.len() == 1 && others.is_empty() => messages[0],
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn told(network: &mut Network) -> Action {
    match drain(network) {
        (messages, others) if messages.is_empty() && others.len() == 1 => others[0],
        other => panic!("{other:?}"),
    }
}

/// Everything that two stations still have to say to each other at `now`, and what they tell.
fn talk(now: Instant, a: &mut Network, b: &mut Network) -> (Vec<Action>, Vec<Action>) {
    let mut told = (vec![], vec![]);
    loop {
        let (to_b, told_a) = drain(a);
        let (to_a, told_b) = drain(b);
        told.0.extend(told_a);
        told.1.extend(told_b);
        if to_b.is_empty() && to_a.is_empty() {
            return told;
        }
        to_b.iter()
            .for_each(|message| b.handle_message(now, message));
        to_a.iter()
            .for_each(|message| a.handle_message(now, message));
    }
}

/// Two stations with an open call, 100 at the caller and 200 at the callee.
fn open_call() -> (Network, Network) {
    let (mut a, mut b) = (network(1), network(2));
    assert_eq!(a.connect(ms(0), 2, 7), Ok(100));
    let incoming = Action::Incoming {
        call: 200,
        from: 1,
        service: 7,
    };
    assert_eq!(talk(ms(0), &mut a, &mut b), (vec![], vec![incoming]));
    assert_eq!(b.accept(ms(1), 200), Ok(()));
    let opened = |call| vec![Action::Opened { call }];
    assert_eq!(talk(ms(1), &mut a, &mut b), (opened(100), opened(200)));
    (a, b)
}

#[test]
fn the_table_stands_still() {
    let expected = "\
Free --Connect--> Connecting
Free --ConnectArrives--> Incoming
Connecting --AcceptArrives--> Open
Connecting --RejectArrives--> Lingering
Connecting --CloseArrives--> Lingering
Connecting --Close--> Closing
Connecting --GiveUp--> Closing
Incoming --Accept--> Accepting
Incoming --Reject--> Rejecting
Incoming --Close--> Rejecting
Incoming --CloseArrives--> Free
Incoming --GiveUp--> Rejecting
Accepting --ConfirmArrives--> Open
Accepting --Close--> Closing
Accepting --CloseArrives--> Lingering
Accepting --ClosedArrives--> Lingering
Accepting --GiveUp--> Closing
Open --Close--> Closing
Open --CloseArrives--> Lingering
Open --ClosedArrives--> Lingering
Open --GiveUp--> Closing
Closing --RejectArrives--> Lingering
Closing --CloseArrives--> Lingering
Closing --ClosedArrives--> Lingering
Closing --GiveUp--> Quarantined
Rejecting --CloseArrives--> Free
Rejecting --ClosedArrives--> Free
Rejecting --GiveUp--> Free
Lingering --Release--> Free
Quarantined --CloseArrives--> Lingering
Quarantined --ClosedArrives--> Lingering
Quarantined --Release--> Free
";
    assert_eq!(Graph::<State>::new().to_string(), expected);
}

#[test]
fn a_call_opens_with_a_port_for_each_direction() {
    let (a, b) = open_call();
    let (caller, callee) = (a.association(100).unwrap(), b.association(200).unwrap());
    assert_eq!(caller.send_to, callee.receive_at);
    assert_eq!(callee.send_to, caller.receive_at);
    assert_eq!(
        caller.receive_at,
        Some(Port {
            vci: 40,
            channel: 1
        })
    );
    assert_eq!((caller.state, callee.state), (State::Open, State::Open));
    assert_eq!((caller.peer_reference, callee.peer_reference), (200, 100));
}

#[test]
fn either_end_closes_alone() {
    let (mut a, mut b) = open_call();
    assert_eq!(b.close(ms(2), 200, Reason::Unknown(130)), Ok(()));
    assert_eq!(b.association(200).unwrap().send_to, None);
    let end = End::ClosedByPeer(Reason::Unknown(130));
    let closed = Action::Closed { call: 100, end };
    assert_eq!(talk(ms(2), &mut a, &mut b), (vec![closed], vec![]));
    for network in [&mut a, &mut b] {
        let (_, association) = network.associations().next().unwrap();
        assert_eq!(association.state, State::Lingering);
        assert_eq!(network.next_deadline(), Some(ms(3)));
        network.handle_timeout(ms(3));
        assert_eq!(
            (network.associations().count(), network.next_deadline()),
            (0, None)
        );
    }
    let state = State::Closing;
    let (mut a, _) = open_call();
    assert_eq!(a.close(ms(2), 100, Reason::Normal), Ok(()));
    let again = a.close(ms(2), 100, Reason::Normal);
    assert_eq!(again, Err(Error::WrongState { call: 100, state }));
    assert_eq!(a.accept(ms(2), 7), Err(Error::NoCall { call: 7 }));
}

#[test]
fn closes_that_cross_meet() {
    let (mut a, mut b) = open_call();
    a.close(ms(2), 100, Reason::Normal).unwrap();
    b.close(ms(2), 200, Reason::Normal).unwrap();
    assert_eq!(talk(ms(2), &mut a, &mut b), (vec![], vec![]));
    let state = |network: &Network| network.associations().next().unwrap().1.state;
    assert_eq!((state(&a), state(&b)), (State::Lingering, State::Lingering));
}

#[test]
fn a_refused_call_ends_with_its_reason() {
    let (mut a, mut b) = (network(1), network(2));
    a.connect(ms(0), 2, 7).unwrap();
    talk(ms(0), &mut a, &mut b);
    b.reject(ms(1), 200, Reason::NoService).unwrap();
    let end = End::Rejected(Reason::NoService);
    let closed = Action::Closed { call: 100, end };
    assert_eq!(talk(ms(1), &mut a, &mut b), (vec![closed], vec![]));
    assert_eq!(b.associations().count(), 0);
}

#[test]
fn calls_to_oneself_and_calls_that_cross_are_two_calls() {
    let (mut a, mut b) = (network(1), network(2));
    assert_eq!(a.connect(ms(0), 2, 7), Ok(100));
    assert_eq!(b.connect(ms(0), 1, 8), Ok(200));
    talk(ms(0), &mut a, &mut b);
    assert_eq!(
        (a.accept(ms(0), 101), b.accept(ms(0), 201)),
        (Ok(()), Ok(()))
    );
    talk(ms(0), &mut a, &mut b);
    let open = |network: &Network| {
        let calls = network.associations();
        calls.filter(|(_, call)| call.state == State::Open).count()
    };
    assert_eq!((open(&a), open(&b)), (2, 2));

    let mut a = network(1);
    a.connect(ms(0), 1, 7).unwrap();
    for accept in [false, true] {
        if accept {
            a.accept(ms(0), 101).unwrap();
        }
        while let Some(action) = a.poll_action() {
            if let Action::Send(message) = action {
                a.handle_message(ms(0), &message);
            }
        }
    }
    assert_eq!(open(&a), 2);
}

#[test]
fn what_is_lost_is_repeated_at_doubling_intervals() {
    let mut a = network(1);
    a.connect(ms(0), 2, 7).unwrap();
    let connect = sent(&mut a);
    let mut at = vec![];
    // Decision 30 ms and give-up 60 ms, then close for 60 ms, then quarantine.
    while let Some(deadline) = a.next_deadline().filter(|&deadline| deadline < ms(150)) {
        a.handle_timeout(deadline);
        let (messages, others) = drain(&mut a);
        at.push(deadline.since_origin().as_ms());
        if deadline < ms(90) {
            assert_eq!((messages, others), (vec![connect], vec![]));
        } else if deadline == ms(90) {
            let end = End::TimedOut;
            assert_eq!(others, [Action::Closed { call: 100, end }]);
            assert_eq!(messages[0].body, Body::Close(Reason::TimedOut));
        }
    }
    let connects = [3, 9, 21, 33, 45, 57, 69, 81, 90];
    let closes = [93, 99, 111, 123, 135, 147];
    assert_eq!(at, [&connects[..], &closes].concat());
    a.handle_timeout(ms(150));
    let association = a.association(100).unwrap();
    assert_eq!(association.state, State::Quarantined);
    let released = ms(150) + TIMING.quarantine();
    assert_eq!(a.next_deadline(), Some(released));
    a.handle_timeout(released);
    assert_eq!((a.association(100), a.next_deadline()), (None, None));
    assert_eq!(a.stats().timed_out, 1);
}

/// Copies of a connect, an accept and a confirm that come late change nothing.
#[test]
fn copies_do_no_harm() {
    let (mut a, mut b) = (network(1), network(2));
    a.connect(ms(0), 2, 7).unwrap();
    let connect = sent(&mut a);
    b.handle_message(ms(0), &connect);
    told(&mut b);
    b.handle_message(ms(0), &connect);
    assert_eq!(drain(&mut b), (vec![], vec![]));
    b.accept(ms(0), 200).unwrap();
    let accept = sent(&mut b);
    b.handle_message(ms(0), &connect);
    assert_eq!(sent(&mut b), accept);
    a.handle_message(ms(0), &accept);
    let (confirms, _) = drain(&mut a);
    a.handle_message(ms(0), &accept);
    assert_eq!(sent(&mut a), confirms[0]);
    b.handle_message(ms(0), &confirms[0]);
    assert_eq!(told(&mut b), Action::Opened { call: 200 });
    b.handle_message(ms(0), &confirms[0]);
    b.handle_message(ms(0), &connect);
    assert_eq!(drain(&mut b), (vec![], vec![]));
}

/// A connect that comes after its call is over opens a ghost, which never gets its confirm.
#[test]
fn a_ghost_of_a_call_is_laid() {
    let (mut a, mut b) = (network(1), network(2));
    a.connect(ms(0), 2, 7).unwrap();
    let connect = sent(&mut a);
    a.close(ms(0), 100, Reason::Normal).unwrap();
    talk(ms(0), &mut a, &mut b);
    assert_eq!(a.association(100).unwrap().state, State::Lingering);
    a.handle_timeout(ms(1));
    b.handle_message(ms(1), &connect);
    assert!(matches!(told(&mut b), Action::Incoming { call: 200, .. }));
    b.accept(ms(1), 200).unwrap();
    let end = End::ForgottenByPeer;
    let closed = Action::Closed { call: 200, end };
    assert_eq!(talk(ms(1), &mut a, &mut b), (vec![], vec![closed]));
}

/// The answer to a refused first connect comes after its repetition was accepted.
#[test]
fn a_late_anonymous_reject_does_not_end_an_open_call() {
    let (mut a, mut b) = open_call();
    let body = Body::Reject(Reason::NoResources);
    let late = MessageRepr {
        source: 2,
        destination: 1,
        source_reference: 0,
        destination_reference: 100,
        body,
    };
    a.handle_message(ms(2), &late);
    assert_eq!(talk(ms(2), &mut a, &mut b), (vec![], vec![]));
    assert_eq!(a.association(100).unwrap().state, State::Open);
    assert_eq!(b.association(200).unwrap().state, State::Open);
    assert_eq!(a.stats().ignored, 1);
}

/// What names another call of the peer, or comes from another station, is not about this call.
#[test]
fn both_references_and_the_station_must_agree() {
    let (mut a, _) = open_call();
    for (source, source_reference) in [(2, 201), (3, 200)] {
        let stray = MessageRepr {
            source,
            destination: 1,
            source_reference,
            destination_reference: 100,
            body: Body::Close(Reason::Normal),
        };
        a.handle_message(ms(2), &stray);
        let answer = sent(&mut a);
        assert_eq!(answer.body, Body::Closed);
        assert_eq!(
            (answer.destination, answer.destination_reference),
            (source, source_reference)
        );
        assert_eq!(a.association(100).unwrap().state, State::Open);
    }
    assert_eq!(a.stats().unknown_call, 2);
}

#[test]
fn a_half_open_call_is_found_by_probing() {
    let (mut a, _) = open_call();
    let mut b = Network::after_restart(
        Config {
            first_reference: 900,
            ..config(2)
        },
        ms(10),
    )
    .unwrap();
    assert_eq!(a.next_deadline(), Some(ms(51)));
    a.handle_timeout(ms(51));
    let end = End::ForgottenByPeer;
    let closed = Action::Closed { call: 100, end };
    assert_eq!(talk(ms(51), &mut a, &mut b), (vec![closed], vec![]));
    assert_eq!((a.stats().half_open, b.stats().unknown_call), (1, 1));
}

#[test]
fn a_probe_that_is_answered_keeps_the_call() {
    let (mut a, mut b) = open_call();
    for round in 1..5 {
        let now = a.next_deadline().unwrap();
        assert_eq!(now, ms(1 + 50 * round));
        a.handle_timeout(now);
        assert_eq!(talk(now, &mut a, &mut b), (vec![], vec![]));
    }
    assert_eq!(a.association(100).unwrap().state, State::Open);
}

#[test]
fn a_restarted_station_keeps_quiet() {
    let mut b = Network::after_restart(config(2), ms(10)).unwrap();
    let until = ms(10) + TIMING.quarantine();
    assert_eq!(b.connect(ms(11), 1, 7), Err(Error::Quiet { until }));
    let mut a = network(1);
    a.connect(ms(11), 2, 7).unwrap();
    let end = End::Rejected(Reason::Restarted);
    let closed = Action::Closed { call: 100, end };
    assert_eq!(talk(ms(11), &mut a, &mut b), (vec![closed], vec![]));
    assert_eq!(b.connect(until, 1, 7), Ok(200));
}

#[test]
fn tables_and_vcis_are_bounded() {
    let mut a = network(1);
    for call in 100..104 {
        assert_eq!(a.connect(ms(0), 2, 7), Ok(call));
    }
    assert_eq!(a.connect(ms(0), 2, 7), Err(Error::NoVci { vcis: 4 }));
    let incoming = |reference| MessageRepr {
        source: 3,
        destination: 1,
        source_reference: reference,
        destination_reference: 0,
        body: Body::Connect {
            receive_at: Port {
                vci: 50,
                channel: 0,
            },
            service: 1,
        },
    };
    (1..=5).for_each(|reference| a.handle_message(ms(0), &incoming(reference)));
    let (messages, _) = drain(&mut a);
    assert_eq!(
        messages.last().unwrap().body,
        Body::Reject(Reason::NoResources)
    );
    assert_eq!(a.stats().refused, 1);
    assert_eq!(a.accept(ms(0), 104), Err(Error::NoVci { vcis: 4 }));
    assert_eq!(
        a.connect(ms(0), 2, 7),
        Err(Error::TableFull { calls_max: 8 })
    );
    // Unpolled messages are bounded too.
    (0..1000).for_each(|_| a.handle_message(ms(0), &incoming(9)));
    assert_eq!(drain(&mut a).0.len(), 8 + 16);
    assert_eq!(a.stats().dropped, 1000 - 24);
}

#[test]
fn vcis_rest_and_channels_share() {
    let mut ports = Ports::new(40..=42, 0b1001);
    let mut allocate = || ports.allocate().map(|port| (port.vci, port.channel));
    assert_eq!(
        [allocate(), allocate(), allocate()],
        [Ok((40, 0)), Ok((41, 3)), Ok((42, 0))]
    );
    assert_eq!(allocate(), Err(Error::NoVci { vcis: 3 }));
    ports.release(Port {
        vci: 41,
        channel: 3,
    });
    ports.release(Port {
        vci: 42,
        channel: 0,
    });
    let mut allocate = || ports.allocate().map(|port| (port.vci, port.channel));
    assert_eq!([allocate(), allocate()], [Ok((41, 3)), Ok((42, 0))]);
}

#[test]
fn a_configuration_is_checked() {
    let with = |change: fn(&mut Config)| {
        let mut config = config(1);
        change(&mut config);
        Network::new(config).map(|_| ()).unwrap_err()
    };
    let (first, last) = (31, 43);
    assert_eq!(
        with(|c| c.vcis = 31..=43),
        ConfigError::Vcis { first, last }
    );
    assert!(matches!(
        with(|c| c.vcis = RangeInclusive::new(9, 8)),
        ConfigError::Vcis { .. }
    ));
    assert_eq!(
        with(|c| c.receive_channels = 0),
        ConfigError::Channels { mask: 0 }
    );
    assert_eq!(
        with(|c| c.receive_channels = 16),
        ConfigError::Channels { mask: 16 }
    );
    assert_eq!(
        with(|c| c.timing.retry_first = Duration::ZERO),
        ConfigError::Retry
    );
}

fn any_message() -> impl Strategy<Value = MessageRepr> {
    let port = (30..50_u16, 0..6_u8).prop_map(|(vci, channel)| Port { vci, channel });
    let reason = any::<u8>().prop_map(Reason::from);
    let body = prop_oneof![
        3 => (port.clone(), any::<u64>())
            .prop_map(|(receive_at, service)| Body::Connect { receive_at, service }),
        3 => port.prop_map(|receive_at| Body::Accept { receive_at }),
        1 => reason.clone().prop_map(Body::Reject),
        1 => reason.prop_map(Body::Close),
        1 => Just(Body::Closed),
        3 => Just(Body::Confirm),
        1 => Just(Body::Probe),
        1 => any::<u8>().prop_map(Body::Unknown),
    ];
    let reference = || prop_oneof![Just(0), 95..110_u32, Just(u32::MAX)];
    (1..4_u16, 1..3_u16, reference(), reference(), body).prop_map(
        |(source, destination, source_reference, destination_reference, body)| MessageRepr {
            source,
            destination,
            source_reference,
            destination_reference,
            body,
        },
    )
}

proptest! {
    /// Whatever comes in whatever order, and at whatever time, also backwards.
    #[test]
    fn no_sequence_of_inputs_panics(
        steps in proptest::collection::vec(
            (0..8_u8, prop_oneof![0..400_000_000_000_u64, any::<u64>()], 95..110_u32, any_message()),
            0..120,
        ),
    ) {
        let mut a = network(1);
        for (what, at, call, message) in steps {
            let now = Instant::from_ps(at);
            match what {
                0 => {
                    let _ = a.connect(now, message.source, 1);
                }
                1 => {
                    let _ = a.accept(now, call);
                }
                2 => {
                    let _ = a.reject(now, call, Reason::Normal);
                }
                3 => {
                    let _ = a.close(now, call, Reason::Normal);
                }
                4 => a.handle_timeout(now),
                5 => drop(drain(&mut a)),
                _ => a.handle_message(now, &message),
            }
            let mut vcis: Vec<u16> = a
                .associations()
                .filter_map(|(_, call)| call.receive_at)
                .map(|port| port.vci)
                .collect();
            let held = vcis.len();
            vcis.sort_unstable();
            vcis.dedup();
            prop_assert_eq!(vcis.len(), held);
            prop_assert!(a.associations().count() <= 8);
            prop_assert_eq!(a.next_deadline().is_some(), a.associations().count() > 0);
        }
    }
}
