//! The ATM cell: header, payload types, cells of the layers themselves, and how a
//! receiver finds cells in a stream.
//!
//! ```text
//! bit      0    4           12                        28    31 32        40           424
//! UNI      | GFC |    VPI    |          VCI            | PT |CLP|   HEC   |  payload   |
//! NNI      |      VPI        |          VCI            | PT |CLP|   HEC   |  payload   |
//! bits        4       8                  16               3   1      8        384
//!
//! PT  0xx user data: bit 1 congestion met (EFCI), bit 0 AUU (AAL5: end of PDU)
//!     100 OAM F5 segment | 101 OAM F5 end to end | 110 resource management | 111 reserved
//! ```
//!
//! | header, first 32 bits | cell |
//! |---|---|
//! | `00000001`, payload all `6a` | idle: the line's own, never seen above it |
//! | VPI 0, VCI 0, CLP 1, else | of the physical layer |
//! | VPI 0, VCI 0, CLP 0 | unassigned |
//! | VCI 3, VCI 4 | OAM F4 (of a path): segment, end to end |
//!
//! Source: itu-i361 §2 (header, payload types, pre-assigned values), itu-i432 §4.4
//! (idle cell). The HEC is in [`hec`], OAM payloads in [`oam`], cell delineation in
//! [`delineation`], the payload scrambler in [`scrambler`].

use core::fmt;

use barewire_wire::{Error, Fault, need};
pub use hec::HEADER_BYTES;

pub mod delineation;
mod describe;
pub mod hec;
pub mod oam;
pub mod scrambler;
#[cfg(test)]
pub(crate) mod tests;

pub use describe::{describe, describe_header, describe_nni};

/// The word for this format in errors.
const FORMAT: &str = "atm";
/// Bytes of a cell's payload.
pub const PAYLOAD_BYTES: usize = 48;
/// Bytes of a cell.
pub const CELL_BYTES: usize = HEADER_BYTES + PAYLOAD_BYTES;

/// Every payload byte of an idle cell.
pub const IDLE_PAYLOAD_BYTE: u8 = 0x6a;
/// The idle cell, which fills a line that has nothing to carry.
pub const IDLE_CELL: [u8; CELL_BYTES] = idle_cell();
/// VCI of F4 flows of a segment, on any virtual path.
pub const VCI_F4_SEGMENT: u16 = 3;
/// VCI of F4 flows from end to end, on any virtual path.
pub const VCI_F4_END_TO_END: u16 = 4;

const fn idle_cell() -> [u8; CELL_BYTES] {
    let mut cell = [IDLE_PAYLOAD_BYTE; CELL_BYTES];
    let header = HeaderRepr::IDLE.to_bytes(Interface::Uni);
    let mut i = 0;
    while i < HEADER_BYTES {
        cell[i] = header[i];
        i += 1;
    }
    cell
}

/// A virtual channel: which connection a cell belongs to, on one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vc {
    /// Virtual path: 8 bits at the UNI, 12 at the NNI.
    pub vpi: u16,
    /// Virtual channel in the path.
    pub vci: u16,
}

impl fmt::Display for Vc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.vpi, self.vci)
    }
}

/// Which of the two header layouts is on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// User to network: 4 bits of flow control, 8 of VPI.
    Uni,
    /// Network to network: 12 bits of VPI.
    Nni,
}

/// The payload type of a cell, 3 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PayloadType(u8);

impl PayloadType {
    /// User data.
    pub const USER: Self = Self(0b000);
    /// User data, AUU set: the last cell of an AAL5 PDU.
    pub const USER_END: Self = Self(0b001);
    /// User data that met congestion.
    pub const USER_CONGESTED: Self = Self(0b010);
    /// User data that met congestion, AUU set.
    pub const USER_CONGESTED_END: Self = Self(0b011);
    /// OAM F5 flow of a segment.
    pub const OAM_SEGMENT: Self = Self(0b100);
    /// OAM F5 flow from end to end.
    pub const OAM_END_TO_END: Self = Self(0b101);
    /// Resource management.
    pub const RESOURCE_MANAGEMENT: Self = Self(0b110);
    /// Reserved.
    pub const RESERVED: Self = Self(0b111);

    /// The type with this code; bits above the third are dropped.
    #[must_use]
    pub const fn new(code: u8) -> Self {
        Self(code & 0b111)
    }

    /// The code.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Whether the cell carries user data.
    #[must_use]
    pub const fn is_user(self) -> bool {
        self.0 & 0b100 == 0
    }

    /// The ATM-user-to-ATM-user bit of user data: with AAL5, the end of a PDU.
    #[must_use]
    pub const fn auu(self) -> bool {
        self.is_user() && self.0 & 0b001 != 0
    }

