//! Hosts with several cards, and hosts that pass on what comes for others.

use crate::asked::{ask, changed, named, number};
use crate::experiment::{Cell, Outcome};
use crate::network::{NoKinds, System};
use crate::system::System as _;

fn run(text: &str, (seed, packets): (u64, usize)) -> Outcome {
    let experiment = &System::<NoKinds>::new().experiments()[0];
    let inputs = changed(experiment, &[("time", "\"100 s\"")]);
    let found = ask(experiment, text, &inputs, (seed, packets));
    found.unwrap_or_else(|error| panic!("{error}"))
}

fn network(text: &str) -> Outcome {
    run(text, (1, 0))
}

/// The row of a table with this name in front.
fn row(outcome: &Outcome, table: &str, name: &str) -> usize {
    let rows = &named(outcome, table).rows;
    let found = rows.iter().position(|row| row[0] == Cell::from(name));
    found.unwrap_or_else(|| panic!("{name}: {rows:?}"))
}

fn of(outcome: &Outcome, table: &str, name: &str, column: &str) -> f64 {
    number(named(outcome, table), row(outcome, table, name), column)
}

/// A card whose frames hold whole IP packets, each with an interrupt.
fn ethernet(name: &str, host: &str) -> String {
    format!(
        "[cards.{name}]\nhost = \"{host}\"\nlike = \"card-acenic\"\nnotice.packets = 1\n\
         link = {{ payload = \"1500 B\", least = \"46 B\", overhead = \"38 B\" }}\n"
    )
}

fn link(name: &str, ends: [&str; 2]) -> String {
    format!(
        "[links.{name}]\nends = [\"{}\", \"{}\"]\n",
        ends[0], ends[1]
    )
}

/// `a`, a host between with two cards, `b`.
fn gateway(host: &str, programs: &str) -> String {
    [
        "[hosts.a]\nlike = \"pc800\"\n[hosts.b]\nlike = \"pc800\"\n[hosts.gate]\nforwards = true\n",
        &format!("{host}\n"),
        &ethernet("a", "a"),
        &ethernet("b", "b"),
        &ethernet("left", "gate"),
        &ethernet("right", "gate"),
        &link("left", ["a", "left"]),
        &link("right", ["right", "b"]),
        programs,
    ]
    .concat()
}

const PING: &str = "[programs.p]\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\nsize = \"1 KiB\"\n\
                    round_trips = 10\n";
const STREAM: &str = "[programs.s]\nkind = \"tcp-stream\"\nfrom = \"a\"\nto = \"b\"\n\
                      volume = \"1 MiB\"\nbuffer = \"128 KiB\"\n";
const FORWARD: &str = "hosts that forward";

#[test]
fn a_message_pays_the_gateways_receive_and_send_costs_and_nothing_else_there() {
    let costs = "like = \"pc800\"\ncosts.interrupt = \"3 us\"\ncosts.receive_packet = \"5 us\"\n\
                 costs.receive_kib = \"2 us\"\ncosts.send_packet = \"11 us\"\ncosts.send_kib = \"1 us\"\n\
                 memory.write_back_kib = \"4 us\"\n\
                 # What a program would pay.\n\
                 costs.send_call = \"900 us\"\ncosts.receive_call = \"900 us\"\n\
                 costs.wake_up = \"900 us\"\ncosts.context_switch = \"900 us\"\n\
                 costs.checksum_kib = \"900 us\"\n";
    let found = network(&gateway(costs, PING));
    let path = named(
        &found,
        "where the time of a round trip goes: the critical path",
    );
    let at_gate = |part: &str| {
        let rows = path.rows.iter().enumerate();
        let is_it = |row: &[Cell]| row[0] == Cell::from("host gate") && row[1] == Cell::from(part);
        let times = rows.filter(|(_, row)| is_it(row));
        times.map(|(at, _)| number(path, at, "time")).sum::<f64>()
    };
    let near = |one: f64, other: f64| assert!((one - other).abs() < 1e-6, "{one} {other}");
    // There and back: one frame of 1 KiB each way.
    near(at_gate("interrupt"), 2.0 * 3.0);
    near(at_gate("driver"), 2.0 * (5.0 + 2.0 + 11.0 + 1.0 + 4.0));
    for part in ["system calls", "copies", "checksum", "wake-up", "program"] {
        near(at_gate(part), 0.0);
    }
    assert!(at_gate("bus") > 0.0 && at_gate("card") > 0.0);
    let sum = number(path, path.rows.len() - 1, "time");
    near(sum, number(named(&found, "round trips"), 0, "mean"));
    // Eleven round trips, the first of which is not counted.
    assert_eq!(of(&found, FORWARD, "gate", "messages passed on"), 22.0);
    assert_eq!(of(&found, FORWARD, "gate", "most held"), 1024.0);
    assert_eq!(of(&found, "hosts", "gate", "interrupts"), 22.0);
    assert_eq!(found, network(&gateway(costs, PING)));
}

