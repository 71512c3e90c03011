//! Links between hosts, over TCP on the loopback interface: two nodes that are told to be strangers to each other's host.

use std::thread;
use std::time::Duration;

use barewire::{Connection, Error, HostsConfig, Node, NodeConfig, Security};

fn config() -> NodeConfig {
    NodeConfig {
        hosts: HostsConfig {
            security: Security::Insecure,
            shortcut: false,
            ..HostsConfig::default()
        },
        ..NodeConfig::default()
    }
}

fn node() -> Node {
    Node::with_config(config()).unwrap()
}

/// Two ends of a connection over TCP, with their nodes: the one that listens first.
fn pair_with(server: Node, client: Node) -> [(Node, Connection); 2] {
    let listener = server
        .listen(&format!("hosts-{:?}", thread::current().id()))
        .unwrap();
    let port = server.listen_on("127.0.0.1:0").unwrap();
    let name = format!("{}/{}", port.address(), listener.name());
    let opening = thread::spawn(move || {
        let connection = client.connect(&name).unwrap();
        (client, connection)
    });
    let accepted = server
        .next_request(Duration::from_secs(10))
        .unwrap()
        .accept()
        .unwrap();
    let opened = opening.join().unwrap();
    [(server, accepted), opened]
}

fn pair() -> [(Node, Connection); 2] {
    pair_with(node(), node())
}

#[test]
fn messages_go_both_ways() {
    let [(_server, mut one), (_client, mut other)] = pair();
    let mut buffer = vec![0; 1 << 20];
    for len in [0, 1, 8, 56, 57, 1000, 4096, 100_000, 1 << 20] {
        let message: Vec<u8> = (0..len).map(|i: usize| (i % 251) as u8).collect();
        let sent = message.clone();
        let sending = thread::spawn(move || {
            other.send(&sent).unwrap();
            other
        });
        let received = one.recv(&mut buffer).unwrap();
        assert!(buffer[..received] == message, "{len} bytes");
        other = sending.join().unwrap();
        one.send(&len.to_le_bytes()).unwrap();
        assert_eq!(other.recv(&mut buffer).unwrap(), 8);
        assert_eq!(buffer[..8], len.to_le_bytes());
    }
    drop(other);
    assert_eq!(one.recv(&mut buffer), Err(Error::Finished));
}
