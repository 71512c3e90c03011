//! Programs with the preload library, and their sockets, seen from outside: for `ls` and
//! `capture`. The layout of what is read: `crates/sockets/src/table/status.rs`.
//!
//! All of it is in another process's memory, which may change while it is read, or lie:
//! every address, size and number is checked, and what does not fit is left out.

pub mod memory;
mod net;

use std::collections::HashMap;

use serde::Serialize;

use memory::Memory;
use net::{Names, Network};

/// A process with the library.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PreloadedProcess {
    /// The process.
    pub pid: i32,
    /// The name of the program.
    pub comm: String,
    /// Its user.
    pub uid: u32,
    /// Why its sockets cannot be seen, if so.
    pub hidden: Option<String>,
    /// Its settings; none if the library does nothing there.
    pub settings: Option<Settings>,
    /// It is sandboxed, so that all its sockets use the kernel.
    #[serde(rename = "is_confined")]
    pub is_sandboxed: bool,
    /// Its TCP sockets, and Unix stream sockets.
    pub sockets: Vec<Socket>,
}

/// Settings of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Longest time that it polls before a sleep.
    pub spin_ns: u64,
    /// Calls before a connection is upgraded; 4294967295: streams only.
    pub calls_before: u64,
    /// Or bytes.
    pub bytes_before: u64,
}

/// A socket of such a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Socket {
    /// Its descriptors.
    pub fds: Vec<i32>,
    /// Its own address or name, if the kernel lists it.
    pub local: Option<String>,
    /// That of the other end.
    pub remote: Option<String>,
    /// The other end of a Unix socket by its inode, if the library has asked for it.
    pub other_inode: Option<u64>,
    /// A process that has the other end, if it may be seen.
    pub peer_pid: Option<i32>,
    /// Its state: `accelerated`, `candidate`, `kernel`, `listening`, ...
    pub state: String,
    /// Why it is not accelerated; empty if it is.
    pub why: String,
    /// The path of bytes that go out and that come in: `ring` or `kernel`.
    #[serde(rename = "lanes")]
    pub paths: [&'static str; 2],
    /// Bytes sent and received through the ring.
    pub ring_bytes: [u64; 2],
    /// Calls and bytes that were counted before it was accelerated.
    pub before: [u64; 2],
    /// Where in the process the counters of what it sends are, if it is accelerated.
    #[serde(skip)]
    pub counters_out: Option<CountersOut>,
}

/// Addresses of two words of a hybrid stream, for what a socket sends (`fabric::hybrid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountersOut {
    /// HEAD: bytes ever put into the ring.
    head: u64,
    /// TAIL: bytes ever taken from it.
    tail: u64,
}

impl CountersOut {
    /// Bytes put into the ring so far.
    pub fn put(&self, memory: &Memory) -> Option<u64> {
        // What is in the bits above them is no position.
        Some(number(&memory.read(self.head, 8)?, 0, 8)? & ((1 << 56) - 1))
    }

    /// Bytes taken from the ring so far.
    pub fn taken(&self, memory: &Memory) -> Option<u64> {
        number(&memory.read(self.tail, 8)?, 0, 8)
    }
}

/// The processes with the library that this user may see, by number.
pub fn all() -> Vec<PreloadedProcess> {
    let mut pids: Vec<i32> = memory::numbers_in("/proc").collect();
    pids.sort_unstable();
    look_at(&pids)
}

/// One process; none if it has no preload library, or does not exist.
pub fn of_process(pid: i32) -> Option<PreloadedProcess> {
    look_at(&[pid]).pop()
}

fn look_at(pids: &[i32]) -> Vec<PreloadedProcess> {
    let mut networks = HashMap::new();
    let mut found: Vec<(PreloadedProcess, String)> = Vec::new();
    for &pid in pids {
        let Some(at) = memory::library_data(pid) else {
            continue;
        };
        let namespace = net::namespace(pid);
        let network = networks
            .entry(namespace.clone())
            .or_insert_with(|| Network::read(pid));
        found.extend(look(pid, &at, network).map(|process| (process, namespace)));
    }
    name_peers(&mut found, &networks);
    found.into_iter().map(|(process, _)| process).collect()
}

