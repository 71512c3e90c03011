//! The pointer: where in the envelope the SPE begins, and how it moves.
//!
//! ```text
//! | 15..12 NDF | 11..10 SS | 9..0 value 0..782: bits I D I D I D I D I D |
//! ```
//!
//! | what the word says | what the receiver does |
//! |---|---|
//! | the value that holds | goes on |
//! | that value, I bits inverted (8 of 10 bits fit) | skips n bytes behind H3; value + 1 holds |
//! | that value, D bits inverted (8 of 10 bits fit) | takes n bytes more, from H3; value − 1 holds |
//! | a value with NDF 1001 (3 of 4 bits fit) | it holds at once |
//! | another value, three times | it holds |
//! | anything else | goes on, and counts it as invalid |
//!
//! | state | event | next state |
//! |---|---|---|
//! | Loss, Alarm | `ThreeEqual`: a value three times | Normal |
//! | Alarm | `Ndf`: a new value with NDF | Normal |
//! | Normal, Alarm | `EightInvalid`: invalid eight times in a row | Loss |
//! | Normal | `EightNdf`: NDF eight times in a row | Loss |
//! | Normal, Loss | `ThreeAlarms`: all ones three times | Alarm |
//!
//! Source: itu-g707 (pointer), with its interpretation as in ITU-T G.783 annex C.

use core::fmt;

use barewire_units::transitions;

/// How many values a pointer has: 0 to 782.
pub const POINTER_VALUES: u16 = 783;
/// The value with which the SPE begins in the first row of the next frame.
pub const POINTER_NEXT_FRAME: u16 = 522;

const NDF_SHIFT: u16 = 12;
const NDF_DISABLED: u16 = 0b0110;
const NDF_ENABLED: u16 = 0b1001;
const VALUE_MASK: u16 = 0x3ff;
const INCREMENT_BITS: u16 = 0b10_1010_1010;
const DECREMENT_BITS: u16 = 0b01_0101_0101;
const ALARM: u16 = 0xffff;

/// Equal values in a row after which a new one holds; also all ones in a row for an alarm.
pub const ACCEPT_FRAMES: u8 = 3;
/// Invalid words in a row, or words with NDF in a row, after which the pointer is lost.
pub const LOSS_FRAMES: u8 = 8;

/// H1 and H2 as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerWord(u16);

impl PointerWord {
    /// In the STS-1s behind the first: belongs to the first.
    pub const CONCATENATION: Self = Self(0x93ff);

    /// The word with these bits.
    #[must_use]
    pub const fn new(bits: u16) -> Self {
        Self(bits)
    }

    /// The bits.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// `value`, which holds already. Bits above the tenth are dropped, here as below.
    #[must_use]
    pub const fn holding(value: u16) -> Self {
        Self(NDF_DISABLED << NDF_SHIFT | value & VALUE_MASK)
    }

    /// `value`, which holds from now on.
    #[must_use]
    pub const fn jump(value: u16) -> Self {
        Self(NDF_ENABLED << NDF_SHIFT | value & VALUE_MASK)
    }

    /// The SPE is late by n bytes, which `value` does not yet show.
    #[must_use]
    pub const fn increment(value: u16) -> Self {
        Self::holding(value ^ INCREMENT_BITS)
    }

    /// The SPE is early by n bytes, which `value` does not yet show.
    #[must_use]
    pub const fn decrement(value: u16) -> Self {
        Self::holding(value ^ DECREMENT_BITS)
    }

    /// The ten bits of the value, which may be above 782.
    #[must_use]
    pub const fn value(self) -> u16 {
        self.0 & VALUE_MASK
    }

    /// The value, if it is one.
    #[must_use]
    pub const fn valid_value(self) -> Option<u16> {
        if self.value() < POINTER_VALUES {
            Some(self.value())
        } else {
            None
        }
    }

    /// Whether it says that this STS-1 belongs to the first, whatever SS says.
    #[must_use]
    pub const fn is_concatenation(self) -> bool {
        self.ndf_enabled() && self.value() == VALUE_MASK
    }

    /// Whether it announces a new value: at least three of the four bits of NDF do.
    #[must_use]
    pub const fn ndf_enabled(self) -> bool {
        (self.0 >> NDF_SHIFT ^ NDF_ENABLED).count_ones() <= 1
    }

    const fn ndf_disabled(self) -> bool {
        (self.0 >> NDF_SHIFT ^ NDF_DISABLED).count_ones() <= 1
    }
}

impl fmt::Display for PointerWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.valid_value(), self.ndf_enabled()) {
            (Some(value), true) => write!(f, "{value}, new"),
            (Some(value), false) => write!(f, "{value}"),
            (None, _) if self.is_concatenation() => write!(f, "of the first STS-1"),
            (None, _) => write!(f, "{:#06x}", self.0),
        }
    }
}

/// How a frame's envelope differs from 783n bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Justification {
    /// Not at all.
    #[default]
    None,
    /// n bytes behind H3 are left out.
    Positive,
    /// H3 holds n bytes of the SPE.
    Negative,
}

