//! The records of links to other hosts in a counters page. The head of `counters.rs` has their layout.

use core::sync::atomic::Ordering;

use crate::region::Window;

/// Links that a page has room for; others are only counted.
pub const REMOTES_MAX: u32 = 64;
/// Bytes of all records.
pub const REMOTES_BYTES: usize = REMOTES_MAX as usize * RECORD_BYTES;

const RECORD_BYTES: usize = 128;
const ROUND_TRIP: usize = 8;
const ABOUT: usize = 2 * 8;
const ENCRYPTED: u64 = 1 << 32;
/// Where texts lie, and how many bytes they have.
const TRANSPORT: (usize, usize) = (4 * 8, 16);
const IDENTITY: (usize, usize) = (6 * 8, 32);
const ADDRESS: (usize, usize) = (10 * 8, 48);
const _: () = assert!(TRANSPORT.0 + TRANSPORT.1 == IDENTITY.0);
const _: () = assert!(IDENTITY.0 + IDENTITY.1 == ADDRESS.0);
const _: () = assert!(ADDRESS.0 + ADDRESS.1 == RECORD_BYTES);

const FREE: u64 = 0;
const UP: u64 = 1;
const BEING_WRITTEN: u64 = 2;
/// The link has ended, and connections over it may not have been let go of.
const DOWN: u64 = 3;

/// What a link is shown with. Texts that are too long are cut.
#[derive(Clone, Copy, Debug)]
pub struct RemoteInfo<'a> {
    /// The peer's address and port.
    pub address: &'a str,
    /// The name under which the peer has proved itself.
    pub identity: Option<&'a str>,
    /// Transport and provider, such as `tcp`.
    pub transport: &'a str,
    /// The peer's process, as it says.
    pub pid: u32,
    /// Whether what the link carries is encrypted.
    pub is_encrypted: bool,
}

/// A copy of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteCopy {
    /// Whether the link is up; else connections over it are left.
    pub is_up: bool,
    /// The peer's address and port.
    pub address: String,
    /// The name under which the peer has proved itself.
    pub identity: Option<String>,
    /// Transport and provider.
    pub transport: String,
    /// The peer's process, as it says.
    pub pid: u32,
    /// Whether what the link carries is encrypted.
    pub is_encrypted: bool,
    /// Round-trip time, smoothed, in nanoseconds; `None` before the first.
    pub round_trip_ns: Option<u64>,
}

/// The records of a page.
#[derive(Clone, Debug)]
pub struct Remotes {
    page: Window,
    first: usize,
    /// Where it counts those without a record.
    uncounted: usize,
}

impl Remotes {
    /// Those of a page, by their offset and that of the count.
    pub fn new(page: &Window, first: usize, uncounted: usize) -> Remotes {
        Remotes {
            page: page.clone(),
            first,
            uncounted,
        }
    }

    fn record(&self, number: u32) -> Option<Window> {
        let offset = self.first + number as usize * RECORD_BYTES;
        self.page.sub(offset, RECORD_BYTES)
    }

    /// Copies of those that are in use, with their numbers.
    pub fn copies(&self) -> Vec<(u32, RemoteCopy)> {
        let copy = |number| Some((number, copy(&self.record(number)?)?));
        (0..REMOTES_MAX).filter_map(copy).collect()
    }
}

/// The record of one link, which its owner writes. Without one, the link is counted.
#[derive(Debug)]
pub struct RemoteCounters {
    remotes: Remotes,
    record: Option<(u32, Window)>,
}

impl RemoteCounters {
    /// Its number, if it has a record.
    #[must_use]
    pub fn number(&self) -> Option<u32> {
        self.record.as_ref().map(|(number, _)| *number)
    }

    /// Shows that the link has ended.
    pub fn set_down(&self) {
        if let Some((_, record)) = &self.record {
            // Release pairs with the Acquire in `copy`.
            record.word_mut(0).store(DOWN, Ordering::Release);
        }
    }

    /// Shows the smoothed round-trip time.
    pub fn set_round_trip(&self, ns: u64) {
        if let Some((_, record)) = &self.record {
            // Relaxed: it stands for itself.
            record.word_mut(ROUND_TRIP).store(ns, Ordering::Relaxed);
        }
    }
}

