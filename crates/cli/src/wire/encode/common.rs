//! What all that can be built has in common: payload, what to break, and the units.

use clap::Args;

use crate::wire::error::{Result, WireError};
use crate::wire::input::Source;
use crate::wire::kind::Kind;
use crate::wire::store::Store;

/// What all of them take.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// The payload: hex, `@FILE` for a file of hex or raw bytes, `-` for standard input
    #[arg(long, value_name = "BYTES|@FILE|-", value_parser = Source::parse, default_value = "")]
    pub hex: Source,
    /// Treat the file of --hex as raw bytes
    #[arg(long)]
    pub raw: bool,
    /// Flip the last bit of this field, or the bit with this number, after the check codes are
    /// computed; with `N:FIELD`, in the Nth unit
    #[arg(long = "break", value_name = "FIELD")]
    pub breaks: Vec<String>,
    /// Also write a capture for Wireshark
    #[arg(long, value_name = "FILE")]
    pub pcapng: Option<String>,
}

impl Common {
    /// The payload, however long.
    pub fn any_payload(&self) -> Result<Vec<u8>> {
        self.hex.read(self.raw)
    }

    /// The payload, if it fits. Standard input can be read but once.
    pub fn payload(&self, room_bytes: usize, place: &'static str) -> Result<Vec<u8>> {
        let payload = self.any_payload()?;
        let have_bytes = payload.len();
        if have_bytes <= room_bytes {
            return Ok(payload);
        }
        Err(WireError::TooLong {
            have_bytes,
            room_bytes,
            place,
        })
    }
}

/// What was built: one or several units of one format.
pub struct Encoded {
    /// Their format.
    pub kind: Kind,
    /// Each of them.
    pub units: Vec<Vec<u8>>,
    /// How a capture keeps them.
    pub store: Store,
}

impl Encoded {
    /// One unit.
    pub fn one(kind: Kind, unit: Vec<u8>, store: Store) -> Self {
        let units = vec![unit];
        Self { kind, units, store }
    }
}

/// A number of at most `BITS` bits, decimal or `0x`.
pub fn field<const BITS: u32>(text: &str) -> std::result::Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let largest = u32::MAX >> (32 - BITS);
    match parsed {
        Ok(number) if number <= largest => Ok(number),
        _ => Err(format!("a number from 0 to {largest} ({BITS} bits)")),
    }
}
