//! Encoding the PDUs of AAL5 and AAL3/4, whole or in cells.

use barewire_formats::aal5::{self, Pdu, PduRepr};
use barewire_formats::aal34::{self, CpcsPdu, CpcsRepr, SarPdu, SarRepr, SegmentType};
use barewire_formats::atm::{HeaderRepr, Interface, PAYLOAD_BYTES, PayloadType, Vc};
use barewire_wire::capture::{erf, exported};
use clap::{Args, ValueEnum};

use super::atm::{fits, vc};
use super::common::{Common, Encoded, field};
use crate::wire::error::{Result, WireError};
use crate::wire::kind::Kind;
use crate::wire::store::{self, Store};

/// Options of `encode aal5`.
#[derive(Clone, Debug, Args)]
pub struct Aal5Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// User-to-user byte
    #[arg(long, value_parser = field::<8>, default_value = "0")]
    uu: u32,
    /// Common part indicator: 0 in a good PDU
    #[arg(long, value_parser = field::<8>, default_value = "0")]
    cpi: u32,
    /// What Length says, instead of the truth; the CRC-32 is right
    #[arg(long, value_parser = field::<16>)]
    length: Option<u32>,
    /// Cut it into cells
    #[arg(long)]
    cells: bool,
    /// The circuit, VPI/VCI
    #[arg(long, value_parser = vc, default_value = "0/42")]
    vc: Vc,
}

impl Aal5Args {
    pub(super) fn encode(&self) -> Result<Encoded> {
        let payload = self
            .common
            .payload(aal5::PAYLOAD_BYTES_MAX, "an AAL5 PDU")?;
        fits(self.vc, Interface::Uni)?;
        let pdu = pdu(&payload, self.uu as u8, self.cpi as u8, self.length);
        if self.cells {
            let units = cells(self.vc, &pdu);
            let store = Store::Exported(exported::CELL);
            let kind = Kind::Atm;
            return Ok(Encoded { kind, units, store });
        }
        let header = HeaderRepr::user(self.vc, PayloadType::USER_END);
        let store = match pdu.len() {
            0..=store::ERF_BYTES_MAX => Store::Erf(erf::Kind::Aal5, Some(header)),
            _ => Store::InCell(exported::AAL5, header),
        };
        Ok(Encoded::one(Kind::Aal5, pdu, store))
    }
}

/// An AAL5 PDU; with `length` its Length lies, and its CRC-32 covers the lie.
pub fn pdu(payload: &[u8], uu: u8, cpi: u8, length: Option<u32>) -> Vec<u8> {
    let repr = PduRepr {
        uu,
        cpi,
        payload_bytes: payload.len() as u16,
    };
    let mut bytes = vec![0; repr.buffer_len()];
    bytes[..payload.len()].copy_from_slice(payload);
    let mut pdu = Pdu::new_unchecked(bytes);
    repr.emit(&mut pdu);
    if let Some(length) = length {
        pdu.trailer_mut().set_length(length as u16);
        pdu.fill_crc32();
    }
    pdu.into_inner()
}

/// The cells of an AAL5 PDU.
fn cells(vc: Vc, pdu: &[u8]) -> Vec<Vec<u8>> {
    let last = pdu.len() / PAYLOAD_BYTES - 1;
    let chunks = pdu.chunks(PAYLOAD_BYTES).enumerate();
    let cell = |(at, payload): (usize, &[u8])| {
        let payload_type = match at == last {
            true => PayloadType::USER_END,
            false => PayloadType::USER,
        };
        store::cell(HeaderRepr::user(vc, payload_type), Interface::Uni, payload)
    };
    chunks.map(cell).collect()
}

/// Which part of a message a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Segment {
    /// Beginning of message
    Bom,
    /// Continuation
    Com,
    /// End
    Eom,
    /// The whole message
    Ssm,
}

impl Segment {
    const fn segment_type(self) -> SegmentType {
        match self {
            Self::Bom => SegmentType::Bom,
            Self::Com => SegmentType::Com,
            Self::Eom => SegmentType::Eom,
            Self::Ssm => SegmentType::Ssm,
        }
    }
}

/// Options of `encode aal34`.
#[derive(Clone, Debug, Args)]
pub struct SarArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Segment type
    #[arg(long, value_enum, default_value = "ssm")]
    st: Segment,
    /// Sequence number
    #[arg(long, value_parser = field::<4>, default_value = "0")]
    sn: u32,
    /// Multiplexing identifier
    #[arg(long, value_parser = field::<10>, default_value = "0")]
    mid: u32,
    /// What LI says, instead of the truth; the CRC-10 is right
    #[arg(long, value_parser = field::<6>)]
    li: Option<u32>,
    /// The circuit of the cell in the capture, VPI/VCI
    #[arg(long, value_parser = vc, default_value = "0/42")]
    vc: Vc,
}

