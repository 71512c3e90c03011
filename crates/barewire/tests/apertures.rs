//! Apertures where a process has several nodes.

use std::thread;
use std::time::Duration;

use barewire::{ApertureConfig, Error, Fault, Node, Rights};

const SECOND: Option<Duration> = Some(Duration::from_secs(10));

#[test]
fn an_aperture_is_granted_on_connections_of_its_own_node() {
    let name = format!("apertures-{}", std::process::id());
    let (server, other) = (Node::new().unwrap(), Node::new().unwrap());
    let _listener = server.listen(&name).unwrap();
    let client = thread::spawn(move || {
        let node = Node::new().unwrap();
        let connection = node.connect(&name).unwrap();
        (node, connection)
    });
    let connection = server.next_request(SECOND).unwrap().accept().unwrap();
    let (_client, far) = client.join().unwrap();

    let config = ApertureConfig::new(64, Rights::Read);
    let foreign = other.export(config).unwrap();
    let error = connection.grant(&foreign, 1).unwrap_err();
    assert_eq!(error, Error::OtherNode);
    assert_eq!(error.fault(), Fault::Caller);

    let own = server.export(config).unwrap();
    connection.grant(&own, 2).unwrap();
    assert_eq!(far.import(SECOND).unwrap().0, 2);
    let twice = connection.grant(&own, 3).unwrap_err();
    assert_eq!(twice, Error::GrantedAlready);
}

#[test]
fn what_a_closed_connection_was_granted_can_be_granted_again() {
    let name = format!("apertures-again-{}", std::process::id());
    let (server, client) = (Node::new().unwrap(), Node::new().unwrap());
    let _listener = server.listen(&name).unwrap();
    let pair = || {
        thread::scope(|scope| {
            let connecting = scope.spawn(|| client.connect(&name).unwrap());
            let accepted = server.next_request(SECOND).unwrap().accept().unwrap();
            (accepted, connecting.join().unwrap())
        })
    };
    let ((first, first_far), (second, second_far)) = (pair(), pair());
    let aperture = server
        .export(ApertureConfig::new(64, Rights::Read))
        .unwrap();
    // The client closes it before it has heard of the grant, and the server does not know yet.
    drop(first_far);
    first.grant(&aperture, 1).unwrap();
    client.next_event(Duration::from_millis(100)).unwrap();
    server.next_event(Duration::from_millis(100)).unwrap();
    second.grant(&aperture, 2).unwrap();
    assert_eq!(second_far.import(SECOND).unwrap().0, 2);
}
