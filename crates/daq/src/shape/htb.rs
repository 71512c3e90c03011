//! HTB on an interface, told to the kernel in its own messages.
//!
//! | message | parent | kind | options |
//! |---|---|---|---|
//! | new queue | root | `htb` | version, rate to quantum, class of the rest: none |
//! | new class | the queue | `htb` | rate, ceiling, burst, quantum |
//! | new queue | a class | `bfifo` | bytes that wait at most |
//!
//! Every message has a `tcmsg` first: family 1, pad 3, interface 4, handle 4, parent 4, info 4.
//! Layouts are of `linux/pkt_sched.h`. Burst is told as time at the rate, in ticks of 64 ns.
//!
//! Source: linux-tc

use std::io;
use std::net::IpAddr;

use barewire_sys::netlink::{
    FLAG_CREATE, FLAG_EXCLUSIVE, FLAG_REPLACE, Request, RouteSocket, attribute,
};
use barewire_units::Rate;

use super::error::{ShapeError, system};

/// The number of our queues: no program counts so far by itself.
pub(super) const HANDLE: u16 = 0x7e57;

const NEW_QUEUE: u16 = 36;
const DELETE_QUEUE: u16 = 37;
const GET_QUEUE: u16 = 38;
const NEW_CLASS: u16 = 40;
const GET_CLASS: u16 = 42;
const GET_LINK: u16 = 18;
const GET_ROUTE: u16 = 26;

const ROOT: u32 = u32::MAX;
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const STATISTICS: u16 = 7;
const STATISTICS_BASIC: u16 = 1;
const STATISTICS_QUEUE: u16 = 3;
const HTB_CLASS: u16 = 1;
const HTB_QUEUE: u16 = 2;
const HTB_RATE: u16 = 6;
const HTB_CEILING: u16 = 7;
const LINK_NAME: u16 = 3;
const LINK_MTU: u16 = 4;
const ROUTE_TO: u16 = 1;
const ROUTE_LINK: u16 = 4;

const TCMSG_BYTES: usize = 20;
const IFINFO_BYTES: usize = 16;
const RTMSG_BYTES: usize = 12;
const TICK_NS: u64 = 64;
const ETHERNET_HEADER_BYTES: u32 = 14;
/// The kernel wants no larger quantum.
const QUANTUM_BYTES_MAX: u32 = 200_000;
const ETHERNET: u8 = 1;

/// A class: number of its queue, and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassId {
    /// Number of its queue.
    pub queue: u16,
    /// Its own, above 0.
    pub minor: u16,
}

impl ClassId {
    /// One of a source's queue.
    #[must_use]
    pub const fn ours(minor: u16) -> Self {
        let queue = HANDLE;
        Self { queue, minor }
    }

    /// As the kernel numbers it.
    #[must_use]
    pub const fn number(self) -> u32 {
        (self.queue as u32) << 16 | self.minor as u32
    }
}

/// How a class is shaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// With Ethernet headers.
    pub rate: Rate,
    /// What may go at once.
    pub burst_bytes: u64,
}

/// What went through a class or a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Sent.
    pub bytes: u64,
    /// Sent.
    pub packets: u32,
    /// Wait now.
    pub backlog_bytes: u32,
    /// Found no room.
    pub drops: u32,
    /// How often something had to wait.
    pub overlimits: u32,
}

/// A queue that is on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    pub link: u32,
    pub handle: u32,
    pub parent: u32,
    pub kind: String,
    pub taken: Taken,
}

/// A network interface of the calling thread's namespace.
#[derive(Debug)]
pub struct Interface {
    socket: RouteSocket,
    index: u32,
    name: String,
    mtu_bytes: u32,
}

impl Interface {
    /// That by which one sends to `peer`.
    ///
    /// # Errors
    ///
    /// There is no way.
    pub fn to(peer: IpAddr) -> Result<Self, ShapeError> {
        let what = format!("find the interface towards {peer}");
        let mut socket = RouteSocket::open().map_err(system(&what))?;
        let (family, address) = match peer {
            IpAddr::V4(it) => (2, it.octets().to_vec()),
            IpAddr::V6(it) => (10, it.octets().to_vec()),
        };
        let mut fixed = [0; RTMSG_BYTES];
        fixed[0] = family;
        fixed[1] = (address.len() * 8) as u8;
        let question = Request::new(GET_ROUTE, 0, &fixed).with(ROUTE_TO, &address);
        let answer = socket.get(question).map_err(system(&what))?;
        let index = answer
            .get(RTMSG_BYTES..)
            .and_then(|it| number(attribute(it, ROUTE_LINK)?));
        let index = index.ok_or_else(|| system(&what)(io::ErrorKind::NotFound.into()))?;
        let mut fixed = [0; IFINFO_BYTES];
        fixed[4..8].copy_from_slice(&index.to_ne_bytes());
        let link = socket.get(Request::new(GET_LINK, 0, &fixed));
        Self::of_link(socket, &link.map_err(system(&what))?, &what)
    }

