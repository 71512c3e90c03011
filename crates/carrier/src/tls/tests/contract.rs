//! What a carrier that encrypts promises, beyond what `barewire-conformance` asks of every carrier.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::PollFlags;

use super::support::{
    Chance, Folder, Side, carriers, connection, flags, read_exactly, read_to_end, wait, wait_on,
    write_all,
};
use crate::carrier::{Arrival, Broken, Carrier, Sleep};

#[test]
fn every_small_size_and_those_around_a_record_arrive() {
    let (mut one, mut other) = carriers();
    let mut chance = Chance::new(1);
    let around = [16_383, 16_384, 16_385, 32_767, 32_768, 40_000];
    for count in (1..300).chain(around) {
        let bytes = chance.bytes(count);
        write_all(&mut one, &bytes);
        assert!(read_exactly(&mut other, count) == bytes, "{count} bytes");
    }
    assert_eq!(one.write(&[]).unwrap(), 0);
    assert_eq!(other.read(&mut []).unwrap(), Arrival::Nothing);
}

#[test]
fn memory_is_bounded_when_nobody_reads_and_nothing_is_lost() {
    let (mut one, mut other) = carriers();
    let bytes: Vec<u8> = (0..64 << 20).map(|i: u32| (i % 251) as u8).collect();
    let mut taken = 0;
    while taken < bytes.len() {
        match one.write(&bytes[taken..]).unwrap() {
            0 => break,
            count => taken += count,
        }
    }
    assert!(taken < bytes.len(), "64 MiB were taken that nobody reads");
    assert_eq!(one.before_sleep(), Sleep::UntilReadableOrWritable);
    // The end goes behind what was taken.
    one.finish().unwrap();
    assert!(one.write(b"x").is_err());
    let sender = std::thread::spawn(move || {
        while !one.flush().unwrap() {
            wait_on(&mut one);
        }
        one
    });
    let (received, outcome) = read_to_end(&mut other);
    assert_eq!(outcome, Ok(()));
    assert!(received == bytes[..taken], "{} of {taken}", received.len());
    assert_eq!(other.read(&mut [0]).unwrap(), Arrival::End);
    // The other direction is still open.
    let mut one = sender.join().unwrap();
    write_all(&mut other, b"still here");
    assert_eq!(read_exactly(&mut one, 10), b"still here");
}

#[test]
fn one_call_takes_a_bounded_number_of_bytes() {
    let (mut one, mut other) = carriers();
    let reader = std::thread::spawn(move || read_to_end(&mut other).0.len());
    let bytes = vec![7; 8 << 20];
    let mut taken = 0;
    while taken < bytes.len() {
        let count = one.write(&bytes[taken..]).unwrap();
        assert!(count <= 1 << 20, "{count}");
        taken += count;
        if count == 0 {
            wait_on(&mut one);
        }
    }
    one.finish().unwrap();
    while !one.flush().unwrap() {
        wait_on(&mut one);
    }
    assert_eq!(reader.join().unwrap(), bytes.len());
}

#[test]
fn a_peer_that_is_dropped_is_an_error_after_what_it_sent() {
    for has_unread in [false, true] {
        let (mut one, mut other) = carriers();
        write_all(&mut one, b"last words");
        if has_unread {
            write_all(&mut other, b"nobody reads this");
            wait(&[(one.descriptor(), PollFlags::IN)]);
        }
        drop(one);
        let (bytes, outcome) = read_to_end(&mut other);
        assert_eq!(bytes, b"last words");
        assert!(matches!(outcome, Err(Broken::Failed { .. })), "{outcome:?}");
        assert!(other.write(b"x").is_err());
        assert!(other.flush().is_err());
        assert!(other.finish().is_err());
    }
}

#[test]
fn a_write_error_does_not_hide_what_has_arrived() {
    let (mut one, mut other) = carriers();
    write_all(&mut one, b"last words");
    drop(one);
    // The first write makes the kernel learn that nobody is there; a later one is told.
    let error = loop {
        match other.write(b"x").and_then(|_| other.flush()) {
            Ok(_) => std::thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Broken::Failed { .. }), "{error:?}");
    let (bytes, outcome) = read_to_end(&mut other);
    assert_eq!(bytes, b"last words");
    assert!(outcome.is_err());
}

