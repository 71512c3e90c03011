//! The published orderings and numbers, twice the same, and what the model says about
//! full rate.

use super::experiments::{full_rate, stream};
use super::*;
use crate::asked::{ask, column, replaced};
use crate::system::System as _;

const SEED: u64 = 1;

fn parameters() -> Parameters {
    Parameters::parse(System.parameters()).expect("good parameters")
}

/// The table in `lab/tables/expected` holds the published values; here are those that
/// are no orderings, and the tolerance of the issue.
fn check(findings: &[Finding]) {
    assert_eq!(findings.len(), 28);
    for found in findings {
        let published = match (found.row.as_str(), found.unit) {
            ("PC733, 64-bit PCI, 9000 B", _) => 990.0,
            ("9000 B over 1500 B, PC733", _) => 2.0,
            _ => 1.0,
        };
        let tolerance = if found.unit == "holds" { 0.0 } else { 0.03 };
        let error = (found.value / published - 1.0).abs();
        assert!(error <= tolerance, "{found:?}");
    }
}

#[test]
fn findings_are_the_published_ones_for_any_clocks_and_the_same_again() {
    let all = |seed| reproduce(&parameters(), seed).expect("a run");
    let (first, other) = (all(SEED), all(2));
    check(&first.findings);
    check(&other.findings);
    assert_ne!(first.hashes, other.hashes);
    assert_eq!(first, all(SEED));
}

/// The limits that make the orderings, one at a time.
#[test]
fn each_host_has_its_limit() {
    let parameters = parameters();
    let pair = |host, width, mtu| {
        let plan = Plan::pair(&parameters, host, width, mtu);
        run(&parameters, &plan, SEED).expect("a run")
    };
    // Normal frames: the card's firmware, 1448 bytes in 23 us and an interrupt in 25 frames.
    let normal = pair(Host::Pc500, Width::Bits32, NORMAL);
    assert!((normal.least_mbps() - 11_584.0 / 23.4).abs() < 2.0);
    assert!(normal.busy_per_cent(0) < 95.0 && normal.busy_per_cent(1) < 95.0);
    // Jumbo frames at 32 bit: the bus on the PC733, the processor on the PC800.
    let bus = pair(Host::Pc733, Width::Bits32, JUMBO);
    assert!(bus.busy_per_cent(1) < 70.0);
    assert!(pair(Host::Pc800, Width::Bits32, JUMBO).busy_per_cent(1) > 98.0);
    let wire = pair(Host::Pc733, Width::Bits64, JUMBO);
    assert!(wire.least_mbps() > 1.15 * bus.least_mbps());
}

#[test]
fn an_interrupt_for_each_frame_is_worse_than_the_default() {
    let parameters = parameters();
    let rate = |tuning| {
        let pair = Plan::pair(&parameters, Host::Pc733, Width::Bits64, NORMAL);
        let run = run(&parameters, &Plan { tuning, ..pair }, SEED).expect("a run");
        (run.least_mbps(), run.pcs[1].interrupts)
    };
    let (each, default) = (rate(Tuning::us(40, 12)), rate(DEFAULT));
    assert!(each.0 < 0.9 * default.0, "{each:?} {default:?}");
    assert!(each.1 > 2 * default.1);
}

/// Three destinations above 200 Mbit/s: more than normal frames give altogether. So the
/// paper's 1x3 was with jumbo frames.
#[test]
fn normal_frames_give_no_three_times_two_hundred() {
    let parameters = parameters();
    let jumbo = Plan::builder(&parameters, &ONE_TO_THREE, None);
    let normal = Plan {
        mtu: NORMAL,
        tuning: Tuning::best(NORMAL),
        ..jumbo
    };
    let run = run(&parameters, &normal, SEED).expect("a run");
    assert!(run.most_mbps() < 200.0, "{:?}", run.mbps);
}

/// What an experiment answers with some of its inputs changed.
fn answer_of(experiment: &crate::Experiment, inputs: &str, packets: usize) -> crate::Outcome {
    let parameters = &System.parameters().replace("\"500 ms\"", "\"250 ms\"");
    ask(experiment, parameters, inputs, (SEED, packets)).expect("a run")
}

