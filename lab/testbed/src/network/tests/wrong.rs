//! What is wrong with a description is found, all of it, each at its key.

use proptest::prelude::*;

use crate::error::SystemError;
use crate::experiment::{Progress, Setting};
use crate::network::{Fault, NoKinds, System};
use crate::system::System as _;

/// A network that is right, to be made wrong.
const RIGHT: &str = "\
[hosts.a]
like = \"pc733\"
[hosts.b]
count = 3
[cards.a]
host = \"a\"
[cards.b]
host = \"b\"
[switches.s]
ports = 5
[links.a]
ends = [\"a\", \"s.1\"]
[links.b]
ends = [\"b\", \"s\"]
[programs.p]
kind = \"incast\"
from = \"b\"
to = \"a\"
";

fn check(text: &str) -> Result<(), SystemError> {
    let experiment = &System::<NoKinds>::new().experiments()[0];
    (experiment.check)(&Setting {
        parameters: text,
        inputs: experiment.inputs,
        seed: 1,
        packets_per_link: 0,
        progress: &Progress::default(),
    })
}

fn faults(text: &str) -> Vec<Fault> {
    match check(text) {
        Ok(()) => Vec::new(),
        Err(SystemError::Faults(faults)) => faults,
        Err(error) => panic!("{error}"),
    }
}

/// The one fault of the right network with a change: its key, and what is said.
fn one(from: &str, to: &str) -> (String, String) {
    let text = RIGHT.replacen(from, to, 1);
    assert_ne!(text, RIGHT, "{from}");
    let faults = faults(&text);
    assert_eq!(faults.len(), 1, "{to}: {faults:?}");
    (faults[0].key.clone(), faults[0].to_string())
}

#[test]
fn each_mistake_is_found_at_its_key() {
    assert_eq!(faults(RIGHT), []);
    let cases = [
        ("\"s.1\"", "\"s.9\"", "links.a.ends", "no such port `s.9`"),
        ("\"s.1\"", "\"t.1\"", "links.a.ends", "no such port `t.1`"),
        ("\"s.1\"", "\"b\"", "links.a.ends", "expected as many"),
        ("\"s.1\"", "\"a\"", "links.a.ends", "in use"),
        (
            "[\"a\", \"s.1\"]",
            "[\"a\"]",
            "links.a.ends",
            "expected the two ports",
        ),
        ("[\"a\", \"s.1\"]", "3", "links.a.ends", "expected"),
        ("ports = 5", "ports = 3", "links.b.ends", "no free port"),
        (
            "ports = 5",
            "ports = 1",
            "switches.s.ports",
            "expected 2 to",
        ),
        ("ports = 5", "port = 5", "switches.s.port", "no such key"),
        ("ports = 5", "latency = \"5\"", "switches.s.latency", "unit"),
        ("count = 3", "count = 0", "hosts.b.count", "expected 1 to"),
        (
            "like = \"pc733\"",
            "like = \"pc7333\"",
            "hosts.a.like",
            "no such host",
        ),
        (
            "like = \"pc733\"",
            "processors = 3",
            "hosts.a.processors",
            "found 3",
        ),
        (
            "like = \"pc733\"",
            "processor = 2",
            "hosts.a.processor",
            "no such key",
        ),
        (
            "like = \"pc733\"",
            "costs.interrupt = 5",
            "hosts.a.costs.interrupt",
            "expected string",
        ),
        (
            "like = \"pc733\"",
            "costs.interrupt = \"5\"",
            "hosts.a.costs.interrupt",
            "unit",
        ),
        (
            "like = \"pc733\"",
            "bus = 1",
            "hosts.a.bus",
            "expected a table",
        ),
        (
            "host = \"a\"",
            "host = \"c\"",
            "cards.a.host",
            "no such host",
        ),
        (
            "host = \"b\"",
            "host = \"b\"\nlink.payload = \"80 B\"",
            "links.b.ends",
            "interworking unit",
        ),
        (
            "host = \"a\"",
            "host = \"a\"\nblock = \"0 B\"",
            "cards.a.block",
            "at least",
        ),
        (
            "\"incast\"",
            "\"incsat\"",
            "programs.p.kind",
            "no such kind of program",
        ),
        (
            "from = \"b\"",
            "from = \"bb\"",
            "programs.p.from",
            "no such host",
        ),
        (
            "from = \"b\"",
            "from = [\"b\", \"a\"]",
            "programs.p.to",
            "among those",
        ),
        ("to = \"a\"", "to = \"b\"", "programs.p.to", "expected one"),
        (
            "to = \"a\"",
            "to = \"a\"\nrounds = 0",
            "programs.p.rounds",
            "expected 1 to",
        ),
        (
            "to = \"a\"",
            "to = \"a\"\nsizes = 1",
            "programs.p.sizes",
            "no such key",
        ),
        (
            "to = \"a\"",
            "to = \"a\"\njitter = \"1 s\"",
            "programs.p.jitter",
            "less than the period",
        ),
        ("[programs.p]", "[program.p]", "program", "no such section"),
    ];
    for (from, to, key, said) in cases {
        if to == "\"b\"" || key == "cards.a.host" {
            // These leave others without what they had: the one meant is among them.
            let text = RIGHT.replacen(from, to, 1);
            let all = faults(&text);
            let found = all
                .iter()
                .any(|it| it.key == key && it.to_string().contains(said));
            assert!(found, "{to}: {all:?}");
            continue;
        }
        let (at, text) = one(from, to);
        assert_eq!(at, key, "{text}");
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn all_mistakes_are_found_at_once() {
    let text = RIGHT
        .replace("\"s.1\"", "\"s.9\"")
        .replace("\"pc733\"", "\"pc\"")
        .replace("\"incast\"", "\"incsat\"")
        .replace("ports = 5", "ports = 5\nlatency = \"4\"");
    let keys: Vec<String> = faults(&text).into_iter().map(|fault| fault.key).collect();
    for key in [
        "links.a.ends",
        "hosts.a.like",
        "programs.p.kind",
        "switches.s.latency",
    ] {
        assert!(keys.iter().any(|found| found == key), "{key}: {keys:?}");
    }
}

#[test]
fn who_is_not_attached_or_not_reached_is_named() {
    let apart = RIGHT.replace("[links.a]\nends = [\"a\", \"s.1\"]\n", "");
    let found = faults(&apart);
    assert!(
        found
            .iter()
            .any(|it| it.key == "cards.a" && it.problem.contains("attached to nothing"))
    );
    // Two islands.
    let islands = "[hosts.a]\n[hosts.b]\n[hosts.c]\n[hosts.d]\n[cards.a]\nhost = \"a\"\n[cards.b]\nhost = \"b\"\n\
                   [cards.c]\nhost = \"c\"\n[cards.d]\nhost = \"d\"\n[links.l]\nends = [\"a\", \"b\"]\n\
                   [links.m]\nends = [\"c\", \"d\"]\n[programs.p]\nkind = \"ping\"\nfrom = \"a\"\nto = \"d\"";
    let found = faults(islands);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].problem, "no way leads from `a` to `d`");
    assert_eq!(found[0].key, "programs.p");
}

/// A gateway that is right, to be made wrong.
const GATEWAY: &str = "\
[hosts.a]
[hosts.b]
[hosts.gate]
forwards = true
[hosts.other]
[cards.a]
host = \"a\"
[cards.b]
host = \"b\"
[cards.left]
host = \"gate\"
[cards.right]
host = \"gate\"
[cards.spare]
host = \"other\"
[switches.s]
[links.left]
ends = [\"a\", \"left\"]
[links.right]
ends = [\"right\", \"s\"]
[links.b]
ends = [\"b\", \"s\"]
[links.spare]
ends = [\"spare\", \"s\"]
[programs.p]
kind = \"ping\"
from = \"a\"
to = \"b\"
";

#[test]
fn mistakes_about_several_cards_are_found_at_their_keys() {
    assert_eq!(faults(GATEWAY), []);
    let cases = [
        (
            "\"left\"]",
            "\"lefd\"]",
            "links.left.ends",
            "no such port `lefd`",
        ),
        (
            "\"left\"]",
            "\"left.1\"]",
            "links.left.ends",
            "a card has one port",
        ),
        (
            "\"left\"]",
            "\"right\"]",
            "links.right.ends",
            "links.left has it",
        ),
        ("[\"right\", ", "[\"left\", ", "links.right.ends", "in use"),
        (
            "forwards = true\n",
            "",
            "programs.p",
            "no way leads from `a` to `b`; `gate` passes nothing on without `forwards = true`",
        ),
        (
            "forwards = true",
            "forward_buffer = \"1 KiB\"",
            "hosts.gate.forward_buffer",
            "without `forwards = true`",
        ),
        (
            "forwards = true",
            "forwards = true\nforward_buffer = \"0 B\"",
            "hosts.gate.forward_buffer",
            "expected 1B to",
        ),
        (
            "forwards = true",
            "forwards = 1",
            "hosts.gate.forwards",
            "expected a boolean",
        ),
        (
            "[hosts.other]",
            "[hosts.other]\nforwards = true",
            "hosts.other.forwards",
            "it has one card, `spare`",
        ),
        (
            "host = \"gate\"\n",
            "host = \"gate\"\nnotice.by = \"poll\"\n",
            "cards.right",
            "not that of `left`",
        ),
        (
            "[hosts.gate]\n",
            "[hosts.gate]\nprocessors = 3\n",
            "hosts.gate.processors",
            "found 3",
        ),
        (
            "to = \"b\"",
            "to = \"b\"\ncard = \"c\"",
            "programs.p.card",
            "no such card",
        ),
        (
            "to = \"b\"",
            "to = \"b\"\ncard = 7",
            "programs.p.card",
            "expected",
        ),
        (
            "to = \"b\"",
            "to = \"b\"\ncard = \"left\"",
            "programs.p.card",
            "`left` is a card of `gate`, where this program does not run",
        ),
        (
            "from = \"a\"",
            "from = \"gate\"\ncard = [\"left\", \"right\"]",
            "programs.p.card",
            "`right` is another card of `gate`",
        ),
        (
            "from = \"a\"",
            "from = \"gate\"\ncard = \"left\"",
            "programs.p.card",
            "no way leads from `gate` by its card `left` to `b`",
        ),
    ];
    for (from, to, key, said) in cases {
        let text = GATEWAY.replacen(from, to, 1);
        assert_ne!(text, GATEWAY, "{from}");
        let all = faults(&text);
        let found = all
            .iter()
            .any(|it| it.key == key && it.to_string().contains(said));
        assert!(found, "{to}: {all:?}");
        let keys = all.iter().filter(|it| it.key == key).count();
        assert_eq!(keys, 1, "{all:?}");
    }
}

#[test]
fn a_card_that_is_named_must_not_lead_back() {
    // From `right` over the switch, `h` and `left` of `gate`: in a circle.
    let text = GATEWAY
        .replace("host = \"b\"", "host = \"b\"\n[hosts.h]\nforwards = true\n[cards.h-left]\nhost = \"h\"\n[cards.h-right]\nhost = \"h\"\n[links.h]\nends = [\"h-left\", \"t\"]\n[switches.t]\n[links.h-back]\nends = [\"h-right\", \"third\"]\n[cards.third]\nhost = \"gate\"")
        .replace("ends = [\"a\", \"left\"]", "ends = [\"a\", \"t\"]\n[links.gate]\nends = [\"left\", \"t\"]")
        .replace("from = \"a\"", "from = \"gate\"");
    assert_eq!(faults(&text), []);
    let text = text.replace("to = \"b\"", "to = \"b\"\ncard = \"left\"");
    let found = faults(&text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].key, "programs.p.card");
    assert_eq!(
        found[0].problem,
        "the way from `gate` by its card `left` to `b` leads back to `gate`"
    );
}

#[test]
fn a_host_has_at_most_sixteen_cards_and_a_way_sixty_gateways() {
    let mut text = GATEWAY.to_owned();
    for card in 0..17 {
        text += &format!("[cards.c{card}]\nhost = \"other\"\n");
    }
    let found = faults(&text);
    let said = |it: &Fault| it.key.starts_with("cards.") && it.problem.contains("16 cards");
    assert!(found.iter().any(said), "{found:?}");
    let chain = |gateways: usize| {
        let mut text = "[programs.p]\nkind = \"ping\"\nfrom = \"h0\"\nto = \"end\"\n\
                        [hosts.h0]\n[cards.r0]\nhost = \"h0\"\n[hosts.end]\n[cards.end]\nhost = \"end\"\n"
            .to_owned();
        for number in 1..=gateways {
            text += &format!(
                "[hosts.h{number}]\nforwards = true\n[cards.l{number}]\nhost = \"h{number}\"\n\
                 [cards.r{number}]\nhost = \"h{number}\"\n\
                 [links.k{number}]\nends = [\"r{}\", \"l{number}\"]\n",
                number - 1
            );
        }
        text + &format!("[links.last]\nends = [\"r{gateways}\", \"end\"]\n")
    };
    assert_eq!(faults(&chain(60)), []);
    let found = faults(&chain(61));
    assert!(
        found[0]
            .problem
            .contains("leads over 61 hosts that forward"),
        "{found:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever lines are left out, doubled or garbled, the check ends, and names keys.
    #[test]
    fn no_description_panics(
        gateway in proptest::bool::ANY,
        left_out in proptest::collection::vec(0_usize..27, 0..4),
        garbled in proptest::collection::vec((0_usize..27, "[a-z0-9\". \\[\\]=]{0,12}"), 0..3),
    ) {
        let right = if gateway { GATEWAY } else { RIGHT };
        let mut lines: Vec<String> = right.lines().map(str::to_owned).collect();
        for (line, text) in garbled {
            if let Some(found) = lines.get_mut(line) {
                let key = found.split('=').next().unwrap_or_default().to_owned();
                *found = if found.contains('=') { format!("{key}= {text}") } else { found.clone() };
            }
        }
        let mut text = String::new();
        for (number, line) in lines.iter().enumerate() {
            if !left_out.contains(&number) {
                text.push_str(line);
                text.push('\n');
            }
        }
        if toml::from_str::<toml::Table>(&text).is_ok() {
            match check(&text) {
                Ok(()) => {}
                Err(SystemError::Faults(faults)) => {
                    prop_assert!(!faults.is_empty());
                    for fault in faults {
                        prop_assert!(!fault.key.is_empty() && !fault.problem.is_empty());
                    }
                }
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }
}