#[test]
fn a_gateways_own_program_and_what_it_passes_on_wait_for_one_processor() {
    let mean = |programs: &str, host: &str| {
        let found = network(&gateway(
            host,
            &format!("{PING}pause = \"0 s\"\n{programs}"),
        ));
        number(named(&found, "round trips"), 0, "mean")
    };
    let own = "[programs.own]\nkind = \"stream\"\nfrom = \"gate\"\nto = \"b\"\nsize = \"1400 B\"\n\
               volume = \"1 MiB\"\nwindow = \"4 KiB\"\n";
    let slow = "like = \"pc500\"\n";
    // The driver cannot be interrupted by itself: another frame waits for it.
    let (alone, beside) = (mean("", slow), mean(own, slow));
    assert!(beside > alone + 5.0, "{alone} {beside}");
    // What is passed on goes before the program, which pays for it.
    let rate = |programs: &str| {
        let found = network(&gateway(slow, programs));
        (of(&found, "streams", "own", "received"), found)
    };
    let flood = "[programs.flood]\nkind = \"stream\"\nfrom = \"a\"\nto = \"b\"\nsize = \"1400 B\"\n\
                 volume = \"4 MiB\"\nwindow = \"64 KiB\"\n";
    let ((whole, _), (less, found)) = (rate(own), rate(&format!("{own}{flood}")));
    assert!(less < 0.8 * whole, "{whole} {less}");
    let busy = of(&found, "hosts", "gate", "processor");
    assert!((50.0..=100.0).contains(&busy), "{busy}");
}

#[test]
fn the_cards_of_a_host_share_its_bus() {
    // Two streams at once, from one host with two cards or from two hosts with one.
    let host = |name: &str| {
        format!(
            "[hosts.{name}]\nlike = \"pc800\"\nbus.rate = \"80 Mbit/s\"\nbus.setup = \"0 us\"\n"
        )
    };
    let stream = |name: &str, from: &str, to: &str| {
        format!(
            "[programs.{name}]\nkind = \"stream\"\nfrom = \"{from}\"\nto = \"{to}\"\n\
             size = \"1400 B\"\nvolume = \"1 MiB\"\nwindow = \"32 KiB\"\n"
        )
    };
    let rates = |hosts: &str, [one, other]: [&str; 2]| {
        let text = [
            hosts,
            "[hosts.x]\nlike = \"pc800\"\n[hosts.y]\nlike = \"pc800\"\n",
            &ethernet("one", one),
            &ethernet("other", other),
            &ethernet("x", "x"),
            &ethernet("y", "y"),
            &link("x", ["one", "x"]),
            &link("y", ["other", "y"]),
            &stream("p", one, "x"),
            &stream("q", other, "y"),
        ]
        .concat();
        let found = network(&text);
        let rate = |row| number(named(&found, "streams"), row, "received").round();
        let most = of(&found, "hosts", one, "bus");
        (rate(0) + rate(1), most)
    };
    let (apart, _) = rates(&(host("m") + &host("n")), ["m", "n"]);
    let (together, busy) = rates(&host("m"), ["m", "m"]);
    // Each byte crosses the bus once: 80 Mbit/s, with the descriptors.
    assert!(together < 80.0 && together > 70.0, "{together}");
    assert!(apart > 1.8 * together, "{apart} {together}");
    assert!(busy > 95.0, "{busy}");
}

