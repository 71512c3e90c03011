//! Two nodes of this process, for the tests of what is seen of nodes from outside.

use std::time::Duration;

use barewire::{Connection, Node};

const PATIENCE: Duration = Duration::from_secs(60);

/// Two nodes, each with an end of the same connection. The one that listens under `name` comes first.
pub fn pair(name: &str) -> ((Node, Connection), (Node, Connection)) {
    let server = Node::new().expect("a node");
    let _listener = server.listen(name).expect("the name is free");
    let asked = name.to_owned();
    let client = std::thread::spawn(move || {
        let node = Node::new().expect("a node");
        let connection = node.connect(&asked).expect("somebody listens");
        (node, connection)
    });
    let request = server.next_request(Some(PATIENCE)).expect("it comes");
    let connection = request.accept().expect("it stays");
    ((server, connection), client.join().expect("no panic"))
}