impl SarArgs {
    pub(super) fn encode(&self) -> Result<Encoded> {
        let segment = self.common.payload(aal34::SEGMENT_BYTES, "a SAR PDU")?;
        fits(self.vc, Interface::Uni)?;
        let repr = SarRepr {
            segment_type: self.st.segment_type(),
            sequence: self.sn as u8,
            mid: self.mid as u16,
            payload_bytes: segment.len() as u8,
        };
        let mut pdu = SarPdu::new_unchecked(sar(repr, &segment));
        if let Some(length) = self.li {
            pdu.set_length(length as u8);
            pdu.fill_crc10();
        } else if let Err(error) = SarRepr::parse(&pdu) {
            return Err(WireError::Unfit(format!(
                "{error}; --li says so on purpose"
            )));
        }
        let store = Store::InCell(
            exported::AAL34,
            HeaderRepr::user(self.vc, PayloadType::USER),
        );
        Ok(Encoded::one(Kind::Aal34, pdu.into_inner(), store))
    }
}

fn sar(repr: SarRepr, segment: &[u8]) -> Vec<u8> {
    let mut pdu = SarPdu::new_unchecked(vec![0; repr.buffer_len()]);
    pdu.segment_mut()[..segment.len()].copy_from_slice(segment);
    repr.emit(&mut pdu);
    pdu.into_inner()
}

/// Options of `encode aal34-cpcs`.
#[derive(Clone, Debug, Args)]
pub struct CpcsArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Btag and Etag
    #[arg(long, value_parser = field::<8>, default_value = "1")]
    tag: u32,
    /// BASize [default: the length]
    #[arg(long, value_parser = field::<16>)]
    basize: Option<u32>,
    /// Cut it into cells
    #[arg(long)]
    cells: bool,
    /// Sequence number of the first cell
    #[arg(long, value_parser = field::<4>, default_value = "0", requires = "cells")]
    sn: u32,
    /// Multiplexing identifier of the cells
    #[arg(long, value_parser = field::<10>, default_value = "0", requires = "cells")]
    mid: u32,
    /// The circuit of the cells, VPI/VCI
    #[arg(long, value_parser = vc, default_value = "0/42", requires = "cells")]
    vc: Vc,
}

impl CpcsArgs {
    pub(super) fn encode(&self) -> Result<Encoded> {
        let payload = self
            .common
            .payload(aal34::PAYLOAD_BYTES_MAX, "a CPCS PDU")?;
        fits(self.vc, Interface::Uni)?;
        let mut repr = CpcsRepr::new(self.tag as u8, payload.len() as u16);
        if let Some(basize) = self.basize {
            repr.buffer_allocation = basize as u16;
        }
        let mut pdu = CpcsPdu::new_unchecked(vec![0; repr.buffer_len()]);
        pdu.body_mut()[..payload.len()].copy_from_slice(&payload);
        repr.emit(&mut pdu);
        let pdu = pdu.into_inner();
        if !self.cells {
            let store = Store::Nowhere("a CPCS PDU of AAL3/4; with --cells its cells");
            return Ok(Encoded::one(Kind::Aal34Cpcs, pdu, store));
        }
        Ok(Encoded {
            kind: Kind::Atm,
            units: self.cut(&pdu),
            store: Store::Exported(exported::AAL34),
        })
    }

    /// The cells of a CPCS PDU.
    fn cut(&self, pdu: &[u8]) -> Vec<Vec<u8>> {
        let last = pdu.len().div_ceil(aal34::SEGMENT_BYTES) - 1;
        let header = HeaderRepr::user(self.vc, PayloadType::USER);
        let segments = pdu.chunks(aal34::SEGMENT_BYTES).enumerate();
        let cell = |(at, segment): (usize, &[u8])| {
            let segment_type = match (at == 0, at == last) {
                (true, true) => SegmentType::Ssm,
                (true, false) => SegmentType::Bom,
                (false, true) => SegmentType::Eom,
                (false, false) => SegmentType::Com,
            };
            let modulus = usize::from(aal34::SEQUENCE_MODULUS);
            let repr = SarRepr {
                segment_type,
                sequence: ((self.sn as usize + at) % modulus) as u8,
                mid: self.mid as u16,
                payload_bytes: segment.len() as u8,
            };
            store::cell(header, Interface::Uni, &sar(repr, segment))
        };
        segments.map(cell).collect()
    }
}
