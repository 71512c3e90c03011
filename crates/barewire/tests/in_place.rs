//! Messages built and read in place, the limits that are told of it, and the one shape that
//! all calls which receive a message have.

#![forbid(unsafe_code)]

mod common;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use barewire::{Connection, Error, Node, NodeConfig};
use common::*;

/// Two ends of a connection, each on a node of its own.
fn pair_with(receiver: NodeConfig) -> ((Node, Connection), (Node, Connection)) {
    let name = name("in-place");
    let (server, client) = (Node::new().unwrap(), Node::with_config(receiver).unwrap());
    let _listener = server.listen(&name).unwrap();
    let opening = thread::spawn(move || {
        let connection = client.connect(&name).unwrap();
        (client, connection)
    });
    let accepted = server.next_request(SOON).unwrap().accept().unwrap();
    ((server, accepted), opening.join().unwrap())
}

fn pair() -> ((Node, Connection), (Node, Connection)) {
    pair_with(NodeConfig::default())
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + len) as u8).collect()
}

#[test]
fn the_limits_that_are_told_are_those_that_hold() {
    for (ring_bytes, message_bytes_max) in [(4096, 1 << 24), (65536, 1 << 24), (4096, 500)] {
        let config = NodeConfig {
            ring_bytes,
            message_bytes_max,
            ..NodeConfig::default()
        };
        let ((_a, mut to_b), (_b, mut to_a)) = pair_with(config);
        let sender = to_b.sender();
        let reserve_max = sender.reserve_bytes_max();
        assert_eq!(reserve_max, (ring_bytes / 4 - 64).min(message_bytes_max));
        let room = sender.reserve(reserve_max).unwrap().unwrap();
        assert_eq!(room.len_bytes(), reserve_max); // and is given up
        for error in [
            sender.reserve(reserve_max + 1).unwrap_err(),
            sender.reserve_timeout(reserve_max + 1, None).unwrap_err(),
        ] {
            match error {
                Error::OutOfLimits { max, .. } => assert_eq!(max, reserve_max as u64),
                Error::TooLong { max_bytes, .. } => assert_eq!(max_bytes, reserve_max as u64),
                other => panic!("{other}"),
            }
        }
        let send_max = sender.try_send_bytes_max();
        assert_eq!(send_max, (ring_bytes / 2 - 128).min(message_bytes_max));
        assert_eq!(sender.try_send(&bytes(send_max)), Ok(true));
        assert!(sender.try_send(&bytes(send_max + 1)).is_err());
        let mut got = Vec::new();
        assert_eq!(to_a.receiver().recv_into(&mut got), Ok(send_max));
        assert_eq!(got, bytes(send_max));
    }
}

#[test]
fn waiting_for_room_ends_with_room_or_with_the_time_or_with_the_peer() {
    let _dog = watchdog("room", Duration::from_secs(60));
    let ((_a, mut to_b), (b, mut to_a)) = pair();
    let mut sent = 0_u64;
    while let Some(mut room) = to_b.sender().reserve(200).unwrap() {
        room.write_all(&sent.to_le_bytes()).unwrap();
        room.commit_written();
        sent += 1;
    }
    let began = Instant::now();
    let short = Duration::from_millis(20);
    assert!(to_b.sender().reserve_timeout(200, short).unwrap().is_none());
    assert!(began.elapsed() >= short);

    let sender = WatchedThread::current();
    let consumer = thread::spawn(move || {
        sender.wait_until_asleep();
        for i in 0..sent + 1000 {
            let message = to_a.receiver().recv_message().unwrap();
            assert_eq!(message, i.to_le_bytes());
            message.release();
        }
        (b, to_a)
    });
    for i in sent..sent + 1000 {
        let room = to_b.sender().reserve_timeout(200, SOON).unwrap();
        let mut room = room.expect("room in time");
        room.write_at(0, &i.to_le_bytes());
        room.commit_written();
    }
    let (b, to_a) = consumer.join().unwrap();

    while to_b.sender().reserve(200).unwrap().is_some() && to_b.try_send(&bytes(200)).unwrap() {}
    let sender = WatchedThread::current();
    let leaving = thread::spawn(move || {
        sender.wait_until_asleep();
        drop((to_a, b));
    });
    let error = to_b.sender().reserve_timeout(200, SOON).unwrap_err();
    assert!(
        matches!(error, Error::PeerDeaf | Error::PeerGone),
        "{error}"
    );
    leaving.join().unwrap();
}

