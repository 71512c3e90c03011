//! HDF5 files written, read, cut and damaged at every byte, and made to keep a reader busy.

use std::cell::Cell;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::format::name_of;
use super::*;
use crate::record::{self, About, Recorded, Recorder, Stored};
use crate::wire::u32_at;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only that no two are the same counts.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("barewire-daq-hdf5-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn about() -> About {
    About {
        seed: u64::MAX,
        made_unix_ns: 1_000_000_007,
        clock_unix_ns: 1_000_000_000,
        version: "1.2".to_owned(),
        config: "[run]\nseed = 11 # é\n".to_owned(),
    }
}

fn event(number: u64, fragments: &[(u16, usize)]) -> Recorded {
    let stored = |&(source, bytes): &(u16, usize)| Stored {
        source,
        at_ns: number.wrapping_mul(1000) + u64::from(source),
        data: (0..bytes as u64)
            .map(|it| crate::scatter::scatter(number << 8 | it) as u8)
            .collect(),
    };
    Recorded {
        event: number,
        missing: u32::from(fragments.len() < 2),
        damaged: 0,
        fragments: fragments.iter().map(stored).collect(),
    }
}

/// A file with these events.
fn file_of(events: &[Recorded], about: Option<&About>) -> Vec<u8> {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let mut writer = Hdf5Writer::create(&path, 7, 3, about).expect("a new file");
    for event in events {
        writer.add(event.event, event.missing, &event.fragments);
    }
    writer.finish().expect("room");
    std::fs::read(path).expect("the file")
}

fn open(bytes: &[u8]) -> Result<Hdf5Reading<Cursor<&[u8]>>, Hdf5Error> {
    Hdf5Reading::new(Cursor::new(bytes), bytes.len() as u64)
}

fn sorted(mut events: Vec<Recorded>) -> Vec<Recorded> {
    events.sort_by_key(|it| name_of(it.event));
    events
}

fn all_of<R: Read + Seek>(reading: &mut Hdf5Reading<R>) -> Vec<Recorded> {
    let mut events = Vec::new();
    while let Some(event) = reading.next_event().expect("a good file") {
        events.push(event);
    }
    events
}

/// Events whose numbers have gaps, with fragments of some bytes.
fn some_events(count: u64) -> Vec<Recorded> {
    let fragments = [&[(0, 5), (2, 9)][..], &[], &[(1, 0)]];
    (0..count)
        .map(|it| event(10 + 3 * it, fragments[it as usize % 3]))
        .collect()
}

fn any_events() -> impl Strategy<Value = Vec<Recorded>> {
    let number = prop_oneof![0..3_000_u64, any::<u64>()];
    let sources = btree_set(0..2000_u16, 0..5).prop_shuffled();
    let fragments = (sources, vec(0..300_usize, 5));
    let events = (btree_set(number, 0..600), vec(fragments, 7));
    events.prop_map(|(numbers, fragments)| {
        let made = numbers.into_iter().enumerate().map(|(at, number)| {
            let (sources, bytes) = &fragments[at % fragments.len()];
            let pairs: Vec<_> = sources.iter().copied().zip(bytes.iter().copied()).collect();
            event(number, &pairs)
        });
        made.collect()
    })
}

trait Shuffled: Strategy {
    fn prop_shuffled(self) -> impl Strategy<Value = Vec<u16>>;
}

