//! What an ATMARP packet says: two parties, and what one asks or tells the other.

use core::fmt;

use super::{
    ATM_ADDRESS_BYTES_MAX, Error, FORMAT, Fault, HARDWARE_ATM, HEADER_BYTES, Operation,
    PROTOCOL_IPV4, Packet, RESERVED, Slot, TYPE_E164, TypeLength,
};

/// An ATM number or subaddress; empty where it is not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtmAddress<'a> {
    e164: bool,
    bytes: &'a [u8],
}

impl<'a> AtmAddress<'a> {
    /// Not given.
    pub const NONE: Self = Self {
        e164: false,
        bytes: &[],
    };

    /// An address in NSAP format (20 bytes, as the ATM Forum has them), or `None` if it
    /// is longer than [`ATM_ADDRESS_BYTES_MAX`].
    #[must_use]
    pub const fn nsap(bytes: &'a [u8]) -> Option<Self> {
        Self::new(false, bytes)
    }

    /// An E.164 number in digits of ASCII, or `None` if it is longer than
    /// [`ATM_ADDRESS_BYTES_MAX`].
    #[must_use]
    pub const fn e164(bytes: &'a [u8]) -> Option<Self> {
        Self::new(true, bytes)
    }

    const fn new(e164: bool, bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() > ATM_ADDRESS_BYTES_MAX {
            return None;
        }
        Some(Self { e164, bytes })
    }

    /// Whether it is an E.164 number rather than one in NSAP format.
    #[must_use]
    pub const fn is_e164(&self) -> bool {
        self.e164
    }

    /// The address.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// At most [`ATM_ADDRESS_BYTES_MAX`], so the length takes six bits.
    const fn type_length(&self) -> u8 {
        let kind = if self.e164 { TYPE_E164 } else { 0 };
        kind | self.bytes.len() as u8
    }
}

impl fmt::Display for AtmAddress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bytes.is_empty() {
            return f.write_str("-");
        }
        if self.e164 && self.bytes.iter().all(u8::is_ascii_digit) {
            f.write_str("+")?;
            return self
                .bytes
                .iter()
                .try_for_each(|&d| write!(f, "{}", char::from(d)));
        }
        self.bytes
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// One end: its ATM address in two parts, and its IP address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Party<'a> {
    /// ATM number.
    pub number: AtmAddress<'a>,
    /// ATM subaddress.
    pub subaddress: AtmAddress<'a>,
    /// IPv4 address.
    pub ip: Option<[u8; 4]>,
}

impl fmt::Display for Party<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            Some([a, b, c, d]) => write!(f, "{a}.{b}.{c}.{d}")?,
            None => f.write_str("-")?,
        }
        write!(f, " at {}", self.number)?;
        if self.subaddress.bytes.is_empty() {
            return Ok(());
        }
        write!(f, "/{}", self.subaddress)
    }
}

/// An ATMARP packet for IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRepr<'a> {
    /// What it asks or answers.
    pub operation: Operation,
    /// Who sends it.
    pub sender: Party<'a>,
    /// Whom it is about.
    pub target: Party<'a>,
}

impl<'a> PacketRepr<'a> {
    /// Takes the values from a packet. Bytes behind it are not looked at.
    ///
    /// # Errors
    /// [`Fault::Value`] on `hrd`, `pro`, or the length byte of an address.
    pub fn parse<T: AsRef<[u8]> + ?Sized>(packet: &'a Packet<&'a T>) -> Result<Self, Error> {
        check_types(packet)?;
        for slot in Slot::ALL {
            check_length_byte(packet, slot)?;
        }
        let atm = |slot| AtmAddress {
            e164: TypeLength(packet.length_byte(slot)).is_e164(),
            bytes: packet.address(slot),
        };
        let ip = |slot| <[u8; 4]>::try_from(packet.address(slot)).ok();
        Ok(Self {
            operation: packet.operation(),
            sender: Party {
                number: atm(Slot::SenderNumber),
                subaddress: atm(Slot::SenderSubaddress),
                ip: ip(Slot::SenderProtocol),
            },
            target: Party {
                number: atm(Slot::TargetNumber),
                subaddress: atm(Slot::TargetSubaddress),
                ip: ip(Slot::TargetProtocol),
            },
        })
    }

    /// The length byte and the bytes of each address, in order.
    fn slots(&self) -> [(Slot, u8, &[u8]); 6] {
        let atm = |slot, address: &AtmAddress<'a>| (slot, address.type_length(), address.bytes);
        let Self { sender, target, .. } = self;
        [
            atm(Slot::SenderNumber, &sender.number),
            atm(Slot::SenderSubaddress, &sender.subaddress),
            ip_slot(Slot::SenderProtocol, &sender.ip),
            atm(Slot::TargetNumber, &target.number),
            atm(Slot::TargetSubaddress, &target.subaddress),
            ip_slot(Slot::TargetProtocol, &target.ip),
        ]
    }

    /// Bytes that [`PacketRepr::emit`] needs.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        let addresses = self.slots().map(|(_, _, bytes)| bytes.len());
        HEADER_BYTES + addresses.iter().sum::<usize>()
    }

    /// Writes the packet.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_hardware(HARDWARE_ATM);
        packet.set_protocol(PROTOCOL_IPV4);
        packet.set_operation(self.operation);
        for (slot, length, _) in self.slots() {
            packet.set_length_byte(slot, length);
        }
        for (slot, _, bytes) in self.slots() {
            packet.address_mut(slot).copy_from_slice(bytes);
        }
    }
}

fn ip_slot(slot: Slot, ip: &Option<[u8; 4]>) -> (Slot, u8, &[u8]) {
    match ip {
        Some(ip) => (slot, 4, ip),
        None => (slot, 0, &[]),
    }
}

/// Hardware and protocol type.
pub(super) fn check_types<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<(), Error> {
    let fields = [
        ("hrd", 0, packet.hardware(), HARDWARE_ATM, "0x0013 (ATM)"),
        ("pro", 16, packet.protocol(), PROTOCOL_IPV4, "0x0800 (IPv4)"),
    ];
    for (field, bit, found, expected, allowed) in fields {
        if found != expected {
            let found = found.into();
            let fault = Fault::Value { found, allowed };
            return Err(Error::new(FORMAT, field, bit..bit + 16, fault));
        }
    }
    Ok(())
}

/// A length byte of an IPv4 packet, or the type-and-length byte of an ATM address.
pub(super) fn check_length_byte<T: AsRef<[u8]>>(
    packet: &Packet<T>,
    slot: Slot,
) -> Result<(), Error> {
    let byte = packet.length_byte(slot);
    let (good, allowed) = if slot.is_protocol() {
        (matches!(byte, 0 | 4), "0 or 4")
    } else {
        (byte & RESERVED == 0, "bit 7 zero")
    };
    if good {
        return Ok(());
    }
    let bit = slot.length_byte() * 8;
    let found = byte.into();
    let fault = Fault::Value { found, allowed };
    Err(Error::new(FORMAT, slot.names().0, bit..bit + 8, fault))
}

impl fmt::Display for PacketRepr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} from {} about {}",
            self.operation, self.sender, self.target
        )
    }
}
