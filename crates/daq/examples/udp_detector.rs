//! A detector that sends its data by UDP, as a source of a run; and a stand-in for one, so that
//! all of it can be tried on one host. All numbers are little-endian.
//!
//! | byte | bytes | field of a datagram from the detector |
//! |---|---|---|
//! | 0 | 4 | `BWUD` |
//! | 4 | 4 | number of the datagram, from 0 |
//! | 8 | 8 | event; all ones: there are no more |
//! | 16 | 8 | time, ns |
//! | 24 | 4 | bytes of the fragment |
//! | 28 | 4 | offset of these in it |
//! | 32 | | at most 8 KiB of it |
//!
//! To the detector go `BWGO`, again and again until something comes, and `BWST`: stop.
//!
//! ```text
//! $ cargo run --example udp_detector generate 127.0.0.1:7200 0 1000 4096 &
//! $ cargo run --example udp_detector generate 127.0.0.1:7200 1 1000 4096 &
//! $ barewire daq run udp.toml    # source.kind = "own", trigger.mode = "sources",
//!                                # source.program = "target/debug/examples/udp_detector"
//! ```
//!
//! Detector N listens on the port that is N after that of the address, which a source takes from
//! `UDP_DETECTOR`, or is 127.0.0.1:7200. What UDP loses is told to the event log; events are then built
//! without this source. Linux gives a socket 208 KiB, headers included: for a detector
//! that sends faster than a source may be held up, raise `net.core.rmem_default`.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use barewire_daq::config::Config;
use barewire_daq::detector::{Detector, Fragment, Number, Polled, Word};
use barewire_daq::part;

const HEAD_BYTES: usize = 32;
const DATA_BYTES: usize = 8 << 10;
const LAST: u64 = u64::MAX;
const AGAIN: Duration = Duration::from_millis(100);

/// Reads a detector.
pub struct UdpDetector {
    socket: UdpSocket,
    buffer: Vec<u8>,
    wanted: bool,
    asked: Option<Instant>,
    next_datagram: Option<u32>,
    /// Datagrams that were lost and are to be told of.
    untold: u32,
    partial: Option<Partial>,
}

struct Partial {
    event: u64,
    at_ns: u64,
    bytes: usize,
    data: Vec<u8>,
}

struct Head {
    number: u32,
    event: u64,
    at_ns: u64,
    bytes: usize,
    offset: usize,
}

impl UdpDetector {
    /// Reads the detector at `address`.
    pub fn new(address: SocketAddr) -> io::Result<Self> {
        let any = SocketAddr::new(address.ip(), 0);
        let socket = UdpSocket::bind(match any.ip().is_loopback() {
            true => any,
            false => SocketAddr::from(([0, 0, 0, 0], 0)),
        })?;
        socket.connect(address)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            buffer: vec![0; HEAD_BYTES + DATA_BYTES],
            wanted: false,
            asked: None,
            next_datagram: None,
            untold: 0,
            partial: None,
        })
    }

    fn say(&self, word: &[u8; 4]) {
        // A detector that is not there yet is asked again.
        let _ = self.socket.send(word);
    }

    /// Takes a datagram; nothing if more of its fragment is to come.
    fn take(&mut self, len: usize) -> Option<Polled> {
        let datagram = &self.buffer[..len];
        let Some(head) = head_of(datagram) else {
            return Some(Polled::Trouble(format!(
                "a datagram of {len} bytes that is none of ours"
            )));
        };
        let expected = self.next_datagram.unwrap_or(head.number);
        self.next_datagram = Some(head.number.wrapping_add(1));
        let lost = head.number.wrapping_sub(expected);
        self.untold = self.untold.saturating_add(lost);
        if head.event == LAST {
            // It is sent again and again: what is untold goes first.
            return (self.untold == 0).then_some(Polled::End);
        }
        if lost > 0 {
            self.partial = None;
        }
        if head.offset == 0 {
            self.partial = Some(Partial {
                event: head.event,
                at_ns: head.at_ns,
                bytes: head.bytes,
                data: Vec::new(),
            });
        }
        // None: its beginning was lost.
        let partial = self.partial.as_mut()?;
        if partial.event != head.event || partial.data.len() != head.offset {
            return None;
        }
        partial.data.extend_from_slice(&datagram[HEAD_BYTES..]);
        if partial.data.len() < partial.bytes {
            return None;
        }
        let whole = self.partial.take()?;
        match Fragment::new(Number::Event(whole.event), Some(whole.at_ns), whole.data) {
            Ok(fragment) => Some(Polled::Fragment(fragment)),
            Err(problem) => Some(Polled::Trouble(problem.to_string())),
        }
    }
}

fn head_of(datagram: &[u8]) -> Option<Head> {
    let word = |at: usize| Some(u32::from_le_bytes(*datagram.get(at..)?.first_chunk()?));
    let long = |at: usize| Some(u64::from_le_bytes(*datagram.get(at..)?.first_chunk()?));
    let head = Head {
        number: word(4)?,
        event: long(8)?,
        at_ns: long(16)?,
        bytes: word(24)? as usize,
        offset: word(28)? as usize,
    };
    let end = head
        .offset
        .checked_add(datagram.len().checked_sub(HEAD_BYTES)?)?;
    (datagram.starts_with(b"BWUD") && head.bytes <= 64 << 20 && end <= head.bytes).then_some(head)
}

