//! The signalling messages of MSNL: connect, accept, reject, close, and what acknowledges them.
//!
//! The source says only that MSNL sets connections up out of band; the messages are ours. One
//! fills the 32-byte body of one cell, so it is an MSDL block of one cell (Start 1, Sequence 1,
//! Part 0) on [`SIGNALLING_VCI`]. How they are used: `barewire_classic::msnl`.
//!
//! | byte | field | |
//! |---|---|---|
//! | 0..1 | magic | 4D 4E |
//! | 2 | version | 1 |
//! | 3 | kind | 1 connect, 2 accept, 3 reject, 4 close, 5 closed, 6 confirm, 7 probe |
//! | 4..5 | source | station that sends the message |
//! | 6..7 | destination | station that it is for |
//! | 8..11 | source reference | the call, as the source numbers it; zero only in reject and closed, where it has none |
//! | 12..15 | destination reference | the call, as the destination numbers it; zero where the source does not know |
//! | 16..17 | vci | connect, accept: where the source receives |
//! | 18 | channel | connect, accept: the TDM channel on which the source receives, 0..3 |
//! | 19 | reason | reject, close |
//! | 20..27 | service | connect: what is called at the destination |
//! | 28..29 | reserved | zero |
//! | 30..31 | checksum | Internet checksum of the 32 bytes |
//!
//! Fields that the kind does not use are zero.
//!
//! Source: cbn91 for what is set up (VCI, destination channel); the layout is OPEN there, and
//! ours. Big-endian.

mod describe;
#[cfg(test)]
mod tests;

use core::fmt;
use core::ops::Range;

use barewire_wire::checksum;
use barewire_wire::{Error, Fault, need};

pub use describe::describe;

/// The format's name in errors.
const FORMAT: &str = "msnl";
/// Bytes of a message: the body of one Cambridge cell.
pub const MESSAGE_BYTES: usize = 32;
/// First two bytes of a message.
pub const MAGIC: u16 = 0x4d4e;
/// The version of this layout.
pub const VERSION: u8 = 1;
/// The VCI on which every station receives signalling. Five, as on an ATM interface.
pub const SIGNALLING_VCI: u16 = 5;
/// First VCI for data: those below are reserved, as on an ATM interface.
pub const DATA_VCI_MIN: u16 = 32;
/// TDM channels of the ring.
pub const CHANNELS: u8 = 4;

/// Bits of the fields, as the table above names them.
mod bits {
    use core::ops::Range;

    pub(super) const MAGIC: Range<usize> = 0..16;
    pub(super) const VERSION: Range<usize> = 16..24;
    pub(super) const KIND: Range<usize> = 24..32;
    pub(super) const SOURCE: Range<usize> = 32..48;
    pub(super) const DESTINATION: Range<usize> = 48..64;
    pub(super) const SOURCE_REFERENCE: Range<usize> = 64..96;
    pub(super) const DESTINATION_REFERENCE: Range<usize> = 96..128;
    pub(super) const VCI: Range<usize> = 128..144;
    pub(super) const CHANNEL: Range<usize> = 144..152;
    pub(super) const REASON: Range<usize> = 152..160;
    pub(super) const SERVICE: Range<usize> = 160..224;
    pub(super) const RESERVED: Range<usize> = 224..240;
    pub(super) const CHECKSUM: Range<usize> = 240..256;
}

/// Why a call was rejected or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// 0: it was over.
    Normal,
    /// 1: nothing at the destination has this service address.
    NoService,
    /// 2: no room in a table, or no VCI left.
    NoResources,
    /// 3: the destination has just restarted.
    Restarted,
    /// 4: the other end did not answer.
    TimedOut,
    /// 5: nobody decided about the call in time.
    Undecided,
    /// Any other; those from 128 on are the user's.
    Unknown(u8),
}

impl From<u8> for Reason {
    fn from(number: u8) -> Self {
        match number {
            0 => Self::Normal,
            1 => Self::NoService,
            2 => Self::NoResources,
            3 => Self::Restarted,
            4 => Self::TimedOut,
            5 => Self::Undecided,
            _ => Self::Unknown(number),
        }
    }
}

