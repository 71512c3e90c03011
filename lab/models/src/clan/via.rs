//! The receiving end of a VIA connection: what becomes of a message for which no receive
//! descriptor has been posted.
//!
//! | reliability | a message without a descriptor |
//! |---|---|
//! | unreliable | is dropped; the connection stays |
//! | reliable delivery, reliable reception | breaks the connection: descriptors are flushed, what comes later is lost |
//! | any, behind the library's flow control | does not come: the sender waits for credit |
//!
//! ```text
//! Connected ──(no descriptor, reliable)──► Error
//! ```
//!
//! Source: clan02 (VIA as a library adds flow control so that missing descriptors neither
//! drop nor break); vi-arch 1.0 for the levels.

/// What a connection promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reliability {
    /// Nothing.
    Unreliable,
    /// A send completes when the message has reached the peer's card.
    Delivery,
    /// A send completes when the message is in the peer's memory.
    Reception,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is in the buffer of a descriptor.
    Received,
    /// There is no descriptor.
    Dropped,
    /// There is no descriptor, and now no connection.
    Broke,
    /// There was no connection any more.
    Lost,
}

/// The receiving end.
#[derive(Clone, Debug)]
pub struct ViaReceiver {
    reliability: Reliability,
    posted: usize,
    broken: bool,
}

impl ViaReceiver {
    /// A connection with so many receive descriptors posted.
    #[must_use]
    pub const fn new(reliability: Reliability, posted: usize) -> Self {
        ViaReceiver {
            reliability,
            posted,
            broken: false,
        }
    }

    /// A message has come.
    pub fn handle_message(&mut self) -> Fate {
        if self.broken {
            return Fate::Lost;
        }
        if self.posted > 0 {
            self.posted -= 1;
            return Fate::Received;
        }
        if self.reliability == Reliability::Unreliable {
            return Fate::Dropped;
        }
        self.broken = true;
        Fate::Broke
    }

    /// The program is done with a buffer and posts it again; not on a broken connection.
    pub fn post(&mut self) {
        if !self.broken {
            self.posted += 1;
        }
    }

    /// The connection is in the state Error.
    #[must_use]
    pub const fn is_broken(&self) -> bool {
        self.broken
    }
}

/// The library's flow control at the sender: it knows how many descriptors the peer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits(usize);

impl Credits {
    /// As many as the peer has posted.
    #[must_use]
    pub const fn new(posted: usize) -> Self {
        Self(posted)
    }

    /// Takes one to send; `false` if there is none.
    pub fn take(&mut self) -> bool {
        let any = self.0 > 0;
        self.0 -= usize::from(any);
        any
    }

    /// The peer has posted so many again.
    pub fn give(&mut self, posted: usize) {
        self.0 += posted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_descriptor_drops_or_breaks() {
        let fates = |reliability| {
            let mut receiver = ViaReceiver::new(reliability, 1);
            let first = [(); 3].map(|()| receiver.handle_message());
            receiver.post();
            (first, receiver.handle_message(), receiver.is_broken())
        };
        let (first, last, broken) = fates(Reliability::Unreliable);
        assert_eq!(first, [Fate::Received, Fate::Dropped, Fate::Dropped]);
        assert_eq!((last, broken), (Fate::Received, false));
        for level in [Reliability::Delivery, Reliability::Reception] {
            let (first, last, broken) = fates(level);
            assert_eq!(first, [Fate::Received, Fate::Broke, Fate::Lost]);
            assert_eq!((last, broken), (Fate::Lost, true));
        }
    }

    #[test]
    fn with_credit_nothing_comes_without_a_descriptor() {
        let mut receiver = ViaReceiver::new(Reliability::Reception, 3);
        let mut credits = Credits::new(3);
        for round in 0..100 {
            while credits.take() {
                assert_eq!(receiver.handle_message(), Fate::Received);
            }
            for _ in 0..=round % 3 {
                receiver.post();
                credits.give(1);
            }
        }
    }
}
