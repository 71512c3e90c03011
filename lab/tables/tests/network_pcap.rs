//! A capture of a network that a plan describes, as Wireshark reads it: packets of TCP, whose
//! checksums are right, of the link that was named and no other.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use barewire_tables::pcapng;
use barewire_tables::plan::{PlanSource, Wanted};
use barewire_tables::runs::{Watch, run};

/// Two hosts, a switch, and two links, one of which is recorded.
const PLAN: &str = r#"
system = "network"
[inputs]
links = ["near"]
[hosts.a]
like = "pc800"
[hosts.b]
like = "pc800"
[cards.a]
host = "a"
like = "card-acenic"
link = { payload = "1500 B", least = "46 B", overhead = "38 B" }
[cards.b]
host = "b"
like = "card-acenic"
link = { payload = "1500 B", least = "46 B", overhead = "38 B" }
[switches.s]
[links.near]
ends = ["a", "s"]
[links.far]
ends = ["b", "s"]
length = "100 km"
loss = 0.05
[programs.stream]
kind = "tcp-stream"
from = "a"
to = "b"
volume = "200 KiB"
[programs.requests]
kind = "tcp-request-reply"
from = "a"
to = "b"
requests = 10
"#;

fn skip(reason: &str) {
    let line = format!("SKIPPED: tshark_reads_a_network_of_a_plan: {reason}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let log = OpenOptions::new().create(true).append(true).open(path);
        log.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the log of skipped tests");
    }
}

fn captured() -> (Vec<String>, PathBuf) {
    let source = PlanSource::default();
    let draft = source.read("pcap", PLAN).expect("TOML");
    let plan = source.resolve(&draft, &Wanted::default());
    let plans = [plan.unwrap_or_else(|error| panic!("{error}"))];
    let mut found = run(&plans, 100_000, &Watch::new(&plans)).expect("a run");
    let links = found.remove(0).links;
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("network.pcapng");
    std::fs::write(&file, pcapng(&links)).expect("written");
    (links.into_iter().map(|link| link.link).collect(), file)
}

#[test]
fn tshark_reads_a_network_of_a_plan() {
    let (links, file) = captured();
    assert_eq!(links, ["near"]);
    let tshark = Command::new("tshark").arg("--version").output();
    if !tshark.is_ok_and(|output| output.status.success()) {
        return skip("tshark is not installed");
    }
    let shown = |filter: &str, field: &str| -> Vec<String> {
        let output = Command::new("tshark")
            .arg("-r")
            .arg(&file)
            .args([
                "-o",
                "tcp.check_checksum:TRUE",
                "-o",
                "ip.check_checksum:TRUE",
                // What the bytes might mean is none of its business.
                "-o",
                "tcp.desegment_tcp_streams:FALSE",
            ])
            .args(["-Y", filter, "-T", "fields", "-e", field])
            .output()
            .expect("tshark");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().map(str::to_owned).collect()
    };
    let number = "frame.number";
    let all = shown("frame", number).len();
    // Everything is TCP, and right.
    assert_eq!(shown("tcp && tcp.checksum.status == 1", number).len(), all);
    assert!(shown("_ws.malformed || ip.checksum.status != 1", number).is_empty());
    // Two connections of 10.0.0.1, whose SYN may have been lost and sent again.
    let opens = "tcp.flags.syn == 1 && tcp.flags.ack == 0 && ip.src == 10.0.0.1";
    let mut opened = shown(opens, "tcp.dstport");
    opened.sort();
    opened.dedup();
    assert_eq!(opened, ["5001", "5002"]);
    // 200 KiB in segments of 1460 B: what was sent again comes on top.
    let payload = shown(
        "ip.src == 10.0.0.1 && tcp.dstport == 5002 && tcp.len > 0",
        "tcp.len",
    );
    let payload = payload
        .iter()
        .map(|len| len.parse::<u64>().expect("a number"));
    let bytes: u64 = payload.sum();
    assert!(bytes >= 200 << 10, "{bytes}");
    // The link is before the one that loses: what was lost goes over it twice.
    assert!(
        !shown(
            "tcp.analysis.retransmission || tcp.analysis.fast_retransmission",
            number
        )
        .is_empty()
    );
}