    /// That of a name.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn named(name: &str) -> Result<Self, ShapeError> {
        let what = format!("find the interface {name}");
        let mut socket = RouteSocket::open().map_err(system(&what))?;
        let question = Request::new(GET_LINK, 0, &[0; IFINFO_BYTES]).with_name(LINK_NAME, name);
        let link = socket.get(question).map_err(system(&what))?;
        Self::of_link(socket, &link, &what)
    }

    fn of_link(socket: RouteSocket, link: &[u8], what: &str) -> Result<Self, ShapeError> {
        let read = || {
            let (fixed, rest) = link.split_first_chunk::<IFINFO_BYTES>()?;
            let name = attribute(rest, LINK_NAME)?.split_last()?.1;
            Some((
                u32::from_ne_bytes(fixed[4..8].try_into().ok()?),
                String::from_utf8_lossy(name).into_owned(),
                number(attribute(rest, LINK_MTU)?)?,
            ))
        };
        let found = read().ok_or_else(|| system(what)(io::ErrorKind::InvalidData.into()));
        let (index, name, mtu_bytes) = found?;
        Ok(Self {
            socket,
            index,
            name,
            mtu_bytes,
        })
    }

    /// Its number.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its largest packet, without the Ethernet header.
    #[must_use]
    pub const fn mtu_bytes(&self) -> u32 {
        self.mtu_bytes
    }

    /// Puts an HTB queue on it; one of this number may be there. `rest` is the class of what
    /// nobody has put into one; without, that is not shaped.
    ///
    /// # Errors
    ///
    /// Another queue is there; not allowed; no HTB.
    pub fn set_root(&mut self, handle: u16, rest: Option<ClassId>) -> Result<(), ShapeError> {
        let handle = u32::from(handle) << 16;
        let queues = self.queues();
        let queues = queues.map_err(system(format!("read the queues of {}", self.name)))?;
        // The kernel's own has no number, and gives way.
        let root = queues.iter().find(|it| it.parent == ROOT && it.handle != 0);
        match root {
            Some(it) if it.handle == handle && it.kind == "htb" => return Ok(()),
            Some(it) => {
                return Err(ShapeError::Taken {
                    interface: self.name.clone(),
                    kind: it.kind.clone(),
                    handle: (it.handle >> 16) as u16,
                });
            }
            None => {}
        }
        self.make(new_htb(self.index, handle, rest.map_or(0, |it| it.minor)))
    }

    /// Makes a class of the queue on it, or changes it.
    ///
    /// # Errors
    ///
    /// Not allowed; there is no such queue.
    pub fn set_class(&mut self, id: ClassId, class: Class) -> Result<(), ShapeError> {
        let quantum = (self.mtu_bytes + ETHERNET_HEADER_BYTES).min(QUANTUM_BYTES_MAX);
        self.change(new_class(self.index, id, class, quantum))
    }

    /// Lets at most so much wait in a class; without, it is as many packets as the interface
    /// has places.
    ///
    /// # Errors
    ///
    /// Not allowed; no such class.
    pub fn set_buffer(&mut self, id: ClassId, bytes: u32) -> Result<(), ShapeError> {
        let flags = FLAG_CREATE | FLAG_REPLACE;
        // The kernel finds a number for it.
        let fixed = tcmsg(self.index, 0, id.number());
        let request = Request::new(NEW_QUEUE, flags, &fixed)
            .with_name(KIND, "bfifo")
            .with(OPTIONS, &bytes.to_ne_bytes());
        self.change(request)
    }

    /// What its classes have sent.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn classes(&mut self) -> io::Result<Vec<(ClassId, Taken)>> {
        let request = Request::new(GET_CLASS, 0, &tcmsg(self.index, 0, 0));
        let answers = self.socket.list(request)?;
        let read = answers.iter().filter_map(|it| read_queue(it));
        Ok(read
            .map(|it| {
                let id = ClassId {
                    queue: (it.handle >> 16) as u16,
                    minor: it.handle as u16,
                };
                (id, it.taken)
            })
            .collect())
    }

    /// All queues of its namespace.
    pub(super) fn all_queues(socket: &mut RouteSocket) -> io::Result<Vec<Queue>> {
        let answers = socket.list(Request::new(GET_QUEUE, 0, &tcmsg(0, 0, 0)))?;
        Ok(answers.iter().filter_map(|it| read_queue(it)).collect())
    }

    fn queues(&mut self) -> io::Result<Vec<Queue>> {
        let mut all = Self::all_queues(&mut self.socket)?;
        all.retain(|it| it.link == self.index);
        Ok(all)
    }

    fn change(&mut self, request: Request) -> Result<(), ShapeError> {
        let done = self.socket.change(request);
        done.map_err(|error| told(error, &self.name))
    }

    /// Has a queue made; the kernel does not find a kind that it lacks.
    fn make(&mut self, request: Request) -> Result<(), ShapeError> {
        self.change(request).map_err(|error| match error {
            ShapeError::System { error, .. } if error.kind() == io::ErrorKind::NotFound => {
                ShapeError::NoHtb
            }
            error => error,
        })
    }
}

