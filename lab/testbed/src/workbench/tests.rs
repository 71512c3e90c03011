//! The workbench against the papers, its sums, its bounds, and that a run can be repeated.

use barewire_units::Duration;
use proptest::prelude::*;

use super::experiments::{Pings, Streams, ping, stream};
use super::parameters::Parameters;
use super::path::Part;
use super::*;
use crate::asked::ask;
use crate::expected::hold;
use crate::experiment::{Cell, Outcome, Progress, Setting, Table};
use crate::system::System as _;

#[test]
fn the_papers_systems_on_the_workbench() {
    let findings = System.run(System.parameters(), 1).expect("a run");
    hold(
        &findings,
        include_str!("../../../tables/expected/workbench.toml"),
    );
}

/// The parameters with changes: `("card.send", "\"words\"")`.
fn changed(changes: &[(&str, &str)]) -> String {
    let mut whole: toml::Table = toml::from_str(System.parameters()).expect("parameters");
    for (key, value) in changes {
        let line: toml::Table = toml::from_str(&format!("value = {value}")).expect(value);
        let (tables, last) = key.rsplit_once('.').expect("a key in a table");
        let table = tables.split('.').fold(&mut whole, |table, key| {
            table[key].as_table_mut().expect("a table")
        });
        let before = table.insert(last.to_owned(), line["value"].clone());
        assert!(before.is_some(), "{key}");
    }
    whole.to_string()
}

fn experiment(name: &str) -> &'static Experiment {
    let mut all = System.experiments().iter();
    all.find(|known| known.name == name).expect(name)
}

/// A rate for what the cache holds and one for what it does not, as the parameters say; and of
/// KEK's hosts the PC733 copies fastest and the PC800 slowest, in the cache and beyond.
#[test]
fn copies_have_the_rates_of_cache_and_memory() {
    let rates = |host: &str| -> Vec<f64> {
        let fragments = System.fragments().iter();
        let text = fragments.clone().find(|known| known.0 == host).expect(host);
        let fragment: toml::Table = toml::from_str(text.1).expect(host);
        let mut whole: toml::Table = toml::from_str(System.parameters()).expect("parameters");
        let memory = &fragment["parameters"]["host"]["memory"];
        whole["host"]["memory"] = memory.clone();
        let inputs = "sizes = [\"64 B\", \"64 KiB\", \"1 MiB\", \"64 MiB\"]";
        let outcome = super::tests::run("copy", &whole.to_string(), inputs).expect("a run");
        let rate = |row: &Vec<Cell>| match row[2] {
            Cell::Number(rate) => rate,
            ref other => panic!("{other:?}"),
        };
        outcome.tables[0].rows.iter().map(rate).collect()
    };
    let [pc500, pc733, pc800] = ["pc500", "pc733", "pc800"].map(rates);
    assert_eq!(pc733, [3200.0, 3200.0, 1600.0, 1600.0]);
    for at in 0..4 {
        assert!(pc733[at] > pc500[at] && pc500[at] > pc800[at], "{at}");
    }
    let refused = run("copy", System.parameters(), "sizes = [\"2 GiB\"]");
    assert!(
        refused
            .err()
            .is_some_and(|it| it.to_string().contains("sizes"))
    );
}

fn setting<'a>(parameters: &'a str, inputs: &'a str, progress: &'a Progress) -> Setting<'a> {
    Setting {
        parameters,
        inputs,
        seed: 1,
        packets_per_link: 0,
        progress,
    }
}

fn run(name: &str, parameters: &str, inputs: &str) -> Result<Outcome, SystemError> {
    ask(experiment(name), parameters, inputs, (1, 0))
}

/// The numbers of a column; 0 where one is missing.
fn column(table: &Table, name: &str) -> Vec<f64> {
    let mut names = table.columns.iter();
    let place = names.position(|column| column.name == name).expect(name);
    let number = |row: &Vec<Cell>| match row[place] {
        Cell::Number(value) => value,
        _ => 0.0,
    };
    table.rows.iter().map(number).collect()
}

