//! How packets of other networks ride in AAL5 PDUs: LLC/SNAP and VC multiplexing.
//!
//! With LLC a header says what follows, so that one VC carries many protocols:
//!
//! | bytes | 0 | 1 | 2 | 3..5 | 6..7 | 8.. |
//! |---|---|---|---|---|---|---|
//! | routed | DSAP AA | SSAP AA | control 03 | OUI 00 00 00 | PID = EtherType | packet |
//! | bridged Ethernet | AA | AA | 03 | 00 80 C2 | 00 01 with FCS, 00 07 without | pad 00 00, frame |
//! | bridged, other | AA | AA | 03 | 00 80 C2 | other | not looked into |
//! | other | AA | AA | 03 | any | any | not looked into |
//! | routed ISO | FE | FE | 03 | PDU, whose first byte is its NLPID | | |
//!
//! With VC multiplexing the circuit itself stands for the protocol:
//!
//! | | bytes 0..1 | then |
//! |---|---|---|
//! | routed | packet from byte 0 | |
//! | bridged Ethernet | pad 00 00 | frame, with or without FCS as the circuit was set up |
//!
//! Source: rfc2684 sections 5 and 6. Big-endian.

mod describe;
#[cfg(test)]
pub(crate) mod tests;

use core::fmt;

use barewire_wire::{Error, Fault, need};

pub use describe::{describe, describe_vc_mux};

/// The format's name in errors.
const FORMAT: &str = "llc";
/// DSAP, SSAP and control.
const LLC_BYTES: usize = 3;
/// LLC, OUI and PID.
pub const SNAP_HEADER_BYTES: usize = 8;
/// Zero bytes in front of a bridged Ethernet frame, which align what is in it.
pub const PAD_BYTES: usize = 2;

const LLC_SNAP: [u8; LLC_BYTES] = [0xaa, 0xaa, 0x03];
const LLC_ISO: [u8; LLC_BYTES] = [0xfe, 0xfe, 0x03];
const OUI_ETHERTYPE: [u8; 3] = [0x00, 0x00, 0x00];
const OUI_BRIDGED: [u8; 3] = [0x00, 0x80, 0xc2];
const PID_ETHERNET_FCS: u16 = 0x0001;
const PID_ETHERNET: u16 = 0x0007;

/// The protocol of a routed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EtherType {
    /// 0x0800.
    Ipv4,
    /// 0x0806: on ATM, ATMARP and `InATMARP`.
    Arp,
    /// 0x86dd.
    Ipv6,
    /// Any other.
    Unknown(u16),
}

impl From<u16> for EtherType {
    fn from(number: u16) -> Self {
        match number {
            0x0800 => Self::Ipv4,
            0x0806 => Self::Arp,
            0x86dd => Self::Ipv6,
            _ => Self::Unknown(number),
        }
    }
}

impl From<EtherType> for u16 {
    fn from(ethertype: EtherType) -> Self {
        match ethertype {
            EtherType::Ipv4 => 0x0800,
            EtherType::Arp => 0x0806,
            EtherType::Ipv6 => 0x86dd,
            EtherType::Unknown(number) => number,
        }
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ipv4 => f.write_str("IPv4"),
            Self::Arp => f.write_str("ARP"),
            Self::Ipv6 => f.write_str("IPv6"),
            Self::Unknown(number) => write!(f, "EtherType {number:#06x}"),
        }
    }
}

/// An LLC header, and with SNAP, bridging or ISO what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeaderRepr {
    /// A packet of the network layer.
    Routed(EtherType),
    /// A whole Ethernet frame, behind two bytes of padding.
    BridgedEthernet {
        /// Whether its frame check sequence is there.
        fcs: bool,
    },
    /// An ISO PDU; the NLPID is its first byte, and stays part of the payload.
    Iso {
        /// What the first byte of the payload says: 0x81 CLNP, 0x82 ES-IS, 0x83 IS-IS.
        nlpid: u8,
    },
    /// Any other OUI and PID, other media of the bridging OUI among them.
    Unknown {
        /// Who gave the PID its meaning.
        oui: [u8; 3],
        /// What follows.
        pid: u16,
    },
}

