//! Commands as written at the time, units, faults by column, and round trips.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use barewire_units::{ByteSize, Rate};
use proptest::prelude::*;

use super::super::{Timer, Tree};
use super::*;

/// The commands of docs/sources/vectors.md, with a limit where it leaves one out.
pub(in super::super) const KEK: &str = "\
tc qdisc add dev eth0 root handle 1: cbq bandwidth 1000Mbit avpkt 1000 cell 8
tc class add dev eth0 parent 1:0 classid 1:1 cbq bandwidth 1000Mbit rate 1000Mbit allot 1514 weight 100Mbit prio 8 maxburst 20 avpkt 1000
tc qdisc add dev eth0 parent 1:1 handle 10: tbf rate 100Mbit buffer 125Kb limit 256Kb
tc filter add dev eth0 parent 1:0 protocol ip prio 100 u32 match ip dst 10.0.0.1 flowid 1:1
";

#[test]
fn the_published_commands_are_read() {
    let commands = parse(KEK).unwrap();
    let Command::Qdisc {
        config: QdiscConfig::Tbf(tbf),
        ..
    } = &commands[2].command
    else {
        panic!("{commands:?}");
    };
    assert_eq!(tbf.rate, Rate::from_mbps(100));
    assert_eq!(tbf.burst, ByteSize::from_kib(125));
    let Command::Class {
        config: ClassConfig::Cbq(class),
        ..
    } = &commands[1].command
    else {
        panic!("{commands:?}");
    };
    assert_eq!(class.allot, ByteSize::from_bytes(1_514));
    assert_eq!(class.weight, Rate::from_mbps(100));
    assert!(!class.bounded);
    assert_eq!(
        Tree::parse(KEK, Timer::LINUX_I386).unwrap().to_string(),
        "\
tc qdisc add dev eth0 root handle 1: cbq bandwidth 1Gbit avpkt 1000b cell 8 mpu 0b ewma 5
tc class add dev eth0 parent 1: classid 1:1 cbq bandwidth 1Gbit rate 1Gbit allot 1514b weight 100Mbit prio 8 cell 8 maxburst 20 minburst 0 avpkt 1000b ewma 5 mpu 0b
tc qdisc add dev eth0 parent 1:1 handle 10: tbf rate 100Mbit burst 125Kb limit 256Kb
tc filter add dev eth0 parent 1: protocol ip prio 100 u32 match u32 0x0a000001 0xffffffff at 16 flowid 1:1
"
    );
}

#[test]
fn units_mean_what_tc_means() {
    for (text, bps) in [
        ("100Mbit", 100_000_000),
        ("100mbit", 100_000_000),
        ("1.5MBIT", 1_500_000),
        ("64Kbit", 64_000),
        ("1gbit", 1_000_000_000),
        ("1Kibit", 1_024),
        ("9600", 9_600),
        ("1200bps", 9_600),
        ("125kbps", 1_000_000),
        ("12.5mbps", 100_000_000),
        ("1e3", 1_000),
        ("1e8bit", 100_000_000),
        ("1.25e2kbps", 1_000_000),
    ] {
        assert_eq!(units::rate(text), Rate::new(bps), "{text}");
    }
    for (text, bytes) in [
        ("1500", 1_500),
        ("1500b", 1_500),
        ("125Kb", 128_000),
        ("125k", 128_000),
        ("1.5K", 1_536),
        ("15e-1k", 1_536),
        ("1mb", 1 << 20),
        ("1G", 1 << 30),
        ("64Kbit", 8_192),
        ("1mbit", 131_072),
    ] {
        assert_eq!(
            units::size(text),
            Some(ByteSize::from_bytes(bytes)),
            "{text}"
        );
    }
    for (text, us) in [("50ms", 50_000), ("20", 20), ("7us", 7), ("0.5s", 500_000)] {
        let expected = barewire_units::Duration::from_us(us);
        assert_eq!(units::time(text), Some(expected), "{text}");
    }
    for bad in [
        "",
        ".",
        "1.",
        ".5",
        "-1",
        "+1",
        "1 bit",
        "0",
        "0.3bit",
        "1xbit",
        "1e-3bit",
        "1e-bit",
        "1ebit",
        "1..2",
        "99999999999999999999",
        "1.00000000000000000000000000000000000000000000001",
    ] {
        assert_eq!(units::rate(bad), None, "{bad}");
    }
}

