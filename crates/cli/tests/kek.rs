//! `barewire kek`, short: streams and events through its emulated switch, as root.

use std::io::Write as _;
use std::process::Command;

#[test]
fn streams_and_events_go_through_the_emulated_switch() {
    const NAME: &str = "kek::streams_and_events_go_through_the_emulated_switch";
    if !rustix::process::geteuid().is_root() {
        return skip(NAME, "network namespaces need root");
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
        return skip(NAME, &format!("this machine lacks something: {lacks}"));
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

/// Three streams, of which the script gives two their rates; the third has the rest's class.
#[test]
fn a_script_of_tc_commands_shapes_the_streams() {
    const NAME: &str = "kek::a_script_of_tc_commands_shapes_the_streams";
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("{}-kek.tc", std::process::id()));
    let kek = |script: &str| {
        std::fs::write(&file, script).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
        let command = command.args(["kek", "--time", "1000", "--tc"]).arg(&file);
        let output = command.output().expect("it starts");
        std::fs::remove_file(&file).expect("removed");
        let [said, problems] =
            [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        (output.status.success(), said, problems)
    };
    let (is_good, _, problems) = kek("tc qdisc add dev eth0 root handle 1: htb\ntc class oops\n");
    assert!(!is_good && problems.contains("line 2"), "{problems}");
    if !rustix::process::geteuid().is_root() {
        return skip(NAME, "network namespaces need root");
    }
    let (is_good, said, problems) = kek("\
        tc qdisc add dev eth0 root handle 1: htb default 30\n\
        tc class add dev eth0 parent 1: classid 1:10 htb rate 8mbit burst 16k\n\
        tc class add dev eth0 parent 1: classid 1:20 htb rate 16mbit burst 16k\n\
        tc class add dev eth0 parent 1: classid 1:30 htb rate 4mbit burst 16k\n\
        tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dst 198.18.0.2 flowid 1:10\n\
        tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dst 198.18.0.3 flowid 1:20\n");
    let lacks = ["not permitted", "HTB", "iproute2", "Unknown qdisc"];
    let lacks = lacks
        .iter()
        .find(|it| problems.contains(**it) || said.contains("SKIPPED"));
    if let Some(lacks) = lacks {
        return skip(NAME, &format!("this machine lacks something: {lacks}"));
    }
    assert!(is_good, "{said}{problems}");
    for (to, set) in [
        ("198.18.0.2", 8.0),
        ("198.18.0.3", 16.0),
        ("198.18.0.4", 4.0),
    ] {
        let line = said.lines().find(|line| line.contains(to)).expect(to);
        let rate = line
            .split_whitespace()
            .nth(1)
            .and_then(|it| it.parse::<f64>().ok());
        let rate = rate.unwrap_or_else(|| panic!("{line}"));
        // A busy machine makes a stream slower, never faster than its class.
        assert!(
            rate > 0.3 * set && rate < 1.1 * set,
            "{to}: {rate} of {set} Mbit/s"
        );
    }
}

/// Notes where `scripts/test.sh` looks that the test did not do what it is for.
fn skip(name: &str, reason: &str) {
    let line = format!("SKIPPED: {name}: {reason}");
    println!("{line}");
    if let Ok(log) = std::env::var("BAREWIRE_SKIP_LOG") {
        let log = std::fs::File::options().append(true).create(true).open(log);
        writeln!(log.expect("the log of skipped tests"), "{line}").expect("written");
    }
}
