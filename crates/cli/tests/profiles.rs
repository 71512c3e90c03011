//! What the profiles of `barewire run` upgrade.

#![cfg(target_os = "linux")]

use common::barewire;

mod common;

/// Both ends of a connection: `count` times `size` bytes go one way, and come back if there are answers.
const PROGRAM: &str = "
import socket, sys, threading
size, count, answers = map(int, sys.argv[1:])
listener = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(listener.getsockname())
server = listener.accept()[0]
def take(socket):
    left = size
    while left:
        left -= len(socket.recv(left))
def serve():
    for _ in range(count):
        take(server)
        if answers:
            server.sendall(b'x' * size)
thread = threading.Thread(target=serve)
thread.start()
for _ in range(count):
    client.sendall(b'x' * size)
    if answers:
        take(client)
thread.join()
";

/// What `--why` says of the client's end under a profile.
fn why(profile: &str, arguments: [&str; 3]) -> String {
    let mut command = barewire(&[
        "run",
        "--why",
        "--profile",
        profile,
        "python3",
        "-c",
        PROGRAM,
    ]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn quiet_upgrades_streams_of_large_calls_only() {
    let left = "kernel, no stream of large calls: the profile leaves it to the kernel";
    for (arguments, expected) in [
        (["65536", "2000", "0"], ": accelerated, ring "),
        (["1024", "20000", "0"], left),
        (["64", "1000", "1"], left),
        (["65536", "1000", "1"], left),
    ] {
        let said = why("quiet", arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
        let other = [left, ": accelerated, ring "]
            .into_iter()
            .find(|text| *text != expected);
        assert!(!said.contains(other.unwrap()), "{arguments:?}: {said}");
    }
    let said = why("balanced", ["64", "1000", "1"]);
    assert!(said.contains(": accelerated, ring "), "{said}");
}
