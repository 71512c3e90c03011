//! Flow control: a send waits until a receive is posted at the other end.
//!
//! Each end tells the other how many receives it has posted on the connection, all together. A message that takes a
//! receive is sent only if fewer have been sent. So none arrives without a receive, and what the specification says of
//! that case (drop it, or break the connection) does not happen between two ends that keep to this.
//!
//! The numbers are counted modulo 2³². At most half of that can lie between them, because a queue is shorter.

/// The receives of this end: how many were posted, told and taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    posted: u32,
    told: u32,
    taken: u32,
}

/// As long as the other end has so many receives to send to, it need not hear of each new one at once.
const ENOUGH: u32 = 8;
/// But then of so many together.
const TOGETHER: u32 = 16;

/// The other end did what it must not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// It sent a message although it had not been told of a receive.
    NoReceive,
    /// It told of fewer receives than before, or of more than there can be.
    Number,
}

impl Offered {
    /// A receive was posted.
    pub fn post(&mut self) {
        self.posted = self.posted.wrapping_add(1);
    }

    /// Whether the other end should hear of the receives now.
    #[must_use]
    pub fn should_tell(&self) -> bool {
        let untold = self.posted.wrapping_sub(self.told);
        let left = self.told.wrapping_sub(self.taken);
        untold > 0 && (left < ENOUGH || untold >= TOGETHER)
    }

    /// The number to be told. Each record carries it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.posted
    }

    /// The number was told.
    pub fn told(&mut self) {
        self.told = self.posted;
    }

    /// A message came that takes a receive.
    ///
    /// # Errors
    /// [`Breach::NoReceive`] if the other end had not been told of one.
    pub fn take(&mut self) -> Result<(), Breach> {
        if self.taken == self.told {
            return Err(Breach::NoReceive);
        }
        self.taken = self.taken.wrapping_add(1);
        Ok(())
    }
}

/// The receives of the other end, as it has told of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    told: u32,
    used: u32,
}

impl Credit {
    /// The other end tells a number. A queue has at most `max` descriptors.
    ///
    /// # Errors
    /// [`Breach::Number`]; what was told before stays.
    pub fn hear(&mut self, number: u32, max: u32) -> Result<(), Breach> {
        let more = number.wrapping_sub(self.told);
        let left = number.wrapping_sub(self.used);
        if more > max || left > max {
            return Err(Breach::Number);
        }
        self.told = number;
        Ok(())
    }

    /// Whether a message that takes a receive may be sent.
    #[must_use]
    pub fn has(&self) -> bool {
        self.used != self.told
    }

    /// Such a message was sent.
    pub fn spend(&mut self) {
        if self.has() {
            self.used = self.used.wrapping_add(1);
        }
    }
}
