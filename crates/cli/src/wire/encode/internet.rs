//! Encoding what the Internet protocols put into AAL5 PDUs.

use std::net::Ipv4Addr;

use barewire_formats::atmarp::{
    ATM_ADDRESS_BYTES_MAX, AtmAddress, Operation, Packet, PacketRepr, Party,
};
use barewire_formats::{aal5, llc};
use barewire_wire::capture::LinkType;
use barewire_wire::checksum;
use clap::{Args, ValueEnum};

use super::common::{Common, Encoded, field};
use crate::wire::error::{Result, WireError};
use crate::wire::input::parse_hex;
use crate::wire::kind::{CHECKSUM_BYTE, Kind, expected_checksum, ipv4_header_bytes};
use crate::wire::store::{RAW_IP, Store};

/// The header in front of an ATMARP packet.
const LLC_ARP: &[u8] = &[0xaa, 0xaa, 0x03, 0, 0, 0, 0x08, 0x06];

/// Options of `encode ip-checksum`.
#[derive(Clone, Debug, Args)]
pub struct ChecksumArgs {
    #[command(flatten)]
    pub(super) common: Common,
}

impl ChecksumArgs {
    pub(super) fn encode(&self) -> Result<Encoded> {
        let mut bytes = self.common.any_payload()?;
        let Some(header_bytes) = ipv4_header_bytes(&bytes) else {
            return append_checksum(bytes);
        };
        let checksum = expected_checksum(&bytes[..header_bytes]).to_be_bytes();
        bytes[CHECKSUM_BYTE..CHECKSUM_BYTE + 2].copy_from_slice(&checksum);
        Ok(Encoded::one(
            Kind::IpChecksum,
            bytes,
            Store::Plain(RAW_IP, &[]),
        ))
    }
}

fn append_checksum(mut bytes: Vec<u8>) -> Result<Encoded> {
    if bytes.len() % 2 != 0 {
        let text = format!(
            "{} bytes: a checksum behind them must begin a word",
            bytes.len()
        );
        return Err(WireError::Unfit(text));
    }
    let checksum = checksum::checksum(&bytes);
    bytes.extend(checksum.to_be_bytes());
    let store = Store::Nowhere("bytes of no protocol");
    Ok(Encoded::one(Kind::IpChecksum, bytes, store))
}

/// Options of `encode llc`.
#[derive(Clone, Debug, Args)]
pub struct LlcArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Protocol of a routed packet
    #[arg(long, value_parser = field::<16>, default_value = "0x0800")]
    ethertype: u32,
    /// A bridged Ethernet frame, without its check sequence
    #[arg(long, conflicts_with_all = ["ethertype", "iso"])]
    bridged: bool,
    /// An ISO PDU, which begins with its NLPID
    #[arg(long, conflicts_with = "ethertype")]
    iso: bool,
}

impl LlcArgs {
    pub(super) fn encode(&self) -> Result<Encoded> {
        let header = match (self.bridged, self.iso) {
            (true, _) => llc::HeaderRepr::BridgedEthernet { fcs: false },
            (_, true) => llc::HeaderRepr::Iso { nlpid: 0 },
            _ => llc::HeaderRepr::Routed((self.ethertype as u16).into()),
        };
        let header_bytes = header.buffer_len();
        let room = aal5::PAYLOAD_BYTES_MAX - header_bytes;
        let payload = self
            .common
            .payload(room, "an AAL5 PDU behind its LLC header")?;
        let mut bytes = vec![0; header_bytes];
        bytes.extend(payload);
        header.emit(&mut llc::Packet::new_unchecked(&mut bytes));
        let store = Store::Plain(LinkType::ATM_RFC1483, &[]);
        Ok(Encoded::one(Kind::Llc, bytes, store))
    }
}

/// What an ATMARP packet asks or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Op {
    /// Who has this IP address?
    Request,
    /// This ATM address has it
    Reply,
    /// Which IP address is at the other end of this circuit?
    InRequest,
    /// This one
    InReply,
    /// The server knows no answer
    Nak,
}

/// An ATM number: NSAP in hex, or E.164 as `e164:` and digits.
#[derive(Clone, Debug)]
enum Number {
    Nsap(Vec<u8>),
    E164(Vec<u8>),
}

fn number(text: &str) -> std::result::Result<Number, String> {
    let number = match text.strip_prefix("e164:") {
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
            Number::E164(digits.as_bytes().to_vec())
        }
        Some(_) => return Err("an E.164 number has digits only".to_owned()),
        None => Number::Nsap(parse_hex(text)?),
    };
    match number.address() {
        Some(_) => Ok(number),
        None => Err(format!(
            "an ATM number has at most {ATM_ADDRESS_BYTES_MAX} bytes"
        )),
    }
}

impl Number {
    fn address(&self) -> Option<AtmAddress<'_>> {
        match self {
            Self::Nsap(bytes) => AtmAddress::nsap(bytes),
            Self::E164(digits) => AtmAddress::e164(digits),
        }
    }
}

/// Options of `encode atmarp`; it carries nothing.
#[derive(Clone, Debug, Args)]
pub struct ArpArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// What it asks or answers
    #[arg(long, value_enum, default_value = "request")]
    op: Op,
    /// IP address of the sender
    #[arg(long, value_name = "IP")]
    sender_ip: Option<Ipv4Addr>,
    /// ATM number of the sender: NSAP in hex, or e164:DIGITS
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    sender_atm: Option<Number>,
    /// IP address of the target
    #[arg(long, value_name = "IP")]
    target_ip: Option<Ipv4Addr>,
    /// ATM number of the target
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    target_atm: Option<Number>,
}

fn party(number: &Option<Number>, ip: Option<Ipv4Addr>) -> Party<'_> {
    let number = number.as_ref().and_then(Number::address);
    Party {
        number: number.unwrap_or(AtmAddress::NONE),
        subaddress: AtmAddress::NONE,
        ip: ip.map(|ip| ip.octets()),
    }
}

impl ArpArgs {
    pub(super) fn encode(&self) -> Result<Encoded> {
        self.common.payload(0, "an ATMARP packet")?;
        let repr = PacketRepr {
            operation: match self.op {
                Op::Request => Operation::Request,
                Op::Reply => Operation::Reply,
                Op::InRequest => Operation::InverseRequest,
                Op::InReply => Operation::InverseReply,
                Op::Nak => Operation::Nak,
            },
            sender: party(&self.sender_atm, self.sender_ip),
            target: party(&self.target_atm, self.target_ip),
        };
        let mut packet = Packet::new_unchecked(vec![0; repr.buffer_len()]);
        repr.emit(&mut packet);
        let store = Store::Plain(LinkType::ATM_RFC1483, LLC_ARP);
        Ok(Encoded::one(Kind::Atmarp, packet.into_inner(), store))
    }
}
