//! The capture tap, read back by a program that we did not write.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use barewire::{Error, Node, NodeConfig};

const SECOND: Option<Duration> = Some(Duration::from_secs(5));

fn file(of: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    dir.join(format!("capture-{}-{of}.pcapng", std::process::id()))
}

fn skipped(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path);
        log.and_then(|mut f| f.write_all(line.as_bytes())).unwrap();
    }
}

/// Sends and receives a few messages of all kinds on a node with a tap.
fn record(path: &Path) {
    let name = format!("test-{}-capture", std::process::id());
    let config = NodeConfig {
        capture: Some(path.to_owned()),
        ..NodeConfig::default()
    };
    let server = Node::with_config(config).unwrap();
    let _listener = server.listen(&name).unwrap();
    let client = thread::spawn(move || {
        let node = Node::new().unwrap();
        let mut connection = node.connect(&name).unwrap();
        connection.send(b"question").unwrap();
        let mut answer = Vec::new();
        for _ in 0..4 {
            assert!(
                connection
                    .receiver()
                    .recv_into_timeout(&mut answer, SECOND)
                    .unwrap()
                    .is_some()
            );
        }
    });
    let mut connection = server.next_request(SECOND).unwrap().accept().unwrap();
    let mut buffer = [0; 64];
    connection.recv(&mut buffer).unwrap();
    connection.send(b"answer").unwrap();
    let batch: [&[u8]; 2] = [b"one", b"two"];
    assert_eq!(connection.sender().send_batch(&batch).unwrap(), 2);
    let mut reservation = connection.sender().reserve(100).unwrap().unwrap();
    reservation.write_at(0, b"in place");
    reservation.commit(8);
    client.join().unwrap();
    server.flush_capture().unwrap();
}

#[test]
fn tshark_reads_what_was_recorded() {
    let path = file("tshark");
    record(&path);
    let fields = [
        "-T",
        "fields",
        "-e",
        "exported_pdu.prot_name",
        "-e",
        "data.data",
    ];
    let output = Command::new("tshark")
        .arg("-r")
        .arg(&path)
        .args(fields)
        .output();
    let Ok(output) = output else {
        return skipped("tshark_reads_what_was_recorded", "tshark is not installed");
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let data: Vec<&str> = text
        .lines()
        .map(|l| l.rsplit('\t').next().unwrap())
        .collect();
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let sent: [&[u8]; 5] = [b"question", b"answer", b"one", b"two", b"in place"];
    assert_eq!(data, sent.map(hex), "{text}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_file_that_can_not_be_made_is_an_error_with_its_path() {
    let config = NodeConfig {
        capture: Some("/nonexistent/directory/x.pcapng".into()),
        ..NodeConfig::default()
    };
    let error = Node::with_config(config).unwrap_err();
    assert!(matches!(error, Error::Capture { .. }));
    assert!(
        error.to_string().contains("/nonexistent/directory"),
        "{error}"
    );
}
