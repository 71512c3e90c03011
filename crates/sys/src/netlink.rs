//! Questions to the kernel about links, addresses, routes and queues: rtnetlink.
//!
//! Only the frame of messages is known here (`barewire_calls::netlink` has its layout); the callers know what is in
//! them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use barewire_calls::message::{receive_bytes, send_bytes};
use barewire_calls::netlink::{ATTRIBUTE_HEADER_BYTES, HEADER_BYTES, NESTED, socket};
pub use barewire_calls::netlink::{attribute, attributes};

use crate::error::new_fd;

/// Answers are at most so long: more than the kernel ever puts in one.
const ANSWER_BYTES: usize = 64 << 10;

const FLAG_REQUEST: u16 = 0x1;
const FLAG_ACK: u16 = 0x4;
const FLAG_DUMP: u16 = 0x300;
/// Change what there is.
pub const FLAG_REPLACE: u16 = 0x100;
/// Fail if it is there.
pub const FLAG_EXCLUSIVE: u16 = 0x200;
/// Make it if it is not there.
pub const FLAG_CREATE: u16 = 0x400;

const KIND_ERROR: u16 = 2;
const KIND_DONE: u16 = 3;

/// A message to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A message of a kind, with the fixed part that the kind has.
    #[must_use]
    pub fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | FLAG_REQUEST).to_ne_bytes());
        bytes.extend_from_slice(fixed);
        pad(&mut bytes);
        Self { bytes }
    }

    /// With one more attribute.
    #[must_use]
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        let length = (ATTRIBUTE_HEADER_BYTES + value.len()) as u16;
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        pad(&mut self.bytes);
        self
    }

    /// With a name: a text that ends with a zero.
    #[must_use]
    pub fn with_name(self, kind: u16, name: &str) -> Self {
        let mut value = name.as_bytes().to_vec();
        value.push(0);
        self.with(kind, &value)
    }

    /// With an attribute that holds what `fill` adds.
    #[must_use]
    pub fn nest(mut self, kind: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        let start = self.bytes.len();
        self = fill(self.with(kind | NESTED, &[]));
        let length = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    /// With bytes that are no attribute: the fixed part of what is nested.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        pad(&mut self.bytes);
        self
    }

    /// What there is of it, with its header; lengths of the whole are set when it is sent.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All of it, ready to be sent with more flags.
    fn sealed(mut self, flags: u16, sequence: u32) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        let flags = flags | u16::from_ne_bytes([self.bytes[6], self.bytes[7]]);
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// What came of one received message.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// The kernel's verdict: 0, or the number of an error.
    Verdict(i32),
    Answer(Vec<u8>),
    /// Of another question.
    Other,
}

/// Takes received bytes apart.
fn hear(mut bytes: &[u8], sequence: u32) -> Vec<Heard> {
    let mut all = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let word = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
        let length = u32::from_ne_bytes(word(0)) as usize;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let Some(body) = length
            .checked_sub(HEADER_BYTES)
            .and_then(|it| rest.get(..it))
        else {
            break;
        };
        let code = body
            .first_chunk::<4>()
            .map_or(0, |it| i32::from_ne_bytes(*it));
        all.push(match kind {
            _ if u32::from_ne_bytes(word(8)) != sequence => Heard::Other,
            KIND_ERROR | KIND_DONE => Heard::Verdict(-code),
            _ => Heard::Answer(body.to_vec()),
        });
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}

/// A socket to ask the network namespace in which it was opened.
#[derive(Debug)]
pub struct RouteSocket {
    fd: OwnedFd,
    sequence: u32,
}

impl RouteSocket {
    /// A socket of the calling thread's network namespace.
    ///
    /// # Errors
    /// No descriptors; no rtnetlink in this sandbox.
    pub fn open() -> io::Result<Self> {
        let fd = new_fd(socket(libc::NETLINK_ROUTE)).map_err(io::Error::from_raw_os_error)?;
        Ok(Self { fd, sequence: 0 })
    }

    /// Has something changed.
    ///
    /// # Errors
    /// The kernel's, with its number: not allowed, there already, not there.
    pub fn change(&mut self, request: Request) -> io::Result<()> {
        self.ask(request, FLAG_ACK).map(drop)
    }