#[test]
fn a_stream_of_tcp_crosses_a_gateway_and_its_packets_live_one_hop_less() {
    let found = run(&gateway("like = \"pc800\"", STREAM), (1, 4));
    let streams = named(&found, "TCP streams");
    assert_eq!(number(streams, 0, "whole"), 1.0);
    assert_eq!(number(streams, 0, "sent again"), 0.0);
    let messages = named(&found, "messages");
    let passed = of(&found, FORWARD, "gate", "messages passed on");
    assert!(passed >= number(messages, 0, "received"));
    assert_eq!(of(&found, FORWARD, "gate", "lost for want of room"), 0.0);
    let [left, right] = &found.links[..] else {
        panic!("{:?}", found.links.len())
    };
    assert_eq!([left.link.as_str(), right.link.as_str()], ["left", "right"]);
    // The SYN before and behind the gateway: from and to the same hosts.
    let [before, behind] = [left, right].map(|link| &link.packets[0].bytes[14..]);
    assert_eq!(before[12..20], [10, 0, 0, 1, 10, 0, 0, 2]);
    assert_eq!(before[12..], behind[12..]);
    assert_eq!(behind[8], before[8] - 1);
    for packet in [before, behind] {
        let words = packet[..20].chunks(2);
        let sum: u32 = words
            .map(|two| u32::from(two[0]) << 8 | u32::from(two[1]))
            .sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }
    // Frames are from the card that sends them: the gateway's second has a number of its own.
    assert_eq!(left.packets[0].bytes[6..12], [2, 0, 0, 0, 0, 0]);
    assert_eq!(right.packets[0].bytes[6..12], [2, 0, 0, 0, 0, 3]);
}

#[test]
fn requests_over_tcp_cross_two_gateways_of_different_networks() {
    let text = "[hosts.a]\nlike = \"hp9000-730\"\n[cards.a]\nhost = \"a\"\nlike = \"card-afterburner\"\n\
         [hosts.g]\nlike = \"hp9000-730\"\nforwards = true\n\
         [cards.g-ring]\nhost = \"g\"\nlike = \"card-afterburner\"\n\
         [cards.g-atm]\nhost = \"g\"\nlike = \"card-penn\"\n\
         [hosts.h]\nlike = \"pc500\"\nforwards = true\n\
         [cards.h-atm]\nhost = \"h\"\nlike = \"card-penn\"\n\
         [cards.h-slots]\nhost = \"h\"\nlike = \"card-v1s\"\nlatency = \"0 us\"\n\
         [hosts.b]\nlike = \"mvme147\"\n\
         [cards.b]\nhost = \"b\"\nlike = \"card-v1s\"\nlatency = \"0 us\"\n\
         [rings.r]\nkind = \"jetstream\"\nstations = [\"a\", \"g-ring\"]\n\
         [links.atm]\nends = [\"g-atm\", \"h-atm\"]\n\
         [rings.s]\nkind = \"cbn\"\nstations = [\"h-slots\", \"b\"]\n\
         [programs.p]\nkind = \"tcp-request-reply\"\nfrom = \"a\"\nto = \"b\"\nrequests = 20\n\
         reply = \"2 KiB\"\nconnections = 2\n";
    let found = network(text);
    let requests = named(&found, "TCP requests");
    assert_eq!(number(requests, 0, "answered"), 40.0);
    assert_eq!(number(requests, 0, "failed"), 0.0);
    for host in ["g", "h"] {
        assert!(of(&found, FORWARD, host, "messages passed on") > 80.0);
    }
    assert_eq!(found.trace_hash, network(text).trace_hash);
}

#[test]
fn words_of_what_is_passed_on_are_not_mixed_with_those_of_the_gateways_own_program() {
    // Cards that are filled word by word, with a FIFO that is soon full.
    let card = |name: &str, host: &str| {
        format!(
            "[cards.{name}]\nhost = \"{host}\"\nlike = \"card-v1s\"\ntransmit_fifo = \"1 KiB\"\n"
        )
    };
    let stream = |name: &str, from: &str, to: &str| {
        format!(
            "[programs.{name}]\nkind = \"stream\"\nfrom = \"{from}\"\nto = \"{to}\"\n\
             size = \"700 B\"\nvolume = \"64 KiB\"\nwindow = \"3 KiB\"\n"
        )
    };
    for processors in [1, 2] {
        let text = [
            "[hosts.a]\nlike = \"rs6000\"\n[hosts.b]\nlike = \"rs6000\"\n",
            &format!("[hosts.g]\nlike = \"rs6000\"\nprocessors = {processors}\nforwards = true\n"),
            &card("a", "a"),
            &card("b", "b"),
            &card("l", "g"),
            &card("m", "g"),
            &link("l", ["a", "l"]),
            &link("m", ["m", "b"]),
            &stream("through", "a", "b"),
            &stream("back", "b", "a"),
            &stream("own-a", "g", "a"),
            &stream("own-b", "g", "b"),
        ]
        .concat();
        let found = network(&text);
        let messages = named(&found, "messages");
        for at in 0..4 {
            // 64 KiB are 93 messages, and each has come in its window.
            assert_eq!(
                number(named(&found, "streams"), at, "messages received"),
                93.0
            );
            let [sent, received] = ["sent", "received"].map(|it| number(messages, at, it));
            assert!(sent - received <= 2.0, "{at} {sent} {received}");
            assert_eq!(number(messages, at, "lost on the way"), 0.0);
        }
    }
}

