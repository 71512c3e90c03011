//! Firewall rules, and the interface set down, in the middle of busy connections: what `firewall/main.c` says.

use std::process::Command;

use barewire_programs::{Scenario, Stage, built, find, skip};

/// A run takes some seconds; under contention the kernel's retransmission comes late.
const LIMIT_S: u64 = 300;

fn play(stage: &Stage, kind: &str) -> String {
    let program = built("firewall", env!("CARGO_TARGET_TMPDIR"));
    let said = stage.client(program).arg(kind).text(LIMIT_S);
    // Words in capitals name what must not be.
    let is_bad = said.contains(|letter: char| letter.is_ascii_uppercase());
    assert!(!is_bad, "{kind}:\n{said}");
    said
}

/// Whether a command succeeds in a network namespace of its own.
fn works_apart(words: &[&str]) -> bool {
    let output = Command::new("unshare").arg("-n").args(words).output();
    output.is_ok_and(|output| output.status.success())
}

fn firewall(name: &'static str, kind: &str) {
    if !works_apart(&["true"]) {
        return skip(name, "no network namespace can be made here");
    }
    Scenario::new(name).run(&["cc"], |stage| play(stage, kind));
}

fn firewall_with_rules(name: &'static str, kind: &str) {
    if find("nft").is_none() {
        return skip(name, "nft is not installed");
    }
    if !works_apart(&["nft", "add table inet t"]) {
        return skip(name, "nft makes no table in a network namespace of its own");
    }
    firewall(name, kind);
}

#[test]
fn an_interface_that_is_set_down_stops_what_is_busy() {
    firewall("firewall-down", "down");
}

#[test]
fn a_rule_that_drops_packets_stops_what_is_busy() {
    firewall_with_rules("firewall-drop", "drop");
}

#[test]
fn a_rule_that_answers_with_a_reset_ends_what_is_busy() {
    firewall_with_rules("firewall-reject", "reject");
}
