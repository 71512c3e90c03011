//! What the tests of links share.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use barewire_carrier::{Arrival, Carrier};
use barewire_ofi::{Fabric, Offer, OfiCarrier, OfiError, Pending};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long to wait for what must come.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Says that a test can not run here.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let mut log = std::fs::OpenOptions::new();
        let log = log.append(true).create(true).open(path);
        log.unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// The provider `tcp` at 127.0.0.1, or a line in the list of skipped tests.
pub fn fabric(test: &str) -> Option<Fabric> {
    match Fabric::open(Some("tcp"), IpAddr::V4(Ipv4Addr::LOCALHOST)) {
        Ok(fabric) => Some(fabric),
        Err(error @ (OfiError::Unavailable { .. } | OfiError::NoProvider { .. })) => {
            skip(test, &error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Waits for what gives something.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "{what}: not in time");
        std::thread::yield_now();
    }
}

/// Both sides of an offer and its answer.
#[track_caller]
pub fn connect(offer: &mut Offer, pending: &mut Pending) -> (OfiCarrier, OfiCarrier) {
    let (mut one, mut other) = (None, None);
    until("a link", || {
        if one.is_none() {
            one = offer.poll().unwrap();
        }
        if other.is_none() {
            other = pending.poll().unwrap();
        }
        (one.is_some() && other.is_some()).then_some(())
    });
    (one.unwrap(), other.unwrap())
}

/// Two sides of a link.
#[track_caller]
pub fn pair(fabric: &Fabric) -> (OfiCarrier, OfiCarrier) {
    let (mut offer, bytes) = fabric.offer().unwrap();
    let mut pending = fabric.answer(&bytes).unwrap();
    connect(&mut offer, &mut pending)
}

/// Sends something each way.
#[track_caller]
pub fn exchange(one: &mut OfiCarrier, other: &mut OfiCarrier) {
    for _ in 0..2 {
        assert_eq!(one.write(b"bytes").unwrap(), 5);
        one.flush().unwrap();
        let mut got = Vec::new();
        until("bytes", || {
            let mut into = [0; 8];
            if let Arrival::Bytes(count) = other.read(&mut into).unwrap() {
                got.extend_from_slice(&into[..count]);
            }
            (got.len() >= 5).then_some(())
        });
        assert_eq!(got, b"bytes");
        std::mem::swap(one, other);
    }
}

/// Sleeps on a descriptor.
#[track_caller]
pub fn wait_until_readable(descriptor: BorrowedFd<'_>) {
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    let timeout = Timespec::try_from(PATIENCE).unwrap();
    let count = poll(&mut polled, Some(&timeout)).unwrap();
    assert_eq!(count, 1, "not woken");
}
