//! What handles say of themselves: `Debug` of each is a line that names the connection or
//! the memory, also when others hold it or the peer has gone.

#![forbid(unsafe_code)]

mod common;

use std::fmt::Debug;
use std::thread;

use barewire::{Action, ApertureConfig, Connection, Mode, Node, Rights};
use common::*;

fn connect(server: &Node, client: &Node, name: &str) -> (Connection, Connection) {
    thread::scope(|scope| {
        let opening = scope.spawn(|| client.connect(name).unwrap());
        let accepted = server.next_request(SOON).unwrap().accept().unwrap();
        (accepted, opening.join().unwrap())
    })
}

#[track_caller]
fn is_a_line(handle: &dyn Debug, parts: &[&str]) {
    let said = format!("{handle:?}");
    println!("{said}");
    assert!(!said.contains('\n') && said.len() <= 200, "{said}");
    for part in parts {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
}

#[test]
fn debug_of_every_handle_is_a_line() {
    let name = name("debug");
    let (server, client) = (Node::new().unwrap(), Node::new().unwrap());
    let listener = server.listen(&name).unwrap();
    is_a_line(&server, &["Node {"]);
    is_a_line(&listener, &["Listener {", &name]);
    thread::scope(|scope| {
        let refused = scope.spawn(|| client.connect(&name));
        let request = server.next_request(SOON).unwrap();
        is_a_line(&request, &["Request {", &name]);
        drop(request);
        assert!(refused.join().unwrap().is_err());
    });

    let (mut a, b) = connect(&server, &client, &name);
    let process = format!("process {} of user", std::process::id());
    let id = format!("connection: {}", a.id());
    is_a_line(&a, &["Connection {", &id, &name, &process]);
    is_a_line(a.sender(), &["Sender {", &id, &name, &process]);
    is_a_line(a.receiver(), &["Receiver {", &id, &name, &process]);
    let room = a.sender().reserve(100).unwrap().unwrap();
    is_a_line(&room, &["Reservation {", &id, "len_bytes: 100"]);

    let (sender, mut receiver) = b.split();
    a.send(b"hello").unwrap();
    let message = receiver.recv_message().unwrap();
    is_a_line(&message, &["Message {", "len_bytes: 5"]);
    message.release();
    let shared = sender.share();
    is_a_line(&shared, &["SharedSender {", &name]);

    let aperture = server
        .export(ApertureConfig::new(100, Rights::Read))
        .unwrap();
    is_a_line(&aperture, &["Aperture", "len_bytes: 100"]);
    let trap = aperture
        .tripwire(0, 8, Mode::OneShot, Action::Count)
        .unwrap();
    is_a_line(&trap, &["Tripwire {", "OneShot", "armed: true"]);
    let (c, d) = connect(&server, &client, &name);
    c.grant(&aperture, 1).unwrap();
    let (_, remote) = d.import(SOON).unwrap();
    is_a_line(&remote, &["RemoteAperture", "len_bytes: 100"]);

    let mut stream = c.into_stream();
    is_a_line(&stream, &["Stream {", &name, &process]);
    is_a_line(stream.reader(), &["StreamReader {", &name]);
    is_a_line(stream.writer(), &["StreamWriter {", &name]);

    drop((shared, receiver, d, remote, client));
    eventually("it is seen to be down", || {
        let _ = server.next_event(std::time::Duration::ZERO);
        format!("{a:?}").contains(", down }")
    });
}
