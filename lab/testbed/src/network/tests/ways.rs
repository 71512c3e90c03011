//! Networks that no other system has: through rings and units, and repeatable.

use crate::asked::{ask, named, number};
use crate::experiment::Outcome;
use crate::network::{NoKinds, System};
use crate::system::System as _;

fn network(text: &str, seed: u64) -> Outcome {
    let experiment = &System::<NoKinds>::new().experiments()[0];
    let found = ask(experiment, text, experiment.inputs, (seed, 0));
    found.unwrap_or_else(|error| panic!("{error}"))
}

/// Ring of slots, unit, cells, unit, ring with a token: there and back, in pieces of each.
const CHAIN: &str = "\
[hosts.a]
like = \"mvme147\"
[cards.a]
host = \"a\"
like = \"card-v1s\"
latency = \"0 us\"
[rings.slots]
kind = \"cbn\"
stations = [\"a\", \"u.ring\"]
[units.u]
ports = { ring = \"card-v1s\", atm = \"card-penn\" }
[links.cells]
ends = [\"u.atm\", \"v.atm\"]
[units.v]
ports = { atm = \"card-penn\", ring = \"card-afterburner\" }
[rings.token]
kind = \"jetstream\"
stations = [\"v.ring\", \"b\"]
[hosts.b]
like = \"hp9000-730\"
[cards.b]
host = \"b\"
like = \"card-afterburner\"
[programs.p]
kind = \"ping\"
from = \"a\"
to = \"b\"
size = \"100 B\"
round_trips = 3
";

#[test]
fn messages_go_through_rings_and_units_and_back() {
    let found = network(CHAIN, 1);
    let pings = named(&found, "round trips");
    assert_eq!(number(pings, 0, "timed out"), 0.0);
    let messages = named(&found, "messages");
    assert_eq!(number(messages, 0, "sent"), 8.0);
    assert_eq!(number(messages, 0, "received"), 8.0);
    // 100 B are four cells of 32 B each way on the one ring.
    let slots = named(&found, "slotted rings");
    assert_eq!(number(slots, 0, "cells sent"), 32.0);
    assert_eq!(number(slots, 0, "cells received"), 32.0);
    let path = named(
        &found,
        "where the time of a round trip goes: the critical path",
    );
    let sum = number(path, path.rows.len() - 1, "time");
    assert!((sum - number(pings, 0, "mean")).abs() < 1e-6);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let first = network(CHAIN, 4);
    assert_eq!(first, network(CHAIN, 4));
    assert_ne!(first.trace_hash, network(CHAIN, 5).trace_hash);
}

#[test]
fn what_a_unit_has_no_room_for_is_lost_and_counted() {
    let small = CHAIN.replacen("ports = { ring", "buffer = \"40 B\"\nports = { ring", 1);
    let small = small.replace("round_trips = 3", "round_trips = 1\ntime_out = \"20 ms\"");
    let found = network(&small.replace("\"100 B\"", "\"2 KiB\""), 1);
    let messages = named(&found, "messages");
    assert!(number(messages, 0, "lost on the way") > 0.0);
    assert_eq!(number(messages, 0, "never ended"), 0.0);
}
