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
//! States, receive queue and flow control are the core of the VI Provider Library (`barewire_proto::via`). What is here
//! is what the specification has a card do where that library has a message wait.
//!
//! Source: clan02 (VIA as a library adds flow control so that missing descriptors neither
//! drop nor break); vi-arch 1.0 for the levels.

use barewire_proto::via::credit::{Breach, Credit, Offered};
use barewire_proto::via::queue::WorkQueue;
use barewire_proto::via::state::{Posting, ViEvent, ViState};

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
#[derive(Debug)]
pub struct ViaReceiver {
    reliability: Reliability,
    state: ViState,
    receives: WorkQueue<()>,
    /// With the library's flow control alone: what the sender is told of.
    offered: Option<Offered>,
}

impl ViaReceiver {
    /// A connection with so many receive descriptors posted, between two cards.
    #[must_use]
    pub fn new(reliability: Reliability, posted: u32) -> Self {
        Self::connected(reliability, posted, None)
    }

    /// A connection with so many receive descriptors posted, behind the library's flow control. The sender knows of them.
    #[must_use]
    pub fn with_flow_control(reliability: Reliability, posted: u32) -> Self {
        let mut receiver = Self::connected(reliability, posted, Some(Offered::default()));
        if let Some(offered) = &mut receiver.offered {
            (0..posted).for_each(|_| offered.post());
            offered.told();
        }
        receiver
    }

    /// Descriptors wait in the queue of an idle VI, which then accepts a connection.
    fn connected(reliability: Reliability, posted: u32, offered: Option<Offered>) -> Self {
        let mut receiver = ViaReceiver {
            reliability,
            state: ViState::Idle,
            receives: WorkQueue::new(posted as usize),
            offered: None,
        };
        (0..posted).for_each(|_| receiver.post());
        receiver.step(ViEvent::Accept);
        receiver.offered = offered;
        receiver
    }

    fn step(&mut self, event: ViEvent) {
        self.state = self.state.on(event).unwrap_or(self.state);
    }

    /// A message has come.
    pub fn handle_message(&mut self) -> Fate {
        if self.state != ViState::Connected {
            return Fate::Lost;
        }
        let may_come = self.offered.as_mut().map_or(Ok(()), Offered::take);
        let next = self.receives.peek().map(|(number, ())| number);
        match (may_come, next) {
            (Ok(()), Some(number)) => {
                self.receives.begin();
                self.receives.end(number);
                self.receives.take();
                Fate::Received
            }
            (Ok(()), None) if self.reliability == Reliability::Unreliable => Fate::Dropped,
            _ => {
                self.step(ViEvent::Fault);
                Fate::Broke
            }
        }
    }

    /// The program is done with a buffer and posts it again; on a broken connection, that is flushed.
    pub fn post(&mut self) {
        if self.state.posted_receive() == Posting::Flush || self.receives.post(()).is_none() {
            return;
        }
        if let Some(offered) = &mut self.offered {
            offered.post();
        }
    }

    /// What the sender is to be told now: how many descriptors were posted, all together. `None` if that can wait.
    pub fn tell(&mut self) -> Option<u32> {
        let offered = self
            .offered
            .as_mut()
            .filter(|offered| offered.should_tell())?;
        offered.told();
        Some(offered.number())
    }

    /// The connection is in the state Error.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.state == ViState::Error
    }
}

/// The library's flow control at the sender: it knows how many descriptors the peer has posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    credit: Credit,
    max: u32,
}

impl Credits {
    /// The peer's queue has room for so many, and they are posted.
    #[must_use]
    pub fn new(posted: u32) -> Self {
        let mut credit = Credit::default();
        let heard = credit.hear(posted, posted);
        debug_assert_eq!(heard, Ok(()), "no more than there is room for");
        Credits {
            credit,
            max: posted,
        }
    }

    /// Takes one to send; `false` if there is none.
    pub fn take(&mut self) -> bool {
        let any = self.credit.has();
        self.credit.spend();
        any
    }

    /// The peer tells how many it has posted, all together.
    ///
    /// # Errors
    /// The number can not be.
    pub fn hear(&mut self, number: u32) -> Result<(), Breach> {
        self.credit.hear(number, self.max)
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
        for posted in [1, 3, 40] {
            let mut receiver = ViaReceiver::with_flow_control(Reliability::Reception, posted);
            let mut credits = Credits::new(posted);
            let mut received = 0;
            for round in 0..100 {
                let mut filled = 0;
                while credits.take() {
                    assert_eq!(receiver.handle_message(), Fate::Received);
                    filled += 1;
                }
                received += filled;
                (0..filled).for_each(|_| receiver.post());
                // Few left, or many posted: told at once. So the sender never waits for ever.
                let number = receiver.tell();
                assert!(number.is_some() || filled == 0, "round {round}");
                number
                    .map_or(Ok(()), |number| credits.hear(number))
                    .expect("a number that can be");
            }
            assert!(received >= 100);
        }
    }

    #[test]
    fn a_message_without_credit_breaks() {
        let mut receiver = ViaReceiver::with_flow_control(Reliability::Unreliable, 1);
        assert_eq!(receiver.handle_message(), Fate::Received);
        receiver.post();
        // The descriptor is there, but the sender can not know.
        assert_eq!(receiver.handle_message(), Fate::Broke);
        assert!(receiver.is_broken());
        let mut credits = Credits::new(2);
        assert_eq!(credits.hear(5), Err(Breach::Number));
    }
}
