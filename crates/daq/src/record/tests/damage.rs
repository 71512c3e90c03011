//! Recordings with damage: bytes that changed, were lost, or came in between; and files made to
//! keep a reader busy.

use std::cell::Cell;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::ops::Range;
use std::rc::Rc;

use super::*;
use crate::wire::crc32c;

/// A recording, what is in it, and where each record is.
struct Recording {
    bytes: Vec<u8>,
    events: Vec<Recorded>,
    records: Vec<Range<usize>>,
}

/// The kinds of recordings: with index or as a killed builder leaves it, and with or without
/// fragments that are recordings themselves.
const KINDS: [(bool, bool); 4] = [(true, false), (false, false), (true, true), (false, true)];

fn data_of(event: u64, source: u16, bytes: usize) -> Vec<u8> {
    let seed = event * 31 + u64::from(source);
    (0..bytes as u64)
        .map(|it| crate::scatter::scatter(seed ^ it << 20) as u8)
        .collect()
}

fn recording(is_indexed: bool, is_nested: bool) -> Recording {
    let mut bytes = written_head();
    let (mut events, mut records, mut index) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..12_u64 {
        // Not in the order of their numbers, as builders close them.
        let event = number ^ 1;
        let fragments: Vec<_> = (0..3_u16)
            .map(|source| Stored {
                source,
                at_ns: event * 1000,
                data: match is_nested && source == 1 && number % 4 == 0 {
                    true => recording(number == 0, false).bytes,
                    false => data_of(
                        event,
                        source,
                        (number * 13 + u64::from(source) * 7) as usize,
                    ),
                },
            })
            .collect();
        let start = bytes.len();
        let missing = u32::from(number == 5);
        append(&mut bytes, event, missing, &fragments);
        records.push(start..bytes.len());
        index.push((event, start as u64));
        events.push(Recorded {
            event,
            missing,
            damaged: 0,
            fragments,
        });
    }
    if is_indexed {
        append_index(&mut bytes, &index);
    }
    Recording {
        bytes,
        events,
        records,
    }
}

fn append_index(bytes: &mut Vec<u8>, entries: &[(u64, u64)]) {
    let start = bytes.len();
    bytes.extend(b"INDX\0\0\0\0");
    bytes.extend((entries.len() as u64).to_le_bytes());
    for (event, at) in entries {
        bytes.extend(event.to_le_bytes());
        bytes.extend(at.to_le_bytes());
    }
    let crc = crc32c(&bytes[start..]);
    bytes.extend((start as u64).to_le_bytes());
    bytes.extend(crc.to_le_bytes());
    bytes.extend(b"\0\0\0\0BWEVEND1");
}

struct Outcome {
    events: Vec<Recorded>,
    damage: Damage,
    ending: Ending,
}

fn read_all(bytes: &[u8]) -> Outcome {
    let reading = Reading::new(Cursor::new(bytes), bytes.len() as u64);
    let mut reading = reading.expect("a file of ours");
    let mut events = Vec::new();
    while let Some(event) = reading.next_event().expect("it can be read") {
        events.push(event);
    }
    Outcome {
        events,
        damage: reading.damage().clone(),
        ending: reading.ending().expect("the end"),
    }
}

/// Every event that was read is one of the recording, with fragments of its own, and those
/// that it lacks are counted; events of the records that are not in `hit` are whole, and there.
fn assert_good_but(recording: &Recording, outcome: &Outcome, hit: impl Fn(&Range<usize>) -> bool) {
    for event in &outcome.events {
        let original = recording.events.iter().find(|it| it.event == event.event);
        let original = original.expect("an event of the recording");
        let all = original.fragments.len();
        assert_eq!(event.missing, original.missing);
        assert_eq!(event.fragments.len() + event.damaged as usize, all);
        let is_its = |it| original.fragments.contains(it);
        assert!(event.fragments.iter().all(is_its), "event {}", event.event);
    }
    let originals = recording.events.iter().zip(&recording.records);
    for (original, _) in originals.filter(|(_, record)| !hit(record)) {
        let count = outcome.events.iter().filter(|&it| it == original).count();
        assert_eq!(count, 1, "event {}: {:?}", original.event, outcome.damage);
    }
    let numbers = outcome.events.iter().map(|it| it.event);
    let different: std::collections::BTreeSet<_> = numbers.collect();
    assert_eq!(different.len(), outcome.events.len(), "an event twice");
}

fn assert_is_found(folder: &Folder, recording: &Recording, bytes: &[u8], outcome: &Outcome) {
    let path = folder.0.join("bad.evb");
    std::fs::write(&path, bytes).expect("room");
    let checked = check(&path, None).expect("a file of ours");
    assert!(!checked.is_good(), "{checked:?}");
    assert_eq!(checked.events.len(), outcome.events.len());
    assert_eq!(checked.damage, outcome.damage);
    if let Some(lost) = checked.lost {
        let there = recording.events.len() as u64;
        assert_eq!(lost, there - checked.events.len() as u64);
    }
}