impl From<Reason> for u8 {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Normal => 0,
            Reason::NoService => 1,
            Reason::NoResources => 2,
            Reason::Restarted => 3,
            Reason::TimedOut => 4,
            Reason::Undecided => 5,
            Reason::Unknown(number) => number,
        }
    }
}

impl Reason {
    const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::NoService => "no such service",
            Self::NoResources => "no resources",
            Self::Restarted => "restarted",
            Self::TimedOut => "timed out",
            Self::Undecided => "undecided",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(number) => write!(f, "reason {number}"),
            _ => f.write_str(self.name()),
        }
    }
}

/// Where a station receives the data of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// The VCI that it allocated, at least [`DATA_VCI_MIN`].
    pub vci: u16,
    /// The TDM channel that it listens to, below [`CHANNELS`].
    pub channel: u8,
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VCI {} on channel {}", self.vci, self.channel)
    }
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// 1: a call to a service; the caller receives at this port.
    Connect {
        /// Where the caller receives.
        receive_at: Port,
        /// The service address.
        service: u64,
    },
    /// 2: the call is taken; the callee receives at this port.
    Accept {
        /// Where the callee receives.
        receive_at: Port,
    },
    /// 3: the call is not taken.
    Reject(Reason),
    /// 4: the source has left the call.
    Close(Reason),
    /// 5: the source has no such call, or no longer.
    Closed,
    /// 6: the source has the call open.
    Confirm,
    /// 7: does the destination have the call open?
    Probe,
    /// Any other kind.
    Unknown(u8),
}

impl Body {
    /// The number of the kind.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Connect { .. } => 1,
            Self::Accept { .. } => 2,
            Self::Reject(_) => 3,
            Self::Close(_) => 4,
            Self::Closed => 5,
            Self::Confirm => 6,
            Self::Probe => 7,
            Self::Unknown(kind) => *kind,
        }
    }
}

/// The name of a kind.
const fn kind_name(kind: u8) -> &'static str {
    match kind {
        1 => "connect",
        2 => "accept",
        3 => "reject",
        4 => "close",
        5 => "closed",
        6 => "confirm",
        7 => "probe",
        _ => "unknown",
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(kind_name(self.kind()))?;
        match self {
            Self::Connect {
                receive_at,
                service,
            } => {
                write!(f, " to service {service:#x}, receiving at {receive_at}")
            }
            Self::Accept { receive_at } => write!(f, ", receiving at {receive_at}"),
            Self::Reject(reason) | Self::Close(reason) => write!(f, " ({reason})"),
            Self::Unknown(kind) => write!(f, " ({kind})"),
            Self::Closed | Self::Confirm | Self::Probe => Ok(()),
        }
    }
}

/// A signalling message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageRepr {
    /// Station that sends it.
    pub source: u16,
    /// Station that it is for.
    pub destination: u16,
    /// The call, as the source numbers it; zero only in reject and closed, where it has none.
    pub source_reference: u32,
    /// The call, as the destination numbers it; zero where the source does not know.
    pub destination_reference: u32,
    /// What it says.
    pub body: Body,
}

impl MessageRepr {
    /// Takes the values from a message.
    ///
    /// # Errors
    /// [`Fault::Long`]; [`Fault::Check`] on `checksum`; [`Fault::Value`] on `magic`, `version`,
    /// `source reference`, on `vci` or `channel` where there is no such one, and on any field
    /// that is not zero though the kind does not use it.
    pub fn parse<T: AsRef<[u8]>>(message: &Message<T>) -> Result<Self, Error> {
        match check(message).into_iter().flatten().next() {
            Some(error) => Err(error),
            None => Ok(Self {
                source: message.source(),
                destination: message.destination(),
                source_reference: message.source_reference(),
                destination_reference: message.destination_reference(),
                body: message.body(),
            }),
        }
    }

