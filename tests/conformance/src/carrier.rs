//! The suite of carriers: bytes to another host, and both ways.

use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::{Duration, Instant};

use barewire_carrier::{Arrival, Carrier, Sleep};
use barewire_units::Rng;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::fabric::Carriers;
use crate::help::{eventually, good, pattern};
use crate::suite::cases;

cases! {
    /// Order, sizes, pushing back, the end, the death of a side, sleeping.
    cases for Carriers:
        bytes_arrive_in_order_both_ways,
        single_bytes_arrive,
        a_mebibyte_arrives_in_whatever_pieces,
        nothing_is_read_where_nothing_was_written,
        memory_is_bounded,
        the_end_comes_after_everything,
        a_finished_side_still_reads,
        a_dropped_side_delivers_what_it_flushed,
        a_dropped_side_is_noticed,
        a_sleeping_reader_is_woken,
        a_sleeping_writer_is_woken,
        a_sleeper_that_flushes_is_woken,
        a_sleeper_hears_of_the_end,
        an_idle_side_sleeps,
        the_descriptor_stays,
}

/// Waits on the descriptor, if the carrier says that one may. `false` if nothing came.
fn sleep<F: Carriers>(carrier: &mut F::Carrier, at_most: Duration) -> bool {
    let flags = match carrier.before_sleep() {
        Sleep::NotYet => return true,
        Sleep::UntilReadable => PollFlags::IN,
        Sleep::UntilReadableOrWritable => PollFlags::IN | PollFlags::OUT,
    };
    let descriptor = carrier.descriptor();
    let mut polled = [PollFd::new(&descriptor, flags)];
    let at_most = Timespec::try_from(at_most).expect("a short time");
    poll(&mut polled, Some(&at_most)).expect("poll") > 0
}

#[track_caller]
fn sleep_well<F: Carriers>(carrier: &mut F::Carrier, what: &str) {
    assert!(sleep::<F>(carrier, F::PATIENCE), "{what}: not woken");
}

/// Writes and flushes all bytes; polls.
#[track_caller]
fn write_all<F: Carriers>(carrier: &mut F::Carrier, mut bytes: &[u8]) {
    let started = Instant::now();
    while !bytes.is_empty() {
        let taken = good(carrier.write(bytes));
        bytes = &bytes[taken..];
        good(carrier.flush());
        assert!(started.elapsed() < F::PATIENCE, "no room in time");
    }
}

/// Reads so many bytes; polls.
#[track_caller]
fn read_exact<F: Carriers>(carrier: &mut F::Carrier, count: usize) -> Vec<u8> {
    let mut got = vec![0; count];
    let mut at = 0;
    let started = Instant::now();
    while at < count {
        match good(carrier.read(&mut got[at..])) {
            Arrival::Bytes(count) => at += count,
            Arrival::Nothing => thread::yield_now(),
            Arrival::End => panic!("the end after {at} bytes"),
        }
        assert!(started.elapsed() < F::PATIENCE, "no bytes in time");
    }
    got
}

/// Reads until the end; polls.
#[track_caller]
fn read_to_end<F: Carriers>(carrier: &mut F::Carrier) -> Vec<u8> {
    let mut got = Vec::new();
    let mut buffer = vec![0; 5000];
    eventually::<F>("the end", || match good(carrier.read(&mut buffer)) {
        Arrival::Bytes(count) => {
            assert!(count > 0 && count <= buffer.len());
            got.extend_from_slice(&buffer[..count]);
            false
        }
        Arrival::Nothing => false,
        Arrival::End => true,
    });
    got
}