fn look(pid: i32, data: &[(u64, u64)], network: &Network) -> Option<PreloadedProcess> {
    let comm = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    let mut process = PreloadedProcess {
        pid,
        comm: String::from_utf8_lossy(&comm).trim_end().to_owned(),
        uid: memory::owner(pid)?,
        hidden: None,
        settings: None,
        is_sandboxed: false,
        sockets: Vec::new(),
    };
    match Memory::open(pid) {
        Ok(memory) => match data.iter().find_map(|range| status_words(&memory, *range)) {
            Some(bytes) if number(&bytes, 16, 8) == Some(0) => {
                process.hidden = Some("the library does nothing there".to_owned());
            }
            Some(bytes) => match Layout::parse(&memory, &bytes) {
                Some(layout) => {
                    process.settings = Some(layout.settings);
                    process.is_sandboxed = layout.is_sandboxed;
                    process.sockets = layout.sockets(&memory, &net::inodes(pid), network);
                }
                None => process.hidden = Some("it has another version of the library".to_owned()),
            },
            None => process.hidden = Some("the library's data cannot be found".to_owned()),
        },
        Err(error) => process.hidden = Some(format!("it may not be read: {error}")),
    }
    Some(process)
}

/// Where the records are, and what is where in one.
struct Layout {
    records: u64,
    record_bytes: u64,
    records_max: u64,
    descriptors: u64,
    highest: u64,
    places: u64,
    stream_bytes: u64,
    /// State, why, flags, side, calls; bytes, ring bytes out and in.
    offsets: [usize; 8],
    texts: Vec<String>,
    settings: Settings,
    kernel_only: u64,
    is_sandboxed: bool,
    /// Where a record has the inode of a Unix socket's other end.
    other_inode: Option<usize>,
    /// Unix sockets are carried, too.
    has_unix: bool,
}

const MAGIC: &[u8; 16] = b"barewire-status\0";
const ALIGNMENT: usize = 64;
const VERSION: u64 = 1;
const WORDS: usize = 31;
/// Behind it: whether the program is sandboxed, the offset of the other end's inode, and whether
/// Unix sockets are carried.
const SANDBOX: u64 = u64::from_ne_bytes(*b"confine1");
/// A data segment is a few thousand bytes.
const DATA_BYTES_MAX: u64 = 1 << 20;
const RECORD_BYTES_MAX: u64 = 1 << 16;
const DESCRIPTORS_MAX: u64 = 1 << 20;
const STATES: u64 = 8;
const TEXTS: usize = 32;
const TEXT_BYTES: usize = 64;
/// States of `record::State` that are treated in a way of their own.
const CANDIDATE: u64 = 2;
const UPGRADED: u64 = 4;

fn status_words(memory: &Memory, range: (u64, u64)) -> Option<Vec<u8>> {
    memory.read(status_at(memory, range)?, (WORDS * 8) as u64)
}

/// Where the status is, somewhere in the library's data.
pub fn status_at(memory: &Memory, (from, to): (u64, u64)) -> Option<u64> {
    let bytes = memory.read(from, to.checked_sub(from)?.min(DATA_BYTES_MAX))?;
    let mut places = bytes.chunks(ALIGNMENT).enumerate();
    let (at, _) = places.find(|(_, chunk)| chunk.starts_with(MAGIC))?;
    from.checked_add((at * ALIGNMENT) as u64)
}

impl Layout {
    fn parse(memory: &Memory, bytes: &[u8]) -> Option<Layout> {
        let mut words = bytes
            .chunks_exact(8)
            .map(|chunk| number(chunk, 0, 8))
            .skip(2);
        let mut next = || words.next().flatten();
        if next()? != VERSION {
            return None;
        }
        let (records, record_bytes, records_max) = (next()?, next()?, next()?);
        let (descriptors, highest, places, stream_bytes) = (next()?, next()?, next()?, next()?);
        let mut offsets = [0; 8];
        for offset in &mut offsets {
            *offset = usize::try_from(next()?).ok()?;
        }
        let texts = memory.read(next()?, (TEXTS * TEXT_BYTES) as u64)?;
        let settings = Settings {
            spin_ns: next()?,
            calls_before: next()?,
            bytes_before: next()?,
        };
        let kernel_only = next()?;
        // What follows is for `barewire capture`, and then what older libraries do not have.
        let mut later = words.skip(4).flatten();
        let is_later = later.next() == Some(SANDBOX);
        let mut later = || later.next().filter(|_| is_later);
        Some(Layout {
            records,
            record_bytes: Some(record_bytes)
                .filter(|bytes| (1..RECORD_BYTES_MAX).contains(bytes))?,
            records_max,
            descriptors,
            highest,
            places,
            stream_bytes,
            offsets,
            texts: texts.chunks(TEXT_BYTES).map(printable).collect(),
            settings,
            kernel_only,
            is_sandboxed: later() == Some(1),
            other_inode: later().and_then(|offset| usize::try_from(offset).ok()),
            has_unix: later() == Some(1),
        })
    }