    /// Bytes that [`MessageRepr::emit`] needs.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        MESSAGE_BYTES
    }

    /// Writes the message, its checksum included.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, message: &mut Message<T>) {
        message.set(bits::MAGIC, MAGIC.into());
        message.set(bits::VERSION, VERSION.into());
        message.set(bits::SOURCE, self.source.into());
        message.set(bits::DESTINATION, self.destination.into());
        message.set(bits::SOURCE_REFERENCE, self.source_reference.into());
        message.set(
            bits::DESTINATION_REFERENCE,
            self.destination_reference.into(),
        );
        message.set_body(self.body);
        message.fill_checksum();
    }

    /// The message in a buffer of its own.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        self.emit(&mut Message::new_unchecked(&mut bytes));
        bytes
    }
}

impl fmt::Display for MessageRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "MSNL {}/{} to {}/{}: {}",
            self.source,
            self.source_reference,
            self.destination,
            self.destination_reference,
            self.body
        )
    }
}

/// Everything that is wrong with a message, in the order of its fields, except that a wrong
/// checksum comes last.
fn check<T: AsRef<[u8]>>(message: &Message<T>) -> [Option<Error>; 9] {
    let kind = message.kind();
    let is = |kinds: Range<u8>| kinds.contains(&kind) || kind_name(kind) == "unknown";
    let has_port = is(1..3);
    let value = |field, bits: Range<usize>, good: bool, allowed| {
        let found = message.get(bits.clone());
        let fault = Fault::Value { found, allowed };
        (!good).then(|| Error::new(FORMAT, field, bits, fault))
    };
    let zero_or = |used, field, bits: Range<usize>| {
        let good = used || message.get(bits.clone()) == 0;
        value(field, bits, good, "zero, in this kind of message,")
    };
    let port = message.port();
    let port_fault = if (1..3).contains(&kind) {
        let vci_good = port.vci >= DATA_VCI_MIN;
        value("vci", bits::VCI, vci_good, "32 or more")
            .or_else(|| value("channel", bits::CHANNEL, port.channel < CHANNELS, "0 to 3"))
    } else {
        None
    };
    [
        value("magic", bits::MAGIC, message.magic() == MAGIC, "0x4d4e"),
        value("version", bits::VERSION, message.version() == VERSION, "1"),
        value(
            "source reference",
            bits::SOURCE_REFERENCE,
            message.source_reference() != 0 || matches!(kind, 3 | 5),
            "anything but zero",
        ),
        port_fault,
        zero_or(has_port, "vci", bits::VCI).or_else(|| zero_or(has_port, "channel", bits::CHANNEL)),
        zero_or(is(3..5), "reason", bits::REASON),
        zero_or(is(1..2), "service", bits::SERVICE),
        zero_or(false, "reserved", bits::RESERVED),
        check_sum(message),
    ]
}

/// The checksum and the length that it is over.
fn check_sum<T: AsRef<[u8]>>(message: &Message<T>) -> Option<Error> {
    let bytes = message.buffer.as_ref();
    if bytes.len() > MESSAGE_BYTES {
        let fault = Fault::Long {
            allowed_bytes: MESSAGE_BYTES,
            have_bytes: bytes.len(),
        };
        return Some(Error::new(
            FORMAT,
            "message",
            MESSAGE_BYTES * 8..bytes.len() * 8,
            fault,
        ));
    }
    let (computed, found) = (message.compute_checksum(), message.checksum());
    let fault = Fault::Check {
        computed: computed.into(),
        found: found.into(),
    };
    (computed != found).then(|| Error::new(FORMAT, "checksum", bits::CHECKSUM, fault))
}

