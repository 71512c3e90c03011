//! Files written, cut at every byte, spoilt at every byte, and made of any bytes.

mod damage;

use std::io::Cursor;
use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;

use super::format::HEAD_MAGIC;
use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barewire-daq-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn fragment(source: u16, bytes: usize) -> Stored {
    Stored {
        source,
        at_ns: 5,
        data: (0..bytes).map(|it| it as u8).collect(),
    }
}

fn about() -> About {
    About {
        seed: 11,
        made_unix_ns: 1_000_000_007,
        clock_unix_ns: 1_000_000_000,
        version: "1.2".to_owned(),
        config: "[run]\nseed = 11\n".to_owned(),
    }
}

/// Where the first record begins: behind the head and what the file says of its run.
const FIRST: usize = 32 + 48 + 3 + 16;

fn written(folder: &Folder, finished: bool) -> Vec<u8> {
    let mut recorder = Recorder::create(&folder.0, 3, 1, &about()).expect("a new file");
    recorder.add(7, 0, &[fragment(0, 10), fragment(1, 0)]);
    recorder.write().expect("room");
    recorder.add(9, 1, &[fragment(1, 33)]);
    recorder.write().expect("room");
    let path = recorder.path().to_owned();
    if finished {
        recorder.finish().expect("room");
    }
    std::fs::read(path).expect("the file")
}

#[test]
fn what_is_written_is_read_with_and_without_index() {
    let folder = Folder::new("files");
    for (number, finished) in [(0, true), (1, false)] {
        written(&folder, finished);
        let path = folder
            .0
            .join(format!("run-000003-builder-01-{number:03}.evb"));
        let checked = check(&path, None).expect("a file of events");
        assert_eq!((checked.run, checked.builder), (3, 1));
        assert_eq!(checked.about, Some(about()));
        assert_eq!((checked.built, checked.incomplete), (1, 1));
        assert_eq!((checked.fragments, checked.bytes), (3, 43));
        let state = match finished {
            true => IndexState::Right,
            false => IndexState::Stopped,
        };
        assert_eq!(checked.index, state);
        assert!(checked.is_good(), "{checked:?}");
        let index = read_index(&path).expect("a file");
        let expected = finished.then(|| {
            let first = FIRST as u64;
            vec![(7, first), (9, first + 32 + 48 + 10)]
        });
        assert_eq!(index, expected);
    }
}

#[test]
fn what_was_whole_before_the_cut_is_read() {
    let bytes = written(&Folder::new("cut"), false);
    let ends = [FIRST, FIRST + 32 + 48 + 10, bytes.len()];
    for len in FIRST..=bytes.len() {
        let cut = Cursor::new(&bytes[..len]);
        let mut reading = Reading::new(cut, len as u64).expect("its head");
        let mut events = 0;
        while reading.next_event().expect("it can be read").is_some() {
            events += 1;
        }
        let last = ends.iter().rposition(|&it| it <= len).expect("its head");
        assert_eq!(events, last, "cut at {len}");
        assert!(reading.damage().is_none(), "cut at {len}");
        let ending = match ends[last] == len {
            true => Ending::Stopped,
            false => Ending::Cut(ends[last] as u64),
        };
        assert_eq!(reading.ending(), Some(ending), "cut at {len}");
    }
}

#[test]
fn all_events_are_read_behind_a_damaged_head() {
    let folder = Folder::new("damaged-head");
    for finished in [false, true] {
        let good = written(&folder, finished);
        for at in 0..FIRST {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            let path = folder.0.join("bad.evb");
            std::fs::write(&path, &bytes).expect("room");
            let checked = check(&path, None).expect("a file of events");
            assert_eq!(checked.events, [7, 9], "byte {at}");
            assert!(!checked.damage.is_none() && !checked.is_good(), "byte {at}");
            assert_eq!(checked.about.is_some(), at < 32, "byte {at}");
            let (found, _) = places(&path).expect("a file of events");
            assert_eq!(found.len(), 2, "byte {at}");
        }
    }
}

#[test]
fn an_index_that_is_cut_is_that_of_a_stopped_writer() {
    let folder = Folder::new("cut-index");
    let bytes = written(&folder, true);
    let index_at = bytes.len() - 24 - 48;
    for len in index_at..bytes.len() {
        let path = folder.0.join("cut.evb");
        std::fs::write(&path, &bytes[..len]).expect("room");
        let checked = check(&path, None).expect("a file of events");
        assert_eq!(checked.events, [7, 9], "cut at {len}");
        assert_eq!(checked.index, IndexState::Stopped, "cut at {len}");
        assert!(checked.is_good(), "cut at {len}");
    }
}

#[test]
fn an_index_of_other_records_disagrees() {
    let folder = Folder::new("disagrees");
    let bytes = written(&folder, true);
    let index_at = bytes.len() - 24 - 48;
    // The second entry says that event 8 is there, where event 9 is: with a right check code.
    let mut other = bytes.clone();
    other[index_at + 32] = 8;
    let crc = crate::wire::crc32c(&other[index_at..bytes.len() - 24]);
    let crc_at = bytes.len() - 16;
    other[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    let path = folder.0.join("other.evb");
    std::fs::write(&path, &other).expect("room");
    let checked = check(&path, None).expect("a file of events");
    assert_eq!(checked.index, IndexState::Disagrees);
    assert!(!checked.is_good());
    assert_eq!(checked.events, [7, 9]);
    // Nobody goes by it.
    let (found, damage) = places(&path).expect("a file of events");
    assert!(damage.is_none());
    assert_eq!(found, [(7, FIRST as u64), (9, FIRST as u64 + 90)]);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(bytes in vec(any::<u8>(), 0..300), begin in 0..3) {
        let mut all = written_head();
        match begin {
            0 => all.extend(b"EVNT"),
            1 => about().append(&mut all),
            _ => {}
        }
        all.extend(bytes);
        let len_bytes = all.len() as u64;
        if let Ok(mut reading) = Reading::new(Cursor::new(all), len_bytes) {
            while reading.next_event().expect("it can be read").is_some() {}
            prop_assert!(reading.ending().is_some());
        }
    }
}

fn written_head() -> Vec<u8> {
    let mut head = Vec::from(HEAD_MAGIC);
    head.extend([0; 20]);
    head.extend(crate::wire::crc32c(&head).to_le_bytes());
    head
}
