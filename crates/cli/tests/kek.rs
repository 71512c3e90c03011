//! `barewire kek`, short: streams and events through its emulated switch, as root.

use std::io::Write as _;
use std::process::Command;

#[test]
fn streams_and_events_go_through_the_emulated_switch() {
    if !rustix::process::geteuid().is_root() {
        return skip("network namespaces need root");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    // So long that the rates of the streams are asked of the switch.
    let output = command.args(["kek", "--time", "100"]).output();
    let output = output.expect("it starts");
    let (said, problems) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let lacks = ["not permitted", "HTB"]
        .iter()
        .find(|it| problems.contains(**it));
    if let Some(lacks) = lacks.filter(|_| !output.status.success()) {
        return skip(&format!("this machine lacks something: {lacks}"));
    }
    assert!(output.status.success(), "{said}{problems}");
    let (_, events) = said
        .split_once("events through the switch")
        .expect("the table");
    for parts in ["4x4", "8x8"] {
        for control in ["none", "credits", "barrel", "bucket", "kernel"] {
            let built = events.lines().find_map(|line| {
                let cells: Vec<_> = line.split_whitespace().collect();
                let is_it = cells.first() == Some(&parts) && cells.get(2) == Some(&control);
                is_it.then(|| cells[3].parse::<f64>().expect("a rate"))
            });
            let built = built.unwrap_or_else(|| panic!("{parts} {control}: {events}"));
            assert!(built > 0.0, "{parts} {control}: {events}");
        }
    }
}

/// Notes where `scripts/test.sh` looks that the test did not do what it is for.
fn skip(reason: &str) {
    let line = format!("SKIPPED: kek::streams_and_events_go_through_the_emulated_switch: {reason}");
    println!("{line}");
    if let Ok(log) = std::env::var("BAREWIRE_SKIP_LOG") {
        let log = std::fs::File::options().append(true).create(true).open(log);
        writeln!(log.expect("the log of skipped tests"), "{line}").expect("written");
    }
}