#[test]
fn one_changed_byte_costs_no_more_than_the_event_it_is_in() {
    let folder = Folder::new("found");
    for (is_indexed, is_nested) in KINDS {
        let recording = recording(is_indexed, is_nested);
        let records_end = recording.records.last().expect("some").end;
        // Of the long ones every seventh byte; on the disk fewer, but all of index and tail.
        for at in (0..recording.bytes.len()).filter(|it| !is_nested || it % 7 == 0) {
            let mut bad = recording.bytes.clone();
            bad[at] ^= 1 << (at / 7 % 8);
            let outcome = read_all(&bad);
            assert_good_but(&recording, &outcome, |record| record.contains(&at));
            if at % 5 == 0 || at >= records_end {
                assert_is_found(&folder, &recording, &bad, &outcome);
            }
            assert_eq!(outcome.damage.is_none(), at >= records_end, "byte {at}");
            let ending = match is_indexed {
                true => Ending::Index(records_end as u64),
                false => Ending::Stopped,
            };
            assert_eq!(
                outcome.ending, ending,
                "byte {at} of {is_indexed}, {is_nested}"
            );
        }
    }
}

#[test]
fn a_damaged_fragment_leaves_the_others_of_its_event() {
    let recording = recording(false, false);
    let record = recording.records[7].clone();
    let mut bad = recording.bytes.clone();
    // The last byte of the record is in the data of the last fragment.
    bad[record.end - 1] ^= 1;
    let outcome = read_all(&bad);
    let event = &outcome.events[7];
    let original = &recording.events[7];
    assert_eq!(event.damaged, 1);
    assert_eq!(event.fragments, original.fragments[..2]);
    let fragment_bytes = 24 + original.fragments[2].data.len() as u64;
    let stretch = Stretch {
        at: record.end as u64 - fragment_bytes,
        bytes: fragment_bytes,
        event: Some(original.event),
        source: Some(2),
    };
    assert_eq!(outcome.damage.first, [stretch]);
    assert_eq!((outcome.damage.events, outcome.damage.fragments), (1, 1));
}

#[test]
fn fragments_are_found_one_by_one_in_a_damaged_record() {
    for at_in_record in 0..140 {
        let recording = recording(true, false);
        let record = recording.records[3].clone();
        let mut bad = recording.bytes.clone();
        bad[record.start + at_in_record] ^= 0x40;
        let whole = read_all(&bad).events;
        let bytes = bad.len() as u64;
        let mut reading = Reading::new(Cursor::new(&bad), bytes).expect("a file of ours");
        let event = recording.events[3].event;
        let sequential = whole.iter().find(|it| it.event == event);
        for source in 0..3 {
            let found = reading.fragment(record.start as u64, event, source);
            let found = found.ok().flatten();
            let expected = sequential.and_then(|event| {
                let mut all = event.fragments.iter();
                all.find(|it| it.source == source).cloned()
            });
            assert_eq!(found, expected, "byte {at_in_record}, source {source}");
        }
        assert!(reading.fragment(record.start as u64, 1000, 0).is_err());
    }
}

#[test]
fn bytes_behind_the_last_record_are_no_stopped_writer() {
    let mut recording = recording(false, false);
    recording.bytes.extend([0; 100]);
    let outcome = read_all(&recording.bytes);
    assert_good_but(&recording, &outcome, |_| false);
    assert_eq!(outcome.ending, Ending::Damaged);
    assert_eq!((outcome.damage.stretches, outcome.damage.bytes), (1, 100));
}

#[test]
fn an_index_that_lists_less_than_there_is_hides_nothing_behind_damage() {
    let mut recording = recording(false, false);
    let place = |at: usize| {
        (
            recording.events[at].event,
            recording.records[at].start as u64,
        )
    };
    let lists = [vec![place(0), place(1)], vec![place(11)], vec![]];
    let records = recording.bytes.clone();
    for (number, list) in lists.iter().enumerate() {
        recording.bytes.clone_from(&records);
        append_index(&mut recording.bytes, list);
        // The head of the third record.
        let at = recording.records[2].start + 9;
        recording.bytes[at] ^= 1;
        let outcome = read_all(&recording.bytes);
        let is_hit = |record: &Range<usize>| record.contains(&at);
        assert_good_but(&recording, &outcome, is_hit);
        assert_eq!(outcome.events.len(), 11, "list {number}");
    }
}

/// What is done to a recording.
#[derive(Clone, Debug)]
enum Edit {
    Change(Vec<u8>),
    Lose(usize),
    Insert(Vec<u8>),
}

fn any_edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        vec(any::<u8>(), 1..400).prop_map(Edit::Change),
        (1..400_usize).prop_map(Edit::Lose),
        vec(any::<u8>(), 1..400).prop_map(Edit::Insert),
    ]
}

/// Edits bytes from `at` on; the place of what was hit.
fn edit(bytes: &mut Vec<u8>, at: usize, edit: &Edit) -> Range<usize> {
    let rest = bytes.len() - at;
    let (taken, put) = match edit {
        Edit::Change(new) => (new.len().min(rest), &new[..new.len().min(rest)]),
        Edit::Lose(count) => ((*count).min(rest), &[][..]),
        Edit::Insert(new) => (0, &new[..]),
    };
    bytes.splice(at..at + taken, put.iter().copied());
    at..at + taken
}

