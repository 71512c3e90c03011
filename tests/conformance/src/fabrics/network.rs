//! Two nodes through the crate `barewire`: over shared memory, or over TCP as between hosts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use barewire::{
    Aperture, ApertureConfig, Connection, HostsConfig, ListenOptions, Node, NodeConfig,
    RemoteAperture, Rights, Security, Spin, Stream,
};
use barewire_fabric::aperture::{EventSource, Notice};

use crate::fabric::{ApertureEnd, ApertureEnds, Apertures, Connections, FabricUnderTest};

/// The network, with nodes that spin before they sleep (`SPINS`) or sleep at once, and that take each other to be on
/// different hosts (`HOSTS`) or not.
pub struct Network<const SPINS: bool, const HOSTS: bool>;

impl<const SPINS: bool, const HOSTS: bool> FabricUnderTest for Network<SPINS, HOSTS> {
    const NAME: &'static str = match (HOSTS, SPINS) {
        (false, true) => "barewire, spinning",
        (false, false) => "barewire, sleeping",
        (true, true) => "barewire between hosts, spinning",
        (true, false) => "barewire between hosts, sleeping",
    };
    const SLOWNESS: u64 = if HOSTS { 10 } else { 1 };
}

/// A node, and the connection over which the aperture was granted, if any.
pub struct Queue {
    node: Node,
    _kept: Option<Connection>,
}

impl EventSource for Queue {
    type Error = barewire::Error;
    fn poll_notices(&self, notices: &mut Vec<Notice>, max: usize) -> Result<usize, Self::Error> {
        self.node.poll_notices(notices, max)
    }
    fn wait_notices(
        &self,
        notices: &mut Vec<Notice>,
        max: usize,
        timeout: Duration,
    ) -> Result<usize, Self::Error> {
        self.node.wait_notices(notices, max, timeout)
    }
}

fn pair(spins: bool, hosts: bool, ring_bytes: usize) -> [(Connection, Node); 2] {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only the number matters.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("conformance-{}-{number}", std::process::id());
    let config = NodeConfig {
        ring_bytes,
        spin: if spins {
            Spin::For(Duration::from_micros(20))
        } else {
            Spin::Never
        },
        hosts: HostsConfig {
            security: Security::Insecure,
            shortcut: false,
            ..HostsConfig::default()
        },
        ..NodeConfig::default()
    };
    let server = Node::with_config(config.clone()).expect("a node");
    let listener = server
        .listen_with(&name, ListenOptions::default())
        .expect("a name of our own");
    let port = hosts.then(|| server.listen_on("127.0.0.1:0").expect("a port"));
    let name = match &port {
        Some(port) => format!("{}/{name}", port.address()),
        None => name,
    };
    let client = thread::spawn(move || {
        let node = Node::with_config(config).expect("a node");
        let connection = node.connect(&name).expect("a connection");
        (connection, node)
    });
    let request = server.next_request(Some(Duration::from_secs(20)));
    let connection = request.and_then(|r| r.accept()).expect("a request");
    drop(listener);
    [(connection, server), client.join().expect("the client")]
}

impl<const SPINS: bool, const HOSTS: bool> Apertures for Network<SPINS, HOSTS> {
    type Owned = Aperture;
    type Remote = RemoteAperture;
    type Queue = Queue;

    fn aperture(len_bytes: usize, rights: Rights) -> ApertureEnds<Self> {
        let [(to_far, near), (to_near, far)] = pair(SPINS, HOSTS, 4096);
        let owned = near.export(ApertureConfig::new(len_bytes, rights));
        let owned = owned.expect("an aperture");
        to_far.grant(&owned, 0).expect("a grant");
        let imported = to_near.import(Some(Duration::from_secs(20)));
        let (_, remote) = imported.expect("the granted aperture");
        let queue = |node: Node, kept| Queue {
            node,
            _kept: Some(kept),
        };
        let ends = (
            ApertureEnd {
                memory: owned,
                queue: queue(near, to_far),
            },
            ApertureEnd {
                memory: remote,
                queue: queue(far, to_near),
            },
        );
        // A new connection may be told as ready.
        for queue in [&ends.0.queue, &ends.1.queue] {
            while queue.poll_notices(&mut Vec::new(), 16).expect("events") > 0 {}
        }
        ends
    }

    fn revoke(owned: &Aperture) {
        owned.revoke().expect("memory for the private copy");
    }
}

impl<const SPINS: bool, const HOSTS: bool> Connections for Network<SPINS, HOSTS> {
    type End = Connection;
    type Stream = Stream;
    type Queue = Queue;

    fn connection(ring_bytes: usize) -> [(Connection, Queue); 2] {
        pair(SPINS, HOSTS, ring_bytes)
            .map(|(connection, node)| (connection, Queue { node, _kept: None }))
    }

    fn stream(ring_bytes: usize) -> [(Stream, Queue); 2] {
        Self::connection(ring_bytes).map(|(connection, queue)| (connection.into_stream(), queue))
    }
}