/// First column of `table`: what there was in all; the rest from `from` on: its parts.
fn conserves(table: &Table, from: usize) {
    for row in &table.rows {
        let numbers: Vec<f64> = row
            .iter()
            .map(|cell| match cell {
                Cell::Number(value) => *value,
                _ => 0.0,
            })
            .collect();
        let parts: f64 = numbers[from + 1..].iter().sum();
        assert_eq!(numbers[from], parts, "{}: {numbers:?}", table.name);
    }
}

const PING: &str =
    "sizes = [\"1 B\", \"3 KiB\"]\nround_trips = 20\npause = \"20 us\"\ntime_out = \"1 s\"\n";
const STREAM: &str =
    "sizes = [\"64 B\", \"20 KiB\"]\nvolume = \"40 KiB\"\nwindow = \"0 B\"\ncredit = \"40 B\"\n";
const REQUEST: &str = "clients = 3\nrates = [2000.0, 60000.0]\nrequest = \"64 B\"\nanswer = \"1 KiB\"\n\
                       work = \"10 us\"\ntime = \"10 ms\"\nbacklog = 10\n";
const INCAST: &str =
    "senders = [1, 20]\nsize = \"32 KiB\"\nrounds = 3\nperiod = \"10 ms\"\njitter = \"10 us\"\n";

const SMALL: [(&str, &str); 4] = [
    ("ping", PING),
    ("stream", STREAM),
    ("request", REQUEST),
    ("incast", INCAST),
];

#[test]
fn a_run_can_be_repeated_and_the_seed_matters() {
    for (name, inputs) in SMALL {
        let first = run(name, System.parameters(), inputs).expect(name);
        let second = run(name, System.parameters(), inputs).expect(name);
        assert_eq!(first, second, "{name}");
        assert_ne!(first.trace_hash, 0);
        let progress = Progress::default();
        let other = Setting {
            seed: 2,
            ..setting(System.parameters(), inputs, &progress)
        };
        let other = (experiment(name).run)(&other).expect(name);
        // A stream has nothing random in it.
        assert_eq!(other.trace_hash == first.trace_hash, name == "stream");
    }
}

#[test]
fn the_parts_of_a_round_trip_add_up() {
    let kinds = [
        vec![],
        vec![("card.send", "\"words\""), ("card.receive", "\"words\"")],
        vec![("card.send", "\"aperture\""), ("notice.by", "\"poll\"")],
        vec![("card.segments", "\"card\""), ("host.processors", "2")],
        vec![("switch.between_two", "true"), ("card.frame", "\"3 us\"")],
        vec![("notice.packets", "50"), ("notice.delay", "\"100 us\"")],
        vec![
            ("card.checksum", "\"processor\""),
            ("driver.send_copies", "2"),
        ],
        vec![
            ("switch.between_two", "true"),
            ("switch.cut_through", "true"),
        ],
    ];
    for changes in kinds {
        let outcome = run("ping", &changed(&changes), PING).expect("a run");
        let [times, parts] = &outcome.tables[..] else {
            panic!("two tables");
        };
        let (means, sums) = (column(times, "mean"), column(parts, "sum"));
        for (row, (mean, sum)) in parts.rows.iter().zip(means.into_iter().zip(sums)) {
            let number = |cell: &Cell| match cell {
                Cell::Number(value) => *value,
                _ => 0.0,
            };
            let all: f64 = row[1..row.len() - 1].iter().map(number).sum();
            assert!(
                (all / mean - 1.0).abs() < 1e-9,
                "{changes:?}: {all} of {mean}"
            );
            assert!(
                (sum / mean - 1.0).abs() < 1e-9,
                "{changes:?}: {sum} of {mean}"
            );
        }
    }
}