    /// Whether user data met congestion (EFCI).
    #[must_use]
    pub const fn congested(self) -> bool {
        self.is_user() && self.0 & 0b010 != 0
    }

    /// What the code means, in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::USER => "user",
            Self::USER_END => "user, AUU",
            Self::USER_CONGESTED => "user, congested",
            Self::USER_CONGESTED_END => "user, congested, AUU",
            Self::OAM_SEGMENT => "OAM F5 segment",
            Self::OAM_END_TO_END => "OAM F5 end to end",
            Self::RESOURCE_MANAGEMENT => "resource management",
            _ => "reserved",
        }
    }
}

impl fmt::Display for PayloadType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whose cell it is, by its header alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fills the line; the physical layer takes it out again.
    Idle,
    /// Of the physical layer, but not idle.
    Physical,
    /// A place in the ATM layer that nobody took.
    Unassigned,
    /// OAM of the virtual path, segment.
    F4Segment,
    /// OAM of the virtual path, end to end.
    F4EndToEnd,
    /// OAM of the virtual channel, segment.
    F5Segment,
    /// OAM of the virtual channel, end to end.
    F5EndToEnd,
    /// Resource management of the virtual channel.
    ResourceManagement,
    /// Payload type 7.
    Reserved,
    /// User data.
    User,
}

impl Kind {
    /// Whether the payload is one of [`oam`].
    #[must_use]
    pub const fn is_oam(self) -> bool {
        matches!(
            self,
            Self::F4Segment | Self::F4EndToEnd | Self::F5Segment | Self::F5EndToEnd
        )
    }
}

/// What a cell header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderRepr {
    /// Generic flow control, 4 bits; at the NNI there is none and it is 0.
    pub gfc: u8,
    /// The connection.
    pub vc: Vc,
    /// Payload type.
    pub payload_type: PayloadType,
    /// CLP: the cell may be dropped first.
    pub loss_priority: bool,
}

impl HeaderRepr {
    /// The header of an idle cell.
    pub const IDLE: Self = Self::from_word(1, Interface::Uni);
    /// The header of an unassigned cell.
    pub const UNASSIGNED: Self = Self::from_word(0, Interface::Uni);

    /// The header of a cell of user data: no flow control, priority 0.
    #[must_use]
    pub const fn user(vc: Vc, payload_type: PayloadType) -> Self {
        Self {
            gfc: 0,
            vc,
            payload_type,
            loss_priority: false,
        }
    }

    /// The first four bytes as a word. Bits that do not fit their field (a VPI
    /// above 255 at the UNI) are dropped.
    #[inline]
    #[must_use]
    pub const fn to_word(self, interface: Interface) -> u32 {
        let vpi = self.vc.vpi as u32;
        let top = match interface {
            Interface::Uni => (self.gfc as u32 & 0xf) << 8 | (vpi & 0xff),
            Interface::Nni => vpi & 0xfff,
        };
        top << 20
            | (self.vc.vci as u32) << 4
            | (self.payload_type.get() as u32) << 1
            | self.loss_priority as u32
    }

    /// Takes the first four bytes, as a word, apart.
    #[inline]
    #[must_use]
    pub const fn from_word(word: u32, interface: Interface) -> Self {
        let top = word >> 20;
        let (gfc, vpi) = match interface {
            Interface::Uni => ((top >> 8) as u8, top as u16 & 0xff),
            Interface::Nni => (0, top as u16),
        };
        Self {
            gfc,
            vc: Vc {
                vpi,
                vci: (word >> 4) as u16,
            },
            payload_type: PayloadType::new((word >> 1) as u8),
            loss_priority: word & 1 != 0,
        }
    }

    /// The header with its HEC.
    #[inline]
    #[must_use]
    pub const fn to_bytes(self, interface: Interface) -> [u8; HEADER_BYTES] {
        let word = self.to_word(interface).to_be_bytes();
        [word[0], word[1], word[2], word[3], hec::generate(word)]
    }

    /// Takes a header apart whose HEC must be right.
    ///
    /// # Errors
    ///
    /// [`Fault::Check`] on the HEC. A receiver that corrects runs the header through
    /// [`hec::Receiver`] first.
    #[inline]
    pub fn from_bytes(header: &[u8; HEADER_BYTES], interface: Interface) -> Result<Self, Error> {
        let [b0, b1, b2, b3, found] = *header;
        let word = [b0, b1, b2, b3];
        let computed = hec::generate(word);
        if computed != found {
            let (computed, found) = (computed.into(), found.into());
            let fault = Fault::Check { computed, found };
            return Err(Error::new(FORMAT, "HEC", 32..40, fault));
        }
        Ok(Self::from_word(u32::from_be_bytes(word), interface))
    }

