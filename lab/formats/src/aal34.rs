//! AAL3/4: the CPCS-PDU, and the 48-byte SAR-PDUs that it is cut into.
//!
//! ```text
//! CPCS-PDU | CPI 8 | Btag 8 | BASize 16 | payload 0..65535 | PAD 0..3
//!          | AL 8 | Etag 8 | Length 16 |                       big-endian
//!
//! SAR-PDU  | ST 2 | SN 4 | MID 10 | payload 44 bytes | LI 6 | CRC-10 10 |  one cell payload
//! ```
//!
//! | ST | segment | LI |
//! |---|---|---|
//! | 10 | BOM, beginning of message | 44 |
//! | 00 | COM, continuation | 44 |
//! | 01 | EOM, end | 4..44; 63 aborts the message |
//! | 11 | SSM, the whole message | 8..44 |
//!
//! SN counts the cells of one MID modulo 16. The CRC-10 covers the 374 bits before it.
//! Etag repeats Btag; BASize is what the receiver should set aside, at least Length.
//! Source: itu-i363-3, CPCS-PDU and SAR-PDU formats; check values: docs/sources/vectors.md.
//! One source gives 9..44 for an SSM; the standard's 8 (no payload) is taken.

mod cpcs;
mod sar;
#[cfg(test)]
mod tests;

pub use crate::crc10::{crc10, crc10_is_good};
pub use cpcs::{
    CPCS_HEADER_BYTES, CPCS_TRAILER_BYTES, CpcsPdu, CpcsRepr, PDU_BYTES_MAX, describe_cpcs,
    pdu_bytes,
};
pub use sar::{
    ABORT_LENGTH, MID_MAX, SEGMENT_BYTES, SEQUENCE_MODULUS, SarPdu, SarRepr, SegmentType, describe,
};

/// Longest payload of a CPCS-PDU.
pub const PAYLOAD_BYTES_MAX: usize = 65_535;
