//! Ends that break the rules: clients and servers made of the network's own crate, which say what they like.

mod common;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use barewire::{ConnectOptions, Connection, Error, Node};

use common::{compiled, run_name, said};

/// Only a program that hangs takes as long.
const LONG: Duration = Duration::from_secs(60);

const TRANSFER_BYTES_MAX: usize = 64 << 10;

/// The name that stands for a discriminator at the device `barewire0`.
fn listener_name(discriminator: &str) -> String {
    let hex: Vec<String> = discriminator.bytes().map(|b| format!("{b:02x}")).collect();
    format!("vipl-0-s-{}", hex.concat())
}

/// The data of a request, as `crates/vipl/src/records.rs` describes it.
fn request(discriminator: &str) -> Vec<u8> {
    let mut data = b"VIPL\x01\0\0\0".to_vec();
    data.extend([2, 0, 1, 1]);
    data.extend((TRANSFER_BYTES_MAX as u32).to_le_bytes());
    for name in ["c", discriminator] {
        let mut padded = [0; 16];
        padded[..name.len()].copy_from_slice(name.as_bytes());
        data.extend([0, name.len() as u8]);
        data.extend(padded);
    }
    data
}

/// The first 24 bytes of a record.
fn head(kind: u8, low: u32, posted: u32, handle: u32, high: u64) -> Vec<u8> {
    let mut head = vec![kind, 0, 0, 0];
    head.extend(low.to_le_bytes());
    head.extend(posted.to_le_bytes());
    head.extend(handle.to_le_bytes());
    head.extend(high.to_le_bytes());
    head
}

fn with(mut head: Vec<u8>, body: &[u8]) -> Vec<u8> {
    head.extend(body);
    head
}

fn connect(node: &Node, name: &str, data: Vec<u8>) -> Result<Connection, Error> {
    // The listener comes and goes; between two waits of the server nobody is there.
    loop {
        let options = ConnectOptions {
            timeout: LONG,
            data: data.clone(),
            ..ConnectOptions::default()
        };
        match node.connect_with(name, &options) {
            Err(Error::Refused { reason }) if reason.contains("nobody waits") => {
                std::thread::yield_now();
            }
            Err(Error::PeerGone | Error::PeerDied { .. }) => std::thread::yield_now(),
            other => return other,
        }
    }
}

fn start(program: PathBuf, arguments: &[&str]) -> Child {
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", "120"])
        .arg(program)
        .args(arguments);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("timeout of coreutils")
}

/// What ends a connection, each by itself, sent after a greeting.
fn breaches() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let send = |posted| with(head(3, 0, posted, 0, 0), b"x");
    let mut flags = head(3, 0, 0, 0, 0);
    flags[1] = 2;
    let mut reserved = head(3, 0, 0, 0, 0);
    reserved[2] = 1;
    vec![
        ("no bytes", vec![vec![]]),
        ("half a head", vec![head(3, 0, 0, 0, 0)[..23].to_vec()]),
        ("kind 0", vec![head(0, 0, 0, 0, 0)]),
        ("kind 9", vec![head(9, 0, 0, 0, 0)]),
        ("kind 255", vec![head(255, 0, 0, 0, 0)]),
        ("unknown flags", vec![flags]),
        ("reserved bytes", vec![reserved]),
        (
            "a greeting",
            vec![with(head(1, 0, 0, 0, 0), &[2, 0, 1, 1, 0, 0, 1, 0])],
        ),
        ("credit with a body", vec![with(head(2, 0, 0, 0, 0), b"x")]),
        ("more credit than a queue has", vec![head(2, 0, 1025, 0, 0)]),
        (
            "less credit than before",
            vec![head(2, 0, 7, 0, 0), head(2, 0, 6, 0, 0)],
        ),
        ("more messages than receives", vec![send(0); 5]),
        (
            "too long a message",
            vec![with(head(3, 0, 0, 0, 0), &[0; TRANSFER_BYTES_MAX + 1])],
        ),
        (
            "a message longer than its receive",
            vec![with(head(3, 0, 0, 0, 0), &[0; 101])],
        ),
        (
            "a write to no memory",
            vec![with(head(4, 0, 0, 77, 4096), b"x")],
        ),
        (
            "a write to protected memory",
            vec![with(head(4, 0, 0, 2, 4096), b"x")],
        ),
        (
            "a write that wraps around",
            vec![with(head(4, 0, 0, 1, u64::MAX), b"xx")],
        ),
        ("a read of no memory", vec![head(5, 8, 0, 77, 4096)]),
        (
            "a read that is too long",
            vec![head(5, u32::MAX, 0, 1, 4096)],
        ),
        (
            "an answer to no read",
            vec![with(head(6, 0, 0, 0, 1), b"x")],
        ),
        ("an end of nothing", vec![head(7, 0, 0, 0, 1)]),
        ("a refusal of nothing", vec![head(8, 0x80, 0, 0, 9)]),
    ]
}

