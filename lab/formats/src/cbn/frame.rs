//! The frame of 1188 bits: four slots, their flags, and the CRC-12.
//!
//! Bit table in [the parent module](super). Source: cbn91, section on the ring.

use core::fmt;
use core::ops::Range;

use super::cell::{Cell, part, part_mut};
use super::check::crc12_behind_nibble;
use super::{CELL_BYTES, FRAME_BITS, FRAME_BYTES, HEADER, SLOTS};
use barewire_wire::{Error, Fault, need};

/// First bit of each group of four flags.
const FULL: usize = 4;
const MONITOR_PASSED: usize = 8;
const SLOT_TYPE: usize = 12;
const RESPONSE: usize = 1168;
const QUALIFIER: usize = 1172;
/// First byte of slot 0.
const SLOT_BYTE: usize = 2;
/// Bytes in front of the CRC: all but the first four bits are covered by it.
const COVERED_BYTES: usize = 147;
pub(super) const HEADER_BITS: Range<usize> = 0..4;
pub(super) const CRC_BITS: Range<usize> = 1176..1188;
pub(super) const PAD_BITS: Range<usize> = FRAME_BITS..FRAME_BYTES * 8;

/// A frame of 149 bytes.
///
/// Accessors that take a slot panic if it is not below [`SLOTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// The view, unchecked: accessors panic if there are less than 149 bytes.
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// The view, if there are 149 bytes; more are ignored.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        need("cbn", "frame", buffer.as_ref(), FRAME_BYTES)?;
        Ok(Self { buffer })
    }

    /// The bytes again.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// The first four bits.
    #[must_use]
    pub fn header(&self) -> u8 {
        self.buffer.as_ref()[0] >> 4
    }

    /// The slot holds a cell.
    #[must_use]
    pub fn full(&self, slot: usize) -> bool {
        self.flag(FULL, slot)
    }

    /// The monitor has seen the slot full since it was filled.
    #[must_use]
    pub fn monitor_passed(&self, slot: usize) -> bool {
        self.flag(MONITOR_PASSED, slot)
    }

    /// The type bit of the cell in the slot.
    #[must_use]
    pub fn slot_type(&self, slot: usize) -> bool {
        self.flag(SLOT_TYPE, slot)
    }

    /// The response bit of the cell in the slot.
    #[must_use]
    pub fn response(&self, slot: usize) -> bool {
        self.flag(RESPONSE, slot)
    }

    /// The qualifier of the response.
    #[must_use]
    pub fn qualifier(&self, slot: usize) -> bool {
        self.flag(QUALIFIER, slot)
    }

    /// All five flags of a slot.
    #[must_use]
    pub fn flags(&self, slot: usize) -> SlotFlags {
        SlotFlags {
            full: self.full(slot),
            monitor_passed: self.monitor_passed(slot),
            slot_type: self.slot_type(slot),
            response: self.response(slot),
            qualifier: self.qualifier(slot),
        }
    }

    /// The 36 bytes of a slot.
    #[must_use]
    pub fn slot(&self, slot: usize) -> &[u8; CELL_BYTES] {
        part(self.buffer.as_ref(), slot_byte(slot))
    }

    /// The slot as a cell.
    #[must_use]
    pub fn cell(&self, slot: usize) -> Cell<&[u8; CELL_BYTES]> {
        Cell::new_unchecked(self.slot(slot))
    }

    /// The CRC that stands in the frame.
    #[must_use]
    pub fn crc(&self) -> u16 {
        u16::from_be_bytes(*part(self.buffer.as_ref(), COVERED_BYTES)) >> 4
    }

    /// The CRC that bits 4 to 1175 give.
    #[must_use]
    pub fn compute_crc(&self) -> u16 {
        crc12_behind_nibble(&self.buffer.as_ref()[..COVERED_BYTES])
    }

    /// The CRC that stands in the frame is the right one.
    #[must_use]
    pub fn crc_ok(&self) -> bool {
        self.crc() == self.compute_crc()
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8; FRAME_BYTES] {
        part(self.buffer.as_ref(), 0)
    }

    /// The four bits behind the frame.
    pub(super) fn pad(&self) -> u8 {
        self.buffer.as_ref()[FRAME_BYTES - 1] & 0x0f
    }

    fn flag(&self, group: usize, slot: usize) -> bool {
        let (byte, mask) = flag_place(group, slot);
        self.buffer.as_ref()[byte] & mask != 0
    }

    /// Checks the header.
    pub(super) fn check_header(&self) -> Result<(), Error> {
        check_nibble("header", HEADER_BITS, self.header(), HEADER)
    }

    /// Checks the CRC.
    pub(super) fn check_crc(&self) -> Result<(), Error> {
        let (computed, found) = (self.compute_crc(), self.crc());
        if computed == found {
            return Ok(());
        }
        let fault = Fault::Check {
            computed: u32::from(computed),
            found: u32::from(found),
        };
        Err(Error::new("cbn", "crc", CRC_BITS, fault))
    }

    /// Checks the bits behind the frame.
    pub(super) fn check_pad(&self) -> Result<(), Error> {
        check_nibble("pad", PAD_BITS, self.pad(), 0)
    }
}

