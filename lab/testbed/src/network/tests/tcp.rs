//! TCP over networks of plans: what arrives, what is sent again, what it costs, and what a capture
//! shows of it.

use barewire_wire::capture::LinkType;

use crate::asked::{ask, changed, named, number};
use crate::experiment::Outcome;
use crate::network::{NoKinds, System};
use crate::system::System as _;

fn run(text: &str, links: &str, (seed, packets): (u64, usize)) -> Outcome {
    let experiment = &System::<NoKinds>::new().experiments()[0];
    let inputs = changed(experiment, &[("time", "\"100 s\""), ("links", links)]);
    let found = ask(experiment, text, &inputs, (seed, packets));
    found.unwrap_or_else(|error| panic!("{error}"))
}

fn network(text: &str, seed: u64) -> Outcome {
    run(text, "[]", (seed, 0))
}

/// Two hosts and a link of 2 ms whose frames hold whole packets.
fn pair(link: &str, programs: &str) -> String {
    let mut text = String::new();
    for host in ["a", "b"] {
        text += &format!(
            "[hosts.{host}]\nlike = \"pc800\"\n[cards.{host}]\nhost = \"{host}\"\n\
             like = \"card-acenic\"\nnotice.packets = 1\n\
             link = {{ payload = \"1500 B\", least = \"46 B\", overhead = \"38 B\" }}\n"
        );
    }
    text + &format!("[links.cable]\nends = [\"a\", \"b\"]\nlength = \"400 km\"\n{link}\n{programs}")
}

/// The window is less than the receiving host holds for a program that has not read it.
const STREAM: &str = "[programs.s]\nkind = \"tcp-stream\"\nfrom = \"a\"\nto = \"b\"\n\
                      volume = \"2 MiB\"\nbuffer = \"128 KiB\"\n";

#[test]
fn a_stream_arrives_whole_and_a_link_without_losses_has_nothing_sent_again() {
    let found = network(&pair("", STREAM), 1);
    let streams = named(&found, "TCP streams");
    assert_eq!(number(streams, 0, "whole"), 1.0);
    assert_eq!(number(streams, 0, "sent again"), 0.0);
    // 2 MiB are 1437 segments of 1460 B, and a few that the buffer's end makes short.
    let packets = number(streams, 0, "packets");
    assert!((1437.0..1500.0).contains(&packets), "{packets}");
    // There and back take 4 ms; 128 KiB in that time are 262 Mbit/s.
    let trip = number(streams, 0, "round trip, mean");
    assert!((4000.0..20_000.0).contains(&trip), "{trip}");
    let rate = number(streams, 0, "all together");
    assert!((50.0..262.0).contains(&rate), "{rate}");
    // Each packet is a message, of TCP and of nothing else, and none is left over.
    let messages = named(&found, "messages");
    let [sent, received] = ["sent", "received"].map(|column| number(messages, 0, column));
    assert!(sent > packets + 3.0, "{sent}");
    assert_eq!(sent - received, number(messages, 0, "never ended"));
}

#[test]
fn losses_are_repaired_and_slow_a_stream_down() {
    let rates = [0.0, 0.01, 0.05].map(|loss| {
        let found = network(&pair(&format!("loss = {loss}"), STREAM), 1);
        let streams = named(&found, "TCP streams");
        assert_eq!(number(streams, 0, "whole"), 1.0, "{loss}");
        let again = number(streams, 0, "sent again");
        if loss == 0.0 {
            let none = found
                .tables
                .iter()
                .all(|table| !table.name.contains("lost"));
            assert!(none && again == 0.0);
        } else {
            let lost = named(&found, "frames that links have lost");
            let [there, back] = ["lost there", "lost back"].map(|it| number(lost, 0, it));
            assert_eq!(number(lost, 0, "chance"), loss);
            // Whatever was lost there is sent again, but for what opens and ends the connection.
            assert!(again + 4.0 >= there, "{again} {there}");
            let on_the_way = number(named(&found, "messages"), 0, "lost on the way");
            assert_eq!(on_the_way, there + back);
        }
        number(streams, 0, "all together")
    });
    assert!(rates[0] > rates[1] && rates[1] > rates[2], "{rates:?}");
}