/// A view of a message.
#[derive(Clone, Copy, Debug)]
pub struct Message<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Message<T> {
    /// A view of anything; accessors may panic if it is too short.
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A view whose accessors do not panic.
    ///
    /// # Errors
    /// [`Fault::Short`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        need(FORMAT, "message", buffer.as_ref(), MESSAGE_BYTES)?;
        Ok(Self { buffer })
    }

    /// The buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// A field of whole bytes, at most eight.
    fn get(&self, bits: Range<usize>) -> u64 {
        let bytes = &self.buffer.as_ref()[bits.start / 8..bits.end / 8];
        bytes
            .iter()
            .fold(0, |value, &byte| value << 8 | u64::from(byte))
    }

    /// Magic.
    #[must_use]
    pub fn magic(&self) -> u16 {
        self.get(bits::MAGIC) as u16
    }

    /// Version of the layout.
    #[must_use]
    pub fn version(&self) -> u8 {
        self.get(bits::VERSION) as u8
    }

    /// Number of the kind.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.get(bits::KIND) as u8
    }

    /// Station that sends it.
    #[must_use]
    pub fn source(&self) -> u16 {
        self.get(bits::SOURCE) as u16
    }

    /// Station that it is for.
    #[must_use]
    pub fn destination(&self) -> u16 {
        self.get(bits::DESTINATION) as u16
    }

    /// The call, as the source numbers it.
    #[must_use]
    pub fn source_reference(&self) -> u32 {
        self.get(bits::SOURCE_REFERENCE) as u32
    }

    /// The call, as the destination numbers it.
    #[must_use]
    pub fn destination_reference(&self) -> u32 {
        self.get(bits::DESTINATION_REFERENCE) as u32
    }

    /// Where the source receives.
    #[must_use]
    pub fn port(&self) -> Port {
        Port {
            vci: self.get(bits::VCI) as u16,
            channel: self.get(bits::CHANNEL) as u8,
        }
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> Reason {
        (self.get(bits::REASON) as u8).into()
    }

    /// The service address.
    #[must_use]
    pub fn service(&self) -> u64 {
        self.get(bits::SERVICE)
    }

    /// The checksum that stands in the message.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        self.get(bits::CHECKSUM) as u16
    }

    /// The checksum that the other bytes give.
    #[must_use]
    pub fn compute_checksum(&self) -> u16 {
        checksum::checksum(&self.buffer.as_ref()[..bits::CHECKSUM.start / 8])
    }

    /// What it says.
    #[must_use]
    pub fn body(&self) -> Body {
        match self.kind() {
            1 => Body::Connect {
                receive_at: self.port(),
                service: self.service(),
            },
            2 => Body::Accept {
                receive_at: self.port(),
            },
            3 => Body::Reject(self.reason()),
            4 => Body::Close(self.reason()),
            5 => Body::Closed,
            6 => Body::Confirm,
            7 => Body::Probe,
            kind => Body::Unknown(kind),
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Message<T> {
    /// Sets a field of whole bytes.
    fn set(&mut self, bits: Range<usize>, value: u64) {
        let field = &mut self.buffer.as_mut()[bits.start / 8..bits.end / 8];
        let value = value.to_be_bytes();
        field.copy_from_slice(&value[value.len() - bits.len() / 8..]);
    }

    /// Sets the kind and the fields that go with it, and zeros the others.
    fn set_body(&mut self, body: Body) {
        let (port, reason, service) = match body {
            Body::Connect {
                receive_at,
                service,
            } => (Some(receive_at), 0, service),
            Body::Accept { receive_at } => (Some(receive_at), 0, 0),
            Body::Reject(reason) | Body::Close(reason) => (None, reason.into(), 0),
            Body::Closed | Body::Confirm | Body::Probe | Body::Unknown(_) => (None, 0, 0),
        };
        self.set(bits::KIND, body.kind().into());
        self.set(bits::VCI, port.map_or(0, |port| port.vci.into()));
        self.set(bits::CHANNEL, port.map_or(0, |port| port.channel.into()));
        self.set(bits::REASON, reason.into());
        self.set(bits::SERVICE, service);
        self.set(bits::RESERVED, 0);
    }

    /// Sets the checksum to what the other bytes give.
    pub fn fill_checksum(&mut self) {
        let checksum = self.compute_checksum();
        self.set(bits::CHECKSUM, checksum.into());
    }
}