fn check_nibble(
    field: &'static str,
    bits: Range<usize>,
    found: u8,
    allowed: u8,
) -> Result<(), Error> {
    if found == allowed {
        return Ok(());
    }
    const { assert!(HEADER == 0) };
    let fault = Fault::Value {
        found: u64::from(found),
        allowed: "0",
    };
    Err(Error::new("cbn", field, bits, fault))
}

/// First byte of a slot.
fn slot_byte(slot: usize) -> usize {
    assert!(slot < SLOTS, "slot {slot} of {SLOTS}");
    SLOT_BYTE + slot * CELL_BYTES
}

/// Byte and mask of a slot's flag in the group that begins at bit `group`.
fn flag_place(group: usize, slot: usize) -> (usize, u8) {
    assert!(slot < SLOTS, "slot {slot} of {SLOTS}");
    let bit = group + slot;
    (bit / 8, 0x80 >> (bit % 8))
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// Writes the first four bits; the upper four of `header` are ignored.
    pub fn set_header(&mut self, header: u8) {
        let byte = &mut self.buffer.as_mut()[0];
        *byte = header << 4 | *byte & 0x0f;
    }

    /// Marks the slot full or empty.
    pub fn set_full(&mut self, slot: usize, value: bool) {
        self.set_flag(FULL, slot, value);
    }

    /// Writes the monitor's mark.
    pub fn set_monitor_passed(&mut self, slot: usize, value: bool) {
        self.set_flag(MONITOR_PASSED, slot, value);
    }

    /// Writes the type bit.
    pub fn set_slot_type(&mut self, slot: usize, value: bool) {
        self.set_flag(SLOT_TYPE, slot, value);
    }

    /// Writes the response bit.
    pub fn set_response(&mut self, slot: usize, value: bool) {
        self.set_flag(RESPONSE, slot, value);
    }

    /// Writes the qualifier.
    pub fn set_qualifier(&mut self, slot: usize, value: bool) {
        self.set_flag(QUALIFIER, slot, value);
    }

    /// Writes all five flags of a slot.
    pub fn set_flags(&mut self, slot: usize, flags: SlotFlags) {
        self.set_full(slot, flags.full);
        self.set_monitor_passed(slot, flags.monitor_passed);
        self.set_slot_type(slot, flags.slot_type);
        self.set_response(slot, flags.response);
        self.set_qualifier(slot, flags.qualifier);
    }

    /// The 36 bytes of a slot, to be written.
    pub fn slot_mut(&mut self, slot: usize) -> &mut [u8; CELL_BYTES] {
        part_mut(self.buffer.as_mut(), slot_byte(slot))
    }

    /// Writes a CRC; the upper four bits of `crc` are ignored, the pad stays.
    pub fn set_crc(&mut self, crc: u16) {
        let pad = u16::from(self.pad());
        let bytes = (crc << 4 | pad).to_be_bytes();
        self.buffer.as_mut()[COVERED_BYTES..FRAME_BYTES].copy_from_slice(&bytes);
    }

    /// Writes the CRC that the frame gives, as every station does with the frame it sends on.
    pub fn fill_crc(&mut self) {
        self.set_crc(self.compute_crc());
    }

    fn set_flag(&mut self, group: usize, slot: usize, value: bool) {
        let (byte, mask) = flag_place(group, slot);
        let byte = &mut self.buffer.as_mut()[byte];
        *byte = if value { *byte | mask } else { *byte & !mask };
    }
}

/// The five bits that a frame keeps for one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SlotFlags {
    /// F: the slot holds a cell.
    pub full: bool,
    /// M: the monitor has seen it full.
    pub monitor_passed: bool,
    /// T: type of the cell.
    pub slot_type: bool,
    /// R: response.
    pub response: bool,
    /// Q: qualifier of the response.
    pub qualifier: bool,
}

/// What a frame says beside the cells in its slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FrameRepr {
    /// The flags, slot by slot.
    pub flags: [SlotFlags; SLOTS],
}

impl FrameRepr {
    /// The flags of a frame whose header, CRC and pad are right.
    ///
    /// # Errors
    ///
    /// The first of `header`, `crc` and `pad` that is wrong.
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Result<Self, Error> {
        frame.check_header()?;
        frame.check_crc()?;
        frame.check_pad()?;
        Ok(Self {
            flags: core::array::from_fn(|slot| frame.flags(slot)),
        })
    }

    /// Bytes that a frame needs.
    #[must_use]
    pub const fn buffer_len() -> usize {
        FRAME_BYTES
    }

    /// Writes header, flags, CRC and pad around the slots, whose bytes are there already.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, frame: &mut Frame<T>) {
        frame.set_header(HEADER);
        for (slot, &flags) in self.flags.iter().enumerate() {
            frame.set_flags(slot, flags);
        }
        frame.buffer.as_mut()[FRAME_BYTES - 1] = 0;
        frame.fill_crc();
    }
}

impl fmt::Display for FrameRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = |flag: fn(&SlotFlags) -> bool| {
            let bits = self.flags.iter().map(flag);
            bits.fold(0, |bits, flag| bits << 1 | u8::from(flag))
        };
        write!(
            f,
            "CBN frame F={:04b} M={:04b} T={:04b} R={:04b} Q={:04b}",
            group(|flags| flags.full),
            group(|flags| flags.monitor_passed),
            group(|flags| flags.slot_type),
            group(|flags| flags.response),
            group(|flags| flags.qualifier),
        )
    }
}
