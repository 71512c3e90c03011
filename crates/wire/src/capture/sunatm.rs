//! The pseudo-header in front of an AAL5 payload in captures of link type `SUNATM`.
//!
//! ```text
//! | bits  | field        |                                                        |
//! |  0    | sent         | 1: sent by the host that captured (DTE to DCE)          |
//! |  1..4 | reserved     | 0                                                      |
//! |  4..8 | traffic type | 0 raw, 1 LANE, 2 LLC, 3 MARS, 4 IFMP, 5 ILMI, 6 Q.2931 |
//! |  8..16| VPI          |                                                        |
//! | 16..32| VCI          |                                                        |
//! ```
//!
//! Then the payload. The card that this comes from kept padding and trailer to itself, and
//! Wireshark takes none for granted: for a check of the CRC-32 there is [`super::erf`].
//! It takes the payload for LLC/SNAP where the type says so, and guesses where it says raw.
//!
//! Source: linktypes (`LINKTYPE_SUNATM`).

use core::fmt;

use crate::error::{Error, need};
use crate::tree::{Sink, Value};

const FORMAT: &str = "sunatm";
/// Length of the pseudo-header.
pub const HEADER_BYTES: usize = 4;

const SENT: u8 = 0x80;

/// What a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Anything.
    Raw,
    /// LAN emulation.
    Lane,
    /// LLC encapsulation of RFC 2684.
    Llc,
    /// Multicast address resolution.
    Mars,
    /// Ipsilon flow management.
    Ifmp,
    /// Interim local management.
    Ilmi,
    /// Signalling.
    Signalling,
    /// A code that has no meaning that we know; 4 bits.
    Unknown(u8),
}

impl Traffic {
    /// The type with this code, of which the low 4 bits count.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        match code & 0xf {
            0 => Self::Raw,
            1 => Self::Lane,
            2 => Self::Llc,
            3 => Self::Mars,
            4 => Self::Ifmp,
            5 => Self::Ilmi,
            6 => Self::Signalling,
            code => Self::Unknown(code),
        }
    }

    /// The code of this type.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Raw => 0,
            Self::Lane => 1,
            Self::Llc => 2,
            Self::Mars => 3,
            Self::Ifmp => 4,
            Self::Ilmi => 5,
            Self::Signalling => 6,
            Self::Unknown(code) => code & 0xf,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Lane => "LANE",
            Self::Llc => "LLC",
            Self::Mars => "MARS",
            Self::Ifmp => "IFMP",
            Self::Ilmi => "ILMI",
            Self::Signalling => "Q.2931",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// A view of the pseudo-header.
#[derive(Clone, Debug)]
pub struct Header<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Header<T> {
    /// A view of `buffer`, whose accessors panic if it is too short.
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A view of `buffer`.
    ///
    /// # Errors
    ///
    /// [`crate::Fault::Short`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        need(FORMAT, "pseudo-header", buffer.as_ref(), HEADER_BYTES)?;
        Ok(Self { buffer })
    }

    /// The buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// Whether the host that captured sent it.
    pub fn is_sent(&self) -> bool {
        self.buffer.as_ref()[0] & SENT != 0
    }

    /// What the payload is.
    pub fn traffic(&self) -> Traffic {
        Traffic::from_code(self.buffer.as_ref()[0])
    }

    /// Virtual path identifier.
    pub fn vpi(&self) -> u8 {
        self.buffer.as_ref()[1]
    }

    /// Virtual channel identifier.
    pub fn vci(&self) -> u16 {
        let bytes = self.buffer.as_ref();
        u16::from_be_bytes([bytes[2], bytes[3]])
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Header<T> {
    /// Sets the direction and the type, and clears the reserved bits.
    pub fn set_flags(&mut self, is_sent: bool, traffic: Traffic) {
        let sent = if is_sent { SENT } else { 0 };
        self.buffer.as_mut()[0] = sent | traffic.code();
    }

    /// Sets the virtual path identifier.
    pub fn set_vpi(&mut self, vpi: u8) {
        self.buffer.as_mut()[1] = vpi;
    }

    /// Sets the virtual channel identifier.
    pub fn set_vci(&mut self, vci: u16) {
        self.buffer.as_mut()[2..4].copy_from_slice(&vci.to_be_bytes());
    }
}

/// The pseudo-header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderRepr {
    /// Whether the host that captured sent it.
    pub is_sent: bool,
    /// What the payload is.
    pub traffic: Traffic,
    /// Virtual path identifier.
    pub vpi: u8,
    /// Virtual channel identifier.
    pub vci: u16,
}

impl HeaderRepr {
    /// The values of a view.
    ///
    /// # Errors
    ///
    /// None at present: any four bytes are a pseudo-header.
    pub fn parse<T: AsRef<[u8]>>(header: &Header<T>) -> Result<Self, Error> {
        Ok(Self {
            is_sent: header.is_sent(),
            traffic: header.traffic(),
            vpi: header.vpi(),
            vci: header.vci(),
        })
    }

    /// Bytes that [`HeaderRepr::emit`] writes.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the values.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, header: &mut Header<T>) {
        header.set_flags(self.is_sent, self.traffic);
        header.set_vpi(self.vpi);
        header.set_vci(self.vci);
    }

    /// The pseudo-header itself.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut header = Header::new_unchecked([0; HEADER_BYTES]);
        self.emit(&mut header);
        header.into_inner()
    }
}

impl fmt::Display for HeaderRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.is_sent { "sent" } else { "received" };
        let traffic = self.traffic.name();
        write!(
            f,
            "{direction}, {traffic}, VPI {} VCI {}",
            self.vpi, self.vci
        )
    }
}

/// Shows the pseudo-header, and the payload as bytes.
pub fn describe(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    sink.open("SunATM", first_bit..first_bit + bytes.len() * 8);
    match Header::new_checked(bytes) {
        Ok(header) => {
            let bits =
                |range: core::ops::Range<usize>| first_bit + range.start..first_bit + range.end;
            let traffic = header.traffic();
            let code = Value::Code(traffic.code().into(), traffic.name());
            sink.field("sent", bits(0..1), Value::Flag(header.is_sent()));
            sink.field("traffic type", bits(4..8), code);
            sink.field("VPI", bits(8..16), Value::Uint(header.vpi().into()));
            sink.field("VCI", bits(16..32), Value::Uint(header.vci().into()));
            let payload = Value::Bytes(&bytes[HEADER_BYTES..]);
            sink.field("AAL5 payload", bits(32..bytes.len() * 8), payload);
        }
        Err(error) => sink.wrong(error.shifted(first_bit)),
    }
    sink.close();
}