#[test]
fn what_a_gateway_has_no_room_for_is_lost_and_counted() {
    let flood = "[programs.flood]\nkind = \"stream\"\nfrom = \"a\"\nto = \"b\"\nsize = \"1400 B\"\n\
                 volume = \"1 MiB\"\nwindow = \"0 B\"\n";
    // The link behind it is slow.
    let slow = |host: &str| {
        let text = gateway(host, flood);
        let whole = "ends = [\"right\", \"b\"]\n";
        assert!(text.contains(whole));
        network(&text.replace(whole, &format!("{whole}rate = \"10 Mbit/s\"\n")))
    };
    let found = slow("like = \"pc800\"\nforward_buffer = \"10 KiB\"");
    let lost = of(&found, FORWARD, "gate", "lost for want of room");
    assert!(lost > 100.0, "{lost}");
    // The card's own buffers are full, then ten thousand bytes and no more.
    let held = of(&found, FORWARD, "gate", "most held");
    assert!((9000.0..=10240.0).contains(&held), "{held}");
    let messages = named(&found, "messages");
    assert_eq!(number(messages, 0, "lost on the way"), lost);
    let [sent, received] = ["sent", "received"].map(|it| number(messages, 0, it));
    assert_eq!(sent, received + lost);
    let found = slow("like = \"pc800\"\nforward_buffer = \"4 MiB\"");
    assert_eq!(of(&found, FORWARD, "gate", "lost for want of room"), 0.0);
}

/// Frames on each link there, by the program's messages.
fn frames(text: &str, links: [&str; 2]) -> [f64; 2] {
    let found = network(text);
    links.map(|link| of(&found, "links", link, "frames there"))
}

#[test]
fn messages_leave_by_the_nearest_card_and_of_equals_by_the_first_by_name() {
    let two = |program: &str| {
        [
            "[hosts.a]\nlike = \"pc800\"\n[hosts.b]\nlike = \"pc800\"\n",
            &ethernet("y", "a"),
            &ethernet("x", "a"),
            &ethernet("u", "b"),
            &ethernet("v", "b"),
            &link("one", ["x", "u"]),
            &link("two", ["y", "v"]),
            &format!("{PING}{program}"),
        ]
        .concat()
    };
    let links = ["one", "two"];
    assert_eq!(frames(&two(""), links), [11.0, 0.0]);
    assert_eq!(frames(&two("card = \"y\"\n"), links), [0.0, 11.0]);
    assert_eq!(frames(&two("card = \"v\"\n"), links), [11.0, 0.0]);
    let found = network(&two("card = [\"y\", \"u\"]\n"));
    // There by the one, back by the other.
    assert_eq!(of(&found, "links", "two", "frames back"), 0.0);
    assert_eq!(of(&found, "links", "one", "frames back"), 11.0);
    // A switch on the way of the first: the second is nearer.
    let far = two("").replace(
        "ends = [\"x\", \"u\"]",
        "ends = [\"x\", \"s\"]\n[switches.s]\n[links.three]\nends = [\"s\", \"u\"]",
    );
    assert_eq!(frames(&far, links), [0.0, 11.0]);
}

#[test]
fn a_program_that_polls_takes_what_comes_at_all_of_its_cards() {
    let card = |name: &str, host: &str| {
        format!("[cards.{name}]\nhost = \"{host}\"\nlike = \"card-clan\"\n")
    };
    let text = [
        "[hosts.a]\nlike = \"alpha533\"\n[hosts.b]\nlike = \"alpha533\"\n[hosts.c]\nlike = \"alpha533\"\n",
        &card("a", "a"),
        &card("b", "b"),
        &card("l", "c"),
        &card("m", "c"),
        &link("one", ["a", "l"]),
        &link("two", ["b", "m"]),
        "[programs.p]\nkind = \"incast\"\nfrom = [\"a\", \"b\"]\nto = \"c\"\nsize = \"8 KiB\"\n",
    ]
    .concat();
    let found = network(&text);
    assert_eq!(number(named(&found, "messages"), 0, "received"), 20.0);
    assert_eq!(
        number(named(&found, "rounds from many to one"), 0, "rounds whole"),
        100.0
    );
    assert_eq!(of(&found, "hosts", "c", "interrupts"), 0.0);
}