    /// The answer to a question: the message after its header.
    ///
    /// # Errors
    /// The kernel's: there is no such thing.
    pub fn get(&mut self, request: Request) -> io::Result<Vec<u8>> {
        let answers = self.ask(request, FLAG_ACK)?;
        answers
            .into_iter()
            .next()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// All answers to a question: messages after their headers.
    ///
    /// # Errors
    /// The kernel's.
    pub fn list(&mut self, request: Request) -> io::Result<Vec<Vec<u8>>> {
        self.ask(request, FLAG_DUMP)
    }

    fn ask(&mut self, request: Request, flags: u16) -> io::Result<Vec<Vec<u8>>> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request.sealed(flags, self.sequence);
        let fd = self.fd.as_raw_fd();
        send_bytes(fd, &bytes, 0).map_err(io::Error::from_raw_os_error)?;
        let mut answers = Vec::new();
        let mut buffer = vec![0; ANSWER_BYTES];
        loop {
            // The kernel answers before `send_bytes` returns, a long list in several parts.
            let answer = receive_bytes(fd, &mut buffer, 0).map_err(io::Error::from_raw_os_error)?;
            for heard in hear(answer, self.sequence) {
                match heard {
                    Heard::Verdict(0) => return Ok(answers),
                    Heard::Verdict(error) => return Err(io::Error::from_raw_os_error(error)),
                    Heard::Answer(body) => answers.push(body),
                    Heard::Other => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_nested() {
        let request = Request::new(36, FLAG_CREATE, &[7; 5])
            .with_name(1, "htb")
            .nest(2, |it| it.with(9, &[1, 2, 3]).with(10, &[4]));
        let bytes = request.sealed(FLAG_ACK, 77);
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(bytes[..4], (bytes.len() as u32).to_ne_bytes());
        assert_eq!(bytes[4..6], 36_u16.to_ne_bytes());
        assert_eq!(bytes[6..8], 0x405_u16.to_ne_bytes());
        assert_eq!(bytes[8..12], 77_u32.to_ne_bytes());
        let body = &bytes[HEADER_BYTES + 8..];
        let found: Vec<_> = attributes(body).collect();
        assert_eq!(found[0], (1, &b"htb\0"[..]));
        let inner: Vec<_> = attributes(found[1].1).collect();
        assert_eq!(inner, [(9, &[1, 2, 3][..]), (10, &[4][..])]);
        assert_eq!((found.len(), found[1].0), (2, 2));
        assert_eq!(attribute(found[1].1, 10), Some(&[4][..]));
        assert_eq!(attribute(body, 3), None);
    }

    #[test]
    fn broken_attributes_end_the_walk() {
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0);
        assert_eq!(attributes(&[200, 0, 1, 0, 0]).count(), 0);
        assert_eq!(attributes(&[4, 0, 1]).count(), 0);
        assert_eq!(attributes(&[4, 0, 1, 0, 0, 0]).count(), 1);
    }

    #[test]
    fn answers_and_verdicts_are_told_apart() {
        let message = |kind: u16, sequence: u32, body: &[u8]| {
            let mut bytes = Request::new(kind, 0, body).sealed(0, sequence);
            let length = (HEADER_BYTES + body.len()) as u32;
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            bytes
        };
        let mut bytes = message(52, 3, &[1, 2, 3]);
        bytes.extend(message(52, 2, &[9]));
        bytes.extend(message(KIND_ERROR, 3, &(-17_i32).to_ne_bytes()));
        bytes.extend([1, 2, 3]);
        assert_eq!(
            hear(&bytes, 3),
            [
                Heard::Answer(vec![1, 2, 3]),
                Heard::Other,
                Heard::Verdict(17)
            ]
        );
        // A length that can not be.
        assert!(hear(&[15; HEADER_BYTES], 3).is_empty());
        assert!(hear(&[0; HEADER_BYTES], 3).is_empty());
    }

    #[test]
    fn the_kernel_answers() {
        const GET_LINK: u16 = 18;
        let mut socket = RouteSocket::open().expect("rtnetlink");
        let links = socket
            .list(Request::new(GET_LINK, 0, &[0; 16]))
            .expect("links");
        let names = links.iter().filter_map(|it| attribute(it.get(16..)?, 3));
        assert!(names.into_iter().any(|it| it == b"lo\0"));
        let nothing = Request::new(GET_LINK, 0, &[0; 16]).with_name(3, "nosuchlink0");
        let error = socket.get(nothing).expect_err("no such link");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