    fn text(&self, number: u64) -> String {
        let text = usize::try_from(number)
            .ok()
            .and_then(|number| self.texts.get(number));
        text.cloned().unwrap_or_default()
    }

    /// The sockets of the table, and the others that could be in it.
    fn sockets(
        &self,
        memory: &Memory,
        inodes: &HashMap<i32, u64>,
        network: &Network,
    ) -> Vec<Socket> {
        let mut sockets: Vec<(u32, Socket)> = Vec::new();
        for (fd, record) in self.table(memory) {
            if let Some((_, socket)) = sockets.iter_mut().find(|(known, _)| *known == record) {
                socket.fds.push(fd);
                continue;
            }
            // A descriptor that was closed meanwhile has no socket any more.
            let Some(inode) = inodes.get(&fd) else {
                continue;
            };
            let names = network.names(*inode);
            sockets.extend(
                self.socket(memory, record, fd, names)
                    .map(|socket| (record, socket)),
            );
        }
        let mut sockets: Vec<Socket> = sockets.into_iter().map(|(_, socket)| socket).collect();
        let mut others: Vec<(&i32, &u64)> = inodes.iter().collect();
        others.sort_unstable();
        for (fd, inode) in others {
            let names = network.names(*inode);
            let names = names.filter(|names| self.has_unix || !names.is_unix);
            let known = sockets.iter().any(|socket| socket.fds.contains(fd));
            if let (Some(names), false) = (names, known) {
                sockets.push(unknown(*fd, names));
            }
        }
        if self.is_sandboxed {
            for socket in &mut sockets {
                socket.why = "its program is sandboxed (seccomp)".to_owned();
            }
        }
        sockets
            .iter_mut()
            .for_each(|socket| socket.name_other(network));
        sockets
    }

    /// Descriptors with the numbers of their records.
    fn table(&self, memory: &Memory) -> Vec<(i32, u32)> {
        let highest = memory
            .read(self.highest, 4)
            .and_then(|bytes| number(&bytes, 0, 4));
        let count = highest.map_or(0, |highest| (highest + 1).min(DESCRIPTORS_MAX));
        let Some(table) = memory.read(self.descriptors, count * 4) else {
            return Vec::new();
        };
        let entries = table
            .chunks_exact(4)
            .filter_map(|entry| number(entry, 0, 4));
        let entries = (0_i32..).zip(entries);
        entries
            .filter(|(_, entry)| (1..=self.records_max).contains(entry))
            .filter_map(|(fd, entry)| Some((fd, u32::try_from(entry - 1).ok()?)))
            .collect()
    }

    fn socket(
        &self,
        memory: &Memory,
        record: u32,
        fd: i32,
        names: Option<&Names>,
    ) -> Option<Socket> {
        let offset = u64::from(record).checked_mul(self.record_bytes)?;
        let bytes = memory.read(self.records.checked_add(offset)?, self.record_bytes)?;
        let [state, why, flags, side, calls] =
            std::array::from_fn(|nth| number(&bytes, self.offsets[nth], 4));
        let [before, out, into] =
            std::array::from_fn(|nth| number(&bytes, self.offsets[nth + 5], 8));
        let (state, why) = (state?, why?);
        let paths = match state {
            UPGRADED => self.paths(memory, record, side?).unwrap_or_default(),
            _ => [0, 0],
        };
        let mut why = self.text(STATES.checked_add(why)?);
        if state == UPGRADED && flags? & self.kernel_only != 0 {
            why = format!("fell back to the kernel: {why}");
        } else if state == CANDIDATE && why.is_empty() {
            why = "too little traffic so far".to_owned();
        }
        let mut socket = unknown(fd, names.unwrap_or(&Names::default()));
        socket.state = self.text(state.min(STATES - 1));
        socket.why = why;
        socket.paths = paths.map(|epoch| ["kernel", "ring"][(epoch % 2) as usize]);
        socket.ring_bytes = [out?, into?];
        socket.before = [calls?, before?];
        socket.counters_out = match state {
            UPGRADED => self.counters_out(record, side?),
            _ => None,
        };
        let other = self.other_inode.and_then(|at| number(&bytes, at, 4));
        socket.other_inode = other.filter(|inode| *inode != 0);
        Some(socket)
    }

