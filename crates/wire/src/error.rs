//! What is wrong with bytes: which field of which format, where, and why.

use core::fmt;
use core::ops::Range;

/// Why bytes are not what their format demands.
///
/// The bits of the field are counted from the first bit of the buffer that was
/// read, most significant bit of byte 0 first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The format, in the words of `barewire wire decode --as`.
    pub format: &'static str,
    /// The field at fault, as the format's bit table names it.
    pub field: &'static str,
    /// First bit of the field.
    pub first_bit: usize,
    /// Width of the field in bits.
    pub bit_count: usize,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What can be wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The bytes end before the field does.
    Short {
        /// Bytes that the format needs up to here.
        needed_bytes: usize,
        /// Bytes that there are.
        have_bytes: usize,
    },
    /// There are more bytes than the format has.
    Long {
        /// Bytes that the format has at most.
        allowed_bytes: usize,
        /// Bytes that there are.
        have_bytes: usize,
    },
    /// A check code does not match.
    Check {
        /// What the other bits give.
        computed: u32,
        /// What stands in the field.
        found: u32,
    },
    /// The value is not one that the format allows.
    Value {
        /// What stands in the field.
        found: u64,
        /// What may stand there, in words.
        allowed: &'static str,
    },
}

impl Error {
    /// An error about the field that takes `bits` of `format`.
    #[must_use]
    pub const fn new(
        format: &'static str,
        field: &'static str,
        bits: Range<usize>,
        fault: Fault,
    ) -> Self {
        Self {
            format,
            field,
            first_bit: bits.start,
            bit_count: bits.end.saturating_sub(bits.start),
            fault,
        }
    }

    /// The same error, of a buffer that begins `bits` later in a larger one.
    #[must_use]
    pub const fn shifted(self, bits: usize) -> Self {
        Self {
            first_bit: self.first_bit + bits,
            ..self
        }
    }
}

/// Checks that `bytes` holds at least `needed_bytes`, blaming `field` if not.
///
/// # Errors
///
/// [`Fault::Short`], at the first bit that is missing.
pub const fn need(
    format: &'static str,
    field: &'static str,
    bytes: &[u8],
    needed_bytes: usize,
) -> Result<(), Error> {
    if bytes.len() >= needed_bytes {
        return Ok(());
    }
    let fault = Fault::Short {
        needed_bytes,
        have_bytes: bytes.len(),
    };
    Err(Error::new(
        format,
        field,
        bytes.len() * 8..needed_bytes * 8,
        fault,
    ))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (byte, bit) = (self.first_bit / 8, self.first_bit % 8);
        write!(f, "{}: {} at byte {byte}", self.format, self.field)?;
        if bit != 0 || self.bit_count % 8 != 0 {
            write!(f, " bit {bit} ({} bits)", self.bit_count)?;
        }
        write!(f, ": {}", self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Short {
                needed_bytes,
                have_bytes,
            } => write!(f, "{needed_bytes} bytes are needed, there are {have_bytes}"),
            Self::Long {
                allowed_bytes,
                have_bytes,
            } => write!(
                f,
                "{have_bytes} bytes, where at most {allowed_bytes} may stand"
            ),
            Self::Check { computed, found } => {
                write!(f, "check code {found:#x}, the bits give {computed:#x}")
            }
            Self::Value { found, allowed } => write!(f, "{found:#x}, where {allowed} may stand"),
        }
    }
}

impl core::error::Error for Error {}