impl<S: Strategy<Value = std::collections::BTreeSet<u16>>> Shuffled for S {
    fn prop_shuffled(self) -> impl Strategy<Value = Vec<u16>> {
        self.prop_map(|it| it.into_iter().collect::<Vec<_>>())
            .prop_shuffle()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn what_is_written_is_read(events in any_events(), others in vec(any::<u64>(), 20)) {
        let expected = sorted(events.clone());
        let bytes = file_of(&events, None);
        let mut reading = open(&bytes).expect("a good file");
        prop_assert_eq!((reading.run, reading.builder, &reading.about), (7, 3, &None));
        prop_assert_eq!(reading.events(), events.len() as u64);
        prop_assert_eq!(all_of(&mut reading), expected.clone());
        // More often than all of it could be read in one pass.
        for _ in 0..3 {
            for event in &events {
                let found = reading.event(event.event).expect("a good file");
                prop_assert_eq!(found.as_ref(), Some(event));
            }
        }
        let near = events.iter().flat_map(|it| [it.event.wrapping_sub(1), it.event.wrapping_add(1)]);
        for number in near.chain(others) {
            let found = reading.event(number).expect("a good file");
            prop_assert_eq!(found.as_ref(), events.iter().find(|it| it.event == number));
        }
    }

    #[test]
    fn a_converted_recording_is_the_recording(events in any_events(), config in ".{0,200}", seed: u64) {
        let folder = Folder::new();
        // A single zero is a text of no length.
        let config = if config == "\0" { String::new() } else { config };
        let about = About { seed, config, ..about() };
        let mut recorder = Recorder::create(&folder.0, 7, 3, &about).expect("a new file");
        for event in events.iter().rev() {
            recorder.add(event.event, event.missing, &event.fragments);
        }
        let (from, to) = (recorder.path().to_owned(), folder.0.join("a.h5"));
        recorder.finish().expect("room");
        convert(&from, &to).expect("a good file");
        prop_assert!(is_hdf5(&to).expect("a file") && !is_hdf5(&from).expect("a file"));
        let mut reading = Hdf5Reading::open(&to).expect("a good file");
        prop_assert_eq!(reading.about.as_ref(), Some(&about));
        prop_assert_eq!(all_of(&mut reading), sorted(events));
        let (one, other) = (record::check(&from, None), check(&to, None));
        let (one, other) = (one.expect("a good file"), other.expect("a good file"));
        prop_assert_eq!(one.contents, other.contents);
        prop_assert_eq!((one.built, one.incomplete), (other.built, other.incomplete));
        prop_assert_eq!((one.fragments, one.bytes), (other.fragments, other.bytes));
        prop_assert!(other.is_good());
        prop_assert_eq!(one.about, other.about);
    }
}

#[test]
fn events_are_found_in_trees_of_any_height() {
    for count in [0, 1, 7, 8, 9, 256, 257, 8192, 8193] {
        let events = some_events(count);
        let bytes = file_of(&events, None);
        let mut reading = open(&bytes).expect("a good file");
        for number in (0..13).chain((0..count).map(|it| 10 + 3 * it)).chain(0..50) {
            let expected = events.iter().find(|it| it.event == number);
            // Of many only those around the ends of nodes.
            let rank = number.saturating_sub(10) / 3;
            if count < 300 || rank % 256 < 2 || rank % 256 > 253 {
                let found = reading.event(number).expect("a good file");
                assert_eq!(found.as_ref(), expected, "{number} of {count}");
            }
        }
        assert_eq!(reading.event(u64::MAX).expect("a good file"), None);
        let mut read = 0;
        while let Some(event) = reading.next_event().expect("a good file") {
            assert_eq!(event, events[read]);
            read += 1;
        }
        assert_eq!(read as u64, count);
    }
}

#[test]
fn texts_of_any_length_are_kept() {
    for (version, config) in [(0, 0), (1, 70_000), (3000, 1 << 20)] {
        let about = About {
            version: "é".repeat(version),
            config: "a = 1 # ü\n".repeat(config / 11),
            ..about()
        };
        let bytes = file_of(&some_events(2), Some(&about));
        let found = open(&bytes)
            .expect("a good file")
            .about
            .expect("it is there");
        // A version of more than a KiB is none.
        assert_eq!(found.version, "é".repeat(version.min(512)));
        assert_eq!(found.config, about.config);
    }
    let about = About {
        config: "zeros at the end\0\0".to_owned(),
        ..about()
    };
    let bytes = file_of(&[], Some(&about));
    assert_eq!(open(&bytes).expect("a good file").about, Some(about));
}

#[test]
fn values_that_a_file_cannot_hold_are_refused() {
    let folder = Folder::new();
    let twice = event(1, &[(4, 1), (5, 1), (4, 2)]);
    let many: Vec<_> = (0..40_000).map(|it| (it, 0)).collect();
    for (event, why) in [
        (twice, "source 4 twice"),
        (event(2, &many), "32000 fragments"),
    ] {
        let path = folder.0.join("a.h5");
        let mut writer = Hdf5Writer::create(&path, 1, 0, None).expect("a new file");
        writer.add(event.event, 0, &event.fragments);
        let refused = writer
            .write()
            .expect_err("it cannot be written")
            .to_string();
        assert!(refused.contains(why), "{refused}");
        assert!(writer.finish().is_err());
        assert!(!path.exists());
    }
    let most: Vec<_> = (0..32_000).map(|it| (it, 0)).collect();
    let events = [event(2, &most)];
    let bytes = file_of(&events, None);
    assert_eq!(all_of(&mut open(&bytes).expect("a good file")), events);
}

/// Reads all of it in all ways: what is given is what was written, and a file that is read to its end without an
/// error has given all of it. How many errors there were.
fn assert_right_or_error(bytes: &[u8], events: &[Recorded], asked: &[u64], what: &str) -> usize {
    let Ok(mut reading) = open(bytes) else {
        return 1;
    };
    assert_eq!((reading.run, reading.builder), (7, 3), "{what}");
    assert_eq!(reading.about, Some(about()), "{what}");
    let (mut read, mut errors) = (0, 0);
    loop {
        match reading.next_event() {
            Ok(Some(event)) => {
                let original = events.iter().find(|it| it.event == event.event);
                assert_eq!(Some(&event), original, "{what}");
                read += 1;
            }
            Ok(None) => break,
            Err(_) => errors += 1,
        }
    }
    assert!(read <= events.len() && errors <= events.len(), "{what}");
    assert_eq!(read == events.len(), errors == 0, "{what}");
    for &number in asked {
        let original = events.iter().find(|it| it.event == number);
        match reading.event(number) {
            Ok(found) => assert_eq!(found.as_ref(), original, "{what}: event {number}"),
            Err(_) => errors += 1,
        }
    }
    errors
}

#[test]
fn a_changed_byte_is_an_error_or_changes_nothing() {
    let events = some_events(10);
    let good = file_of(&events, Some(&about()));
    let asked = [10, 12, 30, 31, 32, 34, 35, 100];
    assert_eq!(assert_right_or_error(&good, &events, &asked, "good"), 0);
    // The names have no check code, and a digit may become another one.
    let first_name = good.windows(12).position(|it| it == b"000000000010");
    let names_at = first_name.expect("the first name");
    let names = names_at..names_at + 10 * 16;
    let mut found = 0;
    for at in 0..good.len() {
        let masks = match names.contains(&at) {
            true => 0..8,
            false => at % 8..at % 8 + 1,
        };
        for bit in masks {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            let what = format!("bit {bit} of byte {at}");
            let errors = assert_right_or_error(&bad, &events, &asked, &what);
            found += usize::from(errors > 0 && bit == at % 8);
        }
    }
    // The others are padding, room for more, and neighbours of nodes.
    assert!(found * 4 > good.len() * 3, "{found} of {}", good.len());
}

#[test]
fn a_file_that_is_cut_is_not_read() {
    let good = file_of(&some_events(10), Some(&about()));
    for len in 0..good.len() {
        let error = open(&good[..len]).err().map(|it| it.to_string());
        let error = error.unwrap_or_else(|| panic!("cut at {len}"));
        let expected = match len {
            0..48 => "shorter than a superblock",
            _ => "the file is cut",
        };
        assert!(error.contains(expected), "cut at {len}: {error}");
    }
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let mut writer = Hdf5Writer::create(&path, 1, 0, None).expect("a new file");
    writer.add(1, 0, &[]);
    writer.write().expect("room");
    let part = folder.0.join("a.h5.part");
    assert!(is_hdf5(&part).expect("a file"));
    let error = Hdf5Reading::open(&part).expect_err("it is not whole");
    assert!(
        error.to_string().contains("its writer was stopped"),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]
    /// Two levels of the tree: in the table, which has no check codes.
    #[test]
    fn a_changed_byte_of_a_large_table_is_found(place in 0.0..1.0_f64, mask in 1..=255_u8) {
        thread_local! {
            static GOOD: (Vec<Recorded>, Vec<u8>) = {
                let events = some_events(300);
                let bytes = file_of(&events, Some(&about()));
                (events, bytes)
            };
        }
        GOOD.with(|(events, good)| {
            let table = good.windows(4).position(|it| it == b"SNOD").expect("a table");
            let at = table + ((good.len() - table) as f64 * place) as usize;
            let mut bad = good.clone();
            bad[at] ^= mask;
            // Around the ends of nodes.
            let ranks = [0, 7, 8, 15, 16, 255, 256, 257, 299];
            let asked: Vec<_> = ranks.iter().flat_map(|it| 9 + 3 * it..12 + 3 * it).collect();
            assert_right_or_error(&bad, events, &asked, &format!("byte {at}, mask {mask}"));
        });
    }
}

#[test]
fn every_changed_byte_of_the_tree_is_found() {
    let events = some_events(300);
    let good = file_of(&events, Some(&about()));
    let place_of = |begin: &[u8]| good.windows(begin.len()).rposition(|it| it == begin);
    let leaf = place_of(b"SNOD").expect("the last node of names");
    let below = place_of(b"TREE\0\0").expect("the last node of the lower level");
    let root = place_of(b"TREE\0\x01").expect("the root");
    // Heads; names and addresses of 4, 6 and 2 children. Neighbours, and what libraries may keep in an
    // entry, are not read.
    let keys = |node: usize, children: usize| node + 24..node + 24 + 8 * (2 * children + 1);
    let heads = (leaf..leaf + 8)
        .chain(below..below + 8)
        .chain(root..root + 8);
    let entries = (0..4).flat_map(|it| leaf + 8 + 40 * it..leaf + 24 + 40 * it);
    let used = heads
        .chain(entries)
        .chain(keys(below, 6))
        .chain(keys(root, 2));
    for at in used {
        for bit in [at % 8, (at + 3) % 8] {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            let what = format!("bit {bit} of byte {at}");
            let errors = assert_right_or_error(&bad, &events, &[], &what);
            assert!(errors > 0, "{what}");
        }
    }
}

#[test]
fn an_error_says_where_and_the_next_event_is_read() {
    let events = some_events(10);
    let good = file_of(&events, None);
    // The fragment of source 2 of the first event.
    let data = &events[0].fragments[1].data;
    let at = good.windows(data.len()).position(|it| it == data);
    let at = at.expect("the bytes are there");
    let mut bad = good.clone();
    bad[at + 1] ^= 1;
    let mut reading = open(&bad).expect("a good head");
    let error = reading.next_event().expect_err("it is damaged").to_string();
    let expected =
        format!("event 10: the bytes of a fragment at byte {at}: its check code is wrong");
    assert_eq!(error, expected);
    assert_eq!(all_of(&mut reading), events[1..]);

    let folder = Folder::new();
    let path = folder.0.join("bad.h5");
    std::fs::write(&path, &bad).expect("room");
    let checked = check(&path, None).expect("a good head");
    assert!(!checked.is_good());
    assert_eq!((checked.lost, checked.events.len()), (Some(1), 9));
    let first = &checked.damage.first[0];
    assert_eq!(
        (first.at, first.bytes, first.event),
        (at as u64, 9, Some(10))
    );
}

/// Counts what is read of it.
struct Counted<R> {
    inner: R,
    bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        self.bytes.set(self.bytes.get() + count as u64);
        Ok(count)
    }
}

