//! A whole Jetstream frame, data or control; the layout stands in the parent module.

use core::fmt;

use super::{
    AddrType, CONTROL_BYTES, FIELD_ADDR_TYPE, FIELD_CONTROL, FORMAT, HEADER_BYTES, Header,
    HeaderRepr, OVERHEAD_BYTES, PDU_BYTES_MAX, PDU_WORD_BYTES, RID_MASTER,
};
use crate::atm::{self, Interface, Vc};
use barewire_wire::{Error, Fault, need};

pub(super) const CODE_RING_UP: u8 = 1;
pub(super) const CODE_TOKEN: u8 = 2;

/// A whole frame, data or control.
#[derive(Clone, Copy, Debug)]
pub struct Frame<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// A frame that the caller knows to have [`OVERHEAD_BYTES`]; accessors panic if not.
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A frame whose accessors can not panic.
    ///
    /// # Errors
    /// [`Fault::Short`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        need(FORMAT, "headers", buffer.as_ref(), OVERHEAD_BYTES)?;
        Ok(Self { buffer })
    }

    /// The buffer back.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// The first three bytes.
    pub fn header(&self) -> Header<&[u8]> {
        Header::new_unchecked(self.buffer.as_ref())
    }

    /// The B-ISDN header of a data frame, HEC included.
    pub fn cell_header(&self) -> [u8; atm::HEADER_BYTES] {
        let mut header = [0; atm::HEADER_BYTES];
        header.copy_from_slice(&self.buffer.as_ref()[HEADER_BYTES..OVERHEAD_BYTES]);
        header
    }

    /// The PDU of a data frame; for a cell its payload.
    pub fn pdu(&self) -> &[u8] {
        &self.buffer.as_ref()[OVERHEAD_BYTES..]
    }

    /// HOP_COUNT of a RING_UP frame.
    pub fn hop_count(&self) -> u8 {
        self.buffer.as_ref()[HEADER_BYTES]
    }

    /// The two halves of a control frame: what it says, and the complement of that.
    pub(super) fn halves(&self) -> (u32, u32) {
        let word = |at: usize| {
            let bytes = &self.buffer.as_ref()[at..at + 4];
            u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        (word(0), word(4))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// The first three bytes, to change them. A control frame is sealed: emit it anew.
    pub fn header_mut(&mut self) -> Header<&mut [u8]> {
        Header::new_unchecked(self.buffer.as_mut())
    }

    /// The PDU of a data frame, to fill it.
    pub fn pdu_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.as_mut()[OVERHEAD_BYTES..]
    }
}

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An AAL PDU, or a cell, of some VC.
    Data {
        /// The B-ISDN header.
        cell_header: atm::HeaderRepr,
        /// Length of what follows it.
        pdu_bytes: usize,
    },
    /// The master numbers the nodes.
    RingUp {
        /// Nodes that the frame has passed.
        hop_count: u8,
    },
    /// The right to send.
    Token,
}

/// The headers of a [`Frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRepr {
    /// The Jetstream header; `addr_type` is [`AddrType::Control`] for RING_UP and token.
    pub header: HeaderRepr,
    /// What follows it.
    pub kind: Kind,
}

impl FrameRepr {
    /// A control frame from `src_rid`.
    const fn control(src_rid: u8, kind: Kind) -> Self {
        let header = HeaderRepr {
            crc_present: false,
            monitor: false,
            addr_type: AddrType::Control,
            dst_rid: RID_MASTER,
            src_rid,
        };
        Self { header, kind }
    }

    /// A token that `src_rid` releases.
    #[must_use]
    pub const fn token(src_rid: u8) -> Self {
        Self::control(src_rid, Kind::Token)
    }

    /// A RING_UP frame that has passed `hop_count` nodes.
    #[must_use]
    pub const fn ring_up(hop_count: u8) -> Self {
        Self::control(RID_MASTER, Kind::RingUp { hop_count })
    }

    /// A data frame as the host of `src_rid` sends it on `vc`: user bit set.
    #[must_use]
    pub const fn on_vc(src_rid: u8, vc: Vc, pdu_bytes: usize) -> Self {
        let header = HeaderRepr {
            crc_present: true,
            monitor: false,
            addr_type: AddrType::Vc,
            dst_rid: 0,
            src_rid,
        };
        let cell_header = atm::HeaderRepr {
            gfc: 0,
            vc,
            payload_type: atm::PayloadType::USER_END,
            loss_priority: false,
        };
        let kind = Kind::Data {
            cell_header,
            pdu_bytes,
        };
        Self { header, kind }
    }

    /// The headers of `frame`, the whole of it and nothing behind it.
    ///
    /// # Errors
    /// [`Fault::Value`] for a reserved code, a bit that must be zero, a PDU of no or of broken
    /// words, or an AUU of 0 in front of more than a cell; [`Fault::Check`] for the HEC or the
    /// complement of a control frame; [`Fault::Long`].
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Result<Self, Error> {
        let header = HeaderRepr::parse(&frame.header())?;
        let kind = match header.addr_type {
            AddrType::Rid | AddrType::Vc => data_kind(frame)?,
            AddrType::Control => control_kind(frame)?,
            AddrType::Unknown(code) => return Err(reserved_addr_type(code)),
        };
        Ok(Self { header, kind })
    }

