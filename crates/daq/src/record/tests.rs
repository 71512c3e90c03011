//! Files written, cut at every byte, spoilt at every byte, and made of any bytes.

use proptest::collection::vec;
use proptest::prelude::*;

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

fn written(folder: &Folder, finished: bool) -> Vec<u8> {
    let mut recorder = Recorder::create(&folder.0, 3, 1).expect("a new file");
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
        assert_eq!((checked.built, checked.incomplete), (1, 1));
        assert_eq!((checked.fragments, checked.bytes), (3, 43));
        assert_eq!(checked.indexed, finished);
        assert!(checked.problem.is_none());
        let index = read_index(&path).expect("a file");
        let expected = finished.then(|| vec![(7, 32), (9, 32 + 32 + 48 + 10)]);
        assert_eq!(index, expected);
    }
}

#[test]
fn what_was_whole_before_the_cut_is_read() {
    let bytes = written(&Folder::new("cut"), false);
    let ends = [32, 32 + 32 + 48 + 10, bytes.len()];
    for len in 32..=bytes.len() {
        let mut reading = Reading::new(&bytes[..len], len as u64).expect("its head");
        let mut events = 0;
        let end = loop {
            match reading.next_event() {
                Ok(Some(_)) => events += 1,
                other => break other,
            }
        };
        let whole = ends.iter().filter(|&&it| it <= len).count() - 1;
        assert_eq!(events, whole, "cut at {len}");
        assert_eq!(end.is_ok(), ends.contains(&len), "cut at {len}");
    }
}

#[test]
fn every_spoilt_byte_is_found() {
    let bytes = written(&Folder::new("spoilt"), false);
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        let all = Reading::new(&bad[..], bad.len() as u64).and_then(|mut reading| {
            while reading.next_event()?.is_some() {}
            Ok(())
        });
        assert!(all.is_err(), "byte {at}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(bytes in vec(any::<u8>(), 0..300), head: bool) {
        let mut all = written_head();
        if head {
            all.extend(b"EVNT");
        }
        all.extend(bytes);
        if let Ok(mut reading) = Reading::new(&all[..], all.len() as u64) {
            while let Ok(Some(_)) = reading.next_event() {}
        }
    }
}

fn written_head() -> Vec<u8> {
    let mut head = Vec::from(HEAD_MAGIC);
    head.extend([0; 20]);
    head.extend(crate::wire::crc32c(&head).to_le_bytes());
    head
}
