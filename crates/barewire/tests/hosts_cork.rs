//! What a thread sends to another host while it has a cork goes together, and is held back from nobody for ever. Over TCP on the
//! loopback interface: what is sent has arrived when the call returns.

#![forbid(unsafe_code)]

mod common;

use std::thread;

use barewire::{Connection, Cork, Event, Node};
use common::*;

/// Two nodes that take each other for strangers, and both ends of three connections.
fn connected(of: &str) -> ([Node; 2], Vec<[Connection; 2]>) {
    let node = || Node::with_config(patient()).unwrap();
    let (server, client) = (node(), node());
    let listener = server.listen(&name(of)).unwrap();
    let port = server.listen_on("127.0.0.1:0").unwrap();
    let address = format!("{}/{}", port.address(), listener.name());
    let ends = (0..3).map(|_| {
        client.start_connect(&address, &Default::default()).unwrap();
        let accepted = server.next_request(SOON).unwrap().accept().unwrap();
        let Some(Event::Connected(opened)) = client.next_event(SOON).unwrap() else {
            panic!("not connected");
        };
        [*opened, accepted]
    });
    let ends = ends.collect();
    ([server, client], ends)
}

#[test]
fn what_is_sent_goes_when_the_cork_is_dropped() {
    let _dog = watchdog("cork", LONG);
    let (_nodes, mut ends) = connected("cork");
    let mut buffer = [0; 8];
    let mut rounds_held = 0;
    for round in 0..20_u64 {
        let cork = Cork::new();
        for [from, _] in &mut ends {
            drop(Cork::new());
            from.send(&round.to_le_bytes()).unwrap();
        }
        // The nodes' own threads may send it before; not each time.
        let mut came = |[_, to]: &mut [Connection; 2]| to.try_recv(&mut buffer).unwrap().is_some();
        let early: Vec<bool> = ends.iter_mut().map(&mut came).collect();
        rounds_held += usize::from(!early.contains(&true));
        drop(cork);
        for ([_, to], early) in ends.iter_mut().zip(early) {
            if !early {
                assert_eq!(to.recv_timeout(&mut buffer, SOON), Ok(Some(8)));
            }
            assert_eq!(to.try_recv(&mut buffer), Ok(None), "once");
        }
    }
    assert!(rounds_held > 0, "each round went at once");
}

#[test]
fn who_waits_under_a_cork_is_answered() {
    let _dog = watchdog("cork, waiting", LONG);
    let (_nodes, mut ends) = connected("cork-waits");
    let [mut one, mut other] = ends.pop().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; 1000];
            for _ in 0..1300 {
                let len = other.recv(&mut buffer).unwrap();
                other.send(&buffer[..len]).unwrap();
            }
        });
        let _cork = Cork::new();
        let mut buffer = vec![0; 1000];
        for _ in 0..1000 {
            one.send(&[1; 100]).unwrap();
            assert_eq!(one.recv(&mut buffer), Ok(100));
        }
        // More than the ring of 256 KiB has room for: who waits for room sends what there is.
        for _ in 0..300 {
            one.send(&[2; 1000]).unwrap();
        }
        for _ in 0..300 {
            assert_eq!(one.recv(&mut buffer), Ok(1000));
        }
    });
}
