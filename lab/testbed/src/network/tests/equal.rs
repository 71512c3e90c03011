//! The same network here and in the system that its parts are from: the same figures, to the last
//! bit, and so to the picosecond.

use crate::asked::{ask, changed, named, number};
use crate::cbn;
use crate::experiment::{Cell, Experiment, Outcome, Table};
use crate::jetstream;
use crate::network::System;
use crate::system::System as _;
use crate::workbench;

fn network(text: &str, seed: u64) -> Outcome {
    let experiment = &System::<crate::network::NoKinds>::new().experiments()[0];
    let found = ask(experiment, text, experiment.inputs, (seed, 0));
    found.unwrap_or_else(|error| panic!("{error}"))
}

fn experiment(system: &dyn crate::system::System, name: &str) -> &'static Experiment {
    let mut all = system.experiments().iter();
    all.find(|one| one.name == name).expect(name)
}

/// The workbench's parameters with these fragments.
fn parameters(fragments: &[&str]) -> String {
    workbench::presets::with(workbench::System.parameters(), fragments).expect("fragments")
}

/// The same cells of two tables, by the names of their columns.
fn same(one: &Table, other: &Table, columns: &[(&str, &str)]) {
    let at = |table: &Table, name: &str| -> Cell {
        let found = table.columns.iter().position(|column| column.name == name);
        table.rows[0][found.unwrap_or_else(|| panic!("{name}: {:?}", table.columns))].clone()
    };
    for (here, there) in columns {
        assert_eq!(at(one, here), at(other, there), "{here}");
    }
}

/// Two hosts: `link` is what joins them.
fn two(host: &str, card: &str, link: &str, program: &str) -> String {
    format!(
        "[hosts.client]\nlike = \"{host}\"\n[hosts.server]\nlike = \"{host}\"\n\
         [cards.client]\nhost = \"client\"\nlike = \"{card}\"\n\
         [cards.server]\nhost = \"server\"\nlike = \"{card}\"\n{link}\n[programs.p]\n{program}"
    )
}

const CABLE: &str = "[links.cable]\nends = [\"client\", \"server\"]";

#[test]
fn a_ping_over_a_link_takes_as_long_as_on_the_workbench() {
    for (host, card) in [
        ("pc733", "card-acenic"),
        ("rs6000", "card-penn"),
        ("hp9000-730", "card-afterburner"),
        ("mvme147", "card-v1s"),
    ] {
        for size in ["\"1 B\"", "\"20 KiB\""] {
            let ping = experiment(&workbench::System, "ping");
            let sizes = format!("[{size}]");
            let inputs = changed(ping, &[("sizes", &sizes), ("round_trips", "5")]);
            let there = ask(ping, &parameters(&[host, card]), &inputs, (7, 0)).expect(card);
            let program = format!(
                "kind = \"ping\"\nfrom = \"client\"\nto = \"server\"\nsize = {size}\nround_trips = 5"
            );
            let here = network(&two(host, card, CABLE, &program), 7);
            same(
                named(&here, "round trips"),
                named(&there, "round trip"),
                &[
                    ("size", "size"),
                    ("mean", "mean"),
                    ("99th percentile", "99th percentile"),
                    ("timed out", "timed out"),
                ],
            );
            // The critical path adds up to the round trip.
            let path = "where the time of a round trip goes: the critical path";
            let path = named(&here, path);
            let sum = number(path, path.rows.len() - 1, "time");
            let mean = number(named(&here, "round trips"), 0, "mean");
            assert!((sum - mean).abs() < 1e-6, "{sum} {mean}");
        }
    }
}

#[test]
fn a_ping_through_a_switch_that_cuts_through_takes_as_long_as_on_the_workbench() {
    let ping = experiment(&workbench::System, "ping");
    let inputs = changed(ping, &[("sizes", "[\"4 KiB\"]"), ("round_trips", "4")]);
    let there = ask(
        ping,
        &parameters(&["alpha533", "card-clan"]),
        &inputs,
        (3, 0),
    )
    .expect("clan");
    let links = "[switches.s]\nlatency = \"250 ns\"\ncut_through = true\nbuffer = \"64 KiB\"\n\
                 [links.a]\nends = [\"client\", \"s.1\"]\n[links.b]\nends = [\"server\", \"s\"]";
    let program =
        "kind = \"ping\"\nfrom = \"client\"\nto = \"server\"\nsize = \"4 KiB\"\nround_trips = 4";
    let here = network(&two("alpha533", "card-clan", links, program), 3);
    same(
        named(&here, "round trips"),
        named(&there, "round trip"),
        &[("mean", "mean"), ("99th percentile", "99th percentile")],
    );
}

#[test]
fn many_to_one_arrive_and_are_lost_as_on_the_workbench() {
    let incast = experiment(&workbench::System, "incast");
    for senders in [3, 24] {
        let list = format!("[{senders}]");
        let inputs = changed(incast, &[("senders", &list), ("rounds", "3")]);
        let there = ask(incast, &parameters(&[]), &inputs, (11, 0)).expect("incast");
        let text = format!(
            "[hosts.receiver]\n[hosts.sender]\ncount = {senders}\n\
             [cards.in]\nhost = \"receiver\"\n[cards.out]\nhost = \"sender\"\n\
             [switches.s]\nports = 32\n\
             [links.in]\nends = [\"in\", \"s\"]\n[links.out]\nends = [\"out\", \"s\"]\n\
             [programs.p]\nkind = \"incast\"\nfrom = \"sender\"\nto = \"receiver\"\nrounds = 3"
        );
        let here = network(&text, 11);
        same(
            named(&here, "rounds from many to one"),
            named(&there, "rounds"),
            &[
                ("senders", "senders"),
                ("rounds whole", "rounds whole"),
                ("mean time of those", "mean time of those"),
                ("99th percentile", "99th percentile"),
                ("goodput", "goodput"),
            ],
        );
        same(
            named(&here, "messages"),
            named(&there, "messages"),
            &[
                ("sent", "sent"),
                ("received", "received"),
                ("lost on the way", "lost in the switch"),
                ("lost in a receive FIFO", "lost in the receive FIFO"),
                ("lost for want of buffers", "lost for want of buffers"),
                ("lost before the program", "lost before the program"),
                ("never ended", "never ended"),
            ],
        );
    }
}

