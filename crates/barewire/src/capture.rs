//! The capture tap: what a node sends and receives, as a pcapng file for Wireshark.
//!
//! Traffic that bypasses the kernel is invisible to tcpdump; who bypasses it owes a
//! replacement. Each message (or stream write) is one packet of link type
//! `WIRESHARK_UPPER_PDU` (252): tags that name the two processes as ports, then the bytes.
//!
//! ```text
//! Section Header Block    0x0a0d0d0a, length 28, 0x1a2b3c4d, 1, 0, -1, length
//! Interface Description   1, length 32, link type 252, 0, snap length 0,
//!                         option if_tsresol (9) = 9 (nanoseconds), end of options, length
//! Enhanced Packet Block   6, length, interface 0, time high, time low, captured, original,
//!                         tags and bytes padded to 4, length
//! tags (big-endian: u16 tag, u16 length, value padded to 4)
//!                         12 dissector "data", 33 protocol "Barewire", 20/21 address
//!                         127.0.0.1, 24 port type 2 (TCP), 25 source, 26 destination, 0 end
//! ```
//! Source: pcapng (draft-ietf-opsawg-pcapng, sections 4.1 to 4.3); tags: Wireshark's
//! `epan/exported_pdu.h`. Blocks are in the byte order of the host.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};

const LINKTYPE_WIRESHARK_UPPER_PDU: u16 = 252;
/// Longest part of a message that is captured.
const SNAP_BYTES: usize = 256 << 10;

/// A pcapng file being written.
pub(crate) struct Tap {
    /// `None` once writing has failed: a full disk must not stop the network.
    file: Mutex<Option<BufWriter<File>>>,
    own_pid: u32,
}

impl Tap {
    pub fn create(path: &Path, own_pid: u32) -> Result<Tap> {
        let file = File::create(path).and_then(|file| {
            let mut file = BufWriter::new(file);
            file.write_all(&headers())?;
            file.flush()?;
            Ok(file)
        });
        let file = file.map_err(|error| Error::Capture {
            path: path.display().to_string(),
            reason: error.to_string(),
        })?;
        Ok(Tap {
            file: Mutex::new(Some(file)),
            own_pid,
        })
    }

    /// Records bytes sent to process `peer_pid`.
    pub fn sent(&self, peer_pid: u32, bytes: &[u8]) {
        self.record(self.own_pid, peer_pid, bytes);
    }

    /// Records bytes received from process `peer_pid`.
    pub fn received(&self, peer_pid: u32, bytes: &[u8]) {
        self.record(peer_pid, self.own_pid, bytes);
    }

    fn record(&self, from: u32, to: u32, bytes: &[u8]) {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let time_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let block = packet(time_ns, from, to, bytes);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.as_mut().is_some_and(|f| f.write_all(&block).is_err()) {
            *file = None;
        }
    }

    /// Writes out what is buffered; `false` if the file could not be written, and ends
    /// where that began.
    pub fn flush(&self) -> bool {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.as_mut().is_some_and(|f| f.flush().is_ok())
    }
}

fn headers() -> Vec<u8> {
    let mut out = Vec::new();
    let words = |out: &mut Vec<u8>, words: &[u32]| {
        out.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
    };
    words(&mut out, &[0x0a0d_0d0a, 28, 0x1a2b_3c4d]);
    out.extend(1_u16.to_ne_bytes());
    out.extend(0_u16.to_ne_bytes());
    words(&mut out, &[u32::MAX, u32::MAX, 28]);
    words(&mut out, &[1, 32]);
    out.extend(LINKTYPE_WIRESHARK_UPPER_PDU.to_ne_bytes());
    out.extend(0_u16.to_ne_bytes());
    words(&mut out, &[0]);
    out.extend(9_u16.to_ne_bytes());
    out.extend(1_u16.to_ne_bytes());
    out.extend([9, 0, 0, 0]);
    words(&mut out, &[0, 32]);
    out
}

fn tags(from: u32, to: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let mut tag = |number: u16, value: &[u8]| {
        let padded = value.len().next_multiple_of(4);
        out.extend(number.to_be_bytes());
        out.extend((padded as u16).to_be_bytes());
        out.extend(value);
        out.resize(out.len() + padded - value.len(), 0);
    };
    tag(12, b"data");
    tag(33, b"Barewire");
    tag(20, &[127, 0, 0, 1]);
    tag(21, &[127, 0, 0, 1]);
    tag(24, &2_u32.to_be_bytes());
    tag(25, &from.to_be_bytes());
    tag(26, &to.to_be_bytes());
    tag(0, &[]);
    out
}

fn packet(time_ns: u64, from: u32, to: u32, bytes: &[u8]) -> Vec<u8> {
    let tags = tags(from, to);
    let kept = &bytes[..bytes.len().min(SNAP_BYTES)];
    let captured = tags.len() + kept.len();
    let original = tags.len() + bytes.len();
    let length = 32 + captured.next_multiple_of(4);
    let head = [
        6,
        length as u32,
        0,
        (time_ns >> 32) as u32,
        time_ns as u32,
        captured as u32,
        u32::try_from(original).unwrap_or(u32::MAX),
    ];
    let mut out = Vec::with_capacity(length);
    out.extend(head.iter().flat_map(|w| w.to_ne_bytes()));
    out.extend(tags);
    out.extend(kept);
    out.resize(length - 4, 0);
    out.extend((length as u32).to_ne_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_state_their_length_at_both_ends() {
        let headers = headers();
        assert_eq!(headers.len(), 60);
        for len in [0, 1, 2, 3, 4, 1000] {
            let block = packet(1, 2, 3, &vec![7; len]);
            let length = (block.len() as u32).to_ne_bytes();
            assert_eq!(block.len() % 4, 0);
            assert_eq!(block[4..8], length);
            assert_eq!(block[block.len() - 4..], length);
        }
    }

    #[test]
    fn a_full_disk_ends_the_capture_quietly_and_is_reported_when_asked() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let tap = Tap {
            file: Mutex::new(Some(BufWriter::new(full))),
            own_pid: 1,
        };
        for _ in 0..100 {
            tap.sent(2, &[0; 1000]);
        }
        assert!(!tap.flush());
    }

    #[test]
    fn a_long_message_is_cut_and_says_so() {
        let block = packet(1, 2, 3, &vec![7; SNAP_BYTES + 10]);
        let word = |at: usize| u32::from_ne_bytes(block[at..at + 4].try_into().unwrap());
        assert_eq!(word(24) - word(20), 10);
    }
}