impl<R: Seek> Seek for Counted<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

/// Makes the check code of the object header at `at` right.
fn seal(bytes: &mut [u8], at: usize) {
    let end = at + 10 + u32_at(bytes, at + 6) as usize;
    let code = lookup3(&bytes[at..end]);
    bytes[end..end + 4].copy_from_slice(&code.to_le_bytes());
}

#[test]
fn fragments_that_all_events_share_are_not_read_for_all_of_them() {
    let mut events: Vec<_> = (0..300).map(|it| event(it, &[(1, 8)])).collect();
    events[0] = event(0, &[(1, 100_000)]);
    let mut bytes = file_of(&events, None);
    // Every group leads to the fragment of the first event.
    let link = b"\x08source-1";
    let links: Vec<_> = (0..bytes.len() - link.len())
        .filter(|&it| bytes[it..].starts_with(link))
        .collect();
    assert_eq!(links.len(), 300);
    let first: [u8; 8] = bytes[links[0] + 9..links[0] + 17]
        .try_into()
        .expect("8 bytes");
    for at in links {
        bytes[at + 9..at + 17].copy_from_slice(&first);
        let header = bytes[..at].windows(4).rposition(|it| it == b"OHDR");
        seal(&mut bytes, header.expect("a group"));
    }
    let read_bytes = Rc::new(Cell::new(0));
    let counted = Counted {
        inner: Cursor::new(&bytes),
        bytes: Rc::clone(&read_bytes),
    };
    let mut reading = Hdf5Reading::new(counted, bytes.len() as u64).expect("a good head");
    let (mut good, mut last) = (0, String::new());
    loop {
        match reading.next_event() {
            Ok(Some(event)) => {
                assert_eq!(event.fragments, events[0].fragments);
                good += 1;
            }
            Ok(None) => break,
            Err(error) => last = error.to_string(),
        }
    }
    assert!((1..20).contains(&good), "{good}");
    assert!(last.contains("objects lie in one another"), "{last}");
    assert!(read_bytes.get() < 6 * bytes.len() as u64, "{read_bytes:?}");
    // One event is read all the same.
    assert!(reading.event(299).expect("it can be read").is_some());
}

#[test]
fn nodes_that_lead_in_a_circle_end_the_walk() {
    let events = some_events(300);
    let good = file_of(&events, None);
    let tree = |level: u8| [b'T', b'R', b'E', b'E', 0, level];
    let root = good
        .windows(6)
        .position(|it| it == tree(1))
        .expect("a root");
    let below = good
        .windows(6)
        .position(|it| it == tree(0))
        .expect("a node");
    // A child of either leads to the root.
    for node in [root, below] {
        let mut bad = good.clone();
        bad[node + 32..node + 40].copy_from_slice(&(root as u64).to_le_bytes());
        let mut reading = open(&bad).expect("a good head");
        let error = reading.next_event().expect_err("a circle").to_string();
        assert!(error.contains(&format!("at byte {root}")), "{error}");
        assert!(reading.event(10).is_err());
    }
}
