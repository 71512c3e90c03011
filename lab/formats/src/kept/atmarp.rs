//! ATMARP and `InATMARP`: which ATM address an IP address has, and the other way round.
//!
//! Carried behind LLC/SNAP with `EtherType` 0x0806 (see [`crate::kept::llc`]).
//!
//! | byte | field | |
//! |---|---|---|
//! | 0..1 | hrd | hardware type, 0x0013 for ATM |
//! | 2..3 | pro | protocol, 0x0800 for IPv4 |
//! | 4 | shtl | type and length of the sender's ATM number |
//! | 5 | sstl | type and length of the sender's ATM subaddress |
//! | 6..7 | op | 1 request, 2 reply, 8 `InATMARP` request, 9 `InATMARP` reply, 10 NAK |
//! | 8 | spln | length of the sender's protocol address: 0 or 4 |
//! | 9 | thtl | type and length of the target's ATM number |
//! | 10 | tstl | type and length of the target's ATM subaddress |
//! | 11 | tpln | length of the target's protocol address: 0 or 4 |
//! | 12.. | sha, ssa, spa, tha, tsa, tpa | the six addresses, each as long as said above |
//!
//! A type-and-length byte: bit 7 zero, bit 6 type (0 NSAP format, 1 E.164), bits 5..0
//! length in bytes. An address of length zero is not given, and its type means nothing.
//!
//! Source: rfc2225 section 8. Big-endian.

mod describe;
mod repr;
#[cfg(test)]
mod tests;

use core::fmt;

use barewire_wire::{Error, Fault, need};

pub use describe::describe;
pub use repr::{AtmAddress, PacketRepr, Party};

/// The format's name in errors.
const FORMAT: &str = "atmarp";
/// Bytes in front of the addresses.
pub const HEADER_BYTES: usize = 12;
/// The hardware type of ATM.
pub const HARDWARE_ATM: u16 = 0x0013;
/// The protocol type of IPv4.
pub const PROTOCOL_IPV4: u16 = 0x0800;
/// Longest ATM number or subaddress that a type-and-length byte can announce.
pub const ATM_ADDRESS_BYTES_MAX: usize = 0x3f;

const TYPE_E164: u8 = 0x40;
const RESERVED: u8 = 0x80;

/// What a packet asks or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// 1: who has this IP address?
    Request,
    /// 2: this ATM address has it.
    Reply,
    /// 8: which IP address is at the other end of this VC?
    InverseRequest,
    /// 9: this one.
    InverseReply,
    /// 10: the server knows no answer.
    Nak,
    /// Any other.
    Unknown(u16),
}

impl From<u16> for Operation {
    fn from(number: u16) -> Self {
        match number {
            1 => Self::Request,
            2 => Self::Reply,
            8 => Self::InverseRequest,
            9 => Self::InverseReply,
            10 => Self::Nak,
            _ => Self::Unknown(number),
        }
    }
}

impl From<Operation> for u16 {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Request => 1,
            Operation::Reply => 2,
            Operation::InverseRequest => 8,
            Operation::InverseReply => 9,
            Operation::Nak => 10,
            Operation::Unknown(number) => number,
        }
    }
}

impl Operation {
    const fn name(self) -> &'static str {
        match self {
            Self::Request => "ATMARP request",
            Self::Reply => "ATMARP reply",
            Self::InverseRequest => "InATMARP request",
            Self::InverseReply => "InATMARP reply",
            Self::Nak => "ATMARP NAK",
            Self::Unknown(_) => "ATMARP operation unknown",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Unknown(number) => write!(f, " ({number})"),
            _ => Ok(()),
        }
    }
}

/// A type-and-length byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeLength(pub u8);

impl TypeLength {
    /// Whether the address is an E.164 number rather than one in NSAP format.
    #[must_use]
    pub const fn is_e164(self) -> bool {
        self.0 & TYPE_E164 != 0
    }

    /// Bytes of the address.
    #[must_use]
    pub const fn address_bytes(self) -> usize {
        (self.0 & !(TYPE_E164 | RESERVED)) as usize
    }
}

/// The six addresses, in the order in which they stand in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Slot {
    /// sha.
    SenderNumber,
    /// ssa.
    SenderSubaddress,
    /// spa.
    SenderProtocol,
    /// tha.
    TargetNumber,
    /// tsa.
    TargetSubaddress,
    /// tpa.
    TargetProtocol,
}

