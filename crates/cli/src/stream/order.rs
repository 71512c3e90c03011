//! What the two ends of a stream test say to each other, before and after the data.
//!
//! | who | message | bytes, little-endian |
//! |---|---|---|
//! | who begins | order | `BWSTREAM` 8, version 4, flags 4 (1: the sender of the order sends data; 2: Nagle), time 8 (ms), message 8, buffer 8 (0: as it is) |
//! | the other | start | `BWSTART1` 8, send buffer 8, receive buffer 8 (0: none) |
//! | who sent data | the end of its direction | |
//! | the other, of data sent to it | tally | bytes 8, nanoseconds 8, from the first byte to the last |
//!
//! Both are read into locals and checked before anything is done with them.

use std::time::Duration;

use super::common::{Result, StreamError, doing};
use super::transport::{Buffers, Settings, Transport};

const MAGIC: &[u8; 8] = b"BWSTREAM";
const START: &[u8; 8] = b"BWSTART1";
const VERSION: u32 = 1;
const ORDER_BYTES: usize = 40;
const START_BYTES: usize = 24;
const TALLY_BYTES: usize = 16;
const FLAG_SENDS: u32 = 1;
const FLAG_NAGLE: u32 = 2;
const TIME_MS_MAX: u64 = 3_600_000;
const MESSAGE_BYTES_MAX: u64 = 16 << 20;
const BUFFER_BYTES_MAX: u64 = 1 << 30;

/// A test in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Whether the end that orders sends the data.
    pub sends: bool,
    pub time_ms: u64,
    pub message_bytes: u64,
    /// Of the sockets, or of barewire's rings; 0: as they are.
    pub buffer_bytes: u64,
    pub nagle: bool,
}

/// What arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub bytes: u64,
    /// From the first byte to the last.
    pub nanoseconds: u64,
}

/// The next eight bytes of a message.
fn next_u64(from: &mut &[u8]) -> u64 {
    let (bytes, rest) = from.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    *from = rest;
    u64::from_le_bytes(*bytes)
}

impl Order {
    pub const fn time(&self) -> Duration {
        Duration::from_millis(self.time_ms)
    }

    /// What the connection needs to know of it.
    pub const fn settings(&self) -> Settings {
        Settings {
            buffer_bytes: self.buffer_bytes,
            nagle: self.nagle,
        }
    }

    /// Whether all of it is within its limits; in words what is not.
    pub fn check(&self) -> std::result::Result<(), String> {
        let limits = [
            ("--time, ms", self.time_ms, 1, TIME_MS_MAX),
            ("--message, B", self.message_bytes, 1, MESSAGE_BYTES_MAX),
            ("--buffer, B", self.buffer_bytes, 0, BUFFER_BYTES_MAX),
        ];
        let within =
            |&&(_, found, least, most): &&(_, u64, u64, u64)| found < least || found > most;
        match limits.iter().find(within) {
            None => Ok(()),
            Some((what, found, least, most)) => {
                Err(format!("{what}: {found}; expected {least} to {most}"))
            }
        }
    }

    fn to_bytes(self) -> [u8; ORDER_BYTES] {
        let sends = if self.sends { FLAG_SENDS } else { 0 };
        let nagle = if self.nagle { FLAG_NAGLE } else { 0 };
        let flags = u64::from(sends | nagle);
        let second = u64::from(VERSION) | flags << 32;
        let rest = [self.time_ms, self.message_bytes, self.buffer_bytes];
        let mut bytes = [0; ORDER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        let words = std::iter::once(second).chain(rest);
        for (place, word) in bytes[8..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; ORDER_BYTES]) -> std::result::Result<Self, String> {
        let Some(mut rest) = bytes.strip_prefix(MAGIC) else {
            return Err("is no `barewire stream`".to_owned());
        };
        let second = next_u64(&mut rest);
        let (version, flags) = (second as u32, (second >> 32) as u32);
        if version != VERSION {
            return Err(format!("speaks version {version}, this one {VERSION}"));
        }
        if flags & !(FLAG_SENDS | FLAG_NAGLE) != 0 {
            return Err(format!("asks for unknown things: flags {flags:#x}"));
        }
        let order = Self {
            sends: flags & FLAG_SENDS != 0,
            nagle: flags & FLAG_NAGLE != 0,
            time_ms: next_u64(&mut rest),
            message_bytes: next_u64(&mut rest),
            buffer_bytes: next_u64(&mut rest),
        };
        order.check()?;
        Ok(order)
    }
}

fn write_all(transport: &mut dyn Transport, mut bytes: &[u8], what: &str) -> Result<()> {
    while !bytes.is_empty() {
        let written = transport.write(bytes).map_err(doing(what))?;
        bytes = &bytes[written..];
    }
    Ok(())
}

fn read_exact<const N: usize>(transport: &mut dyn Transport, what: &str) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut read = 0;
    while read < N {
        match transport.read(&mut bytes[read..]).map_err(doing(what))? {
            0 => {
                return Err(StreamError::Peer(format!(
                    "has closed the connection: {what}"
                )));
            }
            more => read += more,
        }
    }
    Ok(bytes)
}