fn number(table: &crate::Table, row: &str, column: usize) -> f64 {
    let named = |cells: &&Vec<crate::Cell>| cells[0] == crate::Cell::from(row);
    match table.rows.iter().find(named).map(|cells| &cells[column]) {
        Some(crate::Cell::Number(number)) => *number,
        other => panic!("{row} of {}: {other:?}", table.name),
    }
}

/// Why 1x3 fails at full rate: the source is busy all the time, so the buckets never run
/// dry and shape nothing. Neither the timer nor what wakes the queue matters; another
/// source does.
#[test]
fn full_rate_is_more_than_the_source_can_send() {
    let every = "settings = [\"100 Mbit/s\", \"200 Mbit/s\", \"300 Mbit/s\", \"333 Mbit/s\"]";
    let two = "settings = [\"200 Mbit/s\", \"333 Mbit/s\"]";
    let inputs = full_rate::FULL_RATE.inputs.replace(every, two);
    assert!(inputs.contains(two));
    let outcome = answer_of(&full_rate::FULL_RATE, &inputs, 3);
    let at = |change: &str, streams: &str, column| {
        let table = outcome.tables.iter().find(|table| table.name == change);
        number(table.expect("a change of the plan"), streams, column)
    };
    let followed = |change, streams| (at(change, streams, 1) - 1.0).abs() < 0.02;
    let (three, one) = ("1x3, 333Mbit/s each", "1x1, 333Mbit/s each");
    assert!(followed("nothing", "1x3, 200Mbit/s each") && followed("nothing", one));
    assert!(!followed("nothing", three) && at("nothing", three, 3) > 99.0);
    let total = at("nothing", three, 2);
    assert_eq!(at("woken by ticks alone", three, 2), total);
    assert!(!followed("ticks at 1000 Hz", three));
    // A shallow bucket and nothing but the timer would do it, but to 1x1 as well.
    let shallow = "shallow buckets, woken by ticks alone";
    assert!(!followed(shallow, "1x3, 200Mbit/s each"));
    assert!(!followed(shallow, "1x1, 200Mbit/s each"));
    // Without its cost, the bus of the source is next.
    let free = at("traffic control for nothing", three, 2);
    assert!(free > 1.03 * total && free < 850.0);
    assert!(followed("PC733 with 64-bit PCI as the source", three));
    // Four PCs, two directions; of the first run.
    assert_eq!(outcome.links.len(), 8);
    assert_eq!(outcome.links[0].packets.len(), 3);
}

#[test]
fn a_stream_with_the_paper_s_settings_is_the_paper_s() {
    let plan = stream::STREAM.inputs;
    let outcome = answer_of(&stream::STREAM, plan, 20);
    let rate = number(&outcome.tables[0], "0 to 1", 1);
    assert!((rate / 990.0 - 1.0).abs() < 0.01, "{rate}");
    assert_eq!(outcome, answer_of(&stream::STREAM, plan, 20));
    // On the link of the sender whole frames; on its way back acknowledgements.
    let [sent, received, ..] = &outcome.links[..] else {
        panic!("two PCs, two directions");
    };
    assert_eq!(sent.packets[5].bytes.len(), 9_014);
    assert_eq!(received.packets[5].bytes.len(), 66);
    assert!(sent.packets[5].at < received.packets[5].at);
    let changed = |from: &str, to: &str| {
        assert!(plan.contains(from), "{from}");
        plan.replacen(from, to, 1)
    };
    // Whatever the streams, a host has one link.
    let many = changed("sources = 1", "sources = 3").replacen("= false", "= true", 1);
    let outcome = answer_of(&stream::STREAM, &many, 0);
    let all: f64 = (0..3)
        .map(|it| number(&outcome.tables[0], &format!("{it} to 3"), 1))
        .sum();
    assert!(all > 300.0 && all < 990.1, "{all}");
    let refused = |inputs: &str| {
        let setting = crate::Setting {
            parameters: System.parameters(),
            inputs,
            seed: SEED,
            packets_per_link: 0,
            progress: &crate::Progress::default(),
        };
        (stream::STREAM.check)(&setting)
            .expect_err(inputs)
            .to_string()
    };
    assert!(refused(&changed("sources = 1", "sources = 9")).contains("sources"));
    assert!(refused(&changed("sources = 1", "sources = 2")).contains("switched"));
    assert!(refused(&changed("pci_bits = 64", "pci_bits = 16")).contains("pci_bits"));
    assert!(refused(&changed("= \"none\"", "= \"fast\"")).contains("shaping"));
    assert!(refused(&changed("mtu = \"9000 B\"", "mtu = \"9001 B\"")).contains("mtu"));
}

