//! The capture tap: what a node sends and receives, as a pcapng file for Wireshark.
//!
//! Traffic that bypasses the kernel is invisible to tcpdump; this takes its place. Each message (or stream write) is one packet of link type
//! `WIRESHARK_UPPER_PDU` ([`barewire_wire::capture`] has the layout): tags that name
//! Wireshark's dissector `data`, the protocol `Barewire`, and the two processes as ports
//! of 127.0.0.1, then the bytes. Of a connection to another host they are ports of the two hosts' addresses.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use barewire_wire::capture::exported::{self, Endpoint, TagsRepr};
use barewire_wire::capture::{ByteOrder, LinkType, Output, Pcapng, Port};

use crate::error::{Error, Result};
use crate::links::link::Link;

/// Room for the tags of a message.
const TAGS_BYTES_MAX: usize = 88;

/// A pcapng file being written.
pub(crate) struct Tap {
    /// `None` once writing has failed: a full disk must not stop the network.
    file: Mutex<Option<Capture>>,
    own_pid: u32,
    paused: AtomicBool,
}

struct Capture {
    file: Pcapng<Buffered>,
    port: Port,
}

struct Buffered(BufWriter<File>);

impl Output for Buffered {
    type Error = io::Error;

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }
}

impl Capture {
    fn begin(file: File) -> io::Result<Capture> {
        let mut file = Pcapng::new(Buffered(BufWriter::new(file)), ByteOrder::NATIVE)?;
        let port = file.interface(LinkType::UPPER_PDU, 0, "")?;
        Ok(Capture { file, port })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.output().0.flush()
    }
}

impl Tap {
    pub fn create(path: &Path, own_pid: u32) -> Result<Tap> {
        let file = File::create(path).and_then(|file| {
            let mut file = Capture::begin(file)?;
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
            paused: AtomicBool::new(false),
        })
    }

    /// Stops recording for a while, with what was recorded written out, or goes on.
    pub fn pause(&self, paused: bool) {
        // Relaxed: a hint; a message at the same time is recorded or not.
        if self.paused.swap(paused, Ordering::Relaxed) != paused && paused {
            // That it could not be written is told by whoever asks for it.
            let _ = self.flush();
        }
    }

    /// The ends of a connection over this link.
    pub fn ends(&self, link: &Link) -> Ends {
        match link.remote().and_then(|remote| remote.peer()) {
            Some(peer) => Ends {
                own: end(ip(&peer.own_address), self.own_pid),
                peer: end(ip(&peer.address), peer.pid),
            },
            None => Ends {
                own: end(HERE, self.own_pid),
                peer: end(HERE, link.peer.pid as u32),
            },
        }
    }

    /// Records bytes sent on a connection.
    pub fn sent(&self, ends: &Ends, bytes: &[u8]) {
        self.record(ends.own, ends.peer, bytes);
    }

    /// Records bytes received on a connection.
    pub fn received(&self, ends: &Ends, bytes: &[u8]) {
        self.record(ends.peer, ends.own, bytes);
    }

    fn record(&self, from: Endpoint, to: Endpoint, bytes: &[u8]) {
        // Relaxed: as in `pause`.
        if self.paused.load(Ordering::Relaxed) {
            return;
        }
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let time_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let mut room = [0; TAGS_BYTES_MAX];
        let tags = tags(from, to).emit(&mut room).unwrap_or_default();
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = file.as_mut().map(|capture| {
            let port = capture.port;
            capture.file.packet(port, time_ns, &[tags, bytes], "")
        });
        if let Some(Err(_)) = written {
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

fn tags(from: Endpoint, to: Endpoint) -> TagsRepr<'static> {
    TagsRepr {
        dissector: exported::DATA,
        protocol: "Barewire",
        ends: Some((from, to)),
    }
}

/// The two ends of a connection, as a capture shows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    own: Endpoint,
    peer: Endpoint,
}

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn end(address: IpAddr, pid: u32) -> Endpoint {
    Endpoint { address, port: pid }
}

/// The address in one with a port. A carrier whose addresses are of another kind has none that could be shown.
fn ip(address: &str) -> IpAddr {
    let parsed = address.parse::<SocketAddr>();
    parsed.map_or(Ipv4Addr::UNSPECIFIED.into(), |it| it.ip().to_canonical())
}

#[cfg(test)]
mod tests {
    use barewire_wire::capture::{Content, PACKET_BYTES_MAX, Reader};

    use super::*;

    fn ends() -> Ends {
        Ends {
            own: end(HERE, 1),
            peer: end(HERE, 2),
        }
    }

    #[test]
    fn the_tags_have_room() {
        let far = end(ip("[2001:db8::1]:7400"), 1);
        assert_eq!(tags(far, far).buffer_len(), TAGS_BYTES_MAX);
    }

    #[test]
    fn addresses_are_read_as_carriers_write_them() {
        assert_eq!(ip("10.0.0.1:7400").to_string(), "10.0.0.1");
        assert_eq!(ip("[::ffff:10.0.0.1]:7400").to_string(), "10.0.0.1");
        assert_eq!(ip("[fe80::1%2]:7400").to_string(), "fe80::1");
        assert_eq!(ip("elsewhere").to_string(), "0.0.0.0");
    }

    #[test]
    fn a_full_disk_ends_the_capture_quietly_and_is_reported_when_asked() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let tap = Tap {
            file: Mutex::new(Some(Capture::begin(full).unwrap())),
            own_pid: 1,
            paused: AtomicBool::new(false),
        };
        for _ in 0..100 {
            tap.sent(&ends(), &[0; 1000]);
        }
        assert!(!tap.flush());
    }

    #[test]
    fn nothing_is_recorded_while_it_is_paused() {
        let path = std::env::temp_dir().join(format!("barewire-pause-{}", std::process::id()));
        let tap = Tap::create(&path, 1).unwrap();
        for (paused, message) in [(false, b"first"), (true, b"never"), (false, b"third")] {
            tap.pause(paused);
            tap.sent(&ends(), message);
        }
        tap.pause(true);
        let file = std::fs::read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let packets: Vec<_> = Reader::new(&file).map(|p| p.unwrap()).collect();
        let bytes: Vec<_> = packets.iter().map(|p| p.open().unwrap()).collect();
        assert!(matches!(
            bytes[..],
            [
                Content::Exported(_, b"first"),
                Content::Exported(_, b"third")
            ]
        ));
    }

    #[test]
    fn a_long_message_is_cut_to_what_wireshark_takes_and_says_so() {
        let path = std::env::temp_dir().join(format!("barewire-tap-{}", std::process::id()));
        let tap = Tap::create(&path, 1).unwrap();
        tap.sent(&ends(), b"short");
        tap.received(&ends(), &vec![7; PACKET_BYTES_MAX + 10]);
        assert!(tap.flush());
        let file = std::fs::read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let packets: Vec<_> = Reader::new(&file).map(|p| p.unwrap()).collect();
        let opened = packets.iter().map(|p| p.open().unwrap());
        let opened: Vec<_> = opened.collect();
        assert_eq!(
            opened[0],
            Content::Exported(tags(ends().own, ends().peer), b"short")
        );
        assert!(matches!(opened[1], Content::Exported(t, _) if t == tags(ends().peer, ends().own)));
        assert_eq!(packets[1].data.len(), PACKET_BYTES_MAX);
        let original = PACKET_BYTES_MAX + 10 + tags(ends().own, ends().peer).buffer_len();
        assert_eq!(packets[1].original_bytes as usize, original);
    }
}