#[test]
fn a_reservation_is_written_like_a_file_and_no_further_than_its_end() {
    let ((_a, mut to_b), (_b, mut to_a)) = pair();
    let mut room = to_b.sender().reserve(10).unwrap().unwrap();
    write!(room, "{}-{}", 12, 345).unwrap();
    assert_eq!((room.written_bytes(), room.len_bytes()), (6, 10));
    let full = room.write_all(b"too much").unwrap_err();
    assert_eq!(full.kind(), ErrorKind::WriteZero);
    // As much as there was room for is there, as with any writer.
    room.commit_written();
    let message = to_a.receiver().recv_message().unwrap();
    assert_eq!(message, b"12-345too ");
    message.release();

    let mut room = to_b.sender().reserve(10).unwrap().unwrap();
    room.write_at(4, b"late");
    room.write_at(0, b"and ");
    assert_eq!(room.written_bytes(), 8);
    room.write_all(b"r!").unwrap();
    room.commit_written();
    let message = to_a.receiver().recv_message().unwrap();
    assert_eq!(message, b"and later!");
    message.release();

    // Given up: nothing was sent.
    let mut given_up = to_b.sender().reserve(10).unwrap().unwrap();
    given_up.write_all(b"never").unwrap();
    assert!(to_a.receiver().try_recv_message().unwrap().is_none());
}

#[test]
fn what_is_reserved_and_what_is_read_have_addresses_that_stay() {
    let ((_a, mut to_b), (_b, mut to_a)) = pair();
    for len in [0, 1, 60, 900, 900, 900] {
        // Given up again.
        let base = to_b.sender().reserve(len).unwrap().unwrap().base();
        let mut room = to_b.sender().reserve(len).unwrap().unwrap();
        assert_eq!(room.base(), base, "{len}");
        room.write_at(0, &bytes(len));
        room.commit(len);
        // Not released: it is received again.
        let base = to_a.receiver().recv_message().unwrap().base();
        assert_eq!(base.is_some(), len > 0, "{len}");
        let message = to_a.receiver().recv_message().unwrap();
        assert_eq!(message.base(), base, "{len}");
        assert_eq!(message, bytes(len)[..]);
        message.release();
    }
    // One that was put together from frames.
    let long = bytes(100_000);
    let sending = thread::spawn(move || {
        to_b.send(&long).unwrap();
        to_b
    });
    let message = to_a.receiver().recv_message().unwrap();
    assert!(message.base().is_some() && message.len_bytes() == 100_000);
    message.release();
    let mut to_b = sending.join().unwrap();
    // One in the duplex line has no address to give away.
    to_a.send(b"short").unwrap();
    let message = to_b.receiver().recv_message().unwrap();
    assert_eq!((message.base(), message.len_bytes()), (None, 5));
}

#[test]
fn a_message_is_written_to_a_socket_from_where_it_lies() {
    let ((_a, mut to_b), (_b, mut to_a)) = pair();
    // Empty, in the duplex line or in one line, in the ring, put together from frames.
    for len in [0, 5, 60, 900, 9000, 40_000] {
        for at in [0, len / 3, len] {
            let sent = bytes(len);
            let sending = thread::spawn(move || {
                to_b.send(&sent).unwrap();
                to_b
            });
            let message = to_a.receiver().recv_message().unwrap();
            let (mut reader, writer) = UnixStream::pair().unwrap();
            let written = message.write_to(&writer, b"before", at).unwrap();
            assert_eq!(written, 6 + len - at);
            drop(writer);
            let mut read = Vec::new();
            reader.read_to_end(&mut read).unwrap();
            assert_eq!(
                read,
                [b"before", &bytes(len)[at..]].concat(),
                "{len} at {at}"
            );
            let only_read = File::open("/dev/null").unwrap();
            let refused = message.write_to(&only_read, b"x", 0).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(9), "{refused}");
            message.release();
            to_b = sending.join().unwrap();
        }
    }
}

