//! An attacker's end of a link: a correct handshake by hand, and raw access to all the
//! memory that the victim hands out.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use barewire_fabric::doorbell::PAGE_BYTES;
use barewire_fabric::frame::{CONTROL_BYTES, LINE_BYTES, region_bytes};
use barewire_shm::Window;
use barewire_sys::memory::{Access, Memfd, PeerAccess};
use barewire_sys::socket::{Received, Sent, Socket};
use barewire_sys::wake::EventFd;
use barewire_units::Rng;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::wire::{self, Heard, Region};

/// Bytes of the rings in the attacker's own memory.
pub const OWN_RING_BYTES: usize = 4096;
const OWN_REGIONS: u32 = 250;
const OWN_SEGMENT_BYTES: usize =
    (OWN_REGIONS as usize * region_bytes(OWN_RING_BYTES)).div_ceil(4096) * 4096;

/// Memory with its descriptor.
pub struct Memory {
    /// What can be resized, punched, passed on.
    pub memfd: Memfd,
    /// All of it.
    pub window: Window,
}

impl Memory {
    fn own(name: &str, bytes: usize) -> Memory {
        let memfd = Memfd::create_sealed(name, bytes).expect("memory");
        let window = memfd.map(Access::ReadWrite).expect("a mapping").whole();
        Memory { memfd, window }
    }

    fn theirs(fd: OwnedFd, bytes: usize, writable: bool) -> Option<Memory> {
        let (peer, access) = if writable {
            (PeerAccess::ReadWrite, Access::ReadWrite)
        } else {
            (PeerAccess::ReadOnly, Access::Read)
        };
        let memfd = Memfd::from_peer(fd, bytes, peer).ok()?;
        let window = memfd.map(access).ok()?.whole();
        Some(Memory { memfd, window })
    }

    /// Tries to resize it, and punches holes into it: what the seals allow, and not.
    pub fn abuse(&self, rng: &mut Rng) {
        use rustix::fs::{FallocateFlags, fallocate, ftruncate};
        let bytes = self.window.len_bytes() as u64;
        let _ = ftruncate(&self.memfd, rng.below(2 * bytes));
        let offset = rng.below(bytes / 4096) * 4096;
        let len = 4096 * (1 + rng.below(16));
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(&self.memfd, punch, offset, len);
        let _ = fallocate(&self.memfd, FallocateFlags::empty(), bytes, len);
        let _ = fallocate(&self.memfd, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    }
}

/// A connection, as the attacker sees it.
pub struct Conn {
    /// Our number.
    pub number: u32,
    /// The victim's number.
    pub far: u32,
    /// The victim's region: ours to store into.
    pub out: Window,
    /// Its bit at the victim.
    pub source: u32,
    /// Our own region.
    pub inn: Window,
    /// Where the next frame goes, in lines.
    pub head: u64,
    /// How far the victim's frames have been read.
    pub tail: u64,
}

/// A link to the victim.
pub struct Link {
    /// The control channel.
    pub socket: Socket,
    /// Our memory that the victim stores into.
    pub segment: Memory,
    /// Our doorbell page.
    pub page: Memory,
    /// The victim's doorbell page.
    pub far_page: Option<Memory>,
    /// Where we may set tripwires on the victim's stores, with its aperture's number.
    pub waiting: Vec<(u32, Memory)>,
    /// The victim's eventfd, if we are of its user.
    pub waker: Option<EventFd>,
    /// The bit of this link at the victim.
    pub far_source: u32,
    /// The victim's node id.
    pub far_node: [u64; 2],
    /// Ours, as we say.
    pub node: [u64; 2],
    /// The victim's arena.
    pub arena: Vec<Memory>,
    /// Connections that stand.
    pub conns: Vec<Conn>,
    /// What the victim granted: memory, counts, whether writable.
    pub apertures: Vec<(u32, Memory, Option<Memory>, bool)>,
    /// Requests of the victim's: its number, region, source.
    pub calls: Vec<(u32, Region, u32)>,
    /// Numbers of ours that are free.
    free: Vec<u32>,
    /// Whether the socket is still open.
    pub up: bool,
    same_user: bool,
    eventfd: EventFd,
    name: String,
}

fn wait(socket: &Socket, flags: PollFlags, ms: i64) -> bool {
    let mut fds = [PollFd::new(socket, flags)];
    let timeout = Timespec {
        tv_sec: ms / 1000,
        tv_nsec: ms % 1000 * 1_000_000,
    };
    rustix::event::poll(&mut fds, Some(&timeout)).is_ok_and(|n| n > 0)
}

impl Link {
    /// Connects a socket and nothing more.
    #[must_use]
    pub fn dial(name: &str, owner: u32) -> Option<Socket> {
        let full = format!("barewire/1/{owner}/{name}");
        Socket::connect(full.as_bytes()).ok()
    }

