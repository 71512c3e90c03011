//! What goes on beside an owner that does not poll its node: connecting, and the thread that
//! does it, which is there only while it is needed.

#![forbid(unsafe_code)]

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use barewire::{ApertureConfig, ConnectOptions, Event, Memory, Node, Rights};
use common::*;

#[test]
fn child_entry() {
    match role().as_deref() {
        Some("importer") => importer(),
        Some(other) => panic!("no role {other}"),
        None => return,
    }
    std::process::exit(0);
}

#[test]
fn a_connection_is_begun_without_a_poll() {
    let _dog = watchdog("begun", Duration::from_secs(60));
    let (server, client) = (Node::new().unwrap(), Node::new().unwrap());
    // Two names of one node, which turn out to be reached by one link; and the first again,
    // by the link that stands then.
    let names = [name("begin-a"), name("begin-b")];
    let _listeners = names.clone().map(|n| server.listen(&n).unwrap());
    let mut accepted = Vec::new();
    let mut numbers = BTreeSet::new();
    for name in [&names[0], &names[1], &names[0]] {
        let options = ConnectOptions::default();
        let number = client.start_connect(name, &options).unwrap();
        assert!(numbers.insert(number), "{number} twice");
        // The client calls nothing, and the server is asked.
        let request = server.next_request(SOON).unwrap();
        assert_eq!(request.name(), name);
        accepted.push(request.accept().unwrap());
    }
    // The answers come from a poll, as they always did.
    for connection in &mut accepted {
        connection.send(b"hello").unwrap();
    }
    while !numbers.is_empty() {
        match client.next_event(SOON).unwrap() {
            Some(Event::Connected(mut connection)) => {
                assert!(numbers.remove(&connection.id()));
                assert_eq!(connection.recv(&mut [0; 16]).unwrap(), 5);
            }
            Some(_) => {}
            None => panic!("no answer"),
        }
    }
}

#[test]
fn several_connections_are_begun_at_once_without_a_poll() {
    let _dog = watchdog("at once", Duration::from_secs(60));
    let (server, client) = (Node::new().unwrap(), Node::new().unwrap());
    let names: Vec<String> = (0..8).map(|i| name(&format!("at-once-{i}"))).collect();
    let _listeners: Vec<_> = names.iter().map(|n| server.listen(n).unwrap()).collect();
    for name in &names {
        let options = ConnectOptions::default();
        client.start_connect(name, &options).unwrap();
    }
    let mut asked = BTreeSet::new();
    for _ in &names {
        let request = server.next_request(SOON).unwrap();
        asked.insert(request.name().to_owned());
    }
    assert_eq!(asked, names.into_iter().collect());
}

/// How many threads of this process watch for nodes that are not polled.
fn watchers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("comm"));
    // One that has ended meanwhile has no name.
    let names = tasks.flatten().flat_map(name);
    names.filter(|n| n.trim_end() == "barewire-watch").count()
}

/// Imports from two nodes, in a process of its own: says how many threads watch.
fn importer() {
    let _dog = watchdog("importer", Duration::from_secs(60));
    let nodes = [Node::new().unwrap(), Node::new().unwrap()];
    let connect = |node: &Node| node.connect(&arg("name")).unwrap();
    let connections = [connect(&nodes[0]), connect(&nodes[1])];
    say(&watchers().to_string());
    for _ in 0..2 {
        let ask = |c: &barewire::Connection| assert!(c.send_out_of_band(b"grant").unwrap());
        let import = |c: &barewire::Connection| c.import(SOON).unwrap().1;
        connections.iter().for_each(ask);
        let imported = connections.each_ref().map(import);
        imported
            .iter()
            .for_each(|far| assert_eq!(far.load(0), Ok(7)));
        // It gives itself its name, a little after it was started.
        eventually("a thread watches", || watchers() > 0);
        say(&watchers().to_string());
        drop(imported);
        eventually("the thread ends", || watchers() == 0);
    }
    say("none");
}

#[test]
fn one_thread_watches_for_all_nodes_while_they_import() {
    let _dog = watchdog("one thread", Duration::from_secs(60));
    let name = name("one-thread");
    let node = Node::new().unwrap();
    let _listener = node.listen(&name).unwrap();
    let child = spawn("importer", &[("name", &name)]);
    let connections = [0, 1].map(|_| node.next_request(SOON).unwrap().accept().unwrap());
    assert_eq!(
        child.hear(),
        "0",
        "a node without imports pays for no thread"
    );
    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut asked = 0;
        while asked < connections.len() {
            let event = node.next_event(SOON).unwrap().expect("it asks");
            if let Event::OutOfBand { connection, .. } = event {
                let config = ApertureConfig::new(64, Rights::Read);
                let aperture = node.export(config).unwrap();
                aperture.store(0, 7).unwrap();
                let of = connections.iter().find(|c| c.id() == connection);
                of.unwrap().grant(&aperture, 0).unwrap();
                kept.push(aperture);
                asked += 1;
            }
        }
        assert_eq!(child.hear(), "1");
    }
    assert_eq!(child.hear(), "none");
}
