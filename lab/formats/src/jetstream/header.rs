//! The three bytes in front of every Jetstream frame; the layout stands in the parent module.

use core::fmt;

use super::{FIELD_CONTROL, FORMAT, HEADER_BYTES};
use barewire_wire::{Error, Fault, need};

/// How a frame finds its receivers, or that it is a control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddrType {
    /// By DST_RID: management, before there are VCs.
    Rid,
    /// By VPI/VCI, looked up at each node.
    Vc,
    /// RING_UP or token.
    Control,
    /// Reserved.
    Unknown(u8),
}

impl AddrType {
    /// The type with this number; two bits count.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Rid,
            1 => Self::Vc,
            2 => Self::Control,
            other => Self::Unknown(other),
        }
    }

    /// The number, two bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::Rid => 0,
            Self::Vc => 1,
            Self::Control => 2,
            Self::Unknown(other) => other & 3,
        }
    }
}

/// The three bytes in front of every frame.
#[derive(Clone, Copy, Debug)]
pub struct Header<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Header<T> {
    /// A header that the caller knows to be long enough; accessors panic if it is not.
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A header whose accessors can not panic.
    ///
    /// # Errors
    /// [`Fault::Short`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        need(FORMAT, "header", buffer.as_ref(), HEADER_BYTES)?;
        Ok(Self { buffer })
    }

    /// The buffer back.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    fn byte(&self, index: usize) -> u8 {
        self.buffer.as_ref()[index]
    }

    /// The host asks for an AAL5 CRC-32 at the end of the PDU.
    pub fn crc_present(&self) -> bool {
        self.byte(0) & 0x80 != 0
    }

    /// The master has seen this frame pass.
    pub fn monitor(&self) -> bool {
        self.byte(0) & 0x40 != 0
    }

    /// Addressing mode.
    pub fn addr_type(&self) -> AddrType {
        AddrType::from_bits(self.byte(0) >> 4)
    }

    /// Code of a control frame, four bits.
    pub fn control(&self) -> u8 {
        self.byte(0) & 0x0f
    }

    /// Receiver in RID mode.
    pub fn dst_rid(&self) -> u8 {
        self.byte(1) & 0x0f
    }

    /// Sender.
    pub fn src_rid(&self) -> u8 {
        self.byte(2) & 0x0f
    }

    /// The four bits above DST_RID or SRC_RID that must be zero, by byte.
    fn spare(&self, byte: usize) -> u8 {
        self.byte(byte) >> 4
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Header<T> {
    fn put(&mut self, index: usize, mask: u8, value: u8) {
        let byte = &mut self.buffer.as_mut()[index];
        *byte = (*byte & !mask) | (value & mask);
    }

    /// Sets or clears CRC.
    pub fn set_crc_present(&mut self, on: bool) {
        self.put(0, 0x80, u8::from(on) << 7);
    }

    /// Sets or clears MONITOR, as the master does in a frame that passes.
    pub fn set_monitor(&mut self, on: bool) {
        self.put(0, 0x40, u8::from(on) << 6);
    }

    /// Sets ADDRTYPE.
    pub fn set_addr_type(&mut self, addr_type: AddrType) {
        self.put(0, 0x30, addr_type.bits() << 4);
    }

    /// Sets CONTROL, four bits.
    pub fn set_control(&mut self, code: u8) {
        self.put(0, 0x0f, code);
    }

    /// Sets DST_RID and the zero bits above it.
    pub fn set_dst_rid(&mut self, rid: u8) {
        self.put(1, 0xff, rid & 0x0f);
    }

    /// Sets SRC_RID and the zero bits above it.
    pub fn set_src_rid(&mut self, rid: u8) {
        self.put(2, 0xff, rid & 0x0f);
    }
}

/// The values of a [`Header`], without the code of a control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderRepr {
    /// The host asks for an AAL5 CRC-32 at the end of the PDU.
    pub crc_present: bool,
    /// The master has seen this frame pass.
    pub monitor: bool,
    /// Addressing mode.
    pub addr_type: AddrType,
    /// Receiver in RID mode, 0..=15.
    pub dst_rid: u8,
    /// Sender, 0..=15.
    pub src_rid: u8,
}

impl HeaderRepr {
    /// The values of `header`.
    ///
    /// # Errors
    /// [`Fault::Value`] where a bit that must be zero is not.
    pub fn parse<T: AsRef<[u8]>>(header: &Header<T>) -> Result<Self, Error> {
        let addr_type = header.addr_type();
        if addr_type != AddrType::Control {
            zero(FIELD_CONTROL, 4, header.control())?;
        }
        zero("zero above DST_RID", 8, header.spare(1))?;
        zero("zero above SRC_RID", 16, header.spare(2))?;
        Ok(Self {
            crc_present: header.crc_present(),
            monitor: header.monitor(),
            addr_type,
            dst_rid: header.dst_rid(),
            src_rid: header.src_rid(),
        })
    }

    /// Bytes that [`HeaderRepr::emit`] writes.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the header, CONTROL zero. Only four bits of a RID count.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, header: &mut Header<T>) {
        header.set_crc_present(self.crc_present);
        header.set_monitor(self.monitor);
        header.set_addr_type(self.addr_type);
        header.set_control(0);
        header.set_dst_rid(self.dst_rid);
        header.set_src_rid(self.src_rid);
    }
}

/// Four bits that must be zero.
fn zero(field: &'static str, first_bit: usize, found: u8) -> Result<(), Error> {
    if found == 0 {
        return Ok(());
    }
    Err(Error::new(
        FORMAT,
        field,
        first_bit..first_bit + 4,
        Fault::Value {
            found: found.into(),
            allowed: "zero",
        },
    ))
}

impl fmt::Display for AddrType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rid => f.write_str("RID"),
            Self::Vc => f.write_str("VC"),
            Self::Control => f.write_str("control"),
            Self::Unknown(code) => write!(f, "address type {code}"),
        }
    }
}

impl fmt::Display for HeaderRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> {}", self.addr_type, self.src_rid, self.dst_rid)?;
        f.write_str(if self.crc_present { " crc" } else { "" })?;
        f.write_str(if self.monitor { " monitor" } else { "" })
    }
}