/// Without load, each part of the round trip is what its parameters say.
#[test]
fn a_round_trip_is_what_the_parameters_say() {
    let text = changed(&[("link.length", "\"10 km\""), ("notice.by", "\"poll\"")]);
    let parameters = Parameters::parse(&text).expect("parameters");
    let plan = Pings {
        bytes: 100,
        round_trips: 3,
        pause: Duration::from_ms(1),
        time_out: Duration::from_s(1),
    };
    let pinged = ping(&parameters, plan, 1, 0);
    let of = |part| pinged.path.on(part).as_ps() as f64 / 1e6 / 3.0;
    // There and back: light; 138 bytes at 1 Gbit/s; two cards; a look; two copies of 100
    // bytes; 5.1 and 5.8 us of the driver; bursts of 116 bytes at each end.
    let expected = [
        (Part::Way, 2.0 * 50.0),
        (Part::Wire, 2.0 * 1.104),
        (Part::Card, 4.0 * 0.5),
        (Part::Wake, 2.0 * 0.1),
        (Part::Copy, 4.0 * (0.07 + 0.25)),
        (Part::Driver, 2.0 * 10.9),
        (Part::Bus, 4.0 * (0.48 + 928.0 / 2133.0)),
        (Part::Call, 0.0),
        (Part::Interrupt, 0.0),
        (Part::Wait, 0.0),
    ];
    for (part, us) in expected {
        assert!(
            (of(part) - us).abs() < 0.001,
            "{}: {} of {us}",
            part.name(),
            of(part)
        );
    }
}

#[test]
fn messages_are_received_or_lost_somewhere() {
    let tight = [
        ("card.receive_fifo", "\"4 KiB\""),
        ("card.receive_slots", "4"),
        ("driver.socket", "\"16 KiB\""),
        ("switch.buffer", "\"16 KiB\""),
        ("switch.between_two", "true"),
    ];
    for parameters in [changed(&[]), changed(&tight)] {
        let streamed = run("stream", &parameters, STREAM).expect("a run");
        conserves(&streamed.tables[2], 1);
        let requested = run("request", &parameters, REQUEST).expect("a run");
        conserves(&requested.tables[1], 1);
        let received = run("incast", &parameters, INCAST).expect("a run");
        conserves(&received.tables[1], 1);
    }
    // All at once do not fit in 16 KiB.
    let received = run("incast", &changed(&tight), INCAST).expect("a run");
    assert!(column(&received.tables[1], "lost in the switch")[1] > 0.0);
}

#[test]
fn frames_are_counted_the_same_at_both_ends() {
    let text = changed(&[
        ("card.receive_fifo", "\"3 KiB\""),
        ("host.bus.rate", "\"200 Mbit/s\""),
    ]);
    let parameters = Parameters::parse(&text).expect("parameters");
    let mut sim = barewire_des::Simulator::new();
    let mut running = bench::Running {
        bench: bench::Bench::new(&parameters, 3, 0),
        job: Nobody,
    };
    for message in 0..40 {
        running.bench.post(1 + message % 2, 0, 5000, 0);
    }
    for host in [1, 2] {
        running
            .bench
            .tick(host, 0, barewire_units::Instant::ORIGIN, &mut sim);
    }
    sim.run(&mut running);
    let bench = &running.bench;
    let sent: u64 = [1, 2]
        .map(|host| bench.station(host).frames().0)
        .iter()
        .sum();
    assert_eq!(sent, 40 * 4);
    let (_, stats, open) = bench.station(0).frames();
    let port = bench.port(0).expect("a switch");
    assert_eq!(sent, stats.frames + port.lost());
    let lost = stats.no_room + stats.no_buffer;
    assert_eq!(
        stats.frames,
        stats.delivered + stats.of_broken_pieces + open + lost
    );
    assert!(lost > 0 && stats.delivered > 0);
}

/// Programs that do what they were given, and nothing else.
struct Nobody;

impl bench::Job for Nobody {
    fn note(&mut self, _: u16, _: bench::Note, _: &mut bench::Bench, _: &mut bench::Sim) {}
}

