//! Another host that breaks the protocol of apertures: raw bytes over TCP, from one that greets as a node does.

#![forbid(unsafe_code)]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use barewire::{
    AccessError, Aperture, ApertureConfig, ConnectOptions, Connection, Error, Event, Memory, Node,
    Port, RemoteAperture, Rights,
};
use common::*;

const CONTROL: u8 = 1;
const PUT: u8 = 5;
const FIRE: u8 = 6;
const GET: u8 = 7;
const ACCESS: u8 = 8;
const ARM: u8 = 9;
const DISARM: u8 = 10;
const ANSWER: u8 = 11;
const FIRED: u8 = 12;

/// Greets as a node of another host does, and then says what it likes.
struct Stranger {
    stream: TcpStream,
}

struct Record {
    kind: u8,
    of: u32,
    number: u32,
    payload: Vec<u8>,
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

impl Stranger {
    fn new(port: &Port) -> Stranger {
        let mut stream = TcpStream::connect(port.address()).unwrap();
        stream.set_read_timeout(SOON).unwrap();
        stream.set_write_timeout(SOON).unwrap();
        let mut greeting = [0; 72];
        stream.read_exact(&mut greeting).unwrap();
        // Its own, but for who it is: of another node on another host.
        greeting[16..56].fill(0);
        greeting[16] = 77;
        stream.write_all(&greeting).unwrap();
        Stranger { stream }
    }

    fn say(&mut self, kind: u8, of: u32, place: u64, number: u32, payload: &[u8]) {
        self.say_header(kind, payload.len() as u32, of, place, number);
        // Whoever has ended the link meanwhile does not read it.
        let _ = self.stream.write_all(payload);
    }

    fn say_header(&mut self, kind: u8, payload_bytes: u32, of: u32, place: u64, number: u32) {
        let mut header = vec![kind, 0, 0, 0];
        header.extend(payload_bytes.to_le_bytes());
        header.extend(of.to_le_bytes());
        header.extend(place.to_le_bytes());
        header.extend(number.to_le_bytes());
        let _ = self.stream.write_all(&header);
    }

    /// The next record that is no sign of life.
    fn hear(&mut self) -> Record {
        loop {
            let mut header = [0; 24];
            self.stream.read_exact(&mut header).unwrap();
            let mut payload = vec![0; number(&header, 4) as usize];
            self.stream.read_exact(&mut payload).unwrap();
            if header[0] != 4 {
                return Record {
                    kind: header[0],
                    of: number(&header, 8),
                    number: number(&header, 20),
                    payload,
                };
            }
        }
    }

    fn hear_control(&mut self, kind: u8) -> Vec<u8> {
        loop {
            let record = self.hear();
            if record.kind == CONTROL && record.payload[0] == kind {
                return record.payload;
            }
        }
    }

    /// Asks for a connection under a number of its own.
    fn open(&mut self, name: &str) {
        let mut open = vec![3];
        open.extend(1_u32.to_le_bytes());
        open.extend([0; 12]);
        open.extend(4096_u32.to_le_bytes());
        open.extend([0; 4]);
        open.extend(1000_u64.to_le_bytes());
        open.extend((name.len() as u16).to_le_bytes());
        open.extend(name.as_bytes());
        open.extend([0; 2]);
        self.say(CONTROL, 0, 0, 0, &open);
    }

    fn grant(&mut self, connection: u32, aperture: u32, len_bytes: u64) {
        let mut grant = vec![8];
        grant.extend(connection.to_le_bytes());
        grant.extend(aperture.to_le_bytes());
        grant.extend([0; 8]);
        grant.extend(len_bytes.to_le_bytes());
        grant.extend([0; 4]);
        grant.push(1);
        grant.extend(16_u32.to_le_bytes());
        self.say(CONTROL, 0, 0, 0, &grant);
    }
}

/// A node with a link to an honest one, and a port for strangers.
struct Victim {
    node: Node,
    port: Port,
    name: String,
    _listener: barewire::Listener,
    aperture: Aperture,
    _honest: (Node, Box<Connection>, Connection),
    honest: RemoteAperture,
}

/// A connection between the victim and a stranger.
struct Met {
    stranger: Stranger,
    accepted: Connection,
    /// Its number at the victim.
    connection: u32,
}

impl Victim {
    fn new(of: &str) -> Victim {
        let node = Node::with_config(patient()).unwrap();
        let listener = node.listen(&name(of)).unwrap();
        let port = node.listen_on("127.0.0.1:0").unwrap();
        let client = Node::with_config(patient()).unwrap();
        let address = format!("{}/{}", port.address(), listener.name());
        let options = ConnectOptions::default();
        client.start_connect(&address, &options).unwrap();
        let accepted = node.next_request(SOON).unwrap().accept().unwrap();
        let Some(Event::Connected(opened)) = client.next_event(SOON).unwrap() else {
            panic!("not connected");
        };
        let aperture = node
            .export(ApertureConfig::new(4096, Rights::ReadWrite))
            .unwrap();
        accepted.grant(&aperture, 0).unwrap();
        let (_, honest) = opened.import(SOON).unwrap();
        Victim {
            name: listener.name().to_owned(),
            node,
            port,
            _listener: listener,
            aperture,
            _honest: (client, opened, accepted),
            honest,
        }
    }

