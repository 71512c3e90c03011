//! Private items that fuzz targets need, and tests that feed them from a seed.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use barewire_carrier::{Arrival, Broken, Carrier, PeerIdentity, Properties, Sleep};
use barewire_fabric::aperture::{Memory, Rights};
use barewire_fabric::frame::{CREDIT, Kind as FrameKind, STATE, pack};
use barewire_sys::wake::EventFd;

use crate::apertures::layout::ApertureConfig;
use crate::config::NodeConfig;
use crate::handles::aperture::Aperture;
use crate::handles::connection::Connection;
use crate::handles::event::Event;
use crate::handles::listener::Listener;
use crate::handles::node::Node;
use crate::links::far::PIECE_BYTES;
use crate::messages::control::{Message, RegionRef, RejectCode};
use crate::remote::greeter::Greeted;
use crate::remote::greeting::Greeting;
use crate::remote::record::{Head, Kind};

/// Takes a control message apart, if it is one, and checks that putting it together again
/// changes nothing.
pub fn control(bytes: &[u8]) {
    if let Some(message) = Message::parse(bytes) {
        let again = message.encode();
        assert_eq!(Message::parse(&again), Some(message));
    }
}

/// Numbers from bytes, as long as there are any; then zeros.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes([(); 4].map(|()| self.byte()))
    }

    /// Small numbers, mostly.
    fn number(&mut self) -> u32 {
        match self.byte() {
            255 => u32::MAX,
            254 => self.word(),
            small => u32::from(small % 5),
        }
    }
}

/// The bytes of another host's proxy: mostly records that could be right.
fn records(script: &mut Script<'_>, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !script.0.is_empty() && bytes.len() < 1 << 16 {
        match script.byte() % 16 {
            0 => bytes.extend((0..script.byte()).map(|_| script.byte())),
            1..=4 => put_control(script, name, &mut bytes),
            5..=6 => put_word(script, &mut bytes),
            7 => bytes.extend(Head::ping(script.number()).encode()),
            8..=11 => put_access(script, &mut bytes),
            _ => put_frame(script, &mut bytes),
        }
    }
    bytes
}

fn put_word(script: &mut Script<'_>, bytes: &mut Vec<u8>) {
    let offset = [CREDIT, STATE, 8, 64][script.byte() as usize % 4];
    // Mostly what a side says that has stored nothing.
    let stored = u32::from(script.byte() / 240);
    bytes.extend(Head::word(script.number(), offset, stored).encode());
    bytes.extend(u64::from(script.number()).to_ne_bytes());
}

fn put_frame(script: &mut Script<'_>, bytes: &mut Vec<u8>) {
    let payload_bytes = script.number() as usize % 3000;
    let position = u64::from(script.number() % 64);
    let kinds = [
        FrameKind::Whole,
        FrameKind::More,
        FrameKind::Packed,
        FrameKind::Skip,
    ];
    let kind = kinds[script.byte() as usize % 4];
    let header = pack(kind, 8, payload_bytes, position);
    let lines = (payload_bytes + 8).div_ceil(64) as u64;
    let head = Head {
        kind: Kind::Frame,
        payload_bytes: 8 + payload_bytes,
        connection: script.number(),
        offset: 192 + position as usize * 64,
        next_offset: match script.byte() % 8 {
            0 => script.word() as usize,
            _ => 192 + (position + lines) as usize * 64,
        },
        number: 0,
    };
    bytes.extend(head.encode());
    bytes.extend(header.to_ne_bytes());
    bytes.extend((0..payload_bytes).map(|_| script.byte()));
}

/// Something of apertures: the one that was granted has the number 0.
fn put_access(script: &mut Script<'_>, bytes: &mut Vec<u8>) {
    let kinds = [
        (Kind::Put, usize::from(script.byte()) + 1),
        (Kind::Put, PIECE_BYTES),
        (Kind::Fire, 8),
        (Kind::Get, 4),
        (Kind::Access, 24),
        (Kind::Arm, 12),
        (Kind::Disarm, 0),
        (Kind::Answer, 8),
        (Kind::Answer, 0),
        (Kind::Fired, 8),
    ];
    let (kind, payload_bytes) = kinds[script.byte() as usize % kinds.len()];
    let place = match script.byte() % 8 {
        0 => u64::from(script.word()) << 32 | u64::from(script.word()),
        other => u64::from(other) * 8,
    };
    let (of, number) = (script.number(), script.number());
    bytes.extend(Head::access(kind, of, place, number, payload_bytes).encode());
    let first = u64::from(script.number());
    let payload = first
        .to_le_bytes()
        .into_iter()
        .chain((8..payload_bytes).map(|_| 0));
    bytes.extend(payload.take(payload_bytes));
}

fn put_control(script: &mut Script<'_>, name: &str, bytes: &mut Vec<u8>) {
    let connection = script.number();
    let region = RegionRef {
        segment: 0,
        offset: 0,
        ring_bytes: 1 << (8 + script.number() % 8),
    };
    let (own, source, data) = (script.number(), 0, [script.byte()]);
    let aperture = script.number();
    let message = match script.byte() % 16 {
        0..=4 => Message::Open {
            connection,
            region,
            source,
            message_bytes_max: 1 << 16,
            name,
            data: &data,
        },
        5 => Message::Accept {
            connection,
            own,
            region,
            source,
            message_bytes_max: 100,
        },
        6 => Message::Reject {
            connection,
            code: RejectCode::Busy,
            reason: "no",
        },
        7 | 8 => Message::Detach { connection },
        9 => Message::Abandon { connection },
        10 => Message::OutOfBand {
            connection,
            data: &data,
        },
        11 => Message::Bye,
        12 | 13 => Message::Grant {
            connection,
            aperture,
            cookie: 0,
            len_bytes: u64::from(script.number()) * 100,
            tripwires: script.number(),
            writable: script.byte() % 2 == 0,
            receiver_tripwires: script.number(),
        },
        14 => Message::Release { aperture },
        _ => Message::Revoke { aperture },
    };
    let message = message.encode();
    bytes.extend(Head::control(message.len()).encode());
    bytes.extend(message);
}