    /// A link by a correct handshake.
    #[must_use]
    pub fn connect(name: &str, owner: u32) -> Option<Link> {
        let socket = Link::dial(name, owner)?;
        Link::over(socket, name, owner).greet()
    }

    /// Says hello and waits for the answer.
    #[must_use]
    pub fn greet(self) -> Option<Link> {
        let mut link = self;
        link.say_hello();
        let until = Instant::now() + Duration::from_secs(5);
        while link.up && link.far_page.is_none() {
            if Instant::now() > until {
                return None;
            }
            wait(&link.socket, PollFlags::IN, 100);
            link.pump();
        }
        link.up.then_some(link)
    }

    /// The attacker's end of a socket, before a word has been said.
    #[must_use]
    pub fn over(socket: Socket, name: &str, owner: u32) -> Link {
        Link {
            socket,
            segment: Memory::own("hostile-segment", OWN_SEGMENT_BYTES),
            page: Memory::own("hostile-page", PAGE_BYTES),
            far_page: None,
            waker: None,
            far_source: 0,
            far_node: [0; 2],
            node: Self::node_id(),
            arena: Vec::new(),
            conns: Vec::new(),
            apertures: Vec::new(),
            waiting: Vec::new(),
            calls: Vec::new(),
            free: (0..OWN_REGIONS).rev().collect(),
            up: true,
            same_user: barewire_sys::process::own_credentials().uid == owner,
            eventfd: EventFd::new().expect("an eventfd"),
            name: name.to_owned(),
        }
    }

    /// A node id that nobody has, most likely.
    fn node_id() -> [u64; 2] {
        let mut id = [0; 16];
        let _ = barewire_sys::process::random_bytes(&mut id);
        [0, 8].map(|at| u64::from_le_bytes(id[at..at + 8].try_into().unwrap_or_default()))
    }

    /// Says a correct hello, and hands out our segment.
    pub fn say_hello(&mut self) {
        let hello = wire::hello(wire::VERSION, self.node, 1, 7);
        let page = self.page.memfd.as_fd().try_clone_to_owned();
        let waker = self.eventfd.as_fd().try_clone_to_owned();
        let (Ok(page), Ok(waker)) = (page, waker) else {
            return;
        };
        if self.same_user {
            self.send(&hello, &[page.as_fd(), waker.as_fd()]);
        } else {
            self.send(&hello, &[page.as_fd()]);
        }
        let segment = self.segment.memfd.as_fd().try_clone_to_owned();
        if let Ok(segment) = segment {
            let message = wire::segment(0, OWN_SEGMENT_BYTES as u64);
            self.send(&message, &[segment.as_fd()]);
        }
    }