    fn meet(&self) -> Met {
        let mut stranger = Stranger::new(&self.port);
        stranger.open(&self.name);
        let accepted = self.node.next_request(SOON).unwrap().accept().unwrap();
        let accept = stranger.hear_control(4);
        Met {
            stranger,
            accepted,
            connection: number(&accept, 5),
        }
    }

    /// The link to the stranger ends for this reason, and nothing else suffers.
    #[track_caller]
    fn ends(&self, met: &mut Met, why: &str) {
        let error = met.accepted.recv(&mut [0; 8]).unwrap_err();
        let Error::HostLost { reason, .. } = &error else {
            panic!("{error:?}");
        };
        assert!(reason.contains(why), "{reason}: not {why}");
        let was = self.honest.add(4000, 1).unwrap();
        assert_eq!(self.aperture.load(4000), Ok(was + 1));
    }
}

/// Record by record: what it says as an importer of one aperture, and how that is named.
#[test]
fn wrong_requests_end_the_link() {
    let _dog = watchdog("requests", LONG * 3);
    let victim = Victim::new("requests");
    let word = |op: u64| [op.to_le_bytes(), [1; 8], [1; 8]].concat();
    let arm = |len: u64| [&len.to_le_bytes()[..], &[1; 4]].concat();
    // Kind, offset, number, payload; read-only apertures are 2 numbers further.
    let far_away = u64::MAX - 3;
    let cases: Vec<(u8, u64, u32, Vec<u8>, &str)> = vec![
        (PUT, 4090, 1, vec![1; 7], "outside"),
        (PUT, far_away, 1, vec![1; 7], "outside"),
        (PUT, 0, 1, vec![], "length"),
        (
            FIRE,
            0,
            0,
            8_u64.to_le_bytes().to_vec(),
            "more than was put",
        ),
        (FIRE, 0, 0, u64::MAX.to_le_bytes().to_vec(), "more than"),
        (FIRE, 0, 0, vec![1; 7], "length"),
        (GET, 4090, 1, 7_u32.to_le_bytes().to_vec(), "outside"),
        (GET, 0, 1, 0_u32.to_le_bytes().to_vec(), "length"),
        (GET, 0, 1, u32::MAX.to_le_bytes().to_vec(), "length"),
        (GET, far_away, 1, 8_u32.to_le_bytes().to_vec(), "outside"),
        (ACCESS, 4096, 1, word(0), "outside"),
        (ACCESS, 4, 1, word(1), "outside"),
        (ACCESS, far_away - 4, 1, word(2), "outside"),
        (ACCESS, 0, 1, word(4), "unknown kind"),
        (ARM, 0, 1, arm(4097), "outside"),
        (ARM, far_away, 1, arm(8), "outside"),
        (ARM, 0, 1, arm(0), "outside"),
        (DISARM, 0, 0, vec![1], "length"),
        (13, 0, 0, vec![], "unknown kind"),
    ];
    for (kind, place, ticket, payload, why) in cases {
        let mut met = victim.meet();
        met.accepted.grant(&victim.aperture, 0).unwrap();
        let aperture = number(&met.stranger.hear_control(8), 5);
        met.stranger.say(kind, aperture, place, ticket, &payload);
        victim.ends(&mut met, why);
    }
}

#[test]
fn what_was_not_granted_can_not_be_touched() {
    let _dog = watchdog("not granted", LONG * 2);
    let victim = Victim::new("not-granted");
    let read_only = ApertureConfig::new(64, Rights::Read);
    let read_only = victim.node.export(read_only).unwrap();
    for unknown in [0, 1, 7, u32::MAX] {
        let mut met = victim.meet();
        met.stranger.say(PUT, unknown, 0, 1, &[9; 8]);
        victim.ends(&mut met, "does not hold");
    }
    assert_eq!(victim.aperture.load(0), Ok(0));
    for stored in [(PUT, vec![9; 8]), (ACCESS, [[1; 8]; 3].concat())] {
        let mut met = victim.meet();
        met.accepted.grant(&read_only, 0).unwrap();
        let aperture = number(&met.stranger.hear_control(8), 5);
        let (kind, mut payload) = stored;
        if kind == ACCESS {
            payload[..8].copy_from_slice(&1_u64.to_le_bytes());
        }
        met.stranger.say(kind, aperture, 0, 1, &payload);
        victim.ends(&mut met, "read-only");
    }
    // What it has given back is nothing to it any more.
    let mut met = victim.meet();
    met.accepted.grant(&victim.aperture, 0).unwrap();
    let aperture = number(&met.stranger.hear_control(8), 5);
    let release = [&[9][..], &aperture.to_le_bytes()].concat();
    met.stranger.say(CONTROL, 0, 0, 0, &release);
    met.stranger.say(GET, aperture, 0, 1, &8_u32.to_le_bytes());
    victim.ends(&mut met, "does not hold");
    let mut met = victim.meet();
    met.stranger.say(CONTROL, 0, 0, 0, &release);
    victim.ends(&mut met, "gives back");
}

#[test]
fn lengths_of_all_sizes_end_the_link() {
    let _dog = watchdog("lengths", LONG * 2);
    let victim = Victim::new("lengths");
    for kind in PUT..=FIRED {
        for payload_bytes in [u32::MAX, 1 << 31, (32 << 10) + 1] {
            let mut met = victim.meet();
            met.stranger.say_header(kind, payload_bytes, 0, 0, 0);
            victim.ends(&mut met, "impossible length");
        }
    }
}

#[test]
fn who_asks_and_does_not_read_is_stopped() {
    let _dog = watchdog("greedy", LONG * 2);
    let victim = Victim::new("greedy");
    let mut met = victim.meet();
    met.accepted.grant(&victim.aperture, 0).unwrap();
    let aperture = number(&met.stranger.hear_control(8), 5);
    let mut asking = met.stranger.stream.try_clone().unwrap();
    let asking = thread::spawn(move || {
        let mut record = vec![GET, 0, 0, 0];
        record.extend(4_u32.to_le_bytes());
        record.extend(aperture.to_le_bytes());
        record.extend([0; 8]);
        record.extend(1_u32.to_le_bytes());
        record.extend(4096_u32.to_le_bytes());
        while asking.write_all(&record.repeat(64)).is_ok() {}
    });
    victim.ends(&mut met, "more than it may");
    drop(met);
    asking.join().unwrap();
}

#[test]
fn wrong_answers_end_the_link() {
    let _dog = watchdog("answers", LONG * 2);
    let victim = Victim::new("answers");
    // To nothing that was asked.
    for (ticket, status) in [(0, 0), (0, 1), (u32::MAX, 0)] {
        let mut met = victim.meet();
        met.stranger.say(ANSWER, ticket, status, 0, &[]);
        victim.ends(&mut met, "not asked");
    }
    let cases: [(u64, &[u8], &str); 5] = [
        (0, &[1; 9], "another length"),
        (0, &[], "another length"),
        (1, &[1; 8], "another length"),
        (4, &[], "unknown kind"),
        (u64::MAX, &[1; 8], "unknown kind"),
    ];
    for (status, payload, why) in cases {
        let mut met = victim.meet();
        met.stranger.grant(met.connection, 3, 1 << 30);
        let (_, far) = met.accepted.import(SOON).unwrap();
        thread::scope(|scope| {
            let asking = scope.spawn(|| far.load(1 << 20));
            let asked = met.stranger.hear();
            assert_eq!((asked.kind, asked.of), (ACCESS, 3));
            met.stranger.say(ANSWER, asked.number, status, 0, payload);
            assert_eq!(asking.join().unwrap(), Err(AccessError::PeerGone));
        });
        victim.ends(&mut met, why);
    }
    // One is right, the second to the same question is not.
    let mut met = victim.meet();
    met.stranger.grant(met.connection, 3, 1 << 30);
    let (_, far) = met.accepted.import(SOON).unwrap();
    thread::scope(|scope| {
        let asking = scope.spawn(|| far.load(1 << 20));
        let asked = met.stranger.hear();
        for _ in 0..2 {
            let answer = 5_u64.to_le_bytes();
            met.stranger.say(ANSWER, asked.number, 0, 0, &answer);
        }
        assert!(matches!(asking.join().unwrap(), Ok(5)));
    });
    victim.ends(&mut met, "not asked");
}

#[test]
fn impossible_grants_end_the_link() {
    let _dog = watchdog("grants", LONG);
    let victim = Victim::new("grants");
    let mut met = victim.meet();
    met.stranger.grant(met.connection, 3, 64);
    met.stranger.grant(met.connection, 3, 64);
    victim.ends(&mut met, "twice");
    for (connection, len_bytes) in [(0, u64::MAX), (0, 0), (u32::MAX, 64)] {
        let mut met = victim.meet();
        let connection = connection.max(met.connection);
        met.stranger.grant(connection, 3, len_bytes);
        let error = met.accepted.recv(&mut [0; 8]).unwrap_err();
        assert!(matches!(error, Error::PeerMisbehaved(_)), "{error:?}");
        assert_eq!(victim.honest.load(0), Ok(0));
    }
    // Firings of tripwires that nobody has set, and a withdrawal of what nobody holds, do nothing.
    let mut met = victim.meet();
    met.stranger.say(FIRED, 5, 0, 0, &1_u64.to_le_bytes());
    met.stranger.say(CONTROL, 0, 0, 0, &[10, 9, 0, 0, 0]);
    met.stranger.grant(met.connection, 4, 64);
    assert!(met.accepted.import(SOON).is_ok());
}
