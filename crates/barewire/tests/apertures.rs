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
