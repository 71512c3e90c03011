//! The byte order of a capture file: that of the machine that wrote it.

/// Which byte of a word comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The least significant one.
    Little,
    /// The most significant one.
    Big,
}

impl ByteOrder {
    /// The order of the machine that this runs on.
    pub const NATIVE: Self = if cfg!(target_endian = "big") {
        Self::Big
    } else {
        Self::Little
    };

    pub(super) fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    pub(super) fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    pub(super) fn put_u16(self, value: u16) -> [u8; 2] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    pub(super) fn put_u32(self, value: u32) -> [u8; 4] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }
}

/// Words of a file, read at places that the caller has checked to be there; beyond the end
/// stands zero.
#[derive(Clone, Copy)]
pub(super) struct Words<'a> {
    pub bytes: &'a [u8],
    pub order: ByteOrder,
}

impl Words<'_> {
    pub fn u16(self, at: usize) -> u16 {
        let word = self.bytes.get(at..).and_then(<[u8]>::first_chunk);
        self.order.u16(word.copied().unwrap_or_default())
    }

    pub fn u32(self, at: usize) -> u32 {
        let word = self.bytes.get(at..).and_then(<[u8]>::first_chunk);
        self.order.u32(word.copied().unwrap_or_default())
    }

    pub fn u64(self, at: usize) -> u64 {
        let (first, second) = (u64::from(self.u32(at)), u64::from(self.u32(at + 4)));
        match self.order {
            ByteOrder::Little => second << 32 | first,
            ByteOrder::Big => first << 32 | second,
        }
    }
}
