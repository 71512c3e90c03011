//! Accepting, rejecting with the reason, changing, expiring.

use barewire_units::{Duration, Graph, Instant, Rate};
use proptest::prelude::*;
use std::string::ToString;

use super::*;

const A: Destination = Destination(1);
const B: Destination = Destination(2);

fn gigabit() -> Admission {
    let mut admission = Admission::new(Rate::from_gbps(1), LIFETIME_DEFAULT);
    admission.set_destination(A, Rate::from_mbps(500));
    admission
}

fn mbps(n: u64) -> Rate {
    Rate::from_mbps(n)
}

const T0: Instant = Instant::ORIGIN;

#[test]
fn the_graph_stands_still() {
    assert_eq!(
        Graph::<State>::new().to_string(),
        "Reserved --Confirm--> Confirmed\nConfirmed --Change--> Reserved\n"
    );
}

#[test]
fn the_lifetime_is_that_of_rsvp() {
    assert_eq!(LIFETIME_DEFAULT, REFRESH_PERIOD * 7 * 3 / 4);
}

#[test]
fn a_rejection_says_what_is_left_and_of_what() {
    let mut admission = gigabit();
    assert_eq!(admission.reserve(T0, Flow(1), A, mbps(400)), Ok(()));
    let to_a = admission.reserve(T0, Flow(2), A, mbps(101)).unwrap_err();
    assert_eq!(
        to_a.to_string(),
        "flow 2 asks for 101Mbit/s, 100000000 bit/s of 500Mbit/s are left to destination 1"
    );
    assert_eq!(admission.reserve(T0, Flow(2), A, mbps(100)), Ok(()));
    assert_eq!(admission.reserve(T0, Flow(3), B, mbps(500)), Ok(()));
    let in_all = admission.reserve(T0, Flow(4), B, mbps(1)).unwrap_err();
    assert_eq!(
        in_all.to_string(),
        "flow 4 asks for 1Mbit/s, 0 bit/s of 1Gbit/s are left in all"
    );
    assert_eq!(admission.reserved_bps(), 1_000_000_000);
    assert_eq!(admission.reserved_to_bps(A), 500_000_000);
    assert_eq!(
        (admission.stats().accepted, admission.stats().rejected),
        (3, 2)
    );
}

#[test]
fn a_change_does_not_compete_with_itself_and_fails_without_harm() {
    let mut admission = gigabit();
    admission.reserve(T0, Flow(1), A, mbps(400)).unwrap();
    admission.confirm(T0, Flow(1)).unwrap();
    let kept = *admission.reservation(Flow(1)).unwrap();
    assert_eq!(kept.state, State::Confirmed);
    assert!(admission.reserve(T0, Flow(1), A, mbps(501)).is_err());
    assert_eq!(admission.reservation(Flow(1)), Some(&kept));
    assert_eq!(admission.reserve(T0, Flow(1), A, mbps(500)), Ok(()));
    assert_eq!(
        admission.reservation(Flow(1)).unwrap().state,
        State::Reserved
    );
}

#[test]
fn what_nobody_refreshes_ends() {
    let mut admission = gigabit();
    let at = |ms| T0 + Duration::from_ms(ms);
    admission.reserve(T0, Flow(1), A, mbps(300)).unwrap();
    admission.reserve(T0, Flow(2), A, mbps(200)).unwrap();
    admission.refresh(at(100_000), Flow(2)).unwrap();
    assert_eq!(admission.next_deadline(), Some(at(157_500)));
    assert!(admission.reserve(at(157_499), Flow(3), A, mbps(1)).is_err());
    assert_eq!(
        admission.reserve(at(157_500), Flow(3), A, mbps(300)),
        Ok(())
    );
    assert_eq!(
        admission.confirm(at(157_500), Flow(1)),
        Err(NoReservation(Flow(1)))
    );
    assert_eq!(admission.stats().expired, 1);
    admission.teardown(at(157_500), Flow(3)).unwrap();
    assert_eq!(admission.reserved_bps(), 200_000_000);
}

proptest! {
    /// Whatever is asked in whatever order, no capacity is exceeded, and a
    /// reservation is rejected only where it does not fit.
    #[test]
    fn no_capacity_is_exceeded(
        steps in proptest::collection::vec((0..5_u8, 0..6_u64, 0..3_u64, 1..700_u64, 0..200_u64), 0..80)
    ) {
        let mut admission = gigabit();
        admission.set_flows_max(5);
        let mut now = T0;
        for (action, flow, to, rate, seconds) in steps {
            let (flow, to) = (Flow(flow), Destination(to));
            now = now.saturating_add(Duration::from_s(seconds));
            match action {
                0 => drop(admission.confirm(now, flow)),
                1 => drop(admission.teardown(now, flow)),
                2 => drop(admission.refresh(now, flow)),
                _ => {
                    let outcome = admission.reserve(now, flow, to, mbps(rate));
                    match outcome {
                        Err(Rejected::Rate { asked, left_bps, .. }) => {
                            prop_assert!(asked.as_bps() > left_bps);
                        }
                        Err(Rejected::Flows { flows_max, .. }) => {
                            let kept = (0..6).filter_map(|flow| admission.reservation(Flow(flow)));
                            prop_assert!(admission.reservation(flow).is_none());
                            prop_assert_eq!(kept.count(), flows_max);
                        }
                        Ok(()) => {
                            let kept = admission.reservation(flow).unwrap();
                            prop_assert_eq!(kept.rate, mbps(rate));
                        }
                    }
                }
            }
            prop_assert!(admission.reserved_bps() <= 1_000_000_000);
            prop_assert!(admission.reserved_to_bps(A) <= 500_000_000);
            let to_all: u64 = (0..3).map(|to| admission.reserved_to_bps(Destination(to))).sum();
            prop_assert_eq!(to_all, admission.reserved_bps());
            let kept = (0..6).filter_map(|flow| admission.reservation(Flow(flow)));
            prop_assert_eq!(kept.map(|kept| kept.rate.as_bps()).sum::<u64>(), to_all);
            prop_assert!(admission.next_deadline().is_none_or(|at| at > now));
        }
        let stats = admission.stats();
        prop_assert!(stats.torn_down + stats.expired <= stats.accepted);
    }
}

#[test]
fn as_many_flows_as_may() {
    let mut admission = gigabit();
    admission.set_flows_max(2);
    for flow in 0..2 {
        admission.reserve(T0, Flow(flow), B, mbps(1)).unwrap();
    }
    let third = admission.reserve(T0, Flow(2), B, mbps(1)).unwrap_err();
    assert_eq!(
        third.to_string(),
        "flow 2 asks, and 2 flows have a reservation already"
    );
    // A change needs no place.
    assert_eq!(admission.reserve(T0, Flow(1), A, mbps(5)), Ok(()));
    admission.teardown(T0, Flow(0)).unwrap();
    assert_eq!(admission.reserve(T0, Flow(2), B, mbps(1)), Ok(()));
}

#[test]
fn extremes_do_not_overflow() {
    let all = Rate::from_bps(u64::MAX);
    let mut admission = Admission::new(all, Duration::MAX);
    admission.reserve(Instant::MAX, Flow(0), A, all).unwrap();
    assert!(admission.reserve(Instant::MAX, Flow(1), A, all).is_err());
    // A lifetime without end.
    assert_eq!(admission.next_deadline(), None);
    admission.reserve(Instant::MAX, Flow(0), B, all).unwrap();
    assert_eq!(admission.reserved_to_bps(A), 0);
    admission.teardown(Instant::MAX, Flow(0)).unwrap();
    assert_eq!(admission.reserved_bps(), 0);
}