#[test]
fn an_interrupt_of_one_card_waits_for_the_handler_at_the_other() {
    // Both at the same moment: the handler enters twice.
    let text = [
        "[hosts.a]\nlike = \"pc800\"\n[hosts.b]\nlike = \"pc800\"\n[hosts.c]\nlike = \"pc800\"\n",
        &ethernet("a", "a"),
        &ethernet("b", "b"),
        &ethernet("l", "c"),
        &ethernet("m", "c"),
        &link("one", ["a", "l"]),
        &link("two", ["b", "m"]),
        "[programs.p]\nkind = \"incast\"\nfrom = [\"a\", \"b\"]\nto = \"c\"\nsize = \"100 B\"\n\
         jitter = \"0 us\"\nrounds = 10\n",
    ]
    .concat();
    let found = network(&text);
    assert_eq!(number(named(&found, "messages"), 0, "received"), 20.0);
    assert_eq!(of(&found, "hosts", "c", "interrupts"), 20.0);
}

#[test]
fn a_picture_shows_each_card() {
    let text = gateway("like = \"pc733\"", PING);
    let sketch = System::<NoKinds>::new().sketch(&text).expect("a network");
    let sketch = sketch.expect("right");
    let gate = sketch.things.iter().position(|it| it.name == "gate");
    let gate = gate.expect("the gateway");
    assert_eq!(
        sketch.things[gate].about,
        "pc733, left card-acenic, right card-acenic, forwards"
    );
    let joins = sketch.joins.iter().filter(|join| join.ends.contains(&gate));
    let joins: Vec<&str> = joins.map(|join| join.about.as_str()).collect();
    assert_eq!(joins, ["left, 1Gbit/s, left", "right, 1Gbit/s, right"]);
}

#[test]
fn nothing_stays_in_a_gateway_whatever_its_cards_are_like() {
    // Few slots, interrupts held back, words and fetches, streams both ways and some of its own.
    let cards = [
        "like = \"card-v1s\"\ntransmit_fifo = \"1 KiB\"\n",
        "like = \"card-v1s\"\nsend = \"dma\"\ntransmit_slots = 1\nnotice.packets = 5\nnotice.delay = \"70 us\"\n",
        "like = \"card-v1s\"\nreceive = \"dma\"\nreceive_slots = 2\nnotice.packets = 3\n",
    ];
    let stream = |name: &str, from: &str, to: &str, size: u64| {
        format!(
            "[programs.{name}]\nkind = \"stream\"\nfrom = \"{from}\"\nto = \"{to}\"\n\
             size = \"{size} B\"\nvolume = \"32 KiB\"\nwindow = \"0 B\"\n"
        )
    };
    for (pair, (left, right)) in cards
        .iter()
        .flat_map(|left| cards.iter().map(move |right| (left, right)))
        .enumerate()
    {
        let processors = 1 + pair % 2;
        let text = [
            "[hosts.a]\nlike = \"rs6000\"\n[hosts.b]\nlike = \"rs6000\"\n",
            &format!("[hosts.g]\nlike = \"rs6000\"\nprocessors = {processors}\nforwards = true\n"),
            "forward_buffer = \"2 KiB\"\n",
            &format!("[cards.a]\nhost = \"a\"\n{left}[cards.l]\nhost = \"g\"\n{left}"),
            &format!("[cards.b]\nhost = \"b\"\n{right}[cards.m]\nhost = \"g\"\n{right}"),
            &link("l", ["a", "l"]),
            &link("m", ["m", "b"]),
            &stream("there", "a", "b", 300),
            &stream("back", "b", "a", 1100),
            &stream("own", "g", "b", 500),
        ]
        .concat();
        let found = network(&text);
        let messages = named(&found, "messages");
        for at in 0..3 {
            assert_eq!(number(messages, at, "never ended"), 0.0, "{text}");
        }
        assert!(
            of(&found, FORWARD, "g", "messages passed on") > 20.0,
            "{text}"
        );
    }
}
