//! Drives the reader of HDF5 files with a good file that `data` changes: bytes, numbers at any place,
//! its end. Check codes are made right again if the script says so, so that false lengths and addresses get
//! behind them. Nothing panics, nothing goes on for ever, and an event is the one that was asked for. The fuzzer
//! and a property test run it.

use std::io::Cursor;
use std::sync::OnceLock;

use barewire_daq::record::{About, Stored};
use barewire_daq::sink::hdf5::{Hdf5Reading, Hdf5Writer, lookup3};

/// Events of the good file, and their numbers: two levels of the tree.
const EVENTS: u64 = 260;

fn good_file() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| {
        let name = format!("barewire-daq-drive-hdf5-{}.h5", std::process::id());
        let path = std::env::temp_dir().join(name);
        let about = About {
            seed: 1,
            version: "1".to_owned(),
            config: "[run]\n".to_owned(),
            ..About::default()
        };
        let mut writer = Hdf5Writer::create(&path, 1, 2, Some(&about)).expect("a new file");
        for event in 0..EVENTS {
            let fragment = |source: u16| Stored {
                source,
                at_ns: event,
                data: vec![event as u8; usize::from(source) * 3],
            };
            let fragments = [fragment(0), fragment(1)];
            writer.add(event, 0, &fragments[..event as usize % 3 % 2 + 1]);
        }
        writer.finish().expect("room");
        let bytes = std::fs::read(&path).expect("the file");
        std::fs::remove_file(&path).expect("the file");
        bytes
    })
}

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

    /// A place in a file of `len` bytes; often one of the last ones, where the table is.
    fn place(&mut self, len: usize) -> usize {
        let number = u32::from_le_bytes(self.bytes()) as usize;
        match number % 2 {
            0 => number / 2 % len,
            _ => len - 1 - number / 2 % len.min(20_000),
        }
    }
}

/// Makes the check codes right of all object headers that end within the file, and of the superblock.
fn seal(file: &mut [u8]) {
    for at in (0..file.len().saturating_sub(14)).step_by(8) {
        if !file[at..].starts_with(b"OHDR") {
            continue;
        }
        let size = file[at + 6..at + 10].try_into().expect("4 bytes");
        let end = at + 10 + u32::from_le_bytes(size) as usize;
        if end + 4 <= file.len() {
            let code = lookup3(&file[at..end]);
            file[end..end + 4].copy_from_slice(&code.to_le_bytes());
        }
    }
    if file.len() >= 48 {
        let code = lookup3(&file[..44]);
        file[44..48].copy_from_slice(&code.to_le_bytes());
    }
}

/// The file of a script.
fn file_of(script: &mut Script<'_>) -> Vec<u8> {
    let mut file = good_file().to_vec();
    let is_sealed = script.byte() % 4 > 0;
    while !script.0.is_empty() && !file.is_empty() {
        let at = script.place(file.len());
        match script.byte() % 8 {
            0 => file.truncate(at),
            1 | 2 => file[at] = script.byte(),
            3 => file[at] ^= 1 << (script.byte() % 8),
            // A number that is an address, or some other length.
            kind => {
                let number = match kind {
                    4 => u64::from_le_bytes(script.bytes()),
                    5 => u64::from(script.byte()),
                    _ => script.place(file.len()) as u64 / 8 * 8,
                };
                let at = at / 8 * 8 + usize::from(script.byte() % 8);
                if let Some(place) = file.get_mut(at..at + 8) {
                    place.copy_from_slice(&number.to_le_bytes());
                }
            }
        }
    }
    if is_sealed {
        seal(&mut file);
    }
    file
}

/// Reads it in all ways.
pub fn drive(data: &[u8]) {
    let mut script = Script(data);
    let asked = u64::from(script.byte());
    let file = file_of(&mut script);
    let len_bytes = file.len() as u64;
    let Ok(mut reading) = Hdf5Reading::new(Cursor::new(&file), len_bytes) else {
        return;
    };
    let told = reading.events();
    let (mut calls, mut last) = (0, None);
    loop {
        calls += 1;
        assert!(
            calls <= told + 1,
            "one call for each event, and one for the end"
        );
        match reading.next_event() {
            Ok(Some(event)) => {
                let bytes: usize = event.fragments.iter().map(|it| it.data.len()).sum();
                assert!(bytes <= file.len(), "{bytes} bytes of {}", file.len());
                let name = format!("{:012}", event.event);
                assert!(last < Some(name.clone()), "in order");
                last = Some(name);
            }
            Ok(None) => break,
            Err(_) => {}
        }
    }
    for number in [asked, asked + 100, EVENTS - 1, EVENTS, u64::MAX] {
        if let Ok(Some(event)) = reading.event(number) {
            assert_eq!(event.event, number);
        }
    }
}
