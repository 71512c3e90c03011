//! A node and a peer that greets it correctly and then says anything.
#![no_main]

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use barewire::{ApertureConfig, Event, Listener, Memory, Node, Rights};
use barewire_hostile::link::Link;
use barewire_hostile::wire;
use libfuzzer_sys::fuzz_target;

struct Place {
    node: Node,
    _listener: Listener,
    name: String,
    uid: u32,
    descriptors: usize,
}

thread_local! {
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

fn place() -> Place {
    let node = Node::new().expect("a node");
    let name = format!("fuzz-{}", std::process::id());
    let listener = node.listen(&name).expect("the name");
    let uid = node.credentials().uid;
    Place {
        node,
        _listener: listener,
        name,
        uid,
        descriptors: barewire_sys::process::open_fd_count().unwrap_or(0),
    }
}

struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }
    /// Small numbers, mostly.
    fn number(&mut self) -> u32 {
        match self.byte() {
            255 => u32::MAX,
            254 => 1 << self.byte() % 32,
            253 => u32::from_le_bytes([(); 4].map(|()| self.byte())),
            small => u32::from(small % 6),
        }
    }
    fn long(&mut self) -> u64 {
        u64::from(self.number()) << (self.byte() % 33)
    }
    fn region(&mut self) -> wire::Region {
        match self.byte() % 4 {
            0 => (self.number(), self.long(), 1 << (self.byte() % 32)),
            _ => Link::own_region(self.number() % 8),
        }
    }
}

fn say(script: &mut Script<'_>, link: &mut Link, name: &str) {
    let number = script.number();
    let some = [7; 300];
    let message = match script.byte() % 18 {
        0 => wire::hello(1, [1, 2], 1, number),
        1 => wire::segment(number, script.long()),
        2 | 3 => wire::open(
            number,
            script.region(),
            1,
            script.long(),
            name.as_bytes(),
            b"x",
        ),
        4 => wire::open(number, script.region(), script.number(), 1, b"nobody", b""),
        5 => wire::accept(number, script.number(), script.region(), script.number(), 9),
        6 => wire::reject(number, script.byte(), &some),
        7 | 8 => wire::numbered(wire::DETACH, number),
        9 => wire::numbered(wire::ABANDON, number),
        10 => wire::grant(
            number,
            script.number(),
            1,
            script.long(),
            script.number(),
            1,
            script.number(),
        ),
        11 => wire::numbered(wire::RELEASE, number),
        12 => wire::numbered(wire::REVOKE, number),
        13 | 14 => wire::out_of_band(number, &some[..usize::from(script.byte())]),
        15 => wire::bye(),
        16 => wire::wake(),
        _ => {
            let len = usize::from(script.byte()).min(script.0.len());
            let (raw, rest) = script.0.split_at(len);
            script.0 = rest;
            [&[number as u8], raw].concat()
        }
    };
    let memfd = link.segment.memfd.as_fd().try_clone_to_owned();
    let page = link.page.memfd.as_fd().try_clone_to_owned();
    let (Ok(memfd), Ok(page)) = (memfd, page) else {
        return;
    };
    let all = [memfd.as_fd(), page.as_fd(), memfd.as_fd()];
    let count = match message[0] {
        2 => 1,
        1 => 2,
        8 => 3,
        _ => 0,
    };
    let fds: &[BorrowedFd<'_>] = &all[..count];
    let _ = link.socket.send(&message, fds);
}

fn run(place: &Place, data: &[u8]) {
    let mut script = Script(data);
    let node = &place.node;
    let Some(socket) = Link::dial(&place.name, place.uid) else {
        return;
    };
    let mut link = Link::over(socket, &place.name, place.uid);
    if script.byte() % 16 > 0 {
        link.say_hello();
    }
    let mut events = Vec::new();
    let mut kept = Vec::new();
    let aperture = node.export(ApertureConfig::new(4096, Rights::ReadWrite));
    for _ in 0..64 {
        if script.0.is_empty() {
            break;
        }
        match script.byte() % 8 {
            0 => {
                let number = script.number() as usize;
                if let Some(conn) = link.conns.get_mut(number % 4) {
                    let word = script.byte() % 80;
                    let value = script.long();
                    conn.out.atomic_store(usize::from(word) * 8, value);
                    let source = conn.source;
                    link.ring(source);
                }
            }
            1 => link.pump(),
            2 => drop((!kept.is_empty()).then(|| kept.remove(0))),
            3..=5 => say(&mut script, &mut link, &place.name),
            _ => {
                let _ = node.wait(&mut events, 16, Some(Duration::ZERO));
            }
        }
        for event in events.drain(..) {
            match event {
                Event::Request(request) if script.byte() % 4 > 0 => {
                    if let Ok(connection) = request.accept() {
                        if let Ok(aperture) = &aperture {
                            let _ = connection.grant(aperture, 1);
                        }
                        kept.push(connection);
                    }
                }
                Event::Granted { aperture, .. } => {
                    let _ = aperture.put(0, b"abc");
                }
                Event::Ready(_) => {
                    let mut buffer = [0; 1024];
                    for connection in &mut kept {
                        let _ = connection.try_recv(&mut buffer);
                        let _ = connection.try_send(b"echo");
                    }
                }
                _ => {}
            }
        }
    }
    drop((kept, link, aperture));
    assert!(all_goes(place), "too many descriptors, for a second");
}

/// All that the runs opened goes again. The node asks the kernel about its links at times only.
fn all_goes(place: &Place) -> bool {
    let mut events = Vec::new();
    let start = Instant::now();
    while barewire_sys::process::open_fd_count().unwrap_or(0) > place.descriptors + 8 {
        if start.elapsed() > Duration::from_secs(1) {
            return false;
        }
        let wait = Some(Duration::from_millis(1));
        let _ = place.node.wait(&mut events, 64, wait);
        events.clear();
    }
    true
}

fuzz_target!(|data: &[u8]| {
    PLACE.with_borrow_mut(|at| run(at.get_or_insert_with(place), data));
});