#[track_caller]
fn assert_fault(text: &str, message: &str) {
    let error = Tree::parse(text, Timer::EXACT).expect_err(text);
    assert_eq!(error.to_string(), message);
}

#[test]
fn a_fault_names_the_word_the_column_and_what_was_expected() {
    for (text, message) in [
        ("ip", "line 1, column 1: `ip`: expected `tc`"),
        (
            "tc qdisk add",
            "line 1, column 4: `qdisk`: expected `qdisc`, `class` or `filter`",
        ),
        ("tc qdisc del", "line 1, column 10: `del`: expected `add`"),
        (
            "tc qdisc add dev e root tbf rate 100Mbits",
            "line 1, column 34: `100Mbits`: expected a rate such as 100Mbit, 64kbit or 125kbps \
             (bytes per second)",
        ),
        (
            "# é\n\ttc qdisc add dev é root tbf rate 1Mbit rate",
            "line 2, column 41: `rate`: said twice, or excluded by what stood before",
        ),
        (
            "tc qdisc add dev e root tbf rate 1Mbit burst 1k",
            "line 1, column 48: end of line: the command needs `limit SIZE` or `latency TIME`",
        ),
        (
            "tc qdisc add dev e root tbf rate 1Mbit burst 1k latency 1s limit 2k",
            "line 1, column 60: `limit`: said twice, or excluded by what stood before",
        ),
        (
            "tc qdisc add dev e root tbf rate",
            "line 1, column 33: end of line: expected a rate such as 100Mbit, 64kbit or 125kbps \
             (bytes per second)",
        ),
        (
            "tc qdisc add dev e root pfifo limt 3",
            "line 1, column 31: `limt`: expected `limit`",
        ),
        (
            "tc qdisc add dev e pfifo",
            "line 1, column 25: end of line: the command needs either `root` or `parent CLASS`",
        ),
        (
            "tc class add dev e root classid 1:1 htb rate 1Mbit",
            "line 1, column 51: end of line: the command needs `parent CLASS`, not `root`",
        ),
        (
            "tc class add dev e parent 1: classid 1:1 htb rate 1Mbit prio 8",
            "line 1, column 62: `8`: expected a number from 0 (first) to 7 (last)",
        ),
        (
            "tc filter add dev e parent 1: protocol ip prio 1 u32 match u16 1 ffff at 3 flowid 1:1",
            "line 1, column 74: `3`: expected an offset that is a multiple of the width, such as \
             16 or nexthdr+0",
        ),
        (
            "tc filter add dev e parent 1: protocol ip prio 1 u32 match u8 256 ff at 3 flowid 1:1",
            "line 1, column 63: `256`: expected a whole number that fits the field",
        ),
        (
            "tc filter add dev e parent 1: protocol ip prio 1 u32 match ip dst 1.2.3.4 \
             match ip dst 1.2.3.5 flowid 1:1",
            "line 1, column 75: `match`: no packet can match this and what stood before",
        ),
    ] {
        assert_fault(text, message);
    }
}

#[test]
fn a_rule_has_at_most_128_keys() {
    let rule = |keys: usize| {
        let matches = (0..keys).map(|n| std::format!("match u32 1 1 at {} ", 4 * n));
        let matches: String = matches.collect();
        std::format!("tc filter add dev e parent 1: protocol ip prio 1 u32 {matches}flowid 1:1")
    };
    assert!(parse(&rule(128)).is_ok());
    // A second match of the same word is no second key.
    assert!(parse(&(rule(128) + " match u16 1 1 at 2")).is_ok());
    let error = parse(&rule(129)).unwrap_err();
    assert_eq!(error.fault, Fault::Expected("at most 128 words to match"));
    assert_eq!(error.word, "match");
}

