//! The reproduction test of CLAN, and what its worlds promise.

use super::*;
use crate::asked::replaced;
use crate::expected::hold;
use crate::system::System as _;

const EXPECTED: &str = include_str!("../../../tables/expected/clan.toml");

fn parameters() -> Parameters {
    Parameters::parse(System.parameters()).expect("good parameters")
}

#[test]
fn the_pages_are_reproduced() {
    let findings = System.run(System.parameters(), 1).expect("good parameters");
    hold(&findings, EXPECTED);
}

#[test]
fn the_same_run_gives_the_same_events() {
    let first = reproduce(System.parameters(), 3).expect("good parameters");
    let again = reproduce(System.parameters(), 3).expect("good parameters");
    assert_eq!(first, again);
    let other = System.parameters().replace("\"312 ns\"", "\"313 ns\"");
    let other = reproduce(&other, 3).expect("good parameters");
    assert_ne!(first.hashes, other.hashes);
    let other = reproduce(System.parameters(), 4).expect("good parameters");
    assert_ne!(
        first.hashes, other.hashes,
        "the loads at random have another seed"
    );
}

/// More requests at a time: from 1 / 7.9 us up to the server's limit, and not beyond.
#[test]
fn more_clients_reach_the_limit_and_stay_there() {
    let rate = |clients: usize, connections: usize| {
        let service = Service {
            clients,
            connections,
            gap: Duration::ZERO,
            end: Until::Times(Duration::from_us(300), Duration::from_ms(2)),
        };
        let served = runs::serve(&parameters(), &service);
        served.expect("good parameters").rate
    };
    let one = rate(1, 1);
    assert!((one * 7.9e-6 - 1.0).abs() < 0.03, "{one}");
    let (two, many, more) = (rate(2, 1), rate(7, 4), rate(7, 16));
    assert!(two > 1.8 * one && many > 1.5 * two, "{one} {two} {many}");
    assert!((more / many - 1.0).abs() < 0.1, "{many} {more}");
}

/// A peak at an end of the loads that were tried would be no peak.
#[test]
fn the_peak_of_udp_is_among_the_loads_and_not_at_an_end() {
    let curve = udp_curve(&parameters(), 1);
    let rates: Vec<f64> = curve.iter().map(|run| run.value).collect();
    let peak = rates.iter().copied().fold(0.0, f64::max);
    let ends = [rates[0], rates[rates.len() - 1]];
    assert!(ends.iter().all(|end| *end < 0.9 * peak), "{rates:?}");
}

/// The row is what the curve tends to, so points that the fit did not see are near it.
#[test]
fn the_server_keeps_its_limit_at_loads_that_the_fit_did_not_see() {
    let limit = plateau::many_connections(&parameters()).expect("good parameters");
    let setup = |load| many::Setup {
        clients: 7,
        endpoints: 35,
        cam_entries: 256,
        when_full: many::WhenFull::Refuse,
        activity: many::Activity::Uniform,
        load,
        time: Duration::from_ms(2),
    };
    let loads = [
        many::Load::Rate(700e3),
        many::Load::Rate(2.2e6),
        many::Load::Window(5),
        many::Load::Window(40),
    ];
    for load in loads {
        let rate = many::run(&parameters(), &setup(load), 9, 0).rate;
        assert!((rate / limit.value - 1.0).abs() < 0.02, "{load:?}: {rate}");
    }
}

#[test]
fn a_server_sleeps_only_when_nothing_comes_for_longer_than_it_polls() {
    let served = |gap_us: u64| {
        let service = Service {
            clients: 1,
            connections: 1,
            gap: Duration::from_us(gap_us),
            end: Until::Answers(50),
        };
        runs::serve(&parameters(), &service).expect("good parameters")
    };
    let (busy, near, far) = (served(0), served(8), served(40));
    assert_eq!((busy.sleeps, near.sleeps), (0, 0));
    assert!(far.sleeps >= 50);
    assert!(far.round_trip_us - near.round_trip_us > 8.0);
}

#[test]
fn parameters_are_checked() {
    let with = |from: &str, to: &str| {
        let text = replaced(System.parameters(), &[(from, to)]);
        System.run(&text, 1).expect_err(from).to_string()
    };
    assert!(with("\"8 KiB\"", "\"9 KiB\"").contains("queue.ring"));
    assert!(with("message = \"40 B\"", "message = \"4 KiB\"").contains("queue.message"));
    assert!(with("write_entries = 6", "write_entries = 0").contains("write_entries"));
    // A store of eight bytes must not arrive in halves.
    assert!(with("write_entry = \"64 B\"", "write_entry = \"4 B\"").contains("host.write_entry"));
    assert!(with("cam_entries = 256", "cam_entries = 27").contains("card.cam_entries"));
    assert!(with("poll = \"50 ns\"", "poll = \"0 ns\"").contains("host.poll"));
    assert!(with("ports = 5", "ports = 4").contains("switch.ports"));
    assert!(with("ports = 5", "ports = 1").contains("switch.ports"));
    assert!(with("\"2 KiB\"", "\"0 B\"").contains("card.fifo"));
    assert!(with("dispatch =", "dipsatch =").contains("dipsatch"));
}