/// Whether there is a pointer to follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// None that could be trusted.
    #[default]
    Loss,
    /// One holds.
    Normal,
    /// All ones: the path failed upstream (AIS).
    Alarm,
}

/// What changes that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A value that does not hold, three times in a row.
    ThreeEqual,
    /// A new value with NDF.
    Ndf,
    /// All ones three times in a row.
    ThreeAlarms,
    /// Invalid eight times in a row.
    EightInvalid,
    /// NDF eight times in a row.
    EightNdf,
}

transitions! {
    State on Event {
        Loss + ThreeEqual => Normal,
        Loss + ThreeAlarms => Alarm,
        Normal + ThreeAlarms => Alarm,
        Normal + EightInvalid => Loss,
        Normal + EightNdf => Loss,
        Alarm + ThreeEqual => Normal,
        Alarm + Ndf => Normal,
        Alarm + EightInvalid => Loss,
    }
}

/// What to do with the envelope of this frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Go on, with or without justification.
    GoOn(Justification),
    /// The SPE begins here from now on.
    Jump(u16),
    /// There is no SPE to be found.
    Nothing,
}

/// What a word says to a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Held(Justification),
    New(u16),
    Other(u16),
    Alarm,
    Invalid,
}

/// The receiver of pointers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receiver {
    state: State,
    /// The value that holds, in Normal.
    value: u16,
    /// The last other value.
    other: u16,
    other_run: u8,
    alarm_run: u8,
    invalid_run: u8,
    ndf_run: u8,
}

impl Receiver {
    /// A receiver that knows no pointer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is a pointer to follow.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// The value that holds.
    #[must_use]
    pub fn value(&self) -> Option<u16> {
        (self.state == State::Normal).then_some(self.value)
    }

    /// Takes the pointer of the next frame.
    pub fn receive(&mut self, word: PointerWord) -> Action {
        let said = self.interpret(word);
        self.count(said);
        match said {
            Said::Held(justification) => self.value = moved(self.value, justification),
            Said::New(_) if self.ndf_run >= LOSS_FRAMES => self.turn(Event::EightNdf),
            Said::New(value) => return self.jump(value, Event::Ndf),
            Said::Other(value) if self.other_run >= ACCEPT_FRAMES => {
                return self.jump(value, Event::ThreeEqual);
            }
            Said::Alarm if self.alarm_run >= ACCEPT_FRAMES => self.turn(Event::ThreeAlarms),
            _ if self.invalid_run >= LOSS_FRAMES => self.turn(Event::EightInvalid),
            _ => {}
        }
        match (self.state, said) {
            (State::Normal, Said::Held(justification)) => Action::GoOn(justification),
            (State::Normal, _) => Action::GoOn(Justification::None),
            _ => Action::Nothing,
        }
    }

    fn interpret(&self, word: PointerWord) -> Said {
        if word.get() == ALARM {
            return Said::Alarm;
        }
        match word.valid_value() {
            Some(value) if word.ndf_enabled() => return Said::New(value),
            _ if !word.ndf_disabled() => return Said::Invalid,
            _ => {}
        }
        // An inverted value may be above 782, the value itself may not.
        let turned = word.value() ^ self.value;
        let fits = |bits: u16| (turned ^ bits).count_ones() <= 2;
        match (self.state, word.valid_value()) {
            (State::Normal, _) if turned == 0 => Said::Held(Justification::None),
            (State::Normal, _) if fits(INCREMENT_BITS) => Said::Held(Justification::Positive),
            (State::Normal, _) if fits(DECREMENT_BITS) => Said::Held(Justification::Negative),
            (_, Some(value)) => Said::Other(value),
            (_, None) => Said::Invalid,
        }
    }

    fn count(&mut self, said: Said) {
        let next = |run: u8, goes_on| if goes_on { run.saturating_add(1) } else { 0 };
        self.other_run = match said {
            Said::Other(value) if value == self.other => self.other_run.saturating_add(1),
            Said::Other(_) => 1,
            _ => 0,
        };
        if let Said::Other(value) = said {
            self.other = value;
        }
        let invalid = matches!(said, Said::Other(_) | Said::Invalid);
        self.invalid_run = next(self.invalid_run, invalid);
        self.alarm_run = next(self.alarm_run, said == Said::Alarm);
        self.ndf_run = next(self.ndf_run, matches!(said, Said::New(_)));
    }

    /// Lets `value` hold, unless the state has no use for it.
    fn jump(&mut self, value: u16, event: Event) -> Action {
        self.turn(event);
        if self.state != State::Normal {
            return Action::Nothing;
        }
        self.value = value;
        self.invalid_run = 0;
        Action::Jump(value)
    }

    fn turn(&mut self, event: Event) {
        self.state = self.state.on(event).unwrap_or(self.state);
    }
}

/// The value that holds after a justification.
pub(super) const fn moved(value: u16, justification: Justification) -> u16 {
    match justification {
        Justification::None => value,
        Justification::Positive => (value + 1) % POINTER_VALUES,
        Justification::Negative => (value + POINTER_VALUES - 1) % POINTER_VALUES,
    }
}

#[cfg(test)]
mod tests;