impl Drop for RemoteCounters {
    fn drop(&mut self) {
        match &self.record {
            // Release pairs with the Acquire in `claim`: the next owner's words come after ours.
            Some((_, record)) => record.word_mut(0).store(FREE, Ordering::Release),
            None => {
                let word = self.remotes.page.word_mut(self.remotes.uncounted);
                // Relaxed: a counter; nothing is ordered by it.
                word.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// Takes a record for a link, or counts it.
pub fn open(remotes: Remotes, about: &RemoteInfo<'_>) -> RemoteCounters {
    let claim = |number| {
        let record = remotes.record(number)?;
        // Acquire pairs with the Release in `RemoteCounters::drop`. Relaxed: on failure nothing is read.
        let claimed = record.word_mut(0).compare_exchange(
            FREE,
            BEING_WRITTEN,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        claimed.is_ok().then_some((number, record))
    };
    let record = (0..REMOTES_MAX).find_map(claim);
    match &record {
        Some((_, record)) => write(record, about),
        None => {
            let word = remotes.page.word_mut(remotes.uncounted);
            // Relaxed: a counter; nothing is ordered by it.
            word.fetch_add(1, Ordering::Relaxed);
        }
    }
    RemoteCounters { remotes, record }
}

fn write(record: &Window, about: &RemoteInfo<'_>) {
    let encrypted = if about.is_encrypted { ENCRYPTED } else { 0 };
    for (at, value) in [(ROUND_TRIP, 0), (ABOUT, encrypted | u64::from(about.pid))] {
        // Relaxed: published by the state below.
        record.word_mut(at).store(value, Ordering::Relaxed);
    }
    write_text(record, TRANSPORT, about.transport);
    write_text(record, IDENTITY, about.identity.unwrap_or_default());
    write_text(record, ADDRESS, about.address);
    // Release pairs with the Acquire in `copy`.
    record.word_mut(0).store(UP, Ordering::Release);
}

fn write_text(record: &Window, (offset, len_bytes): (usize, usize), text: &str) {
    let mut bytes = [0; ADDRESS.1];
    let count = text.len().min(len_bytes);
    bytes[..count].copy_from_slice(&text.as_bytes()[..count]);
    record.write_bytes(offset, &bytes[..len_bytes]);
}

fn read_text(record: &Window, (offset, len_bytes): (usize, usize)) -> String {
    let mut bytes = [0; ADDRESS.1];
    record.read_bytes(offset, &mut bytes[..len_bytes]);
    let end = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(len_bytes)]).into_owned()
}

fn copy(record: &Window) -> Option<RemoteCopy> {
    // Acquire pairs with the Release in `write`.
    let state = record.word(0).load(Ordering::Acquire);
    if ![UP, DOWN].contains(&state) {
        return None;
    }
    // Relaxed: ordered by the load of the state; the round trip stands for itself.
    let read = |at: usize| record.word(at).load(Ordering::Relaxed);
    let identity = read_text(record, IDENTITY);
    Some(RemoteCopy {
        is_up: state == UP,
        address: read_text(record, ADDRESS),
        identity: Some(identity).filter(|identity| !identity.is_empty()),
        transport: read_text(record, TRANSPORT),
        pid: read(ABOUT) as u32,
        is_encrypted: read(ABOUT) & ENCRYPTED != 0,
        round_trip_ns: Some(read(ROUND_TRIP)).filter(|ns| *ns > 0),
    })
}

#[cfg(test)]
mod tests {
    use crate::counters::{CounterPage, CounterView, Identity, page_bytes};
    use crate::region::Region;

    use super::*;

    const ABOUT_ONE: RemoteInfo<'_> = RemoteInfo {
        address: "[fe80:1234:5678:9abc:def0:1234:5678:9abc%12]:65535",
        identity: Some("store"),
        transport: "ofi:verbs;ofi_rxm",
        pid: 77,
        is_encrypted: true,
    };

    fn page() -> (CounterPage, CounterView) {
        let region = Region::private(page_bytes(1));
        let identity = Identity {
            pid: 7,
            uid: 8,
            started_ns: 9,
            node_id: [1, 2],
        };
        let page = CounterPage::create(&region, 1, identity).unwrap();
        (page, CounterView::open(&region).unwrap())
    }

    #[test]
    fn links_are_shown_while_they_are_up() {
        let (page, view) = page();
        assert_eq!(view.remotes(), []);
        let one = page.open_remote(&ABOUT_ONE);
        let plain = RemoteInfo {
            address: "10.0.0.7:7400",
            identity: None,
            is_encrypted: false,
            ..ABOUT_ONE
        };
        let other = page.open_remote(&plain);
        other.set_round_trip(12_345);
        let shown = view.remotes();
        assert_eq!((one.number(), other.number()), (Some(0), Some(1)));
        assert_eq!((shown[0].0, shown[1].0), (0, 1));
        let (first, second) = (&shown[0].1, &shown[1].1);
        assert_eq!(first.address, ABOUT_ONE.address[..48]);
        assert_eq!(first.identity.as_deref(), Some("store"));
        assert_eq!(first.transport, "ofi:verbs;ofi_rx");
        assert_eq!((first.pid, first.is_encrypted), (77, true));
        assert_eq!(
            (first.round_trip_ns, second.round_trip_ns),
            (None, Some(12_345))
        );
        assert_eq!(
            (second.identity.as_deref(), second.is_encrypted),
            (None, false)
        );
        assert!(first.is_up);
        one.set_down();
        assert!(!view.remotes()[0].1.is_up);
        drop(one);
        assert_eq!(view.remotes().len(), 1);
        let third = page.open_remote(&plain);
        assert_eq!(third.number(), Some(0));
        assert_eq!(view.remotes()[0].1.round_trip_ns, None);
    }

    #[test]
    fn those_without_a_record_are_counted() {
        let (page, view) = page();
        let all: Vec<_> = (0..REMOTES_MAX)
            .map(|_| page.open_remote(&ABOUT_ONE))
            .collect();
        assert_eq!((view.remotes().len(), view.remotes_uncounted()), (64, 0));
        let more = [page.open_remote(&ABOUT_ONE), page.open_remote(&ABOUT_ONE)];
        more[0].set_round_trip(1);
        assert_eq!(more[0].number(), None);
        assert_eq!((view.remotes().len(), view.remotes_uncounted()), (64, 2));
        drop(more);
        assert_eq!(view.remotes_uncounted(), 0);
        drop(all);
        assert_eq!(view.remotes(), []);
    }
}