/// Writes all bytes in random pieces, and reads as many, in turns and by chance.
fn both_ways<F: Carriers>(
    carrier: &mut F::Carrier,
    seed: u64,
    send: &[u8],
    count: usize,
) -> Vec<u8> {
    let mut rng = Rng::from_seed(seed);
    let mut piece = move |max: usize| {
        let scale = [1, 16, 1000, 20_000, 200_000][(rng.next_u64() % 5) as usize];
        (1 + (rng.next_u64() as usize) % scale).min(max)
    };
    let mut buffer = vec![0; 200_000];
    let (mut sent, mut got) = (0, Vec::with_capacity(count));
    let started = Instant::now();
    loop {
        if sent < send.len() {
            let end = sent + piece(send.len() - sent);
            sent += good(carrier.write(&send[sent..end]));
        }
        let is_flushed = good(carrier.flush());
        if got.len() < count {
            let max = piece(buffer.len());
            match good(carrier.read(&mut buffer[..max])) {
                Arrival::Bytes(count) => got.extend_from_slice(&buffer[..count]),
                Arrival::Nothing => thread::yield_now(),
                Arrival::End => panic!("the end after {} bytes", got.len()),
            }
        } else if sent == send.len() && is_flushed {
            return got;
        }
        assert!(started.elapsed() < F::PATIENCE, "not in time, seed {seed}");
    }
}

fn bytes_arrive_in_order_both_ways<F: Carriers>() {
    for seed in 1..5_u64 {
        eprintln!("seed {seed}");
        let [mut a, mut b] = F::pair();
        let (to_b, to_a) = (pattern(seed, 2_000_001), pattern(!seed, 1_500_000));
        let (to_b, to_a) = (&to_b, &to_a);
        thread::scope(|scope| {
            let other = scope.spawn(move || {
                let got = both_ways::<F>(&mut b, seed + 100, to_a, to_b.len());
                (got == *to_b, b)
            });
            let got = both_ways::<F>(&mut a, seed, to_b, to_a.len());
            assert!(got == *to_a, "seed {seed}");
            let (is_right, _b) = other.join().unwrap();
            assert!(is_right, "seed {seed}");
        });
    }
}

fn single_bytes_arrive<F: Carriers>() {
    let [mut a, mut b] = F::pair();
    for i in 0..3000_u32 {
        write_all::<F>(&mut a, &[i as u8]);
        assert_eq!(read_exact::<F>(&mut b, 1), [i as u8]);
        std::mem::swap(&mut a, &mut b);
    }
}

fn a_mebibyte_arrives_in_whatever_pieces<F: Carriers>() {
    let data = pattern(3, 1 << 20);
    for piece in [1 << 20, 65_536, 16_384, 16_383, 16_385, 4096, 129, 120] {
        let [mut a, mut b] = F::pair();
        let data = &data;
        thread::scope(|scope| {
            let writer = scope.spawn(move || {
                data.chunks(piece)
                    .for_each(|piece| write_all::<F>(&mut a, piece));
                eventually::<F>("all sent", || good(a.flush()));
                a
            });
            assert!(read_exact::<F>(&mut b, data.len()) == *data, "{piece}");
            drop(writer.join().unwrap());
        });
    }
}

fn nothing_is_read_where_nothing_was_written<F: Carriers>() {
    let [mut a, mut b] = F::pair();
    assert_eq!(good(a.write(&[])), 0);
    assert!(good(a.flush()));
    for _ in 0..1000 {
        assert_eq!(good(b.read(&mut [0; 8])), Arrival::Nothing);
    }
    write_all::<F>(&mut a, b"byte");
    assert_eq!(
        good(b.read(&mut [])),
        Arrival::Nothing,
        "no room to read into"
    );
    assert_eq!(read_exact::<F>(&mut b, 4), b"byte");
}

/// Writes until there is no room for some time; gives what was taken.
fn fill<F: Carriers>(carrier: &mut F::Carrier, data: &[u8]) -> usize {
    let mut taken = 0;
    let mut refused = Instant::now();
    while refused.elapsed() < F::RESTRAINT {
        let count = good(carrier.write(&data[taken..]));
        if count > 0 {
            taken += count;
            refused = Instant::now();
        }
        good(carrier.flush());
        assert!(taken < data.len(), "memory without bound");
    }
    taken
}

fn memory_is_bounded<F: Carriers>() {
    let [mut a, mut b] = F::pair();
    let data = pattern(4, 64 << 20);
    for _ in 0..2 {
        let taken = fill::<F>(&mut a, &data);
        assert!(taken > 0);
        // The one who does not read gives nothing to read, and is not hurt.
        write_all::<F>(&mut b, b"other way");
        assert_eq!(read_exact::<F>(&mut a, 9), b"other way");
        let mut got = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        eventually::<F>("what was taken", || {
            good(a.flush());
            if let Arrival::Bytes(count) = good(b.read(&mut buffer)) {
                got.extend_from_slice(&buffer[..count]);
            }
            got.len() >= taken
        });
        assert!(got == data[..taken]);
    }
}