/// A carrier from which these bytes come, in pieces, and in which all others are lost.
struct Scripted {
    bytes: Vec<u8>,
    given: usize,
    piece_bytes: usize,
    eventfd: EventFd,
}

impl Carrier for Scripted {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> Result<bool, Broken> {
        Ok(true)
    }
    fn read(&mut self, into: &mut [u8]) -> Result<Arrival, Broken> {
        let rest = &self.bytes[self.given..];
        let count = rest.len().min(into.len()).min(self.piece_bytes);
        into[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        match count {
            0 => Ok(Arrival::End),
            count => Ok(Arrival::Bytes(count)),
        }
    }
    fn finish(&mut self) -> Result<(), Broken> {
        Ok(())
    }
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
    fn before_sleep(&mut self) -> Sleep {
        Sleep::UntilReadable
    }
    fn properties(&self) -> Properties {
        Properties {
            transport: "script".to_owned(),
            is_encrypted: false,
            own_address: "here".to_owned(),
            peer_address: "there".to_owned(),
        }
    }
}

/// A node that listens, and how many descriptors its process had before anybody came.
struct Place {
    node: Node,
    listener: Listener,
    /// Granted to whoever connects.
    aperture: Aperture,
    descriptors: usize,
}

impl Place {
    fn new() -> Place {
        let config = NodeConfig::default();
        let node = Node::with_config(config).expect("a node");
        let name = format!(
            "records-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        );
        let listener = node.listen(&name).expect("the name");
        let aperture = node.export(ApertureConfig::new(1 << 16, Rights::ReadWrite));
        Place {
            node,
            listener,
            aperture: aperture.expect("memory"),
            descriptors: 0,
        }
    }

    /// Accepts what is asked for, receives what comes, and answers.
    fn serve(&self, connections: &mut Vec<Connection>) {
        let (mut events, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        for _ in 0..4 {
            self.node.poll(&mut events, 64).expect("events");
            for event in events.drain(..) {
                match event {
                    Event::Request(request) => {
                        let accepted = request.accept();
                        if let Ok(connection) = &accepted {
                            // Each link gets it once.
                            let _ = connection.grant(&self.aperture, 0);
                        }
                        connections.extend(accepted);
                    }
                    Event::Granted { aperture, .. } => {
                        // The answer is what comes next, if any.
                        let _ = aperture.put(0, &[1; 9]);
                        let _ = aperture.load(8);
                    }
                    _ => {}
                }
            }
            for connection in connections.iter_mut() {
                while let Ok(Some(len)) = connection.try_recv(&mut buffer) {
                    let _ = connection.try_send(&buffer[..len.min(700)]);
                }
            }
        }
    }
}

thread_local! {
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// A node to which another host that has proved itself says anything: it goes on, nothing of the other host's is kept, and
/// a connection on this host is not disturbed.
pub fn host_records(bytes: &[u8]) {
    PLACE.with_borrow_mut(|place| {
        let place = place.get_or_insert_with(Place::new);
        let mut script = Script(bytes);
        let piece_bytes = [usize::MAX, 1, 7, 100, 5000][script.byte() as usize % 5];
        let carrier = Scripted {
            bytes: records(&mut script, place.listener.name()),
            given: 0,
            piece_bytes,
            eventfd: EventFd::new().expect("an eventfd"),
        };
        let theirs = Greeting::own([7, 7], 1, 1).of_nowhere();
        let core = Arc::clone(&place.node.core);
        let greeted = Greeted {
            carrier: Box::new(carrier),
            theirs,
            identity: PeerIdentity::nobody(),
        };
        core.welcome(greeted).expect("a link");
        let mut connections = Vec::new();
        place.serve(&mut connections);
        // Whatever was said: the link comes to its end, and everything is given back.
        let begin = Instant::now();
        let is_over = || {
            let state = core.state();
            core.base.driven.is_empty() && state.peers.is_empty() && state.connections.is_empty()
        };
        while !is_over() {
            assert!(
                begin.elapsed() < Duration::from_secs(10),
                "something is left"
            );
            place.serve(&mut connections);
            // Those that have ended are let go of.
            connections.retain_mut(|connection| connection.sender().half().check().is_ok());
        }
        // Other tests of the same process open descriptors, too.
        if cfg!(fuzzing) {
            let now = barewire_sys::process::open_fd_count().expect("/proc");
            if place.descriptors == 0 {
                place.descriptors = now + 8;
            }
            assert!(now <= place.descriptors, "{now} descriptors");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_units::Rng;

    #[test]
    fn another_host_may_say_anything() {
        let seed = std::env::var("BAREWIRE_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
        println!("BAREWIRE_SEED={seed}");
        let mut random = Rng::from_seed(seed);
        for _ in 0..500 {
            let len = random.below(2000) as usize;
            let bytes: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
            host_records(&bytes);
        }
    }
}