#[test]
fn what_does_not_fit_the_tree_is_found_in_the_text() {
    let root = "tc qdisc add dev e root handle 1: htb\n";
    for (line, message) in [
        (
            "tc qdisc add dev e root pfifo",
            "column 20: `root`: the device has a root discipline already",
        ),
        (
            "tc qdisc add dev f parent 1:1 pfifo",
            "column 18: `f`: one tree is for one device, and another was named before",
        ),
        (
            "tc qdisc add dev e parent 1:1 pfifo",
            "column 27: `1:1`: no class 1:1",
        ),
        (
            "tc class add dev e parent 2: classid 2:1 htb rate 1Mbit",
            "column 27: `2:`: no discipline 2: with classes",
        ),
        (
            "tc class add dev e parent 1: classid 2:1 htb rate 1Mbit",
            "column 38: `2:1`: 2:1 does not name a class of its parent's discipline",
        ),
        (
            "tc class add dev e parent 1: classid 1:1 cbq rate 1Mbit bandwidth 1Mbit",
            "column 42: `cbq`: a class is of the kind of its discipline, here htb",
        ),
        (
            "tc filter add dev e parent 1: protocol ip prio 1 u32 match u32 0 0 at 0 flowid 1:7",
            "column 80: `1:7`: no class 1:7 in the discipline of the filter",
        ),
        (
            "tc filter add dev e parent 1: protocol ip prio 1 u32 ht 3:: match u32 0 0 at 0 \
             flowid 1:",
            "column 57: `3::`: no bucket 3:0:",
        ),
        (
            "tc filter add dev e parent 1: protocol ip prio 1 u32 match u32 0 0 at 0 link 3:",
            "column 78: `3:`: no table 3:",
        ),
    ] {
        assert_fault(
            &(root.to_string() + line),
            &std::format!("line 2, {message}"),
        );
    }
}

/// Options of a command, any of them left out, all of them with a value that fits.
fn options(
    options: &'static [(&'static str, &'static [&'static str])],
) -> impl Strategy<Value = String> {
    let each: Vec<_> = options
        .iter()
        .map(|&(name, values)| {
            let value = proptest::sample::select(values);
            prop::option::of(value).prop_map(move |value| match value {
                Some(value) => std::format!(" {name} {value}"),
                None => String::new(),
            })
        })
        .collect();
    each.prop_map(|options| options.concat())
}

const RATES: &[&str] = &[
    "1bit", "1.5Mbit", "2.5e6bit", "100Mbit", "7kbps", "3Gbit", "1Kibit",
];
const SIZES: &[&str] = &["0", "1", "1514", "125Kb", "1mb", "64kbit"];
const SMALL: &[&str] = &["1", "3", "7"];