#[test]
fn nothing_is_faster_than_its_slowest_part() {
    let received = |changes: &[(&str, &str)], bytes| {
        let parameters = Parameters::parse(&changed(changes)).expect("parameters");
        let plan = Streams {
            bytes,
            messages: 60,
            window: 16,
            credit_bytes: 40,
        };
        let link = parameters
            .framing()
            .payload_bps(bytes, parameters.piece_bytes(bytes))
            / 1e6;
        (
            stream(&parameters, plan, 0).received_mbps.expect("a rate"),
            link,
        )
    };
    let mut near = 0;
    for bytes in [64, 1500, 16_384, 65_536] {
        let slow_link = [("link.rate", "\"10 Mbit/s\"")];
        let (mbps, link) = received(&slow_link, bytes);
        assert!(mbps <= link, "link, {bytes} B: {mbps} of {link}");
        near += usize::from(mbps > 0.9 * link);
        let slow_bus = [("host.bus.rate", "\"20 Mbit/s\"")];
        let (mbps, _) = received(&slow_bus, bytes);
        assert!(mbps <= 20.0, "bus, {bytes} B: {mbps}");
        near += usize::from(mbps > 0.8 * 20.0);
        let slow_copy = [
            ("host.memory.cached", "\"20 Mbit/s\""),
            ("host.memory.beyond", "\"10 Mbit/s\""),
        ];
        let (mbps, _) = received(&slow_copy, bytes);
        assert!(mbps <= 20.0, "copy, {bytes} B: {mbps}");
        near += usize::from(mbps > 0.8 * 20.0);
    }
    assert!(near >= 9, "{near} of 12 come near their bound");
}