/// Receives until the connection ends. It has to.
#[track_caller]
fn ends(connection: &mut Connection, what: &str) {
    let mut buffer = vec![0; 1 << 17];
    loop {
        match connection.recv_timeout(&mut buffer, LONG) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("{what}: the server goes on"),
            Err(_) => return,
        }
    }
}

#[test]
fn no_client_harms_a_server() {
    let discriminator = run_name("h");
    let name = listener_name(&discriminator);
    let server = start(compiled("victim"), &[&discriminator]);
    let node = Node::new().expect("a node");

    // Requests that are none: they are refused, and the server does not hear of them.
    let good = request(&discriminator);
    let mut wrong = vec![vec![], vec![0; 4096], good[1..].to_vec(), request("other")];
    for at in [0, 4, 5, 6, 10, 16, 17] {
        let mut bytes = good.clone();
        bytes[at] = 200;
        wrong.push(bytes);
    }
    for data in wrong {
        let answer = connect(&node, &name, data);
        assert!(matches!(answer, Err(Error::Refused { .. })), "{answer:?}");
    }

    let breaches = breaches();
    for (what, messages) in &breaches {
        let mut connection = connect(&node, &name, good.clone()).expect(what);
        for message in messages {
            // The server may have closed it already.
            let _ = connection.send_timeout(message, LONG);
        }
        ends(&mut connection, what);
    }

    // Any bytes, from a seed.
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for round in 0..40 {
        let mut connection = connect(&node, &name, good.clone()).expect("a connection");
        for _ in 0..20 {
            let mut message = head((random() % 10) as u8, random() as u32 % 200, 0, 0, random());
            message.truncate((random() % 60) as usize);
            if random() % 4 == 0 {
                message.resize((random() % 300) as usize, random() as u8);
            }
            if connection.send_timeout(&message, LONG).is_err() {
                break;
            }
        }
        let _ = connection.send_timeout(&[], LONG);
        ends(&mut connection, &format!("round {round}"));
    }

    // Who keeps to the rules is served.
    let mut connection = connect(&node, &name, good).expect("a connection");
    connection
        .send(&with(head(3, 0, 1, 0, 0), b"end"))
        .expect("sent");
    let mut buffer = [0; 256];
    let greeting = connection
        .recv_timeout(&mut buffer, LONG)
        .expect("received");
    assert_eq!((greeting, buffer[0]), (Some(32), 1));
    loop {
        let len = connection
            .recv_timeout(&mut buffer, LONG)
            .expect("received");
        if (len, buffer[0]) == (Some(24), 3) {
            break;
        }
    }
    drop(connection);
    let output = server.wait_with_output().expect("the server ends");
    let expected = format!("served {} clients\n", breaches.len() + 40 + 1);
    assert_eq!(said(&output), expected, "{}", output.status);
}

#[test]
fn no_server_harms_a_client() {
    let discriminator = run_name("s");
    let node = Node::new().expect("a node");
    let _listener = node
        .listen(&listener_name(&discriminator))
        .expect("the name");
    let client = start(compiled("caller"), &[&discriminator, "5"]);
    let accept = || {
        let request = node.next_request(LONG).expect("a client");
        assert_eq!(request.data().len(), 52);
        request.accept().expect("accepted")
    };
    // No greeting, until the client gives up: 4 is VIP_TIMEOUT.
    ends(&mut accept(), "silence");
    // Something else, the end, and a greeting without sense: 5 is VIP_REJECT.
    let mut connection = accept();
    connection.send(&head(2, 0, 0, 0, 0)).expect("sent");
    ends(&mut connection, "credit before a greeting");
    drop(accept());
    let mut connection = accept();
    connection
        .send(&with(head(1, 0, 0, 0, 0), &[2, 0, 9, 9, 0, 0, 1, 0]))
        .expect("sent");
    ends(&mut connection, "a greeting without sense");
    // A refusal.
    node.next_request(LONG).expect("a client").reject("no");
    let output = client.wait_with_output().expect("the client ends");
    assert_eq!(said(&output), "4\n5\n5\n5\n5\n", "{}", output.status);
}