proptest! {
    #[test]
    fn one_changed_byte_anywhere(
        kind in 0..KINDS.len(), place in 0.0..1.0_f64, mask in 1..=255_u8,
    ) {
        let recording = recording(KINDS[kind].0, KINDS[kind].1);
        let at = (recording.bytes.len() as f64 * place) as usize;
        let mut bad = recording.bytes.clone();
        bad[at] ^= mask;
        assert_good_but(&recording, &read_all(&bad), |record| record.contains(&at));
    }

    #[test]
    fn what_is_not_hit_is_read(is_indexed: bool, place in 0.0..1.0_f64, what in any_edit()) {
        let recording = recording(is_indexed, false);
        let mut bad = recording.bytes.clone();
        let at = 32 + ((bad.len() - 32) as f64 * place) as usize;
        let hit = edit(&mut bad, at, &what);
        // Bytes between two records hit none of them.
        assert_good_but(&recording, &read_all(&bad), |record| {
            record.start < hit.end && hit.start < record.end
                || hit.is_empty() && record.start < hit.start && hit.start < record.end
        });
    }

    #[test]
    fn nothing_damaged_is_taken_for_good(
        is_indexed: bool,
        edits in vec((0.0..1.0_f64, any_edit()), 1..6),
    ) {
        let recording = recording(is_indexed, false);
        let mut bad = recording.bytes.clone();
        for (place, what) in &edits {
            let at = 32 + ((bad.len() - 32) as f64 * place) as usize;
            edit(&mut bad, at, what);
        }
        assert_good_but(&recording, &read_all(&bad), |_| true);
    }
}

/// The bytes between the first fragments of two events are lost: behind the one stand those of the other.
#[test]
fn fragments_of_another_event_are_not_taken() {
    for is_indexed in [false, true] {
        let recording = recording(is_indexed, false);
        let behind_first = |nth: usize| {
            let first = &recording.events[nth].fragments[0];
            recording.records[nth].start + 32 + 24 + first.data.len()
        };
        let mut bad = recording.bytes.clone();
        bad.drain(behind_first(5)..behind_first(6));
        let is_hit = |record: &Range<usize>| recording.records[5..7].contains(record);
        assert_good_but(&recording, &read_all(&bad), is_hit);
    }
}

/// Counts what is read of it.
struct Counted<R> {
    inner: R,
    bytes: Rc<Cell<u64>>,
    bytes_max: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.bytes.get() > self.bytes_max {
            return Err(io::Error::other("read too often"));
        }
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

fn event_head(bytes: u64, count: u32) -> Vec<u8> {
    let mut head = b"EVNT\0\0\0\0".to_vec();
    head.extend(7_u64.to_le_bytes());
    head.extend(bytes.to_le_bytes());
    head.extend(count.to_le_bytes());
    head.extend(crc32c(&head).to_le_bytes());
    head
}

/// The head of a fragment with a wrong check code.
fn bad_fragment(bytes: u64) -> Vec<u8> {
    let mut head = vec![0; 16];
    head.extend(bytes.to_le_bytes());
    head
}

#[test]
fn reading_takes_time_in_proportion_to_the_file() {
    const FILE_BYTES: usize = 6 << 20;
    let far = 3 << 20;
    let patterns = [
        // Records that claim much more than there is up to the next one.
        [event_head(far, 1), bad_fragment(far - 24)].concat(),
        [event_head(far, 2), bad_fragment(0), bad_fragment(u64::MAX)].concat(),
        [event_head(2000, 1), bad_fragment(1976)].concat(),
        [event_head(u64::MAX >> 1, 1), bad_fragment(far)].concat(),
        // Damaged heads before fragments that are claimed to be long.
        [vec![1; 32], bad_fragment(far), event_head(0, 0)].concat(),
        b"EVNT".to_vec(),
        b"INDX\0\0\0\0".to_vec(),
        b"EVNTINDX".to_vec(),
    ];
    for (number, pattern) in patterns.iter().enumerate() {
        for is_indexed in [false, true] {
            let mut file = written_head();
            while file.len() < FILE_BYTES {
                file.extend(pattern);
            }
            if is_indexed {
                // Places at which there is nothing.
                append_index(&mut file, &vec![(1, 33); 1000]);
            }
            let len_bytes = file.len() as u64;
            let bytes = Rc::new(Cell::new(0));
            let counted = Counted {
                inner: Cursor::new(file),
                bytes: Rc::clone(&bytes),
                // Once, four times more if bytes are read again, and what buffers are read too far.
                bytes_max: 12 * len_bytes,
            };
            let mut reading = Reading::new(counted, len_bytes).expect("a file of ours");
            let mut end = Ok(Some(Recorded::default()));
            while matches!(end, Ok(Some(_))) {
                end = reading.next_event();
            }
            let times = bytes.get() / len_bytes;
            assert!(
                end.is_ok(),
                "pattern {number}, {is_indexed}: read {times} times"
            );
        }
    }
}
