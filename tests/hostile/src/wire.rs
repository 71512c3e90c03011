//! The control messages, by hand.

/// A message being put together.
#[derive(Clone, Debug, Default)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    /// Begins a message of this type.
    #[must_use]
    pub fn of(kind: u8) -> Bytes {
        Bytes(vec![kind])
    }
    /// Adds a byte.
    #[must_use]
    pub fn u8(mut self, value: u8) -> Bytes {
        self.0.push(value);
        self
    }
    /// Adds a word of 4 bytes.
    #[must_use]
    pub fn u32(mut self, value: u32) -> Bytes {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    /// Adds a word of 8 bytes.
    #[must_use]
    pub fn u64(mut self, value: u64) -> Bytes {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    /// Adds bytes with their length in front.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Bytes {
        self.0
            .extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        self.0.extend_from_slice(bytes);
        self
    }
    /// Adds a region.
    #[must_use]
    pub fn region(self, (segment, offset, ring_bytes): Region) -> Bytes {
        self.u32(segment).u64(offset).u32(ring_bytes)
    }
}

/// Segment, offset, bytes of the ring.
pub type Region = (u32, u64, u32);

/// The version of the protocol that is spoken here.
pub const VERSION: u32 = 5;

/// `Hello`.
#[must_use]
pub fn hello(version: u32, node: [u64; 2], flags: u32, source: u32) -> Vec<u8> {
    let b = Bytes::of(1).u32(version).u64(node[0]).u64(node[1]);
    b.u32(flags).u32(source).0
}

/// `Segment`.
#[must_use]
pub fn segment(number: u32, len: u64) -> Vec<u8> {
    Bytes::of(2).u32(number).u64(len).0
}

/// `Open`.
#[must_use]
pub fn open(
    connection: u32,
    region: Region,
    source: u32,
    max: u64,
    name: &[u8],
    data: &[u8],
) -> Vec<u8> {
    let b = Bytes::of(3).u32(connection).region(region);
    b.u32(source).u64(max).bytes(name).bytes(data).0
}

/// `Accept`.
#[must_use]
pub fn accept(connection: u32, own: u32, region: Region, source: u32, max: u64) -> Vec<u8> {
    let b = Bytes::of(4).u32(connection).u32(own).region(region);
    b.u32(source).u64(max).0
}

/// `Reject`.
#[must_use]
pub fn reject(connection: u32, code: u8, reason: &[u8]) -> Vec<u8> {
    Bytes::of(5).u32(connection).u8(code).bytes(reason).0
}

/// `Detach`, `Abandon`, `Release`, `Revoke`: a type and a number.
#[must_use]
pub fn numbered(kind: u8, number: u32) -> Vec<u8> {
    Bytes::of(kind).u32(number).0
}

/// `Detach`.
pub const DETACH: u8 = 6;
/// `Abandon`.
pub const ABANDON: u8 = 7;
/// `Release`.
pub const RELEASE: u8 = 9;
/// `Revoke`.
pub const REVOKE: u8 = 10;

/// `Grant`.
#[must_use]
pub fn grant(
    connection: u32,
    aperture: u32,
    cookie: u64,
    len: u64,
    tripwires: u32,
    rights: u8,
    on_owner: u32,
) -> Vec<u8> {
    let b = Bytes::of(8).u32(connection).u32(aperture).u64(cookie);
    b.u64(len).u32(tripwires).u8(rights).u32(on_owner).0
}

/// `OutOfBand`.
#[must_use]
pub fn out_of_band(connection: u32, data: &[u8]) -> Vec<u8> {
    Bytes::of(11).u32(connection).bytes(data).0
}

/// `Bye`.
#[must_use]
pub fn bye() -> Vec<u8> {
    vec![12]
}

/// `Wake`.
#[must_use]
pub fn wake() -> Vec<u8> {
    vec![13]
}

/// What the victim says, as far as an attacker cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Who it is.
    Hello {
        /// Its node id.
        node: [u64; 2],
        /// Bit that stands for the link.
        source: u32,
    },
    /// A segment of its arena.
    Segment {
        /// Bytes.
        len: u64,
    },
    /// It calls us.
    Open {
        /// Its number.
        connection: u32,
        /// Where it reads.
        region: Region,
        /// Its bit.
        source: u32,
    },
    /// It accepts.
    Accept {
        /// Our number.
        connection: u32,
        /// Its number.
        own: u32,
        /// Where it reads.
        region: Region,
        /// Its bit.
        source: u32,
    },
    /// It rejects.
    Reject {
        /// Our number.
        connection: u32,
    },
    /// It has let go of a connection.
    Detach {
        /// Our number.
        connection: u32,
    },
    /// An aperture.
    Grant {
        /// Its number.
        aperture: u32,
        /// Bytes.
        len: u64,
        /// Slots.
        tripwires: u32,
        /// Whether we may store.
        writable: bool,
        /// Slots for tripwires of ours on the owner's stores.
        on_owner: u32,
    },
    /// Anything else.
    Other,
}

/// Takes a message of the victim's apart. The victim is trusted.
#[must_use]
pub fn parse(m: &[u8]) -> Heard {
    let u32_at = |at: usize| {
        let word = m.get(at..at + 4).and_then(|b| b.try_into().ok());
        u32::from_le_bytes(word.unwrap_or_default())
    };
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    let region = |at: usize| (u32_at(at), u64_at(at + 4), u32_at(at + 12));
    match m.first() {
        Some(1) => Heard::Hello {
            node: [u64_at(5), u64_at(13)],
            source: u32_at(25),
        },
        Some(2) => Heard::Segment { len: u64_at(5) },
        Some(3) => Heard::Open {
            connection: u32_at(1),
            region: region(5),
            source: u32_at(21),
        },
        Some(4) => Heard::Accept {
            connection: u32_at(1),
            own: u32_at(5),
            region: region(9),
            source: u32_at(25),
        },
        Some(5) => Heard::Reject {
            connection: u32_at(1),
        },
        Some(6) => Heard::Detach {
            connection: u32_at(1),
        },
        Some(8) => Heard::Grant {
            aperture: u32_at(5),
            len: u64_at(17),
            tripwires: u32_at(25),
            writable: m.get(29) == Some(&1),
            on_owner: u32_at(30),
        },
        _ => Heard::Other,
    }
}
