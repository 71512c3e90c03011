//! Encoding ATM cells and OAM payloads.

use barewire_formats::atm::oam::{self, OamRepr, OamType, Payload};
use barewire_formats::atm::{HeaderRepr, Interface, PAYLOAD_BYTES, PayloadType, Vc};
use barewire_wire::capture::exported;
use clap::Args;

use super::common::{Common, Encoded, field};
use crate::wire::error::{Result, WireError};
use crate::wire::kind::Kind;
use crate::wire::store::{self, Store};

/// A circuit as `VPI/VCI`.
pub fn vc(text: &str) -> std::result::Result<Vc, String> {
    let parsed = text.split_once('/').and_then(|(vpi, vci)| {
        let (vpi, vci) = (field::<12>(vpi).ok()?, field::<16>(vci).ok()?);
        Some(Vc {
            vpi: vpi as u16,
            vci: vci as u16,
        })
    });
    parsed.ok_or_else(|| "VPI/VCI, of 12 and 16 bits at most, such as 0/42".to_owned())
}

/// Options of `encode atm`.
#[derive(Clone, Debug, Args)]
pub struct CellArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// The circuit, VPI/VCI
    #[arg(long, value_parser = vc, default_value = "0/42")]
    vc: Vc,
    /// Generic flow control
    #[arg(long, value_parser = field::<4>, default_value = "0", conflicts_with = "nni")]
    gfc: u32,
    /// Payload type: 0 user, 1 user and end of an AAL5 PDU, 4 and 5 OAM
    #[arg(long, value_parser = field::<3>, default_value = "0")]
    pt: u32,
    /// May be dropped first
    #[arg(long)]
    clp: bool,
    /// Header of the NNI: 12 bits of VPI, no flow control
    #[arg(long)]
    nni: bool,
}

impl CellArgs {
    pub(super) fn encode(&self) -> Result<Encoded> {
        let payload = self
            .common
            .payload(PAYLOAD_BYTES, "the payload of a cell")?;
        let header = HeaderRepr {
            gfc: self.gfc as u8,
            vc: self.vc,
            payload_type: PayloadType::new(self.pt as u8),
            loss_priority: self.clp,
        };
        let (kind, interface, store) = match self.nni {
            true => (
                Kind::AtmNni,
                Interface::Nni,
                Store::Nowhere("a cell of the NNI"),
            ),
            false => (Kind::Atm, Interface::Uni, Store::Exported(exported::CELL)),
        };
        fits(self.vc, interface)?;
        let cell = store::cell(header, interface, &payload);
        Ok(Encoded::one(kind, cell, store))
    }
}

/// Checks that the header has room for the VPI.
pub fn fits(vc: Vc, interface: Interface) -> Result<()> {
    if interface == Interface::Nni || vc.vpi <= 0xff {
        return Ok(());
    }
    let text = format!(
        "VPI {} does not fit into the 8 bits of a UNI header",
        vc.vpi
    );
    Err(WireError::Unfit(text))
}

/// Options of `encode oam`.
#[derive(Clone, Debug, Args)]
pub struct OamArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// OAM type: 1 fault, 2 performance, 8 activation
    #[arg(long = "type", value_parser = field::<4>, default_value = "1")]
    oam_type: u32,
    /// Function of the type: of fault management 0 AIS, 1 RDI, 4 continuity, 8 loopback
    #[arg(long, value_parser = field::<4>, default_value = "8")]
    function: u32,
    /// The circuit of the cell in the capture, VPI/VCI; the flow is F5, end to end
    #[arg(long, value_parser = vc, default_value = "0/42")]
    vc: Vc,
}

impl OamArgs {
    pub(super) fn encode(&self) -> Result<Encoded> {
        let room = oam::FUNCTION_SPECIFIC_BYTES;
        let given = self.common.payload(room, "the function-specific field")?;
        let mut function_specific = [oam::UNUSED_BYTE; oam::FUNCTION_SPECIFIC_BYTES];
        function_specific[..given.len()].copy_from_slice(&given);
        let repr = OamRepr {
            oam_type: OamType::new(self.oam_type as u8),
            function: self.function as u8,
            function_specific,
        };
        let mut payload = Payload::new_unchecked(vec![0; PAYLOAD_BYTES]);
        repr.emit(&mut payload);
        fits(self.vc, Interface::Uni)?;
        let header = HeaderRepr::user(self.vc, PayloadType::OAM_END_TO_END);
        let store = Store::InCell(exported::CELL, header);
        Ok(Encoded::one(Kind::Oam, payload.into_inner(), store))
    }
}