impl HeaderRepr {
    /// Takes the header from a packet.
    ///
    /// # Errors
    /// [`Fault::Value`] on `dsap`, `ssap`, `control` or `pad`.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, Error> {
        let llc = packet.llc();
        if llc == LLC_ISO {
            return Ok(Self::Iso {
                nlpid: packet.nlpid(),
            });
        }
        check_snap(llc)?;
        let (oui, pid) = (packet.oui(), packet.pid());
        match oui {
            OUI_ETHERTYPE => Ok(Self::Routed(pid.into())),
            OUI_BRIDGED if pad_follows(oui, pid) => {
                check_pad(packet.pad(), SNAP_HEADER_BYTES)?;
                Ok(Self::BridgedEthernet {
                    fcs: pid == PID_ETHERNET_FCS,
                })
            }
            _ => Ok(Self::Unknown { oui, pid }),
        }
    }

    /// Bytes in front of the payload.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        match self {
            Self::Routed(_) | Self::Unknown { .. } => SNAP_HEADER_BYTES,
            Self::BridgedEthernet { .. } => SNAP_HEADER_BYTES + PAD_BYTES,
            Self::Iso { .. } => LLC_BYTES,
        }
    }

    /// Writes the header. The payload of an ISO PDU, NLPID and all, is not touched.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        let (oui, pid) = match *self {
            Self::Iso { .. } => return packet.set_llc(LLC_ISO),
            Self::Routed(ethertype) => (OUI_ETHERTYPE, ethertype.into()),
            Self::BridgedEthernet { fcs: true } => (OUI_BRIDGED, PID_ETHERNET_FCS),
            Self::BridgedEthernet { fcs: false } => (OUI_BRIDGED, PID_ETHERNET),
            Self::Unknown { oui, pid } => (oui, pid),
        };
        packet.set_llc(LLC_SNAP);
        packet.set_oui(oui);
        packet.set_pid(pid);
        if matches!(self, Self::BridgedEthernet { .. }) {
            packet.set_pad(0);
        }
    }
}

impl fmt::Display for HeaderRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Routed(ethertype) => write!(f, "LLC/SNAP {ethertype}"),
            Self::BridgedEthernet { fcs: true } => f.write_str("LLC/SNAP bridged Ethernet, FCS"),
            Self::BridgedEthernet { fcs: false } => {
                f.write_str("LLC/SNAP bridged Ethernet, no FCS")
            }
            Self::Iso { nlpid } => write!(f, "LLC ISO NLPID {nlpid:#04x}"),
            Self::Unknown {
                oui: [a, b, c],
                pid,
            } => {
                write!(f, "LLC/SNAP OUI {a:02x}-{b:02x}-{c:02x} PID {pid:#06x}")
            }
        }
    }
}

/// Whether two bytes of padding stand behind this PID.
fn pad_follows(oui: [u8; 3], pid: u16) -> bool {
    oui == OUI_BRIDGED && matches!(pid, PID_ETHERNET | PID_ETHERNET_FCS)
}

/// Blames the first byte of an LLC header that is not that of SNAP.
fn check_snap(llc: [u8; LLC_BYTES]) -> Result<(), Error> {
    let allowed = [
        ("dsap", "0xaa (SNAP) or 0xfe (ISO)"),
        ("ssap", "the same as in dsap"),
        ("control", "0x03 (unnumbered information)"),
    ];
    // Behind an ISO DSAP the other two are to blame.
    let expected = if llc[0] == LLC_ISO[0] {
        LLC_ISO
    } else {
        LLC_SNAP
    };
    for (byte, (field, allowed)) in allowed.into_iter().enumerate() {
        if llc[byte] != expected[byte] {
            let found = llc[byte].into();
            let fault = Fault::Value { found, allowed };
            return Err(Error::new(FORMAT, field, byte * 8..byte * 8 + 8, fault));
        }
    }
    Ok(())
}

/// The padding that begins at byte `first_byte` must be zero.
fn check_pad(pad: u16, first_byte: usize) -> Result<(), Error> {
    if pad == 0 {
        return Ok(());
    }
    let fault = Fault::Value {
        found: pad.into(),
        allowed: "zero",
    };
    Err(Error::new(
        FORMAT,
        "pad",
        first_byte * 8..(first_byte + PAD_BYTES) * 8,
        fault,
    ))
}