impl Slot {
    /// All of them, in order.
    pub const ALL: [Self; 6] = [
        Self::SenderNumber,
        Self::SenderSubaddress,
        Self::SenderProtocol,
        Self::TargetNumber,
        Self::TargetSubaddress,
        Self::TargetProtocol,
    ];

    /// The byte of the header that gives its length.
    const fn length_byte(self) -> usize {
        match self {
            Self::SenderNumber => 4,
            Self::SenderSubaddress => 5,
            Self::SenderProtocol => 8,
            Self::TargetNumber => 9,
            Self::TargetSubaddress => 10,
            Self::TargetProtocol => 11,
        }
    }

    const fn is_protocol(self) -> bool {
        matches!(self, Self::SenderProtocol | Self::TargetProtocol)
    }

    /// The names of its length field and of itself in the table above.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::SenderNumber => ("shtl", "sha"),
            Self::SenderSubaddress => ("sstl", "ssa"),
            Self::SenderProtocol => ("spln", "spa"),
            Self::TargetNumber => ("thtl", "tha"),
            Self::TargetSubaddress => ("tstl", "tsa"),
            Self::TargetProtocol => ("tpln", "tpa"),
        }
    }
}

/// A view of an ATMARP packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view of anything; accessors may panic if it is too short.
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A view whose accessors do not panic.
    ///
    /// # Errors
    /// [`Fault::Short`], on `header` or on the first address that is not whole.
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let bytes = buffer.as_ref();
        need(FORMAT, "header", bytes, HEADER_BYTES)?;
        let packet = Packet::new_unchecked(bytes);
        for slot in Slot::ALL {
            need(FORMAT, slot.names().1, bytes, packet.range(slot).end)?;
        }
        Ok(Self { buffer })
    }

    /// The buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    fn word(&self, first: usize) -> u16 {
        let bytes = self.buffer.as_ref();
        u16::from_be_bytes([bytes[first], bytes[first + 1]])
    }

    /// Hardware type.
    #[must_use]
    pub fn hardware(&self) -> u16 {
        self.word(0)
    }

    /// Protocol type.
    #[must_use]
    pub fn protocol(&self) -> u16 {
        self.word(2)
    }

    /// Operation.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.word(6).into()
    }

    /// The byte that gives the length of an address: with the type for an ATM address.
    #[must_use]
    pub fn length_byte(&self, slot: Slot) -> u8 {
        self.buffer.as_ref()[slot.length_byte()]
    }

    /// Bytes of an address.
    fn address_bytes(&self, slot: Slot) -> usize {
        let byte = self.length_byte(slot);
        if slot.is_protocol() {
            byte.into()
        } else {
            TypeLength(byte).address_bytes()
        }
    }

    /// The bytes where an address stands.
    #[must_use]
    pub fn range(&self, slot: Slot) -> core::ops::Range<usize> {
        let before = Slot::ALL.iter().filter(|&&other| other < slot);
        let first = HEADER_BYTES
            + before
                .map(|&other| self.address_bytes(other))
                .sum::<usize>();
        first..first + self.address_bytes(slot)
    }

    /// An address.
    #[must_use]
    pub fn address(&self, slot: Slot) -> &[u8] {
        &self.buffer.as_ref()[self.range(slot)]
    }

    /// Bytes of the packet, the addresses included.
    #[must_use]
    pub fn packet_bytes(&self) -> usize {
        self.range(Slot::TargetProtocol).end
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    fn set_word(&mut self, first: usize, word: u16) {
        self.buffer.as_mut()[first..first + 2].copy_from_slice(&word.to_be_bytes());
    }

    /// Sets the hardware type.
    pub fn set_hardware(&mut self, hardware: u16) {
        self.set_word(0, hardware);
    }

    /// Sets the protocol type.
    pub fn set_protocol(&mut self, protocol: u16) {
        self.set_word(2, protocol);
    }

    /// Sets the operation.
    pub fn set_operation(&mut self, operation: Operation) {
        self.set_word(6, operation.into());
    }

    /// Sets the byte that gives the length of an address, which moves those behind it.
    pub fn set_length_byte(&mut self, slot: Slot, byte: u8) {
        self.buffer.as_mut()[slot.length_byte()] = byte;
    }

    /// An address, to be written after all length bytes.
    pub fn address_mut(&mut self, slot: Slot) -> &mut [u8] {
        let range = self.range(slot);
        &mut self.buffer.as_mut()[range]
    }
}