#[test]
fn a_sleep_on_the_descriptor_ends_when_it_must() {
    let (mut one, mut other) = carriers();
    // To read.
    assert_eq!(other.read(&mut [0; 8]).unwrap(), Arrival::Nothing);
    assert_eq!(other.before_sleep(), Sleep::UntilReadable);
    write_all(&mut one, b"wake up!");
    wait(&[(other.descriptor(), PollFlags::IN)]);
    // More has arrived than is taken, and the descriptor would not say so.
    assert_eq!(other.read(&mut [0; 4]).unwrap(), Arrival::Bytes(4));
    assert_eq!(other.before_sleep(), Sleep::NotYet);
    assert_eq!(other.read(&mut [0; 8]).unwrap(), Arrival::Bytes(4));
    assert_eq!(other.read(&mut [0; 8]).unwrap(), Arrival::Nothing);
    assert_eq!(other.before_sleep(), Sleep::UntilReadable);
    // What was taken and not flushed waits to be sent.
    one.read(&mut [0; 8]).unwrap();
    assert_eq!(one.before_sleep(), Sleep::UntilReadable);
    assert_eq!(one.write(b"x").unwrap(), 1);
    assert_eq!(one.before_sleep(), Sleep::UntilReadableOrWritable);
    wait(&[(one.descriptor(), PollFlags::OUT)]);
    assert!(one.flush().unwrap());
    assert_eq!(one.before_sleep(), Sleep::UntilReadable);
    // A full kernel, and then room.
    while one.write(&[0; 1000]).unwrap() > 0 {}
    let asked = flags(one.before_sleep());
    assert!(asked.contains(PollFlags::OUT));
    let before = one.flush().unwrap();
    assert!(!before);
    let mut buffer = vec![0; 1 << 16];
    loop {
        while let Arrival::Bytes(_) = other.read(&mut buffer).unwrap() {}
        wait(&[(one.descriptor(), PollFlags::OUT)]);
        if one.flush().unwrap() {
            break;
        }
    }
}

#[test]
fn bytes_right_behind_the_handshake_are_not_lost() {
    // The server's carrier writes before the client has looked at the server's proof.
    let folder = Folder::with_secret();
    let (near, far) = connection();
    let mut client = Side::connect(near, &folder.load());
    let mut server = Side::accept(far, &folder.load());
    while !server.is_over() {
        client.step();
        server.step();
    }
    let (mut server, _) = server.end().unwrap();
    let bytes = Chance::new(3).bytes(50_000);
    write_all(&mut server, &bytes);
    while !client.is_over() {
        wait(&[client.waits().unwrap()]);
        client.step();
    }
    let (mut client, _) = client.end().unwrap();
    // Some of it was received with the proof, so the descriptor alone does not tell.
    assert_eq!(client.before_sleep(), Sleep::NotYet);
    assert!(read_exactly(&mut client, bytes.len()) == bytes);
}

#[test]
fn the_connection_can_go_on_without_tls() {
    let (mut one, mut other) = carriers();
    write_all(&mut one, b"last of TLS");
    one.finish().unwrap();
    other.finish().unwrap();
    assert_eq!(read_to_end(&mut one), (Vec::new(), Ok(())));
    let mut one = one.into_tcp().unwrap();
    // These bytes come right behind the end of TLS, in one piece with it.
    let bytes = Chance::new(5).bytes(30_000);
    assert_eq!(one.write(&bytes).unwrap(), bytes.len());
    assert_eq!(read_to_end(&mut other), (b"last of TLS".to_vec(), Ok(())));
    let mut other = other.into_tcp().unwrap();
    assert!(read_exactly(&mut other, bytes.len()) == bytes);
    assert!(!other.properties().is_encrypted);
    assert_eq!(other.write(b"and back").unwrap(), 8);
    assert_eq!(read_exactly(&mut one, 8), b"and back");
}

#[test]
fn tls_does_not_end_before_both_sides_have_said_so() {
    let (one, other) = carriers();
    assert!(one.into_tcp().is_err());
    drop(other);
    // Only we have.
    let (mut one, mut other) = carriers();
    one.finish().unwrap();
    assert_eq!(one.read(&mut [0]).unwrap(), Arrival::Nothing);
    assert!(one.into_tcp().is_err());
    // Only the other side has, and then was gone.
    assert_eq!(other.read(&mut [0]).unwrap(), Arrival::End);
    assert!(other.into_tcp().is_err());
    // Something was not read.
    let (mut one, mut other) = carriers();
    write_all(&mut one, b"unread");
    one.finish().unwrap();
    other.finish().unwrap();
    wait(&[(other.descriptor().as_fd(), PollFlags::IN)]);
    assert_eq!(other.read(&mut [0; 3]).unwrap(), Arrival::Bytes(3));
    assert!(other.into_tcp().is_err());
}

#[test]
fn a_peer_that_has_gone_is_an_error_and_no_signal() {
    let signalled = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&signalled);
    signal_hook::flag::register(signal_hook::consts::SIGPIPE, flag).unwrap();
    let (mut one, other) = carriers();
    drop(other);
    while one.write(b"more").is_ok() && one.flush().is_ok() {
        std::thread::yield_now();
    }
    // Relaxed: the handler runs in this thread.
    assert!(!signalled.load(Ordering::Relaxed));
}