    /// Whose cell it is.
    #[must_use]
    pub const fn kind(self) -> Kind {
        if self.vc.vpi == 0 && self.vc.vci == 0 {
            return match (self.loss_priority, self.gfc, self.payload_type) {
                (false, _, _) => Kind::Unassigned,
                (true, 0, PayloadType::USER) => Kind::Idle,
                (true, _, _) => Kind::Physical,
            };
        }
        match (self.payload_type, self.vc.vci) {
            (PayloadType::OAM_SEGMENT, _) => Kind::F5Segment,
            (PayloadType::OAM_END_TO_END, _) => Kind::F5EndToEnd,
            (PayloadType::RESOURCE_MANAGEMENT, _) => Kind::ResourceManagement,
            (PayloadType::RESERVED, _) => Kind::Reserved,
            (_, VCI_F4_SEGMENT) => Kind::F4Segment,
            (_, VCI_F4_END_TO_END) => Kind::F4EndToEnd,
            _ => Kind::User,
        }
    }

    /// Takes the header out of a cell and checks it.
    ///
    /// # Errors
    ///
    /// As [`HeaderRepr::from_bytes`].
    pub fn parse<T: AsRef<[u8]>>(cell: &Cell<T>, interface: Interface) -> Result<Self, Error> {
        Self::from_bytes(&cell.header_bytes(), interface)
    }

    /// Bytes of the cell that a header is written to.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        CELL_BYTES
    }

    /// Writes the header and its HEC into a cell.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(self, cell: &mut Cell<T>, interface: Interface) {
        cell.set_header_bytes(self.to_bytes(interface));
    }
}

impl fmt::Display for HeaderRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VC {} {}", self.vc, self.payload_type)?;
        if self.gfc != 0 {
            write!(f, " GFC {}", self.gfc)?;
        }
        if self.loss_priority {
            write!(f, " CLP 1")?;
        }
        Ok(())
    }
}

/// A view of the 53 bytes of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Cell<T> {
    /// A view of `buffer`. Accessors panic if it is shorter than [`CELL_BYTES`].
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A view of `buffer`, whose accessors do not panic.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`] below [`CELL_BYTES`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        need(FORMAT, "header", buffer.as_ref(), HEADER_BYTES)?;
        need(FORMAT, "payload", buffer.as_ref(), CELL_BYTES)?;
        Ok(Self { buffer })
    }

    /// The buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// The five bytes of the header.
    #[inline]
    #[must_use]
    pub fn header_bytes(&self) -> [u8; HEADER_BYTES] {
        let bytes = self.buffer.as_ref();
        [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]]
    }

    /// The header, whatever its HEC says.
    #[inline]
    #[must_use]
    pub fn header(&self, interface: Interface) -> HeaderRepr {
        let [b0, b1, b2, b3, _] = self.header_bytes();
        HeaderRepr::from_word(u32::from_be_bytes([b0, b1, b2, b3]), interface)
    }

    /// What the HEC says about the header.
    #[inline]
    #[must_use]
    pub fn check_hec(&self) -> hec::Verdict {
        hec::check(&self.header_bytes())
    }

    /// The payload.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &[u8; PAYLOAD_BYTES] {
        let payload = &self.buffer.as_ref()[HEADER_BYTES..];
        payload.first_chunk().expect("a cell has 48 payload bytes")
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Cell<T> {
    /// Replaces the header, HEC included.
    #[inline]
    pub fn set_header_bytes(&mut self, header: [u8; HEADER_BYTES]) {
        self.buffer.as_mut()[..HEADER_BYTES].copy_from_slice(&header);
    }

    /// The payload.
    #[inline]
    #[must_use]
    pub fn payload_mut(&mut self) -> &mut [u8; PAYLOAD_BYTES] {
        let payload = &mut self.buffer.as_mut()[HEADER_BYTES..];
        let chunk = payload.first_chunk_mut();
        chunk.expect("a cell has 48 payload bytes")
    }

    /// Computes the HEC of the header that stands there, and writes it.
    #[inline]
    pub fn fill_hec(&mut self) {
        let [b0, b1, b2, b3, _] = self.header_bytes();
        self.buffer.as_mut()[4] = hec::generate([b0, b1, b2, b3]);
    }
}

/// Shows a cell whose header is that of the UNI.
impl<T: AsRef<[u8]>> fmt::Display for Cell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.header(Interface::Uni))?;
        match self.check_hec() {
            hec::Verdict::Good => Ok(()),
            hec::Verdict::SingleBit(bit) => write!(f, ", bit {bit} wrong by the HEC"),
            hec::Verdict::Bad => write!(f, ", HEC wrong"),
        }
    }
}