fn command() -> impl Strategy<Value = String> {
    let tbf = options(&[("latency", &["1ms", "20us"])]).prop_filter_map("a limit", |latency| {
        (!latency.is_empty()).then_some(latency)
    });
    prop_oneof![
        options(&[("limit", SMALL)]).prop_map(|o| std::format!("qdisc add dev e root pfifo{o}")),
        tbf.prop_map(|o| std::format!("qdisc add dev e root tbf rate 8Mbit burst 3k{o}")),
        options(&[("cell", &["1", "16"]), ("mpu", SIZES), ("ewma", SMALL)])
            .prop_map(|o| std::format!("qdisc add dev e root cbq bandwidth 1Gbit avpkt 1k{o}")),
        options(&[("default", &["1", "ab"]), ("r2q", SMALL)])
            .prop_map(|o| std::format!("qdisc add dev e parent 1:1 handle 2: htb{o}")),
        options(&[
            ("ceil", RATES),
            ("burst", SIZES),
            ("cburst", SIZES),
            ("prio", SMALL),
            ("quantum", SIZES),
        ])
        .prop_map(|o| std::format!("class add dev e parent 1: classid 1:2 htb rate 5kbit{o}")),
        options(&[
            ("allot", SIZES),
            ("weight", RATES),
            ("prio", SMALL),
            ("maxburst", SMALL),
            ("minburst", SMALL),
            ("minidle", SMALL),
            ("avpkt", SIZES),
            ("ewma", SMALL),
            ("mpu", SIZES),
            ("bounded", &[""]),
            ("isolated", &[""]),
        ])
        .prop_map(|o| std::format!(
            "class add dev e parent 1: classid 1:2 cbq bandwidth 1Gbit rate 1Mbit{o}"
        )),
        options(&[
            (
                "match",
                &["ip src 1.2.3.4/20", "ip tos 1 ff", "u32 7 f at nexthdr+8"]
            ),
            (
                "match",
                &["ip dport 80 ffff", "ip sport 81 0xff", "u8 3 3 at 33"]
            ),
            ("ht", &["2:3:", "800::"]),
        ])
        .prop_map(|o| std::format!(
            "filter add dev e parent 1: protocol ip prio 1 handle ::3 u32{o} flowid 1:1"
        )),
        options(&[
            ("hashkey", &["mask ff at 12", "mask 0xf0 at 16"]),
            (
                "offset",
                &["", "plus 4 eat", "at 0 mask f00 shift 6", "at 2"]
            ),
        ])
        .prop_map(|o| std::format!(
            "filter add dev e parent 1:2 protocol all prio 9 u32 match u8 0 0 at 0 link 4:{o}"
        )),
        Just("filter add dev e parent 1: protocol 0x86dd prio 2 handle 7f: u32 divisor 64".into()),
    ]
}

proptest! {
    /// What a command prints parses to the same command, and prints the same again.
    #[test]
    fn what_is_printed_is_read_again(command in command()) {
        let text = std::format!("tc {command}");
        let first = parse(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let printed = first[0].command.to_string();
        let second = parse(&printed).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(&first[0].command, &second[0].command);
        prop_assert_eq!(&second[0].command.to_string(), &printed);
    }

    /// A published command with one word replaced, left out or doubled: no panic, and
    /// the fault lies in the text.
    #[test]
    fn a_wrong_word_is_found(
        line in 0..4_usize,
        at in 0..40_usize,
        word in proptest::sample::select(&["", "1:1", "root", "99999999999Tbit", "é", "u32", "-1"]),
        double in any::<bool>(),
    ) {
        let mut lines: Vec<String> = KEK.lines().map(String::from).collect();
        let mut words: Vec<&str> = lines[line].split(' ').collect();
        let at = at % words.len();
        let old = words[at];
        words[at] = word;
        if double {
            words.insert(at, old);
        }
        lines[line] = words.join(" ");
        let text = lines.join("\n");
        if let Err(error) = Tree::parse(&text, Timer::EXACT) {
            let line: Vec<char> = text.lines().nth(error.line - 1).unwrap().chars().collect();
            let found: String = line[error.column - 1..].iter().take(error.word.chars().count()).collect();
            prop_assert_eq!(found, error.word);
        }
    }

    /// Any text at all.
    #[test]
    fn any_text_is_a_tree_or_a_fault(text in "(tc |qdisc |add |dev e |root |[a-z0-9:.#\n ]){0,20}") {
        if let Ok(tree) = Tree::parse(&text, Timer::EXACT) {
            let again = Tree::parse(&tree.to_string(), Timer::EXACT).expect("what it prints");
            prop_assert_eq!(again.commands(), tree.commands());
        }
    }
}