fn the_end_comes_after_everything<F: Carriers>() {
    for round in 0..20_usize {
        let [mut a, mut b] = F::pair();
        let data = pattern(round as u64, round * round * 500);
        let data = &data;
        thread::scope(|scope| {
            let reader = scope.spawn(move || (read_to_end::<F>(&mut b), b));
            let mut left = &data[..];
            eventually::<F>("room", || {
                left = &left[good(a.write(left))..];
                left.is_empty() || good(a.flush()) && left.is_empty()
            });
            // Not flushed: what was taken is still sent.
            good(a.finish());
            assert!(a.write(b"more").is_err(), "written after the end");
            eventually::<F>("all sent", || good(a.flush()));
            let (got, mut b) = reader.join().unwrap();
            assert!(got == *data, "{} of {} bytes", got.len(), data.len());
            assert_eq!(good(b.read(&mut [0; 8])), Arrival::End, "and again");
        });
    }
}

fn a_finished_side_still_reads<F: Carriers>() {
    let [mut a, mut b] = F::pair();
    good(a.finish());
    assert_eq!(read_to_end::<F>(&mut b), b"");
    let data = pattern(5, 300_000);
    let data = &data;
    thread::scope(|scope| {
        let writer = scope.spawn(move || {
            write_all::<F>(&mut b, data);
            good(b.finish());
            b
        });
        assert!(read_to_end::<F>(&mut a) == *data);
        drop(writer.join().unwrap());
    });
}

fn a_dropped_side_delivers_what_it_flushed<F: Carriers>() {
    for size in [1, 100, 5000, 100_000] {
        let [mut a, mut b] = F::pair();
        let data = pattern(size as u64, size);
        write_all::<F>(&mut a, &data);
        drop(a);
        let mut got = Vec::new();
        let mut buffer = vec![0; 1000];
        eventually::<F>("the end", || match b.read(&mut buffer) {
            Ok(Arrival::Bytes(count)) => {
                got.extend_from_slice(&buffer[..count]);
                false
            }
            Ok(Arrival::Nothing) => false,
            Ok(Arrival::End) | Err(_) => true,
        });
        assert!(got == data, "{} of {size} bytes", got.len());
    }
}

fn a_dropped_side_is_noticed<F: Carriers>() {
    let [a, mut b] = F::pair();
    drop(a);
    eventually::<F>("an error", || b.write(b"x").is_err() || b.flush().is_err());
    eventually::<F>("the end", || {
        !matches!(b.read(&mut [0; 8]), Ok(Arrival::Nothing))
    });
    assert!(b.write(b"x").is_err(), "it stays so");
    let error = b.write(b"x").unwrap_err().to_string();
    assert!(!error.is_empty());
}

/// Waits for the next bytes, asleep.
fn read_asleep<F: Carriers>(carrier: &mut F::Carrier, into: &mut [u8]) -> Arrival {
    let started = Instant::now();
    loop {
        match good(carrier.read(into)) {
            Arrival::Nothing => sleep_well::<F>(carrier, "a reader"),
            found => return found,
        }
        assert!(started.elapsed() < F::PATIENCE * 2, "woken for nothing");
    }
}

fn a_sleeping_reader_is_woken<F: Carriers>() {
    let [mut a, mut b] = F::pair();
    let rounds = 1000_u32;
    thread::scope(|scope| {
        let echo = scope.spawn(move || {
            let mut buffer = [0; 16];
            for _ in 0..rounds {
                match read_asleep::<F>(&mut b, &mut buffer) {
                    Arrival::Bytes(count) => write_all::<F>(&mut b, &buffer[..count]),
                    other => panic!("{other:?}"),
                }
            }
            b
        });
        for round in 0..rounds {
            // Often the other side sleeps already, and sometimes it is about to.
            for _ in 0..round % 50 * 100 {
                std::hint::spin_loop();
            }
            write_all::<F>(&mut a, &[round as u8]);
            let mut buffer = [0; 16];
            let found = read_asleep::<F>(&mut a, &mut buffer);
            assert_eq!((found, buffer[0]), (Arrival::Bytes(1), round as u8));
        }
        drop(echo.join().unwrap());
    });
}