#[test]
fn a_closure_fills_a_message_or_nothing_is_sent() {
    let ((_a, mut to_b), (_b, mut to_a)) = pair();
    let failed: Result<(), std::io::Error> = to_b.sender().send_with(8, |room| {
        room.write_all(b"half")?;
        Err(std::io::Error::other("no more"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "no more");
    let longer = to_b
        .sender()
        .send_with(8, |room| room.write_all(b"longer than that"));
    assert_eq!(longer.unwrap_err().kind(), ErrorKind::WriteZero);
    assert!(to_a.receiver().try_recv_message().unwrap().is_none());

    let sent: barewire::Result<()> = to_b.sender().send_with(8, |room| {
        room.write_at(0, b"whole");
        Ok(())
    });
    sent.unwrap();
    // And with nothing written, an empty message.
    to_b.sender().send_with(8, |_| Ok::<_, Error>(())).unwrap();
    assert_eq!(to_a.receiver().recv_message().unwrap().into_vec(), b"whole");
    assert_eq!(to_a.receiver().recv_message().unwrap().into_vec(), b"");

    let too_long = to_b.sender().send_with(1 << 20, |_| Ok::<_, Error>(()));
    let error = too_long.unwrap_err();
    assert!(error.to_string().contains("reserve_bytes_max"), "{error}");
    to_b.finish();
    let closed = to_b.sender().send_with(8, |_| Ok::<_, Error>(()));
    assert_eq!(closed, Err(Error::Closed));
}

#[test]
fn a_message_in_place_is_read_compared_and_taken() {
    let ((_a, mut to_b), (_b, mut to_a)) = pair();
    // The last ones come in pieces and are put together.
    for len in [0, 1, 63, 255, 256, 257, 700, 1500, 5000, 100_000] {
        let sent = bytes(len);
        let sending = {
            let sent = sent.clone();
            thread::spawn(move || to_b.send(&sent).map(|()| to_b))
        };
        let mut message = to_a.receiver().recv_message().unwrap();
        assert_eq!(message.len_bytes(), len);
        let mut got = Vec::new();
        assert_eq!(message.read_to_end(&mut got).unwrap(), len);
        assert_eq!(Read::read(&mut message, &mut [0; 4]).unwrap(), 0);
        assert_eq!(got, sent);
        // It was not released: it is still the next.
        let mut message = to_a.receiver().recv_message().unwrap();
        let mut first = vec![0; len.min(100)];
        message.read_exact(&mut first).unwrap();
        assert_eq!(first, sent[..len.min(100)]);

        assert_eq!(message, sent);
        assert_eq!(message, sent[..]);
        assert_eq!(message, &sent[..]);
        assert!(message != [&sent[..], &[0]].concat());
        for at in (0..len).step_by(len / 20 + 1).chain(len.checked_sub(1)) {
            let mut other = sent.clone();
            other[at] ^= 1;
            assert!(message != other, "byte {at} of {len}");
            assert!(message != sent[..at], "{at} bytes of {len}");
        }
        assert_eq!(message.into_vec(), sent);
        assert!(to_a.receiver().try_recv_message().unwrap().is_none());
        to_b = sending.join().unwrap().unwrap();
    }
}

/// Every way to receive: nothing yet, a message, the end.
#[test]
fn all_that_receive_have_one_shape() {
    let short = Duration::from_millis(5);
    let ((_a, mut to_b), (_b, mut to_a)) = pair();
    let receiver = to_a.receiver();
    let (mut buffer, mut vector) = ([0; 64], vec![9; 9]);

    assert_eq!(receiver.try_recv(&mut buffer), Ok(None));
    assert_eq!(receiver.try_recv_into(&mut vector), Ok(None));
    assert!(receiver.try_recv_message().unwrap().is_none());
    assert_eq!(receiver.recv_timeout(&mut buffer, short), Ok(None));
    assert_eq!(receiver.recv_into_timeout(&mut vector, short), Ok(None));
    assert!(receiver.recv_message_timeout(short).unwrap().is_none());
    assert_eq!(vector, [9; 9], "untouched without a message");

    for _ in 0..9 {
        to_b.send(b"abc").unwrap();
    }
    assert_eq!(receiver.recv(&mut buffer), Ok(3));
    assert_eq!(receiver.try_recv(&mut buffer), Ok(Some(3)));
    assert_eq!(receiver.recv_timeout(&mut buffer, SOON), Ok(Some(3)));
    assert_eq!(buffer[..3], *b"abc");
    assert_eq!(receiver.recv_into(&mut vector), Ok(3));
    assert_eq!(vector, b"abc");
    assert_eq!(receiver.try_recv_into(&mut vector), Ok(Some(3)));
    assert_eq!(receiver.recv_into_timeout(&mut vector, LONG), Ok(Some(3)));
    assert_eq!(receiver.recv_message().unwrap().into_vec(), b"abc");
    let message = receiver.try_recv_message().unwrap().unwrap();
    assert_eq!(message.into_vec(), b"abc");
    let message = receiver.recv_message_timeout(None).unwrap().unwrap();
    assert_eq!(message.into_vec(), b"abc");

    // By the connection, without asking for its halves.
    for _ in 0..2 {
        to_b.send_timeout(b"short", LONG).unwrap();
    }
    assert_eq!(to_a.recv_timeout(&mut buffer, LONG), Ok(Some(5)));
    assert_eq!(to_a.recv_into(&mut vector), Ok(5));
    assert_eq!(to_a.recv_timeout(&mut buffer, short), Ok(None));

    to_b.finish();
    let receiver = to_a.receiver();
    let end = Err(Error::Finished);
    assert_eq!(receiver.recv(&mut buffer), end.clone());
    assert_eq!(
        receiver.try_recv(&mut buffer).map(drop),
        end.clone().map(drop)
    );
    assert_eq!(
        receiver.recv_timeout(&mut buffer, None).map(|l| l.unwrap()),
        end
    );
    assert_eq!(receiver.recv_into(&mut vector), end);
    assert_eq!(receiver.try_recv_into(&mut vector).map(|l| l.unwrap()), end);
    assert_eq!(
        receiver
            .recv_into_timeout(&mut vector, None)
            .map(|l| l.unwrap()),
        end
    );
    assert_eq!(receiver.recv_message().map(|m| m.len_bytes()), end);
    assert!(receiver.try_recv_message().is_err());
    assert!(receiver.recv_message_timeout(short).is_err());
}

/// They stay for a release.
#[test]
#[allow(deprecated, reason = "it is the old names that are tested")]
fn old_names_still_do_what_they_did() {
    let ((_a, mut to_b), (_b, mut to_a)) = pair();
    let mut vector = Vec::new();
    let now = Some(Duration::ZERO);
    assert_eq!(to_a.receiver().recv_vec(&mut vector, now), Ok(false));
    assert!(to_a.receiver().peek().unwrap().is_none());
    let mut room = to_b.sender().reserve(8).unwrap().unwrap();
    room.write(2, b"cd");
    room.write(0, b"ab");
    room.commit(4);
    let message = to_a.receiver().peek().unwrap().unwrap();
    let mut two = [0; 2];
    message.read(1, &mut two);
    assert_eq!(&two, b"bc");
    assert_eq!(to_a.receiver().recv_vec(&mut vector, None), Ok(true));
    assert_eq!(vector, b"abcd");
}

/// One message, received in one of the ways.
fn receive(connection: &mut Connection, way: usize, len: usize) -> Vec<u8> {
    let receiver = connection.receiver();
    let mut buffer = vec![0; len];
    match way % 4 {
        0 => assert_eq!(receiver.recv(&mut buffer), Ok(len)),
        1 => {
            let began = Instant::now();
            while receiver.try_recv(&mut buffer).unwrap() != Some(len) {
                assert!(began.elapsed() < Duration::from_secs(20), "nothing came");
            }
        }
        2 => {
            let small = loop {
                match receiver.try_recv(&mut buffer[..len - 1]) {
                    Ok(None) => thread::yield_now(),
                    other => break other,
                }
            };
            let (needed_bytes, buffer_bytes) = (len, len - 1);
            let expected = Error::BufferTooSmall {
                needed_bytes,
                buffer_bytes,
            };
            assert_eq!(small, Err(expected), "and it stays");
            assert_eq!(receiver.recv(&mut buffer), Ok(len));
        }
        _ => assert_eq!(receiver.recv_into(&mut buffer), Ok(len)),
    }
    buffer
}

/// Long messages may come in pieces, which go straight into a buffer, and as a whole once one was read in place.
#[test]
fn long_messages_are_whole_however_they_are_received() {
    let _dog = watchdog("long messages", Duration::from_secs(120));
    for ring_bytes in [1 << 12, 1 << 16, 1 << 20] {
        let config = NodeConfig {
            ring_bytes,
            ..NodeConfig::default()
        };
        let ((_a, mut there), (_b, mut back)) = pair_with(config);
        let lengths = [16_383, 16_384, 40_000, 65_536, 150_000, 600_000];
        let rounds = move || lengths.into_iter().cycle().take(90).enumerate();
        let echo = thread::spawn(move || {
            for (round, len) in rounds() {
                // The last rounds read in place, too.
                let way = if round < 60 { round % 3 } else { round };
                let message = receive(&mut back, way, len);
                assert!(message == bytes(len), "round {round}");
                back.send(&message).unwrap();
            }
            back
        });
        for (round, len) in rounds() {
            there.send(&bytes(len)).unwrap();
            let message = receive(&mut there, round % 3, len);
            assert!(message == bytes(len), "round {round} back");
        }
        drop(echo.join().unwrap());
    }
}
