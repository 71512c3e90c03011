//! The names of disciplines, classes and filter rules.

use core::fmt;

/// The name of a discipline (`10:`, minor 0) or of a class (`10:1`), in hex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    /// The discipline.
    pub major: u16,
    /// The class in it; 0 is the discipline itself.
    pub minor: u16,
}

impl Handle {
    /// The handle `major:minor`.
    #[must_use]
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// The discipline that the class belongs to.
    #[must_use]
    pub const fn qdisc(self) -> Self {
        Self::new(self.major, 0)
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.minor {
            0 => write!(f, "{:x}:", self.major),
            minor => write!(f, "{:x}:{minor:x}", self.major),
        }
    }
}

/// The name of a rule: table, bucket in it, node in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeHandle {
    /// Table, 12 bits.
    pub table: u16,
    /// Bucket.
    pub bucket: u8,
    /// Node, 12 bits.
    pub node: u16,
}

impl NodeHandle {
    /// As one word.
    #[must_use]
    pub const fn to_word(self) -> u32 {
        (self.table as u32) << 20 | (self.bucket as u32) << 12 | (self.node as u32 & 0xfff)
    }

    /// From one word.
    #[must_use]
    pub const fn from_word(word: u32) -> Self {
        Self {
            table: (word >> 20) as u16,
            bucket: (word >> 12) as u8,
            node: word as u16 & 0xfff,
        }
    }
}

impl fmt::Display for NodeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}:{:x}:{:x}", self.table, self.bucket, self.node)
    }
}
