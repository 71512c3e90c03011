//! `barewire wire encode`: builds a cell, a PDU or a frame, with check codes that are right,
//! and then breaks what it is told to break.

mod aal;
mod atm;
mod backbone;
mod common;
mod internet;
mod jetstream;
mod signalling;
mod sonet;

pub use self::atm::vc;

use barewire_report::columns::print;
use clap::{Args, Subcommand};

use super::error::{Result, Verdict, WireError};
use super::kind::Kind;
use super::show::{Node, Tree, hex};
use super::store;
use common::Encoded;

/// Build a cell, a PDU or a frame
#[derive(Clone, Debug, Args)]
pub struct EncodeArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// An ATM cell
    Atm(atm::CellArgs),
    /// The payload of an OAM cell
    Oam(atm::OamArgs),
    /// An AAL5 PDU, or its cells
    Aal5(aal::Aal5Args),
    /// A SAR PDU of AAL3/4
    Aal34(aal::SarArgs),
    /// A CPCS PDU of AAL3/4, or its cells
    Aal34Cpcs(aal::CpcsArgs),
    /// A frame of the Cambridge Backbone
    Cbn(backbone::FrameArgs),
    /// The levels that frames of the Cambridge Backbone leave on a line
    Line(backbone::LineArgs),
    /// A cell of the Cambridge Backbone
    CbnCell(backbone::CellArgs),
    /// The cells of an MSDL block
    Msdl(backbone::MsdlArgs),
    /// An MSNL signalling message
    Msnl(signalling::MessageArgs),
    /// A Jetstream frame: data, token or RING_UP
    Jetstream(jetstream::FrameArgs),
    /// SONET frames that carry ATM cells
    Sonet(sonet::FrameArgs),
    /// An LLC/SNAP header and what follows it
    Llc(internet::LlcArgs),
    /// An ATMARP or InATMARP packet
    Atmarp(internet::ArpArgs),
    /// An IPv4 header with its checksum, or any bytes with theirs behind them
    IpChecksum(internet::ChecksumArgs),
}

/// Encodes and prints: one line of hex for each unit.
pub fn run(args: &EncodeArgs) -> Result<Verdict> {
    let (common, mut encoded) = match &args.what {
        What::Atm(args) => (&args.common, args.encode()?),
        What::Oam(args) => (&args.common, args.encode()?),
        What::Aal5(args) => (&args.common, args.encode()?),
        What::Aal34(args) => (&args.common, args.encode()?),
        What::Aal34Cpcs(args) => (&args.common, args.encode()?),
        What::Cbn(args) => (&args.common, args.encode()?),
        What::Line(args) => (&args.common, args.encode()?),
        What::CbnCell(args) => (&args.common, args.encode()?),
        What::Msdl(args) => (&args.common, args.encode()?),
        What::Msnl(args) => (&args.common, args.encode()?),
        What::Sonet(args) => (&args.common, args.encode()?),
        What::Jetstream(args) => (&args.common, args.encode()?),
        What::Llc(args) => (&args.common, args.encode()?),
        What::Atmarp(args) => (&args.common, args.encode()?),
        What::IpChecksum(args) => (&args.common, args.encode()?),
    };
    for field in &common.breaks {
        plant(&mut encoded, field)?;
    }
    if let Some(path) = &common.pcapng {
        store::write(path, encoded.store, &encoded.units)?;
    }
    let lines: Vec<String> = encoded.units.iter().map(|unit| hex(unit) + "\n").collect();
    print(&lines.concat())?;
    Ok(Verdict::Sound)
}

/// Flips one bit of what was built.
fn plant(encoded: &mut Encoded, what: &str) -> Result<()> {
    let numbered = what.split_once(':');
    let numbered = numbered.and_then(|(number, field)| Some((number.parse().ok()?, field)));
    let (number, field): (usize, &str) = numbered.unwrap_or((1, what));
    let count = encoded.units.len();
    let Some(unit) = number
        .checked_sub(1)
        .and_then(|at| encoded.units.get_mut(at))
    else {
        let text = format!("--break {what}: there are {count} units, counted from 1");
        return Err(WireError::Unfit(text));
    };
    let bit = place_of(encoded.kind, unit, field)?;
    unit[bit / 8] ^= 0x80 >> (bit % 8);
    Ok(())
}

/// The bit to flip: a number, or the last bit of a field.
fn place_of(kind: Kind, unit: &[u8], field: &str) -> Result<usize> {
    let mut tree = Tree::default();
    kind.describe(unit, 0, &mut tree);
    let fields: Vec<_> = tree.fields().filter(|node| !node.bits.is_empty()).collect();
    let named = |node: &&&Node| node.name.eq_ignore_ascii_case(field);
    let bit = match field.parse::<usize>() {
        Ok(bit) => Some(bit),
        Err(_) => fields.iter().find(named).map(|node| node.bits.end - 1),
    };
    bit.filter(|bit| bit / 8 < unit.len()).ok_or_else(|| {
        let mut names: Vec<&str> = fields.iter().map(|node| &node.name[..]).collect();
        names.sort_unstable();
        names.dedup();
        let bits = format!("bits 0 to {}", (unit.len() * 8).saturating_sub(1));
        WireError::NoField(field.to_owned(), format!("{}, {bits}", names.join(", ")))
    })
}
