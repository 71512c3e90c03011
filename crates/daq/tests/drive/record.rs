//! Drives all that reads records with a file that `data` describes: good records, heads whose
//! check code is right and whose numbers are not, any bytes, an index of any places. Nothing panics,
//! and all ways to read a record agree. The fuzzer and a property test run it.

use std::io::Cursor;

use barewire_daq::record::{self, Reading, Recorded, Stored};
use barewire_daq::wire::crc32c;

/// Takes bytes of `data` one after the other; zeros after its end.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let count = N.min(self.0.len());
        let (first, rest) = self.0.split_at(count);
        bytes[..count].copy_from_slice(first);
        self.0 = rest;
        bytes
    }

    fn byte(&mut self) -> u8 {
        let [byte] = self.bytes();
        byte
    }

    /// Mostly near a place in a file of `len` bytes, now and then anywhere.
    fn place(&mut self, len: usize) -> u64 {
        match self.byte() {
            255 => u64::from_le_bytes(self.bytes()),
            _ => u64::from(u16::from_le_bytes(self.bytes())) % (len as u64 + 8),
        }
    }
}

fn head() -> Vec<u8> {
    let mut head = b"BWEVENT1".to_vec();
    head.extend([0; 20]);
    head.extend(crc32c(&head).to_le_bytes());
    head
}

fn append_record(script: &mut Script<'_>, file: &mut Vec<u8>) {
    let fragments: Vec<_> = (0..script.byte() % 4)
        .map(|_| Stored {
            source: u16::from(script.byte() % 4),
            at_ns: u64::from(script.byte()),
            data: vec![script.byte(); usize::from(script.byte())],
        })
        .collect();
    let event = u64::from(script.byte());
    record::append(file, event, u32::from(script.byte() % 2), &fragments);
}

/// Number of events, bytes and fragments as the script likes.
fn append_false_head(script: &mut Script<'_>, file: &mut Vec<u8>) {
    let start = file.len();
    file.extend(b"EVNT");
    file.extend(script.bytes::<12>());
    file.extend(script.place(64).to_le_bytes());
    file.extend((script.place(4) as u32).to_le_bytes());
    let crc = crc32c(&file[start..]);
    file.extend(crc.to_le_bytes());
    let mut fragment = script.bytes::<16>().to_vec();
    fragment.extend(script.place(64).to_le_bytes());
    file.extend(fragment);
}

fn append_index(script: &mut Script<'_>, file: &mut Vec<u8>) {
    let mut index = b"INDX\0\0\0\0".to_vec();
    let count = script.byte() % 8;
    index.extend(u64::from(count).to_le_bytes());
    for _ in 0..count {
        index.extend(u64::from(script.byte()).to_le_bytes());
        index.extend(script.place(file.len()).to_le_bytes());
    }
    let start = match script.byte() {
        0 => script.place(file.len()),
        _ => file.len() as u64,
    };
    let crc = crc32c(&index);
    file.extend(index);
    file.extend(start.to_le_bytes());
    file.extend(crc.to_le_bytes());
    file.extend(b"\0\0\0\0BWEVEND1");
}

/// The file of a script.
fn file_of(data: &[u8]) -> Vec<u8> {
    let mut script = Script(data);
    let mut file = head();
    while !script.0.is_empty() {
        match script.byte() % 8 {
            0..=3 => append_record(&mut script, &mut file),
            4 => append_false_head(&mut script, &mut file),
            5 => append_index(&mut script, &mut file),
            6 => file.extend(script.bytes::<8>()),
            _ => {
                let at = script.place(file.len()) as usize % file.len();
                file[at] ^= script.byte();
            }
        }
    }
    file
}

/// Reads it in all ways.
pub fn drive(data: &[u8]) {
    let file = file_of(data);
    let len_bytes = file.len() as u64;
    let Ok(mut reading) = Reading::new(Cursor::new(&file), len_bytes) else {
        return;
    };
    let whole = Cursor::new(&file);
    let mut random = Reading::new(whole, len_bytes).expect("the head that was just read");
    let mut behind = 0;
    while let Some(event) = reading.next_event().expect("memory can be read") {
        let at = reading.last_at();
        assert!(at >= behind, "records follow one another");
        behind = at + 1;
        if event.damaged == 0 {
            let parsed = record::parse(&file[at as usize..]);
            if let Ok(Some((same, bytes))) = parsed {
                assert_eq!(same, event);
                assert!(at + bytes as u64 <= len_bytes);
            } else {
                // Its fragments are all there, and something else stands behind them.
                assert!(!reading.damage().is_none(), "{parsed:?}");
            }
        }
        fragments_agree(&mut random, at, &event);
    }
    let damage = reading.damage();
    assert!(damage.bytes <= len_bytes, "{damage:?}");
    assert!(reading.ending().is_some());
    if let Ok(Some(index)) = record::index_in(Cursor::new(&file), len_bytes) {
        for (event, at) in index {
            let found = random.fragment(at, event, event as u16 % 4);
            assert!(found.is_err() || at < len_bytes);
        }
    }
}

fn fragments_agree(random: &mut Reading<Cursor<&Vec<u8>>>, at: u64, event: &Recorded) {
    for source in 0..4 {
        let found = random.fragment(at, event.event, source);
        let first = event.fragments.iter().find(|it| it.source == source);
        match found {
            Ok(found) => assert_eq!(found.as_ref(), first),
            Err(problem) => assert!(first.is_none(), "{problem}"),
        }
    }
}