#[test]
fn what_holds_a_stream_up_is_named() {
    let held_up = |changes: &[(&str, &str)]| {
        let inputs =
            "sizes = [\"16 KiB\"]\nvolume = \"2 MiB\"\nwindow = \"256 KiB\"\ncredit = \"40 B\"\n";
        let outcome = run("stream", &changed(changes), inputs).expect("a run");
        match &outcome.tables[0].rows[0][4] {
            Cell::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(held_up(&[("link.rate", "\"10 Mbit/s\"")]), "wire, sender");
    let copies = [
        ("host.memory.cached", "\"500 Mbit/s\""),
        ("driver.send_copies", "0"),
    ];
    assert_eq!(held_up(&copies), "copies, receiver");
    assert_eq!(
        held_up(&[("link.length", "\"2000 km\"")]),
        "propagation, sender"
    );
    let words = [("card.send", "\"words\""), ("host.bus.write", "\"5 us\"")];
    assert_eq!(held_up(&words), "words and stores, sender");
}

#[test]
fn a_server_answers_what_is_asked_until_it_is_full() {
    let inputs = REQUEST
        .replace("10 ms", "200 ms")
        .replace("60000.0", "8000.0, 100000.0");
    let outcome = run("request", System.parameters(), &inputs).expect("a run");
    let answered = column(&outcome.tables[0], "answered");
    assert!((answered[0] / 2000.0 - 1.0).abs() < 0.15, "{answered:?}");
    assert!((answered[1] / 8000.0 - 1.0).abs() < 0.1, "{answered:?}");
    assert!(answered[2] < 40_000.0, "{answered:?}");
    let busy = column(&outcome.tables[0], "server's processor");
    assert!(busy[0] < busy[1] && busy[2] > 95.0, "{busy:?}");
}

#[test]
fn a_round_trip_that_is_lost_does_not_hold_up_the_others() {
    // The processor reads the first frame out of the FIFO while others come.
    let text = changed(&[
        ("card.receive_fifo", "\"2 KiB\""),
        ("card.receive", "\"words\""),
    ]);
    let inputs = PING.replace("3 KiB", "6 KiB");
    let outcome = run("ping", &text, &inputs).expect("a run");
    assert_eq!(column(&outcome.tables[0], "timed out"), [0.0, 20.0 + 1.0]);
}

#[test]
fn links_are_recorded() {
    for (cells, bytes) in [(false, 14 + 46), (true, 16 + 52)] {
        let atm = [
            ("link.payload", "\"48 B\""),
            ("link.least", "\"48 B\""),
            ("link.overhead", "\"5 B\""),
        ];
        let text = changed(if cells { &atm } else { &[] });
        let progress = Progress::default();
        let setting = Setting {
            packets_per_link: 5,
            ..setting(&text, PING, &progress)
        };
        let outcome = (experiment("ping").run)(&setting).expect("a run");
        let names: Vec<&str> = outcome.links.iter().map(|link| &link.link[..]).collect();
        assert_eq!(names, ["from host 0", "from host 1"]);
        for link in &outcome.links {
            assert_eq!((link.packets.len(), link.not_recorded), (5, 20 + 1 - 5));
            assert!(
                link.packets
                    .iter()
                    .all(|packet| packet.bytes.len() == bytes)
            );
        }
    }
}

#[track_caller]
fn refuse(name: &str, changes: &[(&str, &str)], inputs: &str, reason: &str) {
    let error = run(name, &changed(changes), inputs).expect_err(reason);
    assert!(error.to_string().contains(reason), "{error}");
}

#[test]
fn what_cannot_be_run_is_refused_with_its_key() {
    let refuse_parameter = |key, value, reason| refuse("ping", &[(key, value)], PING, reason);
    refuse_parameter("card.send", "\"pigeon\"", "pigeon");
    refuse_parameter(
        "link.length",
        "\"40000 km\"",
        "link.length: found 40000000 m",
    );
    refuse_parameter("link.length", "\"10 miles\"", "expected km, m");
    refuse_parameter(
        "card.transmit_fifo",
        "\"1 KiB\"",
        "card.transmit_fifo: found 1KiB",
    );
    refuse_parameter(
        "card.receive_fifo",
        "\"1 KiB\"",
        "card.receive_fifo: found 1KiB",
    );
    refuse_parameter("switch.buffer", "\"1 KiB\"", "switch.buffer: found");
    refuse_parameter("link.least", "\"2 KiB\"", "link.least: found");
    refuse_parameter("host.processors", "3", "host.processors: found 3");
    refuse_parameter("host.bus.burst", "\"0 B\"", "host.bus.burst: found");
    refuse_parameter("host.costs.wake_up", "\"2 s\"", "host.costs.wake_up: found");
    refuse_parameter(
        "host.memory.cached",
        "\"1 bit/s\"",
        "host.memory.cached: found",
    );
    refuse_parameter("driver.send_copies", "3", "driver.send_copies: found 3");
    refuse_parameter("card.transmit_slots", "0", "card.transmit_slots: found 0");
    let refuse_input = |name, inputs: &str, old, new, reason| {
        assert!(inputs.contains(old), "{old}");
        refuse(name, &[], &inputs.replace(old, new), reason);
    };
    refuse_input(
        "ping",
        PING,
        "\"1 B\", \"3 KiB\"",
        "",
        "sizes: found an empty list",
    );
    refuse_input("ping", PING, "1 B", "0 B", "sizes: found 0");
    refuse_input("ping", PING, "= 20\n", "= 0\n", "round_trips: found 0");
    refuse_input("ping", PING, "pause", "paws", "paws");
    refuse_input("stream", STREAM, "40 KiB", "0 B", "volume: found 0");
    refuse_input("request", REQUEST, "= 3", "= 0", "clients: found 0");
    refuse_input("request", REQUEST, "2000.0", "0.0", "rates: found 0");
    refuse_input("request", REQUEST, "10 ms", "1000 s", "choose less");
    refuse_input("incast", INCAST, "[1, 20]", "[0]", "senders: found 0");
    refuse_input("incast", INCAST, "\"10 us\"", "\"1 s\"", "jitter: found");
}

fn parameter_changes() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = String> {
        prop::sample::select(values).prop_map(str::to_owned)
    }
    let names = (
        one_of(&["\"words\"", "\"dma\"", "\"aperture\""]),
        one_of(&["\"words\"", "\"dma\""]),
        one_of(&["\"card\"", "\"driver\""]),
        one_of(&["\"interrupt\"", "\"poll\""]),
        one_of(&["\"none\"", "\"card\"", "\"processor\""]),
        one_of(&["true", "false"]),
        one_of(&["true", "false"]),
    );
    let sizes = (
        1_u64..9000,
        0_u64..64,
        1_u64..80_000,
        1_u64..80_000,
        1_u64..70_000,
    );
    let counts = (1_u64..4, 1_u64..4, 1_u64..9, 0_u64..3, 0_u64..3, 1_u64..3);
    let times = (0_u64..20_000, 0_u64..20_000, 1_u64..500);
    (names, sizes, counts, times).prop_map(|(names, sizes, counts, times)| {
        let bytes = |size: u64| format!("\"{size} B\"");
        let ns = |time: u64| format!("\"{time} ns\"");
        vec![
            ("card.send", names.0),
            ("card.receive", names.1),
            ("card.segments", names.2),
            ("notice.by", names.3),
            ("card.checksum", names.4),
            ("switch.between_two", names.5),
            ("switch.cut_through", names.6),
            ("link.payload", bytes(sizes.0)),
            ("link.least", bytes(sizes.1.min(sizes.0))),
            ("card.transmit_fifo", bytes(sizes.2)),
            ("card.receive_fifo", bytes(sizes.3)),
            ("card.block", bytes(sizes.4)),
            ("card.transmit_slots", counts.0.to_string()),
            ("card.receive_slots", counts.1.to_string()),
            ("notice.packets", counts.2.to_string()),
            ("driver.send_copies", counts.3.to_string()),
            ("driver.receive_copies", counts.4.to_string()),
            ("host.processors", counts.5.to_string()),
            ("notice.delay", ns(times.0)),
            ("card.frame", ns(times.1)),
            ("host.bus.burst", bytes(times.2)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the design, a run ends; what was sent is received or lost somewhere; parts add
    /// up; and no stream is faster than its link.
    #[test]
    fn whatever_passes_the_check_runs_and_conserves(changes in parameter_changes(), bytes in 1_u64..30_000) {
        let changes: Vec<(&str, &str)> = changes.iter().map(|(key, value)| (*key, &value[..])).collect();
        let text = changed(&changes);
        let size = format!("\"{bytes} B\"");
        let stream_inputs = STREAM.replace("\"64 B\", \"20 KiB\"", &size);
        let Ok(streamed) = run("stream", &text, &stream_inputs) else {
            return Ok(());
        };
        conserves(&streamed.tables[2], 1);
        let received = column(&streamed.tables[0], "received")[0];
        prop_assert!(received <= column(&streamed.tables[0], "limit of the link")[0]);
        let windowed = stream_inputs.replace("\"0 B\"", "\"50 KiB\"");
        conserves(&run("stream", &text, &windowed).expect("a run").tables[2], 1);
        let pinged = run("ping", &text, &PING.replace("3 KiB", &size[1..size.len() - 1])).expect("a run");
        let (times, parts) = (&pinged.tables[0], &pinged.tables[1]);
        for (mean, sum) in column(times, "mean").into_iter().zip(column(parts, "sum")) {
            prop_assert!(mean == 0.0 || (sum / mean - 1.0).abs() < 1e-9, "{sum} of {mean}");
        }
        let requested = run("request", &text, REQUEST).expect("a run");
        conserves(&requested.tables[1], 1);
        let inputs = INCAST.replace("\"32 KiB\"", &size);
        conserves(&run("incast", &text, &inputs).expect("a run").tables[1], 1);
    }
}

/// The built-in plans: each table of each, to look at with `--nocapture`.
#[test]
fn the_plans_run_as_they_stand() {
    for experiment in System.experiments() {
        let began = std::time::Instant::now();
        let outcome = run(experiment.name, System.parameters(), experiment.inputs);
        let outcome = outcome.expect(experiment.name);
        println!("{} {:?}", experiment.name, began.elapsed());
        for table in outcome.tables {
            assert!(!table.rows.is_empty());
            println!("{}", table.name);
            let names = table
                .columns
                .iter()
                .map(|c| format!("{} {}", c.name, c.unit));
            println!("{}", names.collect::<Vec<_>>().join(" | "));
            for row in &table.rows {
                assert_eq!(row.len(), table.columns.len());
                let cells = row.iter().map(|cell| match cell {
                    Cell::Number(value) => format!("{value:.4}"),
                    Cell::Text(text) => text.clone(),
                    Cell::Missing => "-".to_owned(),
                });
                println!("  {}", cells.collect::<Vec<_>>().join(" | "));
            }
        }
    }
}
