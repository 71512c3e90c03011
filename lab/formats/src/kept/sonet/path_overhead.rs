//! The path overhead: the first column of the SPE, one byte in each of its nine rows.
//!
//! ```text
//! | byte | name | bits                                                            |
//! | 0    | J1   | 8 path trace; where the SPE begins                              |
//! | 1    | B3   | 8 BIP-8 of the SPE before                                       |
//! | 2    | C2   | 8 signal label: 13 ATM cells                                    |
//! | 3    | G1   | 4 REI: B3 errors that the other end saw, 0..8; 1 RDI; 3 unused  |
//! | 4    | F2   | 8 user channel                                                  |
//! | 5    | H4   | 8 multiframe; unused with cells                                 |
//! | 6..8 | Z3 Z4 Z5 | 8 each: for growth                                          |
//! ```
//! The nine bytes stand one behind another here; in the SPE a row lies between them.
//!
//! Source: itu-g707 (path overhead), itu-i432 (G1 and C2 for ATM).

use core::fmt;

use super::{FORMAT, LABEL_ATM, ROWS};
use barewire_wire::{Error, Fault, need};

/// Bytes of the path overhead.
pub const PATH_OVERHEAD_BYTES: usize = ROWS;
/// Names of its bytes, row by row.
pub(super) const NAMES: [&str; PATH_OVERHEAD_BYTES] =
    ["J1", "B3", "C2", "G1", "F2", "H4", "Z3", "Z4", "Z5"];

/// Row of J1.
pub(super) const J1: usize = 0;
/// Row of B3.
pub(super) const B3: usize = 1;
/// Row of C2.
const C2: usize = 2;
/// Row of G1.
pub(super) const G1: usize = 3;

/// The RDI bit of G1.
const G1_RDI: u8 = 0x08;
/// Most B3 errors that there can be in an SPE: more in G1 is noise, and counts as none.
pub(super) const B3_ERRORS_MAX: u8 = 8;

/// G1 that reports so many B3 errors, at most 8, and a defect or none.
#[must_use]
pub const fn path_status(b3_errors: u8, defect: bool) -> u8 {
    let errors = if b3_errors > B3_ERRORS_MAX {
        B3_ERRORS_MAX
    } else {
        b3_errors
    };
    errors << 4 | if defect { G1_RDI } else { 0 }
}

/// A view of the bytes of the path overhead, J1 to Z5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathOverhead<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> PathOverhead<T> {
    /// A view of `buffer`. Accessors panic if it is shorter than nine bytes.
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// A view of `buffer`, whose accessors do not panic.
    ///
    /// # Errors
    ///
    /// [`Fault::Short`] if it is shorter than nine bytes.
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        need(
            FORMAT,
            "path overhead",
            buffer.as_ref(),
            PATH_OVERHEAD_BYTES,
        )?;
        Ok(Self { buffer })
    }

    /// The buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    /// The byte in this row of the SPE, 0 to 8.
    #[must_use]
    pub fn byte(&self, row: usize) -> u8 {
        self.buffer.as_ref()[row]
    }

    /// Signal label.
    #[must_use]
    pub fn c2(&self) -> u8 {
        self.byte(C2)
    }

    /// B3 errors that the other end reports in G1, 0 to 8.
    #[must_use]
    pub fn far_b3_errors(&self) -> u8 {
        let reported = self.byte(G1) >> 4;
        if reported > B3_ERRORS_MAX {
            0
        } else {
            reported
        }
    }

    /// The other end reports a defect in G1.
    #[must_use]
    pub fn far_defect(&self) -> bool {
        self.byte(G1) & G1_RDI != 0
    }

    /// Checks that C2 says ATM.
    pub(super) fn check_label(&self) -> Result<(), Error> {
        if self.c2() == LABEL_ATM {
            return Ok(());
        }
        let found = self.c2().into();
        let allowed = "13 (ATM)";
        let fault = Fault::Value { found, allowed };
        Err(Error::new(FORMAT, "C2", C2 * 8..C2 * 8 + 8, fault))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> PathOverhead<T> {
    /// Replaces the byte in this row of the SPE, 0 to 8.
    pub fn set_byte(&mut self, row: usize, value: u8) {
        self.buffer.as_mut()[row] = value;
    }
}

/// What the path overhead says, byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathOverheadRepr {
    /// Path trace.
    pub j1: u8,
    /// BIP-8 of the SPE before.
    pub b3: u8,
    /// Signal label.
    pub c2: u8,
    /// Status of the other end: [`path_status`] makes it.
    pub g1: u8,
    /// User channel.
    pub f2: u8,
    /// Multiframe.
    pub h4: u8,
    /// For growth.
    pub z3: u8,
    /// For growth.
    pub z4: u8,
    /// For growth.
    pub z5: u8,
}

impl PathOverheadRepr {
    /// That of an SPE with cells; all else is zero.
    pub const ATM: Self = Self {
        j1: 0,
        b3: 0,
        c2: LABEL_ATM,
        g1: 0,
        f2: 0,
        h4: 0,
        z3: 0,
        z4: 0,
        z5: 0,
    };

    /// Takes the path overhead out of its bytes.
    ///
    /// # Errors
    ///
    /// [`Fault::Value`] on `C2` if the SPE does not carry cells.
    pub fn parse<T: AsRef<[u8]>>(overhead: &PathOverhead<T>) -> Result<Self, Error> {
        overhead.check_label()?;
        let [j1, b3, c2, g1, f2, h4, z3, z4, z5] = core::array::from_fn(|row| overhead.byte(row));
        Ok(Self {
            j1,
            b3,
            c2,
            g1,
            f2,
            h4,
            z3,
            z4,
            z5,
        })
    }

    /// Bytes of the path overhead.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        PATH_OVERHEAD_BYTES
    }

    /// The nine bytes.
    #[must_use]
    pub const fn to_bytes(&self) -> [u8; PATH_OVERHEAD_BYTES] {
        [
            self.j1, self.b3, self.c2, self.g1, self.f2, self.h4, self.z3, self.z4, self.z5,
        ]
    }

    /// Writes the nine bytes.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, overhead: &mut PathOverhead<T>) {
        overhead.buffer.as_mut()[..PATH_OVERHEAD_BYTES].copy_from_slice(&self.to_bytes());
    }
}

impl fmt::Display for PathOverheadRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let overhead = PathOverhead::new_unchecked(self.to_bytes());
        write!(f, "SONET path label {:#04x}", self.c2)?;
        match overhead.far_b3_errors() {
            0 => {}
            errors => write!(f, ", REI {errors}")?,
        }
        match overhead.far_defect() {
            true => f.write_str(", path RDI"),
            false => Ok(()),
        }
    }
}
