//! The suites of connections: messages and byte streams, from end to end.

use std::thread;
use std::time::{Duration, Instant};

use barewire_fabric::aperture::{ByteStream, EventSource, Notice, Received, Transport};

use crate::fabric::Connections;
use crate::help::{eventually, good, pattern};
use crate::suite::cases;

cases! {
    /// Order, boundaries, sizes, pushing back, half-close, readiness.
    cases for Connections:
        messages_of_any_size_arrive_in_order,
        both_directions_at_once,
        a_long_message_crosses_a_small_ring,
        waiting_for_a_message_has_an_end,
        a_message_that_is_too_long_is_refused,
        a_slow_receiver_pushes_back,
        everything_sent_arrives_before_the_end,
        a_dropped_end_delivers_what_it_sent,
        finishing_is_for_one_direction,
        readiness_is_told,
        readiness_is_told_again_after_the_last,
}

cases! {
    /// Bytes in order, pushing back, the end of each direction.
    stream_cases for Connections:
        bytes_arrive_in_order,
        single_bytes_arrive,
        a_slow_reader_pushes_back,
        the_end_comes_after_the_bytes,
        reading_waits_no_longer_than_asked,
}

const RING: usize = 4096;
const SIZES: [usize; 14] = [
    0, 1, 8, 55, 56, 57, 64, 120, 500, 1016, 1017, 2048, 8192, 50_000,
];

fn message(i: usize) -> Vec<u8> {
    pattern(i as u64, SIZES[i % SIZES.len()])
}

#[track_caller]
fn send<F: Connections>(end: &mut F::End, message: &[u8]) {
    good(end.send(message, F::PATIENCE));
}

#[track_caller]
fn recv<F: Connections>(end: &mut F::End) -> Option<Vec<u8>> {
    let mut into = Vec::new();
    match good(end.recv(&mut into, F::PATIENCE)) {
        Received::Message => Some(into),
        Received::Finished => None,
        Received::Nothing => panic!("no message in time"),
    }
}

fn messages_of_any_size_arrive_in_order<F: Connections>() {
    let [(mut a, _qa), (mut b, _qb)] = F::connection(RING);
    thread::scope(|scope| {
        let sender = scope.spawn(move || {
            (0..300).for_each(|i| send::<F>(&mut a, &message(i)));
            a
        });
        for i in 0..300 {
            assert!(recv::<F>(&mut b) == Some(message(i)), "message {i}");
        }
        drop(sender.join().unwrap());
    });
    // Between hosts the end takes its time.
    assert!(matches!(
        b.recv(&mut Vec::new(), F::PATIENCE),
        Ok(Received::Finished) | Err(_)
    ));
}

fn both_directions_at_once<F: Connections>() {
    let [(mut a, _qa), (mut b, _qb)] = F::connection(RING);
    thread::scope(|scope| {
        scope.spawn(move || {
            for i in 0..2000_u64 {
                send::<F>(&mut b, &i.to_ne_bytes());
                assert_eq!(recv::<F>(&mut b), Some((!i).to_ne_bytes().to_vec()));
            }
        });
        for i in 0..2000_u64 {
            send::<F>(&mut a, &(!i).to_ne_bytes());
            assert_eq!(recv::<F>(&mut a), Some(i.to_ne_bytes().to_vec()));
        }
    });
}

fn a_long_message_crosses_a_small_ring<F: Connections>() {
    let [(mut a, _qa), (mut b, _qb)] = F::connection(1024);
    let long = pattern(1, 500_000);
    thread::scope(|scope| {
        let long = &long;
        scope.spawn(move || {
            send::<F>(&mut a, long);
            send::<F>(&mut a, b"after");
        });
        assert!(recv::<F>(&mut b).as_ref() == Some(long));
        assert_eq!(recv::<F>(&mut b).as_deref(), Some(&b"after"[..]));
    });
}

fn waiting_for_a_message_has_an_end<F: Connections>() {
    let [(mut a, _qa), (_b, _qb)] = F::connection(RING);
    let mut into = Vec::new();
    assert_eq!(good(a.try_recv(&mut into)), Received::Nothing);
    let (started, time) = (Instant::now(), Duration::from_millis(30));
    assert_eq!(good(a.recv(&mut into, time)), Received::Nothing);
    assert!(started.elapsed() >= time, "only {:?}", started.elapsed());
    assert!(started.elapsed() < time + F::PATIENCE);
}

