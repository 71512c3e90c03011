//! Two nodes through the crate `barewire`: over shared memory, or as between hosts.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use barewire::{
    Aperture, ApertureConfig, Connection, HostsConfig, ListenOptions, Node, NodeConfig,
    RemoteAperture, Rights, Security, Spin, Stream, Transport,
};
use barewire_carrier::tls::{GenerateOptions, Identity, generate};
use barewire_fabric::aperture::{EventSource, Notice};

use crate::fabric::{ApertureEnd, ApertureEnds, Apertures, Connections, FabricUnderTest};

/// What lies between two nodes: shared memory,
pub const MEMORY: u8 = 0;
/// or a link as between hosts, over TCP,
pub const TCP: u8 = 1;
/// over TLS between hosts that share a secret,
pub const TLS: u8 = 2;
/// or over libfabric with its provider `tcp`.
pub const LIBFABRIC: u8 = 3;

/// The network, with nodes that spin before they sleep (`SPINS`) or sleep at once, and what lies between them.
pub struct Network<const SPINS: bool, const BETWEEN: u8>;

impl<const SPINS: bool, const BETWEEN: u8> FabricUnderTest for Network<SPINS, BETWEEN> {
    const NAME: &'static str = match (BETWEEN, SPINS) {
        (MEMORY, true) => "barewire, spinning",
        (MEMORY, false) => "barewire, sleeping",
        (TCP, true) => "barewire between hosts, spinning",
        (TCP, false) => "barewire between hosts, sleeping",
        (TLS, _) => "barewire between hosts, over TLS",
        _ => "barewire between hosts, over libfabric",
    };
    const SLOWNESS: u64 = if BETWEEN == MEMORY { 1 } else { 10 };
}

/// A folder with a secret, for as long as the tests run: beside the tests' program, where the next run finds it again.
fn secret() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let program = std::env::current_exe().expect("where the tests are");
        let folder = program.with_file_name("conformance-secret");
        if Identity::load(&folder).is_err() {
            let options = GenerateOptions {
                is_secret: true,
                name: "conformance".to_owned(),
                replace: true,
            };
            let own = program.with_file_name(format!("conformance-secret-{}", std::process::id()));
            generate(&own, &options).expect("a secret");
            // Another run may have been faster.
            if std::fs::rename(&own, &folder).is_err() {
                std::fs::remove_dir_all(&own).expect("our folder");
            }
        }
        folder
    };
    FOLDER.get_or_init(make).clone()
}

fn hosts(between: u8) -> HostsConfig {
    HostsConfig {
        security: match between {
            TLS => Security::Keys {
                folder: Some(secret()),
            },
            _ => Security::Insecure,
        },
        transport: match between {
            LIBFABRIC => Transport::Libfabric {
                provider: Some("tcp".to_owned()),
            },
            _ => Transport::Stream,
        },
        shortcut: false,
        ..HostsConfig::default()
    }
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

fn pair(spins: bool, between: u8, ring_bytes: usize) -> [(Connection, Node); 2] {
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
        hosts: hosts(between),
        ..NodeConfig::default()
    };
    let server = Node::with_config(config.clone()).expect("a node");
    let listener = server
        .listen_with(&name, ListenOptions::default())
        .expect("a name of our own");
    let port = (between != MEMORY).then(|| server.listen_on("127.0.0.1:0").expect("a port"));
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

impl<const SPINS: bool, const BETWEEN: u8> Apertures for Network<SPINS, BETWEEN> {
    type Owned = Aperture;
    type Remote = RemoteAperture;
    type Queue = Queue;

    fn aperture(len_bytes: usize, rights: Rights) -> ApertureEnds<Self> {
        let [(to_far, near), (to_near, far)] = pair(SPINS, BETWEEN, 4096);
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

impl<const SPINS: bool, const BETWEEN: u8> Connections for Network<SPINS, BETWEEN> {
    type End = Connection;
    type Stream = Stream;
    type Queue = Queue;

    fn connection(ring_bytes: usize) -> [(Connection, Queue); 2] {
        pair(SPINS, BETWEEN, ring_bytes)
            .map(|(connection, node)| (connection, Queue { node, _kept: None }))
    }

    fn stream(ring_bytes: usize) -> [(Stream, Queue); 2] {
        Self::connection(ring_bytes).map(|(connection, queue)| (connection.into_stream(), queue))
    }
}
