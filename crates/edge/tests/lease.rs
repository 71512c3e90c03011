//! A client whose bridge answers as it should not, or not at all.

use std::time::Duration;

use barewire::{Connection, Node, NodeConfig};
use barewire_edge::{
    Ask, Granted, Lease, LeaseError, LeaseOptions, PacketHeader, Protocol, Refusal, Takes,
};
use barewire_proto::edge::message::{Answer, MESSAGE_BYTES_MAX};

/// Longer than anything takes that works.
const LONG: Duration = Duration::from_secs(60);

/// What a client gets from a bridge that does this with its connection; and what it makes of the lease, if it gets one.
fn with_bridge<R>(
    of: &str,
    bridge: impl FnOnce(&mut Connection) + Send,
    work: impl FnOnce(Result<Lease, LeaseError>) -> R,
) -> R {
    let name = format!("edge-lease-{}-{of}", std::process::id());
    let node = Node::with_config(NodeConfig {
        ring_bytes: 256 << 10,
        message_bytes_max: MESSAGE_BYTES_MAX,
        ..NodeConfig::default()
    });
    let node = node.unwrap();
    let _listener = node.listen(&name).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = node.next_request(LONG).unwrap().accept().unwrap();
            let mut first = Vec::new();
            connection.recv_into(&mut first).unwrap();
            assert!(Ask::parse(&first).is_ok());
            bridge(&mut connection);
        });
        let client = Node::new().unwrap();
        let options = LeaseOptions {
            name,
            ..LeaseOptions::default()
        };
        work(Lease::new(&client, &ask(), &options))
    })
}

fn ask() -> Ask {
    Ask::connect(Protocol::Udp, "10.0.0.1:7".parse().unwrap())
}

fn granted() -> Granted {
    Granted {
        protocol: Protocol::Udp,
        takes: Takes::ALL,
        local: "10.0.0.9:40000".parse().unwrap(),
        mtu_bytes: 1500,
        packet_bytes_max: 9000,
    }
}

#[test]
fn packets_go_both_ways_until_the_bridge_ends() {
    let bridge = |connection: &mut Connection| {
        connection
            .send(Answer::Granted(granted()).to_bytes().as_ref())
            .unwrap();
        let mut message = Vec::new();
        connection.recv_into(&mut message).unwrap();
        connection.send(&message).unwrap();
    };
    with_bridge("both-ways", bridge, |lease| {
        let mut lease = lease.unwrap();
        assert_eq!(*lease.granted(), granted());
        let header = PacketHeader::default();
        lease.try_send(&header, &[7; 9000]).unwrap();
        assert_eq!(
            lease.recv_timeout(LONG).unwrap(),
            Some((header, &[7; 9000][..]))
        );
        let long = lease.try_send(&header, &[7; 9001]).unwrap_err();
        assert_eq!(
            long,
            LeaseError::TooLong {
                len_bytes: 9001,
                max_bytes: 9000
            }
        );
        let ended = lease.recv_timeout(LONG).unwrap_err();
        assert!(matches!(ended, LeaseError::Gone(_)), "{ended}");
    });
}

#[test]
fn a_refusal_says_why() {
    let bridge = |connection: &mut Connection| {
        let refused = Answer::Refused(Refusal::PortReserved(80));
        connection.send(refused.to_bytes().as_ref()).unwrap();
    };
    let error = with_bridge("refusal", bridge, Result::unwrap_err);
    assert_eq!(error, LeaseError::Refused(Refusal::PortReserved(80)));
    assert!(
        error
            .to_string()
            .contains("port 80 of the bridge is for root only")
    );
}

#[test]
fn what_is_no_bridge_is_told() {
    let garbage =
        |connection: &mut Connection| connection.send(b"HTTP/1.1 400 Bad Request").unwrap();
    let error = with_bridge("garbage", garbage, Result::unwrap_err);
    assert!(
        error.to_string().contains("does not answer as a bridge"),
        "{error}"
    );
    let error = with_bridge("silence", |_| {}, Result::unwrap_err);
    assert!(matches!(error, LeaseError::Gone(_)), "{error}");
    let broken = |connection: &mut Connection| {
        connection
            .send(Answer::Granted(granted()).to_bytes().as_ref())
            .unwrap();
        connection.send(&[9; 30]).unwrap();
    };
    let error = with_bridge("broken", broken, |lease| {
        lease.unwrap().recv_timeout(LONG).unwrap_err()
    });
    assert!(matches!(error, LeaseError::Broken(_)), "{error}");
}
