//! The reference in `docs/reference` is complete: it names each command, setting, counter, state and reason.

use std::process::{Command, Stdio};

use barewire::Node;
use barewire_shm::counters::QUEUE_COUNTERS;

const COMMANDS: &str = include_str!("../../../docs/reference/commands.md");
const SETTINGS: &str = include_str!("../../../docs/reference/settings.md");
const COUNTERS: &str = include_str!("../../../docs/reference/counters.md");
const REASONS: &str = include_str!("../../../docs/reference/reasons.md");
/// Where the states and reasons of a socket have their texts.
const STATES: &str = include_str!("../../sockets/src/table/state.rs");

fn help(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_barewire"))
        .args(arguments)
        .arg("--help")
        .stdin(Stdio::null())
        .output()
        .expect("barewire starts");
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The first words of the indented lines behind a heading, up to the first line that is not indented.
fn names_after<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let (_, after) = text.split_once(heading).expect("the heading");
    let lines = after.lines().skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    let lines = lines.filter(|line| !line.starts_with("   "));
    let names: Vec<&str> = lines
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(!names.is_empty(), "nothing stands below {heading}");
    names
}

#[test]
fn each_command_is_in_the_reference() {
    for name in names_after(&help(&[]), "Commands:") {
        let is_named = COMMANDS.contains(&format!("`barewire {name}"));
        assert!(is_named || name == "help", "commands.md lacks `{name}`");
    }
    for command in ["daq", "lab", "wire"] {
        for name in names_after(&help(&[command]), "Commands:") {
            let is_named = COMMANDS.contains(&format!("`{name}`"));
            assert!(
                is_named || name == "help",
                "commands.md lacks `{command} {name}`"
            );
        }
    }
}

#[test]
fn each_setting_is_in_the_reference() {
    for key in names_after(&help(&["run"]), "\nSettings,") {
        assert!(
            SETTINGS.contains(&format!("| `{key}` |")),
            "settings.md lacks `{key}`"
        );
    }
    for setting in Node::new().expect("a node").settings() {
        // Parts of a budget are listed behind the first of them.
        let (key, part) = setting.key.split_once('.').unwrap_or((&setting.key, ""));
        let is_named = SETTINGS.contains(&format!("`{key}"));
        let has_part = part.is_empty()
            || SETTINGS.contains(&format!("`.{part}`"))
            || SETTINGS.contains(&format!(".{part}`"));
        assert!(is_named && has_part, "settings.md lacks `{}`", setting.key);
    }
}

#[test]
fn each_counter_is_in_the_reference() {
    for (_, name) in QUEUE_COUNTERS {
        assert!(
            COUNTERS.contains(&format!("`{name}`")),
            "counters.md lacks `{name}`"
        );
    }
}

#[test]
fn each_state_and_reason_is_in_the_reference() {
    let texts = STATES.split("=> \"").skip(1);
    let texts: Vec<&str> = texts.filter_map(|text| text.split('"').next()).collect();
    assert!(texts.len() > 20, "{texts:?}");
    for text in texts.iter().filter(|text| !text.is_empty()) {
        assert!(REASONS.contains(text), "reasons.md lacks «{text}»");
    }
}
