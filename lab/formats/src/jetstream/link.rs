//! The serial link under Jetstream: 16 bits of data and 4 bits of code per word,
//! as the G-link chips send them, and the out-of-band words FW0 and FW1.
//!
//! ```text
//! | bits 19..4 D-field | 3..0 C-field |   bit 19 first on the line
//!
//! | C-field, true / inverted | D-field                                       |
//! |--------------------------|-----------------------------------------------|
//! | 1101 / 0010              | data word, flag 0                             |
//! | 1011 / 0100              | data word, flag 1                             |
//! | 0011 / 1100              | control: bits 8, 7 of D are 01, 14 bits left  |
//! | 0011                     | fill: 1111111 xx 0000000                      |
//! |                          |   xx = 10 FW0; xx = 11 or 00 FW1              |
//! ```
//!
//! Inverted means that all 20 bits are: the sender inverts a word that would move
//! the running disparity (ones less zeros so far) further from zero, and of the two
//! forms of FW1 it takes the one that moves it back. Every C-field has an edge between
//! its two middle bits, the master transition, on which the receiver locks.
//!
//! Source: hp-glink; that FW0 and FW1 are two fill frames is our model of jet93.
//! A Jetstream frame is a run of data words between fills (open: ours).

use barewire_wire::{Error, Fault};

const FORMAT: &str = "glink";
const FIELD_CODE: &str = "C-field";

/// Bits of a word on the line.
pub const WORD_BITS: u32 = 20;
/// Bits of a control word that are free.
pub const CONTROL_BITS: u32 = 14;
/// Words a second.
pub const WORD_HZ: u64 = 60_000_000;

const WORD_MASK: u32 = (1 << WORD_BITS) - 1;
const CODE_DATA: u32 = 0b1101;
const CODE_DATA_FLAG: u32 = 0b1011;
const CODE_CONTROL: u32 = 0b0011;
const MIDDLE_CONTROL: u16 = 0b01;
const FILL_0: u16 = 0b1111_1111_0000_0000;
const FILL_1_HEAVY: u16 = 0b1111_1111_1000_0000;
const FILL_1_LIGHT: u16 = 0b1111_1110_0000_0000;

/// The two out-of-band words that initialise a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// The link is not yet known to be good.
    Fw0,
    /// FW0 or FW1 has come round.
    Fw1,
}

/// What one word of the link says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbol {
    /// 16 bits of a frame.
    Data {
        /// The bits.
        word: u16,
        /// The bit beside them, free for the user of the link.
        flag: bool,
    },
    /// 14 bits out of band.
    Control(u16),
    /// No frame.
    Fill(Fill),
}

/// Sends words, and keeps the line balanced.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    disparity: i32,
}

impl Encoder {
    /// A line that is balanced so far.
    #[must_use]
    pub const fn new() -> Self {
        Self { disparity: 0 }
    }

    /// Ones less zeros sent so far; stays within ±20.
    #[must_use]
    pub const fn disparity(&self) -> i32 {
        self.disparity
    }

    /// The 20 bits for `symbol`. Of a control word 14 bits count.
    pub fn encode(&mut self, symbol: Symbol) -> u32 {
        let bits = match symbol {
            Symbol::Data { word, flag: false } => self.balanced(join(word, CODE_DATA)),
            Symbol::Data { word, flag: true } => self.balanced(join(word, CODE_DATA_FLAG)),
            Symbol::Control(bits) => self.balanced(join(spread(bits), CODE_CONTROL)),
            Symbol::Fill(Fill::Fw0) => join(FILL_0, CODE_CONTROL),
            Symbol::Fill(Fill::Fw1) if self.disparity > 0 => join(FILL_1_LIGHT, CODE_CONTROL),
            Symbol::Fill(Fill::Fw1) => join(FILL_1_HEAVY, CODE_CONTROL),
        };
        self.disparity += disparity_of(bits);
        bits
    }

    /// The word, or its inverse where that is nearer to balance.
    fn balanced(&self, bits: u32) -> u32 {
        if disparity_of(bits) * self.disparity > 0 {
            !bits & WORD_MASK
        } else {
            bits
        }
    }
}

/// What the 20 bits in `bits` say.
///
/// # Errors
/// [`Fault::Value`] for a C-field that is none, for a fill frame that is none of the three, and
/// for bits above the twentieth.
pub fn decode(bits: u32) -> Result<Symbol, Error> {
    if bits > WORD_MASK {
        return Err(fault("word", 0..20, bits.into(), "20 bits"));
    }
    let (data, code) = ((bits >> 4) as u16, bits & 0xf);
    let word = |word, flag| Ok(Symbol::Data { word, flag });
    match code {
        CODE_DATA => word(data, false),
        CODE_DATA_FLAG => word(data, true),
        0b0010 => word(!data, false),
        0b0100 => word(!data, true),
        CODE_CONTROL => control_or_fill(data),
        0b1100 => control(!data),
        _ => Err(fault(FIELD_CODE, 16..20, code.into(), "one of six codes")),
    }
}