#[test]
fn a_stream_and_requests_run_as_on_the_workbench() {
    let stream = experiment(&workbench::System, "stream");
    let inputs = changed(
        stream,
        &[("sizes", "[\"16 KiB\"]"), ("volume", "\"1 MiB\"")],
    );
    let there = ask(stream, &parameters(&["pc733"]), &inputs, (1, 0)).expect("stream");
    let program = "kind = \"stream\"\nfrom = \"client\"\nto = \"server\"\nsize = \"16 KiB\"\nvolume = \"1 MiB\"";
    let text = two("pc733", "card-acenic", CABLE, program).replace("like = \"card-acenic\"\n", "");
    same(
        named(&network(&text, 1), "streams"),
        named(&there, "throughput"),
        &[("sent", "sent"), ("received", "received")],
    );

    let request = experiment(&workbench::System, "request");
    let changes = [("rates", "[9000.0]"), ("time", "\"20 ms\"")];
    let there = ask(
        request,
        &parameters(&[]),
        &changed(request, &changes),
        (5, 0),
    )
    .expect("request");
    let program =
        "kind = \"request\"\nfrom = \"zoe\"\nto = \"server\"\nrate = 9000.0\ntime = \"20 ms\"";
    let text = two("pc733", "card-acenic", CABLE, program);
    let text = text
        .replace("like = \"card-acenic\"\n", "")
        .replace("like = \"pc733\"\n", "");
    // The server is the first host there.
    let text = text.replace("client", "zoe");
    same(
        named(&network(&text, 5), "requests"),
        named(&there, "requests"),
        &[
            ("answered", "answered"),
            ("mean time", "mean time"),
            ("99th percentile", "99th percentile"),
        ],
    );
}

#[test]
fn messages_on_a_ring_with_a_token_take_as_long_as_on_jetstreams() {
    let ring = experiment(&jetstream::System, "ring");
    let inputs = changed(
        ring,
        &[
            ("stations", "5"),
            ("loads_per_cent", "[75]"),
            ("synchronous_allotment", "\"0 us\""),
            ("duration", "\"10 ms\""),
        ],
    );
    let there = ask(ring, jetstream::System.parameters(), &inputs, (9, 0)).expect("ring");
    let text = "[rings.r]\nkind = \"jetstream\"\nstations_in_all = 5\n\
                [programs.l]\nkind = \"messages\"\nring = \"r\"\nper_cent = 75\nsize = \"4 KiB\"\ntime = \"10 ms\"";
    let here = network(text, 9);
    let through = named(&there, "delay, throughput and loss against load");
    let token = named(&there, "token and access against load");
    let messages = named(&here, "loads of messages");
    same(
        messages,
        through,
        &[
            ("received", "asynchronous"),
            ("delay mean", "asynchronous delay mean"),
            ("delay p99", "asynchronous delay p99"),
        ],
    );
    same(
        messages,
        token,
        &[
            ("access mean", "asynchronous access mean"),
            ("access p99", "asynchronous access p99"),
        ],
    );
    same(
        named(&here, "token rings"),
        token,
        &[
            ("rotation mean", "rotation mean"),
            ("rotation longest", "rotation longest"),
        ],
    );
}

#[test]
fn cells_fill_a_ring_with_slots_as_on_the_backbones() {
    use barewire_models::cbn::Program;
    use barewire_units::{Duration, Rng};
    use cbn::runs::{Load, Run, Towards, Until};

    let parameters = cbn::parameters::Parameters::parse(cbn::System.parameters()).expect("cbn");
    let time = Duration::from_ms(4);
    let mut run = Run::new(&parameters);
    run.stations = 3;
    run.load = Load {
        share: 0.6,
        towards: Towards::Nobody,
    };
    let there = run
        .run(2, [Program::Echo, Program::Echo], Until::Time(time))
        .expect("a run");
    // Counted there from half of the time on, after a random beginning.
    let start = Rng::from_seed(2).fork("start").below(run.rotation.as_ps());
    let start = Duration::from_ps(start);
    let cells = |until: Duration| {
        let text = "[hosts.a]\n[cards.a]\nhost = \"a\"\nlike = \"card-v1s\"\n\
             [hosts.b]\n[cards.b]\nhost = \"b\"\nlike = \"card-v1s\"\n\
             [rings.r]\nkind = \"cbn\"\nstations = [\"a\", \"b\"]\n\
             [programs.l]\nkind = \"cells\"\nring = \"r\"\nshare = 0.6\nstations = 1\ntime = \"1 s\"";
        let experiment = &System::<crate::network::NoKinds>::new().experiments()[0];
        let inputs = format!("time = \"{} ps\"", until.as_ps());
        let found = ask(experiment, text, &inputs, (2, 0)).expect("a run");
        number(named(&found, "slotted rings"), 0, "false cells")
    };
    let here = cells(start + time) - cells(start + time / 2);
    let slots = run.line.frames(run.rotation) as f64 * 4.0;
    let turns = (time / 2).as_ps() as f64 / run.rotation.as_ps() as f64;
    assert!(here > 100.0, "{here}");
    assert!((there.false_share() * turns * slots - here).abs() < 1e-6);
}