/// A frame that is lost at a full output is sent again, and the streams go on.
#[test]
fn a_small_output_buffer_loses_frames_and_no_stream() {
    let mut parameters = parameters();
    parameters.switch.buffer = ByteSize::from_kib(64);
    let rate = Some(Rate::from_mbps(200));
    let plan = Plan::builder(&parameters, &THREE_TO_ONE, rate);
    let run = run(&parameters, &plan, SEED).expect("a run");
    assert!(run.switch_lost > 0 && run.switch_highest_bytes <= 64 * 1024);
    let again: u64 = run
        .senders
        .iter()
        .map(|it| it.fast_repeats + it.time_outs)
        .sum();
    assert!(again > 0 && run.least_mbps() > 1.0, "{:?}", run.mbps);
}

#[test]
fn parameters_are_checked() {
    let with = |from: &str, to: &str| {
        let text = replaced(System.parameters(), &[(from, to)]);
        System.run(&text, SEED).expect_err(from).to_string()
    };
    assert!(with("[hosts.pc500]", "[hosts.pc501]").contains("pc501"));
    assert!(with("clock_mhz = 733", "clock_mhz = 0").contains("clock_mhz"));
    assert!(with("ports = 9", "ports = 3").contains("switch.ports"));
    assert!(with("tick_hz = 100", "tick_hz = 0").contains("tick_hz"));
    assert!(with("\"64 KiB\"", "\"0 B\"").contains("tcp"));
    assert!(with("burst = \"256 B\"", "burst = \"0 B\"").contains("pci.burst"));
    assert!(with("send_ring = 256", "send_ring = 0").contains("card"));
    assert!(with("\"200 ms\"", "\"200 s\"").contains("tcp.time_out"));
    assert!(with("warm_up =", "worm_up =").contains("worm_up"));
    assert!(with("\ntime = \"120 ms\"", "\ntime = \"0 s\"").contains("runs.time: found 0"));
}

fn stream(changes: &[(&str, &str)]) -> Result<crate::Outcome, SystemError> {
    let inputs = replaced(stream::STREAM.inputs, changes);
    ask(&stream::STREAM, System.parameters(), &inputs, (SEED, 0))
}

/// Two destinations, a rate for each; with HTB, of which the generated commands know nothing.
#[test]
fn a_script_shapes_as_it_says() {
    let script = "\"\"\"
tc qdisc add dev eth0 root handle 1: htb default 20   # as on a host of today
tc class add dev eth0 parent 1: classid 1:10 htb rate 40mbit burst 60k
tc class add dev eth0 parent 1: classid 1:20 htb rate 120mbit burst 160k
tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.1 flowid 1:10
\"\"\"";
    let changes = [
        ("destinations = 1", "destinations = 2"),
        ("switched = false", "switched = true"),
        ("tc = \"\"", &format!("tc = {script}")),
        ("warm_up = \"100 ms\"", "warm_up = \"500 ms\""),
        ("time = \"200 ms\"", "time = \"500 ms\""),
    ];
    let rates = column(&stream(&changes).expect("good inputs").tables[0], "rate");
    for (rate, set) in rates.iter().zip([40.0, 120.0]) {
        let error = rate / plan::payload_mbps(Rate::from_mbps(set as u64), JUMBO) - 1.0;
        assert!(error.abs() < 0.03, "{set} Mbit/s: {rates:?}");
    }
}

#[test]
fn a_script_with_a_mistake_is_refused_before_anything_runs() {
    let refused = |changes: &[(&str, &str)]| match stream(changes) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{changes:?} were taken"),
    };
    let torn = "tc = \"tc qdisc add dev eth0 root handle 1: htb default\"";
    let error = refused(&[("tc = \"\"", torn)]);
    assert!(error.contains("tc: line 1, column"), "{error}");
    let good = "tc = \"tc qdisc add dev eth0 root handle 1: htb\"";
    let error = refused(&[
        ("tc = \"\"", good),
        ("shaping = \"none\"", "shaping = \"10 Mbit/s\""),
    ]);
    assert!(error.contains("shaping"), "{error}");
}
