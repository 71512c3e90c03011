//! Runs of every kind, and what must hold for all of them.

use super::*;
use crate::asked::{ask, changed, column};
use crate::system::System as _;
use crate::workbench::System;

/// The tables with these inputs in place of the defaults.
fn tables(changes: &[(&str, &str)]) -> Vec<Table> {
    let inputs = changed(&EVENTS, changes);
    let outcome = || ask(&EVENTS, System.parameters(), &inputs, (1, 0)).expect("a run");
    let first = outcome();
    assert_eq!(first, outcome());
    first.tables
}

const SMALL: [(&str, &str); 2] = [("events", "300"), ("fragments", "[\"100 B\", \"40 KiB\"]")];

#[test]
fn every_way_builds_all_events() {
    let ways: [&[(&str, &str)]; 9] = [
        &[],
        &[("transport", "\"tcp\""), ("room", "\"2 MiB\"")],
        &[("control", "\"none\""), ("assignment", "\"least loaded\"")],
        &[("control", "\"bucket\"")],
        &[("control", "\"barrel\"")],
        &[("control", "\"schedule\"")],
        &[("assignment", "\"pulled\""), ("triggers", "\"poisson\"")],
        &[
            ("triggers", "\"clocked\""),
            ("distribution", "\"log-normal\""),
        ],
        &[
            ("piece", "\"8 KiB\""),
            ("room", "\"64 KiB\""),
            ("processors", "1"),
        ],
    ];
    for way in ways {
        let parts = [("sources", "3"), ("builders", "2")];
        let rates = &tables(&[&SMALL[..], &parts, way].concat())[0];
        assert_eq!(column(rates, "events not built"), [0.0, 0.0], "{way:?}");
        let (bytes, events) = (column(rates, "built"), column(rates, "events"));
        if !way.contains(&("distribution", "\"log-normal\"")) {
            let each = 3.0 * 100.0 * events[0] / 1e6;
            assert!((bytes[0] - each).abs() < 1e-6 * each, "{way:?}");
        }
    }
}

#[test]
fn processors_do_no_more_than_they_can() {
    let inputs = |processors| [&SMALL[..], &[("processors", processors)]].concat();
    let (one, two, many) = (
        tables(&inputs("1")),
        tables(&inputs("2")),
        tables(&inputs("8")),
    );
    for (tables, most) in [(&one, 1.0), (&two, 2.0), (&many, 4.0)] {
        for busy in column(&tables[0], "processor time") {
            // What is done after the last event was known counts, too.
            assert!(busy > 0.2 && busy <= 1.01 * most, "{busy} of {most}");
        }
    }
    let events = |tables: &[Table]| column(&tables[0], "events");
    for at in 0..2 {
        assert!(events(&two)[at] > 1.2 * events(&one)[at], "{at}");
        assert!(events(&many)[at] >= events(&two)[at], "{at}");
    }
}

#[test]
fn one_processor_takes_the_sum_of_all_work() {
    // Nothing costs anything but to make and to verify a fragment.
    let free = [
        "message",
        "message_event",
        "event",
        "make_kib",
        "verify_kib",
    ];
    let mut changes = vec![
        ("processors", "1"),
        ("sources", "1"),
        ("events", "2000"),
        ("fragments", "[\"64 B\"]"),
        ("fragment_out", "\"1 ms\""),
        ("fragment_in", "\"3 ms\""),
    ];
    changes.extend(free.map(|key| (key, "\"0 ns\"")));
    let rate = column(&tables(&changes)[0], "events")[0];
    // Of an old host beside it: calls, switches and copies are some microseconds each.
    assert!((rate - 250.0).abs() < 3.0, "{rate}");
}

#[test]
fn a_clocked_run_keeps_its_rate() {
    let changes = [("triggers", "\"clocked\""), ("period", "\"10 ms\"")];
    let rates = &tables(&[&SMALL[..], &changes].concat())[0];
    for rate in column(rates, "events") {
        assert!((rate - 100.0).abs() < 1.0, "{rate}");
    }
}

#[test]
fn what_can_not_be_is_told() {
    let wrong = [
        ("room", "\"64 KiB\"", "room: found 65536"),
        ("sources", "0", "sources: found 0"),
        ("sigma", "7.0", "sigma: found 7"),
        ("burst", "\"1 B\"", "a bucket of 1 bytes"),
    ];
    for (key, value, problem) in wrong {
        let inputs = changed(&EVENTS, &[(key, value), ("control", "\"bucket\"")]);
        let error = ask(&EVENTS, System.parameters(), &inputs, (1, 0));
        let error = error.expect_err(key).to_string();
        assert!(error.contains(problem), "{error}");
    }
}