pub fn send(transport: &mut dyn Transport, order: &Order) -> Result<()> {
    write_all(transport, &order.to_bytes(), "ordering the test")
}

pub fn await_order(transport: &mut dyn Transport) -> Result<Order> {
    let bytes = read_exact(transport, "waiting for an order")?;
    Order::from_bytes(&bytes).map_err(StreamError::Peer)
}

pub fn start(transport: &mut dyn Transport) -> Result<()> {
    let buffers = transport.buffers();
    let sizes = [buffers.send_bytes, buffers.receive_bytes].map(|it| it.unwrap_or(0).to_le_bytes());
    let bytes = [START.as_slice(), &sizes[0], &sizes[1]].concat();
    write_all(transport, &bytes, "starting the test")
}

/// The other end's buffers.
pub fn await_start(transport: &mut dyn Transport) -> Result<Buffers> {
    let bytes: [u8; START_BYTES] = read_exact(transport, "waiting for the test to start")?;
    let Some(mut rest) = bytes.strip_prefix(START) else {
        return Err(StreamError::Peer("is no `barewire stream --listen`".into()));
    };
    let mut size = || Some(next_u64(&mut rest)).filter(|size| *size > 0);
    Ok(Buffers {
        send_bytes: size(),
        receive_bytes: size(),
    })
}

pub fn tell(transport: &mut dyn Transport, tally: Tally) -> Result<()> {
    let words = [tally.bytes, tally.nanoseconds].map(u64::to_le_bytes);
    write_all(transport, words.as_flattened(), "telling what arrived")
}

pub fn await_tally(transport: &mut dyn Transport) -> Result<Tally> {
    let bytes: [u8; TALLY_BYTES] = read_exact(transport, "waiting for what arrived")?;
    let mut rest = &bytes[..];
    Ok(Tally {
        bytes: next_u64(&mut rest),
        nanoseconds: next_u64(&mut rest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: Order = Order {
        sends: true,
        time_ms: 1_000,
        message_bytes: 65_536,
        buffer_bytes: 528_288,
        nagle: false,
    };

    #[test]
    fn an_order_is_read_as_it_was_written() {
        for order in [
            ORDER,
            Order {
                sends: false,
                nagle: true,
                buffer_bytes: 0,
                ..ORDER
            },
        ] {
            assert_eq!(Order::from_bytes(&order.to_bytes()), Ok(order));
        }
    }

    /// Whoever reaches the port can write anything.
    #[test]
    fn an_order_beyond_the_limits_is_refused() {
        let refused = |change: &dyn Fn(&mut [u8; ORDER_BYTES])| {
            let mut bytes = ORDER.to_bytes();
            change(&mut bytes);
            Order::from_bytes(&bytes).expect_err("a bad order")
        };
        assert!(refused(&|it| it[0] = b'G').contains("no `barewire stream`"));
        assert!(refused(&|it| it[8] = 9).contains("version 9"));
        assert!(refused(&|it| it[15] = 1).contains("flags"));
        assert!(refused(&|it| it[23] = 0xff).contains("--time"));
        assert!(refused(&|it| it[24..32].fill(0)).contains("--message"));
        assert!(refused(&|it| it[31] = 1).contains("--message"));
        assert!(refused(&|it| it[39] = 1).contains("--buffer"));
    }
}