impl Detector for UdpDetector {
    fn poll(&mut self) -> Polled {
        loop {
            let untold = core::mem::take(&mut self.untold);
            if self.wanted && untold > 0 {
                return Polled::Trouble(format!("{untold} datagrams were lost"));
            }
            match self.socket.recv(&mut self.buffer) {
                Ok(len) => {
                    // Without it what comes is left over from before.
                    if let Some(polled) = self.take(len).filter(|_| self.wanted) {
                        return polled;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Nothing there, or nobody there yet.
                Err(_) => break,
            }
        }
        let again = self.asked.is_none_or(|it| it.elapsed() > AGAIN);
        if self.wanted && self.next_datagram.is_none() && again {
            self.asked = Some(Instant::now());
            self.say(b"BWGO");
        }
        Polled::NotYet
    }

    fn told(&mut self, word: Word) {
        match word {
            Word::Start | Word::Resume => {
                (self.wanted, self.asked, self.next_datagram) = (true, None, None);
            }
            Word::Pause | Word::Drain => self.say(b"BWST"),
            Word::Stop => {
                self.wanted = false;
                self.say(b"BWST");
            }
            Word::Configure { .. } | Word::Triggered { .. } => {}
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

/// Byte `at` of the fragment of `event` from detector `number`.
pub fn byte_of(number: u16, event: u64, at: usize) -> u8 {
    (event.wrapping_mul(31) as usize)
        .wrapping_add(at.wrapping_mul(7))
        .wrapping_add(usize::from(number)) as u8
}

/// A stand-in for detector `number`: sends so many events of so many bytes, one each ms,
/// to whoever says `BWGO`; goes on where it was after `BWST`; ends when that comes after the last.
pub fn generate(socket: &UdpSocket, number: u16, events: u64, bytes: usize) -> io::Result<()> {
    let mut word = [0; 4];
    let (mut event, mut datagram) = (0, 0_u32);
    let mut peer = None;
    loop {
        socket.set_nonblocking(peer.is_some())?;
        match socket.recv_from(&mut word) {
            Ok((4, from)) if &word == b"BWGO" => peer = Some(from),
            Ok((4, _)) if &word == b"BWST" && event == events => return Ok(()),
            Ok((4, _)) if &word == b"BWST" => peer = None,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        let Some(to) = peer else {
            continue;
        };
        if event == events {
            send(socket, to, &mut datagram, LAST, 0, &[])?;
            std::thread::sleep(AGAIN);
            continue;
        }
        let data: Vec<_> = (0..bytes).map(|at| byte_of(number, event, at)).collect();
        send(socket, to, &mut datagram, event, event * 1_000_000, &data)?;
        event += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn send(
    socket: &UdpSocket,
    to: SocketAddr,
    number: &mut u32,
    event: u64,
    at_ns: u64,
    data: &[u8],
) -> io::Result<()> {
    let mut offset = 0;
    loop {
        let part = &data[offset..data.len().min(offset + DATA_BYTES)];
        let mut datagram = b"BWUD".to_vec();
        datagram.extend(number.to_le_bytes());
        datagram.extend(event.to_le_bytes());
        datagram.extend(at_ns.to_le_bytes());
        datagram.extend((data.len() as u32).to_le_bytes());
        datagram.extend((offset as u32).to_le_bytes());
        datagram.extend(part);
        match socket.send_to(&datagram, to) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            // Nobody there any more: told by an earlier datagram. UDP goes on.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            sent => _ = sent?,
        }
        *number = number.wrapping_add(1);
        offset += part.len();
        if offset == data.len() {
            return Ok(());
        }
    }
}

/// The address of detector `number`.
pub fn address_of(first: &str, number: u16) -> Result<SocketAddr, String> {
    let wanted = || format!("`{first}`: expected an address with its port, such as 127.0.0.1:7200");
    let mut address: SocketAddr = first.parse().map_err(|_| wanted())?;
    address.set_port(address.port().checked_add(number).ok_or_else(wanted)?);
    Ok(address)
}

/// Is source `number` of the run, until all is over.
pub fn detect(config: &std::path::Path, number: u16, first: &str) -> Result<(), String> {
    let config = Config::load(config).map_err(|faults| {
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        faults.join("\n")
    })?;
    let detector = UdpDetector::new(address_of(first, number)?).map_err(|it| it.to_string())?;
    part::run_detector(&config, number, Box::new(detector)).map_err(|it| it.to_string())
}

fn run(args: &[String]) -> Result<(), String> {
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| format!("`{text}`: expected a number"))
    };
    let small = |text: &str| u16::try_from(number(text)?).map_err(|it| it.to_string());
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["generate", first, id, events, bytes] => {
            let id = small(id)?;
            let socket = UdpSocket::bind(address_of(first, id)?).map_err(|it| it.to_string())?;
            let bytes = usize::try_from(number(bytes)?).map_err(|it| it.to_string())?;
            generate(&socket, id, number(events)?, bytes).map_err(|it| it.to_string())
        }
        [config, id] => {
            let first = std::env::var("UDP_DETECTOR");
            let first = first.as_deref().unwrap_or("127.0.0.1:7200");
            detect(config.as_ref(), small(id)?, first)
        }
        _ => Err("usage: udp_detector CONFIG NUMBER\n       udp_detector generate ADDRESS NUMBER EVENTS BYTES".to_owned()),
    }
}

#[cfg_attr(
    test,
    allow(
        dead_code,
        reason = "the tests of this crate take the rest of this file"
    )
)]
fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}