#[test]
fn the_same_seed_loses_the_same_frames() {
    let text = pair("loss = 0.01", STREAM);
    let first = network(&text, 4);
    assert_eq!(first, network(&text, 4));
    assert_ne!(first, network(&text, 5));
}

#[test]
fn requests_are_answered_over_connections_that_stay_open() {
    let requests = "[programs.r]\nkind = \"tcp-request-reply\"\nfrom = \"a\"\nto = \"b\"\n\
                    connections = 3\nrequests = 20\nreply = \"10 KiB\"\npause = \"1 ms\"\n\
                    start = \"1 ms\"\ninterval = \"2 ms\"\nwork = \"5 us\"\n";
    let found = network(&pair("", requests), 1);
    let table = named(&found, "TCP requests");
    assert_eq!(number(table, 0, "answered"), 60.0);
    assert_eq!(number(table, 0, "failed"), 0.0);
    let mean = number(table, 0, "mean");
    // More than the way there and back, and less than twice that: 10 KiB are in the first window.
    assert!((4000.0..8000.0).contains(&mean), "{mean}");
}

#[test]
fn a_connection_to_nobody_times_out_and_the_run_ends() {
    let text = pair("loss = 1", STREAM);
    let found = network(&text, 1);
    let streams = named(&found, "TCP streams");
    assert_eq!(number(streams, 0, "whole"), 0.0);
    assert_eq!(number(streams, 0, "packets"), 0.0);
    let messages = named(&found, "messages");
    assert!(number(messages, 0, "sent") >= 5.0);
    assert_eq!(number(messages, 0, "received"), 0.0);
}

#[test]
fn several_streams_from_one_host_take_turns() {
    // Of messages, and of TCP, beside each other.
    let streams = "[programs.m]\nkind = \"stream\"\nfrom = \"a\"\nto = \"b\"\nvolume = \"1 MiB\"\nwindow = \"0 B\"\n\
                   [programs.n]\nkind = \"stream\"\nfrom = \"a\"\nto = \"b\"\nvolume = \"1 MiB\"\nwindow = \"0 B\"\n";
    let found = network(&pair("", &format!("{streams}{STREAM}connections = 2\n")), 1);
    let table = named(&found, "streams");
    for row in 0..2 {
        let [received, lost] = ["messages received", "lost"].map(|it| number(table, row, it));
        assert_eq!(received + lost, 64.0, "{row}");
    }
    let table = named(&found, "TCP streams");
    assert_eq!(number(table, 0, "whole"), 2.0);
}

#[test]
fn a_capture_has_the_packets_of_the_links_that_are_named() {
    let text = pair("", STREAM);
    let all = run(&text, "[]", (1, 8));
    assert_eq!(all.links.len(), 1);
    let [cable] = &all.links[..] else { panic!() };
    assert_eq!(cable.link, "cable");
    assert_eq!(cable.link_type, LinkType::ETHERNET);
    assert_eq!(cable.packets.len(), 8);
    assert!(cable.not_recorded > 1000);
    // The SYN of 10.0.0.1 to 10.0.0.2, as an Ethernet frame.
    let syn = &cable.packets[0].bytes;
    assert_eq!(syn[..14], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 8, 0]);
    assert_eq!(syn[14], 0x45);
    assert_eq!(syn[26..34], [10, 0, 0, 1, 10, 0, 0, 2]);
    assert_eq!(syn[14 + 33] & 0x3f, 2, "a SYN");
    // It costs nothing: the run is the same.
    assert_eq!(all.trace_hash, network_hash(&text));
    assert_eq!(run(&text, "[\"cable\"]", (1, 8)).links, all.links);
    let experiment = &System::<NoKinds>::new().experiments()[0];
    let inputs = changed(experiment, &[("links", "[\"table\"]")]);
    let error = ask(experiment, &text, &inputs, (1, 8)).expect_err("no such link");
    assert!(error.to_string().contains("table"), "{error}");
}

fn network_hash(text: &str) -> u64 {
    network(text, 1).trace_hash
}