fn a_message_that_is_too_long_is_refused<F: Connections>() {
    let [(mut a, _qa), (mut b, _qb)] = F::connection(RING);
    let max = a.message_bytes_max();
    // Where the limit is too large to try, there is nothing to check.
    if max < 1 << 28 {
        let long = vec![1; max + 1];
        assert!(a.try_send(&long).is_err());
        assert!(a.send(&long, F::PATIENCE).is_err());
    }
    send::<F>(&mut a, b"still up");
    assert_eq!(recv::<F>(&mut b).as_deref(), Some(&b"still up"[..]));
}

fn a_slow_receiver_pushes_back<F: Connections>() {
    let [(mut a, _qa), (mut b, _qb)] = F::connection(1024);
    let mut sent = 0_u64;
    while good(a.try_send(&sent.to_ne_bytes())) {
        sent += 1;
        assert!(sent < 1 << 20, "memory without bound");
    }
    assert!(sent > 0);
    assert!(
        a.send(b"late", Duration::from_millis(10)).is_err(),
        "sent where no room was"
    );
    for i in 0..sent {
        assert_eq!(recv::<F>(&mut b), Some(i.to_ne_bytes().to_vec()));
    }
    send::<F>(&mut a, b"room again");
    assert_eq!(recv::<F>(&mut b).as_deref(), Some(&b"room again"[..]));
}

fn everything_sent_arrives_before_the_end<F: Connections>() {
    for round in 0..50 {
        let [(mut a, _qa), (mut b, _qb)] = F::connection(RING);
        let count = round % 12;
        thread::scope(|scope| {
            scope.spawn(|| {
                (0..count).for_each(|i| send::<F>(&mut a, &[round, i]));
                a.finish();
            });
            for i in 0..count {
                assert_eq!(recv::<F>(&mut b), Some(vec![round, i]));
            }
            assert_eq!(recv::<F>(&mut b), None);
        });
        assert!(a.try_send(b"more").is_err(), "sent after the end");
    }
}

fn a_dropped_end_delivers_what_it_sent<F: Connections>() {
    let [(mut a, qa), (mut b, _qb)] = F::connection(RING);
    for i in 0..10 {
        send::<F>(&mut a, &[i]);
    }
    drop((a, qa));
    for i in 0..10 {
        assert_eq!(recv::<F>(&mut b), Some(vec![i]));
    }
    let end = b.recv(&mut Vec::new(), F::PATIENCE);
    assert!(matches!(end, Ok(Received::Finished) | Err(_)));
}

fn finishing_is_for_one_direction<F: Connections>() {
    let [(mut a, _qa), (mut b, _qb)] = F::connection(RING);
    send::<F>(&mut a, b"question");
    a.finish();
    assert_eq!(recv::<F>(&mut b).as_deref(), Some(&b"question"[..]));
    assert_eq!(recv::<F>(&mut b), None);
    for i in 0..100 {
        send::<F>(&mut b, &[i]);
        assert_eq!(recv::<F>(&mut a), Some(vec![i]));
    }
}

/// Waits until the queue says that there is something on the connection.
fn ready<F: Connections>(end: &F::End, queue: &F::Queue) {
    let mut notices = Vec::new();
    let wanted = Notice::Ready {
        connection: end.number(),
    };
    eventually::<F>("readiness", || {
        good(queue.wait_notices(&mut notices, 16, Duration::from_millis(100)));
        notices.contains(&wanted)
    });
}

/// Takes the next message once the queue tells of it. It may tell of one that has been taken meanwhile: who stores and who
/// takes are not in step where another thread stores what has come from another host.
fn take_when_ready<F: Connections>(end: &mut F::End, queue: &F::Queue) -> Vec<u8> {
    let mut into = Vec::new();
    eventually::<F>("a message", || {
        ready::<F>(end, queue);
        good(end.try_recv(&mut into)) == Received::Message
    });
    into
}

