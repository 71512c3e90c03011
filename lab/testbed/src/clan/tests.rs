//! The reproduction test of CLAN, and what its worlds promise.

use super::*;
use crate::System as _;
use crate::expected::{Row, rows};

fn expected() -> Vec<Row> {
    rows(include_str!("../../../tables/expected/clan.toml"))
}

fn parameters() -> Parameters {
    Parameters::parse(System.parameters()).expect("good parameters")
}

#[test]
fn the_pages_are_reproduced() {
    let findings = System.run(System.parameters(), 1).expect("good parameters");
    let expected = expected();
    assert_eq!(findings.len(), expected.len());
    let mut wrong = 0;
    for (found, row) in findings.iter().zip(&expected) {
        let key = (found.table, found.row.as_str(), found.quantity, found.unit);
        let wanted = (
            row.table.as_str(),
            row.row.as_str(),
            row.quantity.as_str(),
            row.unit.as_str(),
        );
        assert_eq!(key, wanted);
        let error = (found.value / row.published - 1.0) * 100.0;
        wrong += usize::from(error.is_nan() || error.abs() > row.tolerance_pct);
        println!(
            "{:45} {:11.2} {:11.2} {error:+6.2} % {}",
            format!("{}, {}, {}", found.row, found.quantity, found.unit),
            row.published,
            found.value,
            row.kind
        );
    }
    assert_eq!(wrong, 0, "rows beyond their tolerance");
}

#[test]
fn the_same_run_gives_the_same_events() {
    let first = measure_all(System.parameters(), 3).expect("good parameters");
    let again = measure_all(System.parameters(), 3).expect("good parameters");
    assert_eq!(first, again);
    let other = System.parameters().replace("\"312 ns\"", "\"313 ns\"");
    let other = measure_all(&other, 3).expect("good parameters");
    assert_ne!(first.1, other.1);
    let other = measure_all(System.parameters(), 4).expect("good parameters");
    assert_ne!(first.1, other.1, "the loads at random have another seed");
}

/// Up to the limit everything is answered, beyond it the server keeps its rate; UDP does
/// less the more it is asked.
#[test]
fn the_server_keeps_its_rate_under_overload_and_udp_does_not() {
    let offered = [5_000.0, 200_000.0, 400_000.0, 600_000.0, 1_200_000.0];
    let points = sweep(System.parameters(), 7, &offered).expect("good parameters");
    for point in &points[1..3] {
        assert!((point.clan / point.offered - 1.0).abs() < 0.1, "{point:?}");
        assert!(point.clan_round_trip_us < 20.0, "{point:?}");
    }
    assert!(points[0].sleeps > 0 && points[4].sleeps == 0);
    let limit = saturated(&parameters(), 7).expect("good parameters").rate;
    for point in &points[3..] {
        assert!(point.clan > 0.97 * limit, "{point:?}: below {limit}");
        assert!(point.clan < 1.10 * limit, "{point:?}: above {limit}");
    }
    assert!(points[0].udp_unanswered_per_cent < 10.0);
    let rates = [40_000.0, 60_000.0, 80_000.0];
    let udp = sweep(System.parameters(), 7, &rates).expect("good parameters");
    assert!(udp.windows(2).all(|pair| pair[1].udp < 0.8 * pair[0].udp));
    assert!(udp[0].udp_unanswered_per_cent > 10.0, "{udp:?}");
    assert!(udp[2].udp_unanswered_per_cent > 70.0, "{udp:?}");
    // Every moment goes into frames that nobody will answer.
    assert_eq!(points[4].udp, 0.0);
}

/// The derived curve, B(s) = R s / (s + s½) with 883 Mbit/s and 128.5 B, is what the two
/// printed points give; the mechanism gives nearly the same without its form.
#[test]
fn the_queue_s_curve_rises_as_the_two_points_say() {
    let sizes = [64, 128, 256, 512, 1024, 4096, 32 * 1024];
    let curve = queue_curve(System.parameters(), &sizes).expect("good parameters");
    assert!(curve.windows(2).all(|pair| pair[0] < pair[1]), "{curve:?}");
    for (size, found) in sizes.into_iter().zip(&curve) {
        let derived = 883.0 * size as f64 / (size as f64 + 128.5);
        assert!((found / derived - 1.0).abs() < 0.1, "{size} B: {found}");
    }
}

/// More requests at a time: from 1 / 7.9 us up to the server's limit, and not beyond.
#[test]
fn more_clients_reach_the_limit_and_stay_there() {
    let rate = |clients: usize, connections: usize| {
        let service = Service {
            clients,
            connections,
            load: runs::closed,
            amount: 0.0,
            end: SATURATED,
        };
        let served = runs::serve(&parameters(), &service, 1);
        served.expect("good parameters").rate
    };
    let one = rate(1, 1);
    assert!((one * 7.9e-6 - 1.0).abs() < 0.03, "{one}");
    let (two, many, more) = (rate(2, 1), rate(7, 4), rate(7, 16));
    assert!(two > 1.8 * one && many > 1.5 * two, "{one} {two} {many}");
    assert!((more / many - 1.0).abs() < 0.1, "{many} {more}");
}

#[test]
fn a_server_sleeps_only_when_nothing_comes_for_longer_than_it_polls() {
    let served = |gap_us: f64| {
        let service = Service {
            clients: 1,
            connections: 1,
            load: runs::closed,
            amount: gap_us,
            end: Until::Answers(50),
        };
        runs::serve(&parameters(), &service, 1).expect("good parameters")
    };
    let (busy, near, far) = (served(0.0), served(8.0), served(40.0));
    assert_eq!((busy.sleeps, near.sleeps), (0, 0));
    assert!(far.sleeps >= 50);
    assert!(far.round_trip_us - near.round_trip_us > 8.0);
}

#[test]
fn parameters_are_checked() {
    let with = |from: &str, to: &str| {
        let text = System.parameters().replacen(from, to, 1);
        assert_ne!(text, System.parameters(), "{from}");
        System.run(&text, 1).expect_err(from).to_string()
    };
    assert!(with("\"8 KiB\"", "\"9 KiB\"").contains("queue.ring"));
    assert!(with("message = \"40 B\"", "message = \"4 KiB\"").contains("queue.message"));
    assert!(with("write_entries = 6", "write_entries = 0").contains("write_entries"));
    assert!(with("cam_entries = 256", "cam_entries = 27").contains("card.cam_entries"));
    assert!(with("poll = \"50 ns\"", "poll = \"0 ns\"").contains("host.poll"));
    assert!(with("\"2 KiB\"", "\"0 B\"").contains("card.fifo"));
    assert!(with("dispatch =", "dipsatch =").contains("dipsatch"));
}