    /// Sends, waiting a little for room.
    pub fn send(&mut self, message: &[u8], fds: &[BorrowedFd<'_>]) {
        for _ in 0..200 {
            match self.socket.send(message, fds) {
                Ok(Sent::Done) => return,
                Ok(Sent::WouldBlock) => {
                    wait(&self.socket, PollFlags::OUT, 10);
                }
                Err(_) => {
                    self.up = false;
                    return;
                }
            }
        }
    }

    /// A place in our segment.
    #[must_use]
    pub fn own_region(number: u32) -> Region {
        let offset = u64::from(number) * (region_bytes(OWN_RING_BYTES) as u64);
        (0, offset, OWN_RING_BYTES as u32)
    }

    /// Asks for a connection; the answer comes by [`Link::pump`].
    pub fn open(&mut self, data: &[u8]) {
        let Some(number) = self.free.pop() else {
            return;
        };
        let region = Self::own_region(number);
        let (_, offset, ring_bytes) = region;
        let window = self
            .segment
            .window
            .sub(offset as usize, region_bytes(ring_bytes as usize));
        if let Some(window) = window {
            window.write_bytes(0, &[0; CONTROL_BYTES + LINE_BYTES]);
        }
        let name = self.name.clone();
        let message = wire::open(number, region, number, 1 << 20, name.as_bytes(), data);
        self.send(&message, &[]);
    }

    /// Opens connections until there are `count`, waiting for the answers.
    pub fn open_to(&mut self, count: usize, data: &[u8]) -> bool {
        let until = Instant::now() + Duration::from_secs(5);
        let mut asked = self.conns.len();
        while self.up && self.conns.len() < count && Instant::now() < until {
            while asked < count {
                self.open(data);
                asked += 1;
            }
            wait(&self.socket, PollFlags::IN, 20);
            self.pump();
            asked = asked.min(OWN_REGIONS as usize - self.free.len());
        }
        self.up && !self.conns.is_empty()
    }

    /// Takes what the victim has said.
    pub fn pump(&mut self) {
        let mut buffer = [0; 8192];
        loop {
            let mut fds = Vec::new();
            match self.socket.recv(&mut buffer, &mut fds) {
                Ok(Received::Message(len)) => self.hear(&buffer[..len], fds),
                Ok(Received::WouldBlock) => return,
                _ => {
                    self.up = false;
                    return;
                }
            }
        }
    }

    fn hear(&mut self, message: &[u8], mut fds: Vec<OwnedFd>) {
        match wire::parse(message) {
            Heard::Hello { node, source } => {
                self.far_source = source;
                self.far_node = node;
                if fds.len() > 1 {
                    self.waker = fds.pop().and_then(|fd| EventFd::from_peer(fd).ok());
                }
                let page = fds.pop();
                self.far_page = page.and_then(|fd| Memory::theirs(fd, PAGE_BYTES, true));
            }
            Heard::Segment { len } => {
                let memory = fds.pop();
                let memory = memory.and_then(|fd| Memory::theirs(fd, len as usize, true));
                self.arena.extend(memory);
            }
            Heard::Accept {
                connection,
                own,
                region,
                source,
            } => self.stands(connection, own, region, source),
            Heard::Open {
                connection,
                region,
                source,
            } => self.calls.push((connection, region, source)),
            Heard::Reject { connection } => {
                if connection < OWN_REGIONS && !self.free.contains(&connection) {
                    self.free.push(connection);
                }
            }
            Heard::Detach { connection } => self.detach(connection),
            Heard::Grant {
                aperture,
                len,
                tripwires,
                writable,
                on_owner,
            } if fds.len() == 4 => {
                let bytes = on_owner_bytes(len as usize, on_owner);
                let waiting = fds.pop().and_then(|fd| Memory::theirs(fd, bytes, true));
                self.waiting
                    .extend(waiting.map(|memory| (aperture, memory)));
                let counts = (tripwires.max(1) as usize * 8).next_multiple_of(4096);
                let counts = fds.pop().and_then(|fd| Memory::theirs(fd, counts, true));
                drop(fds.pop());
                let bytes = (len as usize).next_multiple_of(4096);
                let memory = fds.pop().and_then(|fd| Memory::theirs(fd, bytes, writable));
                if let Some(memory) = memory {
                    self.apertures.push((aperture, memory, counts, writable));
                }
            }
            Heard::Grant { .. } | Heard::Other => {}
        }
    }

    /// Notes a connection; `number` is ours.
    pub fn stands(&mut self, number: u32, far: u32, region: Region, source: u32) {
        let (segment, offset, ring_bytes) = region;
        let (_, own_offset, own_bytes) = Self::own_region(number);
        let inn = self
            .segment
            .window
            .sub(own_offset as usize, region_bytes(own_bytes as usize));
        let out = self.arena.get(segment as usize);
        let out = out.and_then(|m| {
            m.window
                .sub(offset as usize, region_bytes(ring_bytes as usize))
        });
        if let (Some(inn), Some(out)) = (inn, out) {
            self.conns.push(Conn {
                number,
                far,
                out,
                source,
                inn,
                head: 0,
                tail: 0,
            });
        }
    }

    /// Lets go of a connection as an honest peer does.
    pub fn detach(&mut self, number: u32) {
        let at = self.conns.iter().position(|c| c.number == number);
        if let Some(at) = at {
            let far = self.conns.swap_remove(at).far;
            self.send(&wire::numbered(wire::DETACH, far), &[]);
            self.free.push(number);
        }
    }

    /// Rings for a source, and wakes.
    pub fn ring(&mut self, source: u32) {
        let Some(page) = &self.far_page else {
            return;
        };
        let sleep = barewire_fabric::doorbell::ring(&page.window, source);
        if sleep % 2 == 1 {
            if let Some(waker) = &self.waker {
                let _ = waker.signal();
            } else if self.socket.send(&wire::wake(), &[]).is_err() {
                self.up = false;
            }
        }
    }

    /// Whether the attacker is of the victim's user.
    #[must_use]
    pub fn same_user(&self) -> bool {
        self.same_user
    }
}

/// Bytes of the memory for an importer's tripwires on the owner's stores.
#[must_use]
pub fn on_owner_bytes(len: usize, slots: u32) -> usize {
    let pages = |bytes: usize| bytes.next_multiple_of(4096);
    // What a message of no sense asks for is not made.
    let len = len.min(1 << 40);
    pages(barewire_shm::watch::table_bytes(len, slots)) + pages(slots.max(1) as usize * 8)
}
