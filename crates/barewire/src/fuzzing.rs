//! Private items that fuzz targets need, and tests that feed them from a seed.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
            8..=10 => put_access(script, &mut bytes),
            11 => put_long_frames(script, &mut bytes),
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

/// Frames that are long enough to go where a program wants them, one behind the other; perhaps with a fault.
fn put_long_frames(script: &mut Script<'_>, bytes: &mut Vec<u8>) {
    let connection = script.number();
    let mut position = u64::from(script.byte() / 200);
    for _ in 0..script.byte() % 4 + 1 {
        let payload_bytes = 4096 + script.number() as usize % 500;
        let kind = [FrameKind::Whole, FrameKind::More, FrameKind::Packed]
            [script.byte().saturating_sub(200) as usize % 3];
        let next = position + 1 + payload_bytes.div_ceil(64) as u64;
        let said_bytes = match script.byte() {
            250.. => script.word() as usize,
            _ => payload_bytes,
        };
        let head = Head {
            kind: Kind::Frame,
            payload_bytes: 64 + payload_bytes,
            connection,
            offset: 192 + position as usize * 64,
            next_offset: 192 + next as usize * 64,
            number: 0,
        };
        bytes.extend(head.encode());
        bytes.extend(pack(kind, 64, said_bytes, position).to_ne_bytes());
        bytes.extend((8..64 + payload_bytes).map(|_| script.byte()));
        position = next;
    }
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
        ring_bytes: 1 << (8 + script.byte() % 10),
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

/// How much of what a carrier has may come, and how often nothing came because of that.
#[derive(Default)]
struct Gate {
    /// `usize::MAX`: everything, and then the end.
    open_bytes: AtomicUsize,
    empty_reads: AtomicUsize,
}

/// A carrier from which these bytes come, in pieces, and in which all others are lost.
struct Scripted {
    bytes: Vec<u8>,
    given: usize,
    piece_bytes: usize,
    gate: Option<Arc<Gate>>,
    eventfd: EventFd,
}

impl Scripted {
    /// How many bytes may come now.
    fn open_bytes(&self) -> usize {
        // Acquire pairs with the Release of the test that opens it.
        let open_bytes = |gate: &Arc<Gate>| gate.open_bytes.load(Ordering::Acquire);
        self.gate.as_ref().map_or(self.bytes.len(), open_bytes)
    }
}

impl Carrier for Scripted {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> Result<bool, Broken> {
        Ok(true)
    }
    fn read(&mut self, into: &mut [u8]) -> Result<Arrival, Broken> {
        let open_bytes = self.open_bytes();
        let rest = &self.bytes[self.given..open_bytes.min(self.bytes.len())];
        let count = rest.len().min(into.len()).min(self.piece_bytes);
        into[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        match (count, &self.gate) {
            (0, Some(gate)) if open_bytes < usize::MAX => {
                // Release pairs with the Acquire of the test that waits for it.
                gate.empty_reads.fetch_add(1, Ordering::Release);
                Ok(Arrival::Nothing)
            }
            (0, _) => Ok(Arrival::End),
            (count, _) => Ok(Arrival::Bytes(count)),
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

    /// Has a link to another host that says what comes from a carrier.
    fn welcome(&self, carrier: Scripted) {
        let greeted = Greeted {
            carrier: Box::new(carrier),
            theirs: Greeting::own([7, 7], 1, 1).of_nowhere(),
            identity: PeerIdentity::nobody(),
        };
        self.node.core.welcome(greeted).expect("a link");
    }

    /// Accepts what is asked for, receives what comes, and answers.
    fn serve(&self, connections: &mut Vec<Connection>) {
        let (mut events, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        for _ in 0..4 {
            // Before the node looks: what comes goes into the buffer.
            for connection in connections.iter_mut() {
                while let Ok(Some(len)) = connection.try_recv(&mut buffer) {
                    let _ = connection.try_send(&buffer[..len.min(700)]);
                }
            }
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
            gate: None,
            eventfd: EventFd::new().expect("an eventfd"),
        };
        let core = Arc::clone(&place.node.core);
        place.welcome(carrier);
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

    /// The payload of a frame, and the frame as it comes from another host, at this line of the ring.
    fn long_frame(number: u64, kind: FrameKind, position: u64) -> (Vec<u8>, Vec<u8>) {
        let words = 0..700_u64;
        let payload: Vec<u8> = words
            .flat_map(|at| (number << 32 | at).to_ne_bytes())
            .collect();
        let next = position + 1 + payload.len().div_ceil(64) as u64;
        let head = Head {
            kind: Kind::Frame,
            payload_bytes: 64 + payload.len(),
            connection: 0,
            offset: 192 + position as usize * 64,
            next_offset: 192 + next as usize * 64,
            number: 0,
        };
        let mut bytes = head.encode().to_vec();
        bytes.extend(pack(kind, 64, payload.len(), position).to_ne_bytes());
        bytes.extend([0; 56]);
        bytes.extend(&payload);
        (payload, bytes)
    }

    /// Two messages of two frames each; wherever the network makes a pause, they arrive.
    #[test]
    fn long_frames_may_come_in_parts() {
        let open = |name: &str| {
            let open = Message::Open {
                connection: 0,
                region: RegionRef {
                    segment: 0,
                    offset: 0,
                    ring_bytes: 1 << 16,
                },
                source: 0,
                message_bytes_max: 1 << 16,
                name,
                data: &[],
            };
            let open = open.encode();
            [&Head::control(open.len()).encode()[..], &open].concat()
        };
        let (mut frames, mut messages) = (Vec::new(), [Vec::new(), Vec::new()]);
        for number in 0..4 {
            let kind = [FrameKind::More, FrameKind::Whole][number % 2];
            let (payload, frame) = long_frame(number as u64, kind, number as u64 * 89);
            frames.extend(frame);
            messages[number / 2].extend(payload);
        }
        let half = frames.len() / 2;
        let pauses = (half..frames.len()).step_by(1009);
        let near = [23, 24, 32, 87, 88, 89].map(|bytes| half + bytes);
        for pause in pauses.chain(near).chain([frames.len() - 1]) {
            let place = Place::new();
            let bytes = open(place.listener.name());
            let (gate, begin) = (Arc::new(Gate::default()), bytes.len());
            // Release pairs with the Acquire of the carrier.
            let let_come = |bytes| gate.open_bytes.store(bytes, Ordering::Release);
            let_come(begin);
            place.welcome(Scripted {
                bytes: [&bytes[..], &frames].concat(),
                given: 0,
                piece_bytes: usize::MAX,
                gate: Some(Arc::clone(&gate)),
                eventfd: EventFd::new().unwrap(),
            });
            let request = place.node.next_request(None).unwrap();
            let mut connection = request.accept().unwrap();
            assert_eq!(connection.sender().half().core().number, 0);
            let (mut buffer, mut received) = (vec![0; 20_000], Vec::new());
            // The descriptor does not say when there is more.
            let mut look = |received: &mut Vec<_>| {
                if let Some(len) = connection.try_recv(&mut buffer).unwrap() {
                    received.push(buffer[..len].to_vec());
                }
            };
            // After the first message, long ones are expected.
            let_come(begin + half);
            while received.is_empty() {
                look(&mut received);
            }
            let_come(begin + pause);
            // Acquire pairs with the Release of the carrier.
            let empty_reads = || gate.empty_reads.load(Ordering::Acquire);
            let before = empty_reads();
            while empty_reads() < before + 200 {
                look(&mut received);
            }
            let_come(begin + frames.len());
            while received.len() < 2 {
                look(&mut received);
            }
            let_come(usize::MAX);
            assert!(received == messages, "a pause after {pause} bytes");
        }
    }

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