/// Removes a queue that was found.
pub(super) fn remove(socket: &mut RouteSocket, queue: &Queue) -> Result<(), ShapeError> {
    let fixed = tcmsg(queue.link, queue.handle, queue.parent);
    let done = socket.change(Request::new(DELETE_QUEUE, 0, &fixed));
    done.map_err(|error| told(error, &format!("interface {}", queue.link)))
}

/// What to do about an error of the kernel.
fn told(error: io::Error, interface: &str) -> ShapeError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => ShapeError::NotAllowed(interface.to_owned()),
        _ => system(format!("shape {interface}"))(error),
    }
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.first_chunk::<4>()?))
}

fn tcmsg(link: u32, handle: u32, parent: u32) -> [u8; TCMSG_BYTES] {
    let mut bytes = [0; TCMSG_BYTES];
    bytes[4..8].copy_from_slice(&link.to_ne_bytes());
    bytes[8..12].copy_from_slice(&handle.to_ne_bytes());
    bytes[12..16].copy_from_slice(&parent.to_ne_bytes());
    bytes
}

fn new_htb(link: u32, handle: u32, rest: u16) -> Request {
    // tc_htb_glob: version, rate to quantum, default class, debug, packets past all classes.
    let queue: [u32; 5] = [3, 10, u32::from(rest), 0, 0];
    let flags = FLAG_CREATE | FLAG_EXCLUSIVE;
    Request::new(NEW_QUEUE, flags, &tcmsg(link, handle, ROOT))
        .with_name(KIND, "htb")
        .nest(OPTIONS, |it| it.with(HTB_QUEUE, &words(&queue)))
}

fn new_class(link: u32, id: ClassId, class: Class, quantum_bytes: u32) -> Request {
    let bytes_per_s = (class.rate.as_bps() / 8).max(1);
    let burst_ns = u128::from(class.burst_bytes) * 1_000_000_000 / u128::from(bytes_per_s);
    let burst_ticks = u32::try_from(burst_ns / u128::from(TICK_NS)).unwrap_or(u32::MAX);
    let flags = FLAG_CREATE | FLAG_REPLACE;
    let fixed = tcmsg(link, id.number(), u32::from(id.queue) << 16);
    // tc_htb_opt: rate, ceiling, burst of each, quantum, level, priority.
    let mut options = ratespec(bytes_per_s).to_vec();
    options.extend(ratespec(bytes_per_s));
    options.extend(words(&[burst_ticks, burst_ticks, quantum_bytes, 0, 0]));
    Request::new(NEW_CLASS, flags, &fixed)
        .with_name(KIND, "htb")
        .nest(OPTIONS, |it| {
            it.with(HTB_CLASS, &options)
                .with(HTB_RATE, &bytes_per_s.to_ne_bytes())
                .with(HTB_CEILING, &bytes_per_s.to_ne_bytes())
        })
}

/// `tc_ratespec`. Of Ethernet, so that the kernel wants no table of times.
fn ratespec(bytes_per_s: u64) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[1] = ETHERNET;
    let rate = u32::try_from(bytes_per_s).unwrap_or(u32::MAX);
    bytes[8..].copy_from_slice(&rate.to_ne_bytes());
    bytes
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|it| it.to_ne_bytes()).collect()
}

fn read_queue(answer: &[u8]) -> Option<Queue> {
    let (fixed, rest) = answer.split_first_chunk::<TCMSG_BYTES>()?;
    let word = |at: usize| number(&fixed[at..]);
    let kind = attribute(rest, KIND)?.split_last()?.1;
    Some(Queue {
        link: word(4)?,
        handle: word(8)?,
        parent: word(12)?,
        kind: String::from_utf8_lossy(kind).into_owned(),
        taken: attribute(rest, STATISTICS).map_or_else(Taken::default, read_taken),
    })
}

fn read_taken(statistics: &[u8]) -> Taken {
    let basic = attribute(statistics, STATISTICS_BASIC).unwrap_or_default();
    let queue = attribute(statistics, STATISTICS_QUEUE).unwrap_or_default();
    let of = |bytes: &[u8], at: usize| bytes.get(at..).and_then(number).unwrap_or(0);
    let bytes = basic.first_chunk::<8>();
    Taken {
        bytes: bytes.map_or(0, |it| u64::from_ne_bytes(*it)),
        packets: of(basic, 8),
        backlog_bytes: of(queue, 4),
        drops: of(queue, 8),
        overlimits: of(queue, 16),
    }
}

#[cfg(test)]
mod tests;