fn control_or_fill(data: u16) -> Result<Symbol, Error> {
    match data {
        FILL_0 => Ok(Symbol::Fill(Fill::Fw0)),
        FILL_1_HEAVY | FILL_1_LIGHT => Ok(Symbol::Fill(Fill::Fw1)),
        _ => control(data),
    }
}

fn control(data: u16) -> Result<Symbol, Error> {
    if (data >> 7) & 0b11 == MIDDLE_CONTROL {
        return Ok(Symbol::Control(((data >> 9) << 7) | (data & 0x7f)));
    }
    let allowed = "a control word or one of the three fill frames";
    Err(fault("D-field", 0..16, data.into(), allowed))
}

/// 14 bits around the middle that marks a control word.
const fn spread(bits: u16) -> u16 {
    ((bits >> 7) & 0x7f) << 9 | MIDDLE_CONTROL << 7 | (bits & 0x7f)
}

const fn join(data: u16, code: u32) -> u32 {
    (data as u32) << 4 | code
}

/// Ones less zeros of a word.
const fn disparity_of(bits: u32) -> i32 {
    2 * bits.count_ones() as i32 - WORD_BITS as i32
}

fn fault(
    field: &'static str,
    bits: core::ops::Range<usize>,
    found: u64,
    allowed: &'static str,
) -> Error {
    Error::new(FORMAT, field, bits, Fault::Value { found, allowed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_units::Rng;

    fn all_symbols() -> impl Iterator<Item = Symbol> {
        let words =
            (0..=u16::MAX).flat_map(|word| [false, true].map(|flag| Symbol::Data { word, flag }));
        let controls = (0..1 << CONTROL_BITS).map(Symbol::Control);
        let fills = [Fill::Fw0, Fill::Fw1].map(Symbol::Fill);
        words.chain(controls).chain(fills)
    }

    #[test]
    fn every_symbol_comes_back_from_either_form() {
        for disparity in [-2, 2] {
            for symbol in all_symbols() {
                let bits = Encoder { disparity }.encode(symbol);
                assert_eq!(decode(bits), Ok(symbol), "{bits:020b}");
            }
        }
    }

    #[test]
    fn codes_are_those_of_the_data_sheet() {
        let mut encoder = Encoder::new();
        let word = Symbol::Data {
            word: 0xffff,
            flag: false,
        };
        assert_eq!(encoder.encode(word), 0xffffd);
        assert_eq!(encoder.encode(word), 0x00002);
        let word = Symbol::Data {
            word: 0,
            flag: true,
        };
        assert_eq!(Encoder::new().encode(word), 0x0000b);
        assert_eq!(Encoder { disparity: -1 }.encode(word), 0xffff4);
        assert_eq!(Encoder::new().encode(Symbol::Control(0)), 0x00803);
        let light = Encoder { disparity: -1 }.encode(Symbol::Control(0));
        assert_eq!(light, 0xff7fc);
        let fill = |disparity, fill| Encoder { disparity }.encode(Symbol::Fill(fill));
        assert_eq!(fill(0, Fill::Fw0), 0xff003);
        assert_eq!(fill(0, Fill::Fw1), 0xff803);
        assert_eq!(fill(1, Fill::Fw1), 0xfe003);
    }

    /// Of all 2²⁰ words each that decodes has the master transition, and no two symbols
    /// share a word.
    #[test]
    fn every_valid_word_has_a_master_transition() {
        let mut valid = 0;
        for bits in 0..=WORD_MASK {
            if decode(bits).is_ok() {
                valid += 1;
                assert_ne!((bits >> 2) & 1, (bits >> 1) & 1, "{bits:020b}");
            }
        }
        // Four codes of data, two of control words, three fill frames.
        assert_eq!(valid, 4 * 65_536 + 2 * 16_384 + 3);
        assert!(decode(1 << 20).is_err());
    }

    #[test]
    fn faults_name_their_field() {
        let error = decode(0xfffff).unwrap_err();
        assert_eq!((error.first_bit, error.bit_count), (16, 4));
        let error = decode(0xffff3).unwrap_err();
        assert_eq!((error.field, error.bit_count), ("D-field", 16));
    }

    #[test]
    fn the_line_stays_balanced() {
        let mut rng = Rng::from_seed(1);
        let mut encoder = Encoder::new();
        for _ in 0..200_000 {
            let word = rng.next_u32() as u16;
            let symbol = match rng.below(8) {
                0 => Symbol::Control(word & 0x3fff),
                1 => Symbol::Fill(Fill::Fw0),
                2 => Symbol::Fill(Fill::Fw1),
                3 => Symbol::Data {
                    word: 0xffff,
                    flag: false,
                },
                other => Symbol::Data {
                    word,
                    flag: other & 1 == 1,
                },
            };
            encoder.encode(symbol);
            assert!(encoder.disparity().abs() <= 20);
        }
    }
}
