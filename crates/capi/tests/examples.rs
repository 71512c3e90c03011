//! Every example in C and C++, compiled without a warning and run; and C with Rust at the other end, both ways.

mod common;

use std::process::{Child, Command};
use std::time::Duration;

use barewire::Node;

use common::{compiled, run_well};

#[track_caller]
fn says(path: &str, wanted: &[&str]) {
    let said = run_well(&Command::new(compiled(path)));
    for wanted in wanted {
        assert!(said.contains(wanted), "{path}: no {wanted:?} in {said}");
    }
}

#[test]
fn echo_in_c() {
    says(
        "examples/c/echo.c",
        &[
            "it says \"hello\"",
            "    8 bytes there and back",
            " 1024 bytes",
        ],
    );
}

#[test]
fn many_clients_in_c() {
    says(
        "examples/c/many_clients.c",
        &["200 connections of 4 processes, 4000 requests, one thread"],
    );
}

#[test]
fn stream_file_in_c() {
    says(
        "examples/c/stream_file.c",
        &["sent 4000000 bytes; the receiver says: 4000000 bytes"],
    );
}

#[test]
fn shared_table_in_c() {
    says(
        "examples/c/shared_table.c",
        &["3 readers saw 300 changes of 20 rows to the end"],
    );
}

#[test]
fn remote_counter_in_c() {
    says(
        "examples/c/remote_counter.c",
        &["3 processes added 30000; the tripwire counted 30000"],
    );
}

#[test]
fn own_loop_in_c() {
    says("examples/c/own_loop.c", &["answered 500 requests"]);
}

#[test]
fn two_hosts_in_c() {
    says(
        "examples/c/two_hosts.c",
        &["over tcp, not encrypted", "200 messages came back"],
    );
}

#[test]
fn echo_in_cpp() {
    says(
        "examples/cpp/echo.cpp",
        &["it says \"hello\"", "a message in place came back"],
    );
}

#[test]
fn many_clients_in_cpp() {
    says(
        "examples/cpp/many_clients.cpp",
        &["200 connections of 4 processes, 4000 requests, one thread"],
    );
}

#[test]
fn stream_file_in_cpp() {
    says(
        "examples/cpp/stream_file.cpp",
        &["sent 4000000 bytes; the receiver says: 4000000 bytes"],
    );
}

#[test]
fn shared_table_in_cpp() {
    says(
        "examples/cpp/shared_table.cpp",
        &["the reader saw 100 changes, and put 7 bytes"],
    );
}

#[test]
fn own_loop_in_cpp() {
    says("examples/cpp/own_loop.cpp", &["answered 500 requests"]);
}

#[test]
fn two_hosts_in_cpp() {
    says("examples/cpp/two_hosts.cpp", &["\"from afar\", over tcp"]);
}

/// The program that scripts/bench-c.sh measures with: a server and a client end well.
#[test]
fn round_trip_in_c() {
    let program = compiled("examples/c/round_trip.c");
    let name = format!("capi-round-trip-{}", std::process::id());
    let server = Server(
        Command::new(&program)
            .args(["serve", &name])
            .spawn()
            .expect("started"),
    );
    let said = run_well(Command::new(&program).args(["call", &name, "8"]));
    assert!(
        said.trim().parse::<f64>().is_ok_and(|time| time > 0.0),
        "{said}"
    );
    drop(server);
}

/// A child process, ended when it is no longer needed.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_client_in_c_and_a_server_in_rust() {
    let name = format!("capi-rust-server-{}", std::process::id());
    let node = Node::new().expect("a node");
    let _listener = node.listen(&name).expect("the name");
    let serving = std::thread::spawn(move || {
        let mut connection = node
            .next_request(Duration::from_secs(60))
            .and_then(|request| request.accept())
            .expect("a client");
        let mut message = Vec::new();
        let mut answered = 0;
        while connection.receiver().recv_into(&mut message).is_ok() {
            connection.send(&message).expect("sent");
            answered += 1;
        }
        answered
    });
    let said = run_well(Command::new(compiled("examples/c/echo.c")).args(["call", &name]));
    assert!(said.contains("it says \"hello\""), "{said}");
    assert!(serving.join().expect("served") > 3);
}

#[test]
fn a_client_in_rust_and_a_server_in_c() {
    let name = format!("capi-c-server-{}", std::process::id());
    let program = compiled("examples/c/echo.c");
    let server = Server(
        Command::new(program)
            .args(["serve", &name])
            .spawn()
            .expect("started"),
    );
    let node = Node::new().expect("a node");
    let options = barewire::ConnectOptions {
        timeout: Duration::from_secs(60),
        ..barewire::ConnectOptions::default()
    };
    let mut connection = node.connect_with(&name, &options).expect("connected");
    assert_eq!(connection.peer().pid, server.0.id() as i32);
    let mut back = Vec::new();
    for length in [0, 1, 8, 64, 1000, 100_000] {
        let message: Vec<u8> = (0..length).map(|nth| nth as u8).collect();
        connection.send(&message).expect("sent");
        let timeout = Duration::from_secs(60);
        let received = connection.receiver().recv_into_timeout(&mut back, timeout);
        assert_eq!(received, Ok(Some(length)));
        assert!(back == message, "{length} bytes");
    }
}
