//! Headers of pieces, batches of control messages, files of events and configurations, from any
//! bytes: nothing panics, and what is read is written back as it was.
#![no_main]

use std::io::Cursor;

use barewire_daq::config::Config;
use barewire_daq::record::{Reading, parse};
use barewire_daq::wire::{Batch, PieceHeader, crc32c};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, bytes)) = data.split_first() else {
        return;
    };
    match kind % 4 {
        0 => header(bytes.to_vec()),
        1 => batch(bytes),
        2 => file(bytes),
        _ => {
            if let Ok(text) = core::str::from_utf8(bytes) {
                let _ = Config::parse(text, "fuzz");
            }
        }
    }
});

/// With its check code repaired, so that something is found behind it.
fn header(mut bytes: Vec<u8>) {
    bytes.resize(56, 0);
    bytes[..4].copy_from_slice(&[0xb1, 0xe5, 1, 1]);
    // The reserved field is not read, and written as zero.
    bytes[34..36].fill(0);
    let crc = crc32c(&bytes[..52]);
    bytes[52..].copy_from_slice(&crc.to_le_bytes());
    if let Ok(header) = PieceHeader::parse(&bytes) {
        assert_eq!(header.to_bytes(), bytes[..]);
    }
}

fn batch(bytes: &[u8]) {
    let mut whole = vec![0xb1, 0xe5, 1, 2];
    whole.extend(bytes);
    let crc = crc32c(&whole);
    whole.splice(4..4, crc.to_le_bytes());
    if let Ok(messages) = Batch::parse(&whole) {
        let mut again = Batch::default();
        messages.iter().for_each(|it| again.push(it));
        if !messages.is_empty() {
            assert_eq!(Batch::parse(again.seal()), Ok(messages));
        }
    }
}

fn file(bytes: &[u8]) {
    let mut whole = b"BWEVENT1".to_vec();
    whole.extend([0; 20]);
    whole.extend(crc32c(&whole).to_le_bytes());
    whole.extend(bytes);
    let len_bytes = whole.len() as u64;
    let mut reading = Reading::new(Cursor::new(&whole), len_bytes).expect("its head is right");
    while let Some(event) = reading.next_event().expect("memory can be read") {
        let record = &whole[reading.last_at() as usize..];
        if let Ok(Some((same, _))) = parse(record) {
            assert_eq!(same, event);
        }
    }
    assert!(reading.ending().is_some());
    assert!(reading.damage().bytes <= len_bytes);
}