    /// Where TAIL and HEAD of the direction out are: words 16 and 128, or 48 and 144 of the hybrid stream.
    fn counters_out(&self, record: u32, side: u64) -> Option<CountersOut> {
        let place = u64::from(record).checked_mul(self.stream_bytes)?;
        let word = |at: u64| self.places.checked_add(place)?.checked_add(at * 8);
        let side = side % 2;
        Some(CountersOut {
            head: word(128 + 16 * side)?,
            tail: word(16 + 32 * side)?,
        })
    }

    /// The epochs of the two directions, out and in: word 1 and 33 of the hybrid stream.
    fn paths(&self, memory: &Memory, record: u32, side: u64) -> Option<[u64; 2]> {
        let place = u64::from(record).checked_mul(self.stream_bytes)?;
        let control = memory.read(self.places.checked_add(place)?, 34 * 8)?;
        let epochs = [number(&control, 8, 8)?, number(&control, 33 * 8, 8)?];
        let side = (side % 2) as usize;
        Some([epochs[side], epochs[1 - side]])
    }
}

/// What stands for the names of a pair's ends, which have none.
const PAIR: &str = "(pair)";

impl Socket {
    /// Names the ends of a Unix socket as well as they are known.
    fn name_other(&mut self, network: &Network) {
        let Some(other) = self.other_inode else {
            return;
        };
        self.remote = network.names(other).and_then(|names| names.local.clone());
        if self.local.is_none() && self.remote.is_none() {
            self.local = Some(PAIR.to_owned());
            self.remote = Some(PAIR.to_owned());
        }
    }
}

/// A socket that the library knows nothing of.
fn unknown(fd: i32, names: &Names) -> Socket {
    Socket {
        fds: vec![fd],
        local: names.local.clone(),
        remote: names.remote.clone(),
        other_inode: None,
        peer_pid: None,
        state: if names.listens { "listening" } else { "kernel" }.to_owned(),
        why: "the library has not seen it: inherited, received, or made past the C library"
            .to_owned(),
        paths: ["kernel"; 2],
        ring_bytes: [0; 2],
        before: [0; 2],
        counters_out: None,
    }
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    let mut word = [0; 8];
    let place = if cfg!(target_endian = "little") {
        0
    } else {
        8 - size
    };
    word.get_mut(place..place + size)?.copy_from_slice(bytes);
    Some(u64::from_ne_bytes(word))
}

/// A text out of another process: nothing in it may steer a terminal.
fn printable(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    text.chars().filter(|one| !one.is_control()).collect()
}

/// Says whose the other ends are.
fn name_peers(found: &mut [(PreloadedProcess, String)], networks: &HashMap<String, Network>) {
    let mut wanted: Vec<(usize, usize, u64)> = Vec::new();
    for (nth, (process, namespace)) in found.iter().enumerate() {
        let Some(network) = networks.get(namespace) else {
            continue;
        };
        for (socket_nth, socket) in process.sockets.iter().enumerate() {
            let ends = (socket.local.as_deref(), socket.remote.as_deref());
            let inode = socket.other_inode;
            let inode = inode.or_else(|| network.other_end(ends.0, ends.1));
            wanted.extend(inode.map(|inode| (nth, socket_nth, inode)));
        }
    }
    if wanted.is_empty() {
        return;
    }
    let owners = net::owners(wanted.iter().map(|(_, _, inode)| *inode));
    for (nth, socket_nth, inode) in wanted {
        found[nth].0.sockets[socket_nth].peer_pid = owners.get(&inode).copied();
    }
}

#[cfg(test)]
mod tests;