/// A view of a packet that begins with LLC.
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
    /// [`Fault::Short`] where the header that has begun is not whole.
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let bytes = buffer.as_ref();
        need(FORMAT, "llc", bytes, LLC_BYTES + 1)?;
        let packet = Packet::new_unchecked(bytes);
        if packet.llc() != LLC_ISO {
            need(FORMAT, "snap", bytes, SNAP_HEADER_BYTES)?;
            need(FORMAT, "pad", bytes, packet.header_bytes())?;
        }
        Ok(Self { buffer })
    }

    /// The buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    fn array<const N: usize>(&self, first: usize) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(&self.buffer.as_ref()[first..first + N]);
        array
    }

    /// DSAP, SSAP, control.
    #[must_use]
    pub fn llc(&self) -> [u8; 3] {
        self.array(0)
    }

    /// The first byte behind the LLC header: the NLPID, if that is ISO's.
    #[must_use]
    pub fn nlpid(&self) -> u8 {
        self.buffer.as_ref()[LLC_BYTES]
    }

    /// The OUI; behind ISO's LLC header there is none, and zeros are given.
    #[must_use]
    pub fn oui(&self) -> [u8; 3] {
        if self.llc() == LLC_ISO {
            return [0; 3];
        }
        self.array(3)
    }

    /// The PID; behind ISO's LLC header there is none, and zero is given.
    #[must_use]
    pub fn pid(&self) -> u16 {
        if self.llc() == LLC_ISO {
            return 0;
        }
        u16::from_be_bytes(self.array(6))
    }

    /// The padding in front of a bridged Ethernet frame; zero where there is none.
    #[must_use]
    pub fn pad(&self) -> u16 {
        if self.header_bytes() < SNAP_HEADER_BYTES + PAD_BYTES {
            return 0;
        }
        u16::from_be_bytes(self.array(SNAP_HEADER_BYTES))
    }

    /// Bytes in front of the payload.
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        if self.llc() == LLC_ISO {
            LLC_BYTES
        } else if pad_follows(self.oui(), self.pid()) {
            SNAP_HEADER_BYTES + PAD_BYTES
        } else {
            SNAP_HEADER_BYTES
        }
    }

    /// What the header announces.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[self.header_bytes()..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets DSAP, SSAP and control.
    pub fn set_llc(&mut self, llc: [u8; 3]) {
        self.buffer.as_mut()[..LLC_BYTES].copy_from_slice(&llc);
    }

    /// Sets the OUI.
    pub fn set_oui(&mut self, oui: [u8; 3]) {
        self.buffer.as_mut()[3..6].copy_from_slice(&oui);
    }

    /// Sets the PID.
    pub fn set_pid(&mut self, pid: u16) {
        self.buffer.as_mut()[6..8].copy_from_slice(&pid.to_be_bytes());
    }

    /// Sets the padding in front of a bridged Ethernet frame.
    pub fn set_pad(&mut self, pad: u16) {
        self.buffer.as_mut()[8..10].copy_from_slice(&pad.to_be_bytes());
    }

    /// What the header announces.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let first = self.header_bytes();
        &mut self.buffer.as_mut()[first..]
    }
}

/// What a VC carries whose set-up says so instead of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VcMux {
    /// Bare packets of one protocol.
    Routed(EtherType),
    /// Ethernet frames, each behind two bytes of padding.
    BridgedEthernet {
        /// Whether they keep their frame check sequence.
        fcs: bool,
    },
}

impl VcMux {
    /// Bytes in front of the packet or frame, all zero.
    #[must_use]
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Routed(_) => 0,
            Self::BridgedEthernet { .. } => PAD_BYTES,
        }
    }

    /// The packet or frame in `pdu`.
    ///
    /// # Errors
    /// On `pad`: [`Fault::Short`], or [`Fault::Value`] if it is not zero.
    pub fn payload(self, pdu: &[u8]) -> Result<&[u8], Error> {
        if let Self::BridgedEthernet { .. } = self {
            need(FORMAT, "pad", pdu, PAD_BYTES)?;
            check_pad(u16::from_be_bytes([pdu[0], pdu[1]]), 0)?;
        }
        Ok(&pdu[self.header_bytes()..])
    }
}

impl fmt::Display for VcMux {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Routed(ethertype) => write!(f, "VC-multiplexed {ethertype}"),
            Self::BridgedEthernet { fcs: true } => f.write_str("VC-multiplexed Ethernet, FCS"),
            Self::BridgedEthernet { fcs: false } => f.write_str("VC-multiplexed Ethernet, no FCS"),
        }
    }
}
