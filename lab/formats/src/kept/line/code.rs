//! The blocks of 4B5B. Table in [the parent module](super).
//!
//! Source: ansi-x3t9-4b5b, iso9314-2.

/// Blocks of the nibbles 0 to F.
pub(super) const DATA: [u8; 16] = [
    0b11110, 0b01001, 0b10100, 0b10101, 0b01010, 0b01011, 0b01110, 0b01111, 0b10010, 0b10011,
    0b10110, 0b10111, 0b11010, 0b11011, 0b11100, 0b11101,
];

/// What a block of five bits means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// A nibble, 0 to 15.
    Data(u8),
    /// I: 11111.
    Idle,
    /// Q: 00000.
    Quiet,
    /// H: 00100.
    Halt,
    /// J: 11000, first half of a starting delimiter.
    J,
    /// K: 10001, second half of a starting delimiter.
    K,
    /// T: 01101, ending delimiter.
    Terminate,
    /// R: 00111, a reset control indicator.
    Reset,
    /// S: 11001, a set control indicator.
    Set,
    /// A block that the code does not have.
    Illegal(u8),
}

impl Symbol {
    /// The meaning of a block; only the lower five bits count.
    #[must_use]
    pub const fn from_block(block: u8) -> Self {
        SYMBOLS[block as usize & 0x1f]
    }

    /// The block; of a nibble only the lower four bits count.
    #[must_use]
    pub const fn to_block(self) -> u8 {
        match self {
            Self::Data(nibble) => DATA[nibble as usize & 0xf],
            Self::Idle => 0b11111,
            Self::Quiet => 0b00000,
            Self::Halt => 0b00100,
            Self::J => 0b11000,
            Self::K => 0b10001,
            Self::Terminate => 0b01101,
            Self::Reset => 0b00111,
            Self::Set => 0b11001,
            Self::Illegal(block) => block & 0x1f,
        }
    }
}

const SYMBOLS: [Symbol; 32] = {
    let mut symbols = [Symbol::Illegal(0); 32];
    let mut i = 0;
    while i < symbols.len() {
        symbols[i] = Symbol::Illegal(i as u8);
        i += 1;
    }
    let mut nibble = 0;
    while nibble < DATA.len() {
        symbols[DATA[nibble] as usize] = Symbol::Data(nibble as u8);
        nibble += 1;
    }
    let control = [
        Symbol::Idle,
        Symbol::Quiet,
        Symbol::Halt,
        Symbol::J,
        Symbol::K,
        Symbol::Terminate,
        Symbol::Reset,
        Symbol::Set,
    ];
    let mut i = 0;
    while i < control.len() {
        symbols[control[i].to_block() as usize] = control[i];
        i += 1;
    }
    symbols
};