fn readiness_is_told<F: Connections>() {
    let [(mut a, _qa), (mut b, qb)] = F::connection(RING);
    for i in 0..500_u64 {
        send::<F>(&mut a, &i.to_ne_bytes());
        assert_eq!(take_when_ready::<F>(&mut b, &qb), i.to_ne_bytes());
        assert_eq!(good(b.try_recv(&mut Vec::new())), Received::Nothing);
    }
    a.finish();
    ready::<F>(&b, &qb);
    assert_eq!(recv::<F>(&mut b), None);
}

/// A receiver that takes one and goes away is told again of the rest.
fn readiness_is_told_again_after_the_last<F: Connections>() {
    let [(mut a, _qa), (mut b, qb)] = F::connection(RING);
    for i in 0..10 {
        send::<F>(&mut a, &[i]);
    }
    for i in 0..10 {
        assert_eq!(take_when_ready::<F>(&mut b, &qb), [i]);
    }
}

fn write_all<F: Connections>(stream: &mut F::Stream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let written = good(stream.write(bytes, F::PATIENCE));
        assert!(written > 0, "no room in time");
        bytes = &bytes[written..];
    }
}

fn read_exact<F: Connections>(stream: &mut F::Stream, into: &mut [u8]) {
    let mut at = 0;
    while at < into.len() {
        let read = good(stream.read(&mut into[at..], F::PATIENCE));
        assert_ne!(read, Some(0), "the end after {at} bytes");
        at += read.expect("bytes in time");
    }
}

fn bytes_arrive_in_order<F: Connections>() {
    let [(mut a, _qa), (mut b, _qb)] = F::stream(RING);
    let data = pattern(2, 600_000);
    thread::scope(|scope| {
        let data = &data;
        scope.spawn(move || {
            for piece in data.chunks(7001) {
                write_all::<F>(&mut a, piece);
            }
        });
        let mut got = vec![0; data.len()];
        for piece in got.chunks_mut(997) {
            read_exact::<F>(&mut b, piece);
        }
        assert!(got == *data);
    });
}

fn single_bytes_arrive<F: Connections>() {
    let [(mut a, _qa), (mut b, _qb)] = F::stream(RING);
    for i in 0..3000_u32 {
        write_all::<F>(&mut a, &[i as u8]);
        let mut byte = [0];
        read_exact::<F>(&mut b, &mut byte);
        assert_eq!(byte, [i as u8]);
    }
}

fn a_slow_reader_pushes_back<F: Connections>() {
    let [(mut a, _qa), (mut b, _qb)] = F::stream(1024);
    let data = pattern(4, 1 << 20);
    let mut sent = 0;
    loop {
        let written = good(a.write(&data[sent..], Duration::from_millis(10)));
        sent += written;
        if written == 0 {
            break;
        }
        assert!(sent < data.len(), "memory without bound");
    }
    let mut got = vec![0; sent];
    read_exact::<F>(&mut b, &mut got);
    assert!(got == data[..sent]);
    write_all::<F>(&mut a, b"again");
}

fn the_end_comes_after_the_bytes<F: Connections>() {
    for round in 0..50_usize {
        let [(mut a, _qa), (mut b, _qb)] = F::stream(RING);
        let data = pattern(round as u64, round * 100);
        thread::scope(|scope| {
            let data = &data;
            scope.spawn(|| {
                write_all::<F>(&mut a, data);
                a.finish();
            });
            let mut got = vec![0; data.len()];
            read_exact::<F>(&mut b, &mut got);
            assert!(got == *data);
            assert_eq!(good(b.read(&mut [0; 8], F::PATIENCE)), Some(0));
            assert_eq!(good(b.read(&mut [0; 8], F::PATIENCE)), Some(0), "and again");
        });
        write_all::<F>(&mut b, b"answer");
        let mut answer = [0; 6];
        read_exact::<F>(&mut a, &mut answer);
        assert_eq!(&answer, b"answer");
    }
}

fn reading_waits_no_longer_than_asked<F: Connections>() {
    let [(mut a, _qa), (_b, _qb)] = F::stream(RING);
    let (started, time) = (Instant::now(), Duration::from_millis(30));
    assert_eq!(good(a.read(&mut [0; 8], time)), None);
    assert!(started.elapsed() >= time, "only {:?}", started.elapsed());
    assert!(started.elapsed() < time + F::PATIENCE);
}