    /// Length of the frame.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        match self.kind {
            Kind::Data { pdu_bytes, .. } => OVERHEAD_BYTES.saturating_add(pdu_bytes),
            Kind::RingUp { .. } | Kind::Token => CONTROL_BYTES,
        }
    }

    /// Writes the headers, or the whole control frame; a PDU stays as it is.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, frame: &mut Frame<T>) {
        let mut header = frame.header_mut();
        self.header.emit(&mut header);
        match self.kind {
            Kind::Data { cell_header, .. } => {
                let bytes = cell_header.to_bytes(Interface::Uni);
                frame.buffer.as_mut()[HEADER_BYTES..OVERHEAD_BYTES].copy_from_slice(&bytes);
            }
            Kind::RingUp { hop_count } => seal(frame, CODE_RING_UP, hop_count),
            Kind::Token => seal(frame, CODE_TOKEN, 0),
        }
    }
}

/// Writes the code and the second half of a control frame.
pub(super) fn seal<T: AsRef<[u8]> + AsMut<[u8]>>(frame: &mut Frame<T>, code: u8, hop_count: u8) {
    frame.header_mut().set_control(code);
    frame.buffer.as_mut()[HEADER_BYTES] = hop_count;
    let (said, _) = frame.halves();
    frame.buffer.as_mut()[4..CONTROL_BYTES].copy_from_slice(&(!said).to_be_bytes());
}

pub(super) fn reserved_addr_type(code: u8) -> Error {
    let fault = Fault::Value {
        found: code.into(),
        allowed: "0 (RID), 1 (VC) or 2 (control)",
    };
    Error::new(FORMAT, FIELD_ADDR_TYPE, 2..4, fault)
}

fn data_kind<T: AsRef<[u8]>>(frame: &Frame<T>) -> Result<Kind, Error> {
    let cell_header = atm::HeaderRepr::from_bytes(&frame.cell_header(), Interface::Uni)
        .map_err(|error| error.shifted(HEADER_BYTES * 8))?;
    let pdu_bytes = frame.pdu().len();
    check_pdu_bytes(pdu_bytes)?;
    check_user_bit(cell_header.payload_type, pdu_bytes)?;
    Ok(Kind::Data {
        cell_header,
        pdu_bytes,
    })
}

pub(super) fn check_pdu_bytes(pdu_bytes: usize) -> Result<(), Error> {
    let fault = if pdu_bytes > PDU_BYTES_MAX {
        Fault::Long {
            allowed_bytes: PDU_BYTES_MAX,
            have_bytes: pdu_bytes,
        }
    } else if pdu_bytes == 0 || pdu_bytes % PDU_WORD_BYTES != 0 {
        Fault::Value {
            found: pdu_bytes as u64,
            allowed: "whole words of 4 bytes, one at least,",
        }
    } else {
        return Ok(());
    };
    let bits = OVERHEAD_BYTES * 8..(OVERHEAD_BYTES + pdu_bytes) * 8;
    Err(Error::new(FORMAT, "PDU", bits, fault))
}

/// Only a cell that came from outside may have a user bit of 0.
pub(super) fn check_user_bit(
    payload_type: atm::PayloadType,
    pdu_bytes: usize,
) -> Result<(), Error> {
    let cell = pdu_bytes == atm::PAYLOAD_BYTES;
    if cell || (payload_type.is_user() && payload_type.auu()) {
        return Ok(());
    }
    let fault = Fault::Value {
        found: payload_type.get().into(),
        allowed: "user data with AUU 1",
    };
    // Payload type: bits 28..31 of the B-ISDN header.
    Err(Error::new(FORMAT, "PT", 52..55, fault))
}

pub(super) fn control_kind<T: AsRef<[u8]>>(frame: &Frame<T>) -> Result<Kind, Error> {
    let (said, complement) = frame.halves();
    if complement != !said {
        let fault = Fault::Check {
            computed: !said,
            found: complement,
        };
        return Err(Error::new(FORMAT, "complement", 32..64, fault));
    }
    if frame.pdu().is_empty() {
        return control_code(frame);
    }
    let have_bytes = frame.pdu().len() + CONTROL_BYTES;
    let fault = Fault::Long {
        allowed_bytes: CONTROL_BYTES,
        have_bytes,
    };
    let bits = CONTROL_BYTES * 8..have_bytes * 8;
    Err(Error::new(FORMAT, "control frame", bits, fault))
}

fn control_code<T: AsRef<[u8]>>(frame: &Frame<T>) -> Result<Kind, Error> {
    let hop_count = frame.hop_count();
    match frame.header().control() {
        CODE_RING_UP => Ok(Kind::RingUp { hop_count }),
        CODE_TOKEN if hop_count == 0 => Ok(Kind::Token),
        CODE_TOKEN => {
            let fault = Fault::Value {
                found: hop_count.into(),
                allowed: "zero",
            };
            Err(Error::new(FORMAT, "zero in a token", 24..32, fault))
        }
        code => {
            let fault = Fault::Value {
                found: code.into(),
                allowed: "1 (RING_UP) or 2 (token)",
            };
            Err(Error::new(FORMAT, FIELD_CONTROL, 4..8, fault))
        }
    }
}

impl fmt::Display for FrameRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Data {
                cell_header,
                pdu_bytes,
            } => {
                let Vc { vpi, vci } = cell_header.vc;
                write!(f, "{}, VC {vpi}/{vci}, {pdu_bytes} bytes", self.header)
            }
            Kind::RingUp { hop_count } => write!(f, "RING_UP, {hop_count} hops"),
            Kind::Token => write!(f, "token from {}", self.header.src_rid),
        }
    }
}
