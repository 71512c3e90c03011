//! Encoding Jetstream frames.

use barewire_formats::aal5;
use barewire_formats::atm::{HeaderRepr as CellHeader, Interface, PayloadType, Vc};
use barewire_formats::jetstream::{AddrType, Frame, FrameRepr, HeaderRepr, Kind as FrameKind};
use barewire_formats::jetstream::{PDU_BYTES_MAX, PDU_WORD_BYTES};
use barewire_wire::capture::exported;
use clap::Args;

use super::aal;
use super::atm::{fits, vc};
use super::common::{Common, Encoded, field};
use crate::wire::error::{Result, WireError};
use crate::wire::kind::Kind;
use crate::wire::store::Store;

/// Options of `encode jetstream`.
#[derive(Clone, Debug, Args)]
pub struct FrameArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// A token
    #[arg(long, conflicts_with_all = ["ring_up", "dst", "vc", "bare"])]
    token: bool,
    /// A RING_UP frame of the master that has passed so many nodes
    #[arg(long, value_name = "HOPS", value_parser = field::<8>,
        conflicts_with_all = ["src", "dst", "vc", "bare"])]
    ring_up: Option<u32>,
    /// The sender
    #[arg(long, value_name = "RID", value_parser = field::<4>, default_value = "1")]
    src: u32,
    /// The receiver, by its ring identifier [default: by the circuit]
    #[arg(long, value_name = "RID", value_parser = field::<4>)]
    dst: Option<u32>,
    /// The circuit, VPI/VCI
    #[arg(long, value_parser = vc, default_value = "0/42")]
    vc: Vc,
    /// The master has seen it
    #[arg(long)]
    monitor: bool,
    /// --hex is the PDU itself, not what an AAL5 PDU is made around
    #[arg(long)]
    bare: bool,
}

impl FrameArgs {
    pub(super) fn encode(&self) -> Result<Encoded> {
        let pdu = self.pdu()?;
        let mut repr = self.repr(pdu.len());
        repr.header.monitor = self.monitor;
        let mut bytes = vec![0; repr.buffer_len()];
        let pdu_at = bytes.len().saturating_sub(pdu.len());
        bytes[pdu_at..].copy_from_slice(&pdu);
        let mut frame = Frame::new_unchecked(bytes);
        repr.emit(&mut frame);
        let store = Store::Exported(exported::JETSTREAM);
        Ok(Encoded::one(Kind::Jetstream, frame.into_inner(), store))
    }

    fn repr(&self, pdu_bytes: usize) -> FrameRepr {
        match self.ring_up {
            Some(hops) => return FrameRepr::ring_up(hops as u8),
            None if self.token => return FrameRepr::token(self.src as u8),
            None => {}
        }
        let addr_type = match self.dst {
            Some(_) => AddrType::Rid,
            None => AddrType::Vc,
        };
        FrameRepr {
            header: HeaderRepr {
                crc_present: !self.bare,
                monitor: false,
                addr_type,
                dst_rid: self.dst.unwrap_or(0) as u8,
                src_rid: self.src as u8,
            },
            kind: FrameKind::Data {
                cell_header: CellHeader::user(self.vc, PayloadType::USER_END),
                pdu_bytes,
            },
        }
    }

    /// What stands behind the headers: nothing in a control frame.
    fn pdu(&self) -> Result<Vec<u8>> {
        fits(self.vc, Interface::Uni)?;
        if self.token || self.ring_up.is_some() {
            return self.common.payload(0, "a control frame");
        }
        if !self.bare {
            let payload = self
                .common
                .payload(aal5::PAYLOAD_BYTES_MAX, "an AAL5 PDU")?;
            return Ok(aal::pdu(&payload, 0, 0, None));
        }
        let pdu = self.common.payload(PDU_BYTES_MAX, "a Jetstream frame")?;
        if pdu.is_empty() || pdu.len() % PDU_WORD_BYTES != 0 {
            let text = format!("a PDU of {} bytes; it must be whole words of 4", pdu.len());
            return Err(WireError::Unfit(text));
        }
        Ok(pdu)
    }
}