fn a_sleeping_writer_is_woken<F: Carriers>() {
    let [mut a, mut b] = F::pair();
    let data = pattern(6, 12 << 20);
    let data = &data;
    thread::scope(|scope| {
        let writer = scope.spawn(move || {
            let mut left = &data[..];
            while !left.is_empty() {
                match good(a.write(left)) {
                    0 => sleep_well::<F>(&mut a, "a writer"),
                    taken => left = &left[taken..],
                }
            }
            while !good(a.flush()) {
                sleep_well::<F>(&mut a, "a writer that flushes");
            }
            a
        });
        let mut got = Vec::new();
        let mut buffer = vec![0; 100_000];
        while got.len() < data.len() {
            match read_asleep::<F>(&mut b, &mut buffer) {
                Arrival::Bytes(count) => got.extend_from_slice(&buffer[..count]),
                other => panic!("{other:?}"),
            }
        }
        assert!(got == *data);
        drop(writer.join().unwrap());
    });
}

fn a_sleeper_that_flushes_is_woken<F: Carriers>() {
    let [mut a, mut b] = F::pair();
    let data = pattern(7, 64 << 20);
    let taken = fill::<F>(&mut a, &data);
    let data = &data;
    thread::scope(|scope| {
        let flusher = scope.spawn(move || {
            while !good(a.flush()) {
                sleep_well::<F>(&mut a, "who flushes");
            }
            a
        });
        assert!(read_exact::<F>(&mut b, taken) == data[..taken]);
        drop(flusher.join().unwrap());
    });
}

fn a_sleeper_hears_of_the_end<F: Carriers>() {
    for round in 0..40 {
        let [mut a, mut b] = F::pair();
        thread::scope(|scope| {
            let sleeper = scope.spawn(move || {
                let started = Instant::now();
                loop {
                    assert!(started.elapsed() < F::PATIENCE * 2, "woken for nothing");
                    match b.read(&mut [0; 8]) {
                        Ok(Arrival::Nothing) => sleep_well::<F>(&mut b, "who waits for the end"),
                        Ok(Arrival::End) | Err(_) => return,
                        other => panic!("{other:?}"),
                    }
                }
            });
            (0..round * 1000).for_each(|_| std::hint::spin_loop());
            if round % 2 == 0 {
                good(a.finish());
                eventually::<F>("all sent", || good(a.flush()));
                sleeper.join().unwrap();
            } else {
                drop(a);
                sleeper.join().unwrap();
            }
        });
    }
}

/// Nobody is woken again and again where nothing happens.
fn an_idle_side_sleeps<F: Carriers>() {
    let [mut a, mut b] = F::pair();
    write_all::<F>(&mut a, b"used");
    assert_eq!(read_exact::<F>(&mut b, 4), b"used");
    eventually::<F>("sleep", || {
        assert_eq!(good(a.read(&mut [0; 8])), Arrival::Nothing);
        assert_eq!(good(b.read(&mut [0; 8])), Arrival::Nothing);
        let is_awake = sleep::<F>(&mut a, F::RESTRAINT);
        !sleep::<F>(&mut b, F::RESTRAINT) && !is_awake
    });
}

fn the_descriptor_stays<F: Carriers>() {
    let [mut a, mut b] = F::pair();
    let numbers =
        |a: &F::Carrier, b: &F::Carrier| [a, b].map(|side| side.descriptor().as_fd().as_raw_fd());
    let before = numbers(&a, &b);
    assert_ne!(before[0], before[1]);
    for _ in 0..10 {
        write_all::<F>(&mut a, &[1; 1000]);
        read_exact::<F>(&mut b, 1000);
        let _ = (a.before_sleep(), b.before_sleep());
    }
    good(a.finish());
    read_to_end::<F>(&mut b);
    assert_eq!(numbers(&a, &b), before);
    let properties = a.properties();
    assert!(!properties.transport.is_empty() && !properties.peer_address.is_empty());
}
