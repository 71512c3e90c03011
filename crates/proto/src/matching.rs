//! Matching of messages and receives, as message-passing interfaces (MPI, libfabric's tagged messages) ask for it.
//!
//! A receive says which messages it takes: from one source or any, with a tag of which some bits may not matter. A
//! message says whence it comes and has a tag. The rules:
//!
//! | happens | result |
//! |---|---|
//! | a message arrives | the receive that was posted first, of those that take it, gets it |
//! | and no receive takes it | it waits: it is *unexpected* |
//! | a receive is posted | it gets the message that arrived first, of the unexpected ones that it takes |
//! | and it takes none of them | it waits: it is *posted* |
//! | a peek | shows the message that a receive posted now would get, and leaves it there |
//! | a claim | the same, but the message is set aside: only a take with the same key gets it |
//! | a cancel | removes one posted receive |
//! | a source ends | removes the posted receives that only that source could have served |
//! | a message arrives, and the receive that gets it may take several | that one gives a part of itself for it, and keeps its place |
//!
//! So messages of one source with one tag are received in the order in which they were sent, if they arrive in that
//! order. No posted receive ever takes a message that is unexpected at the same time.
//!
//! The core holds receives and messages for its caller and does not look into them. Both queues are searched from
//! the front: a call takes time in proportion to what waits in front of its match.
//!
//! Source: MPI 3.1, sections 3.5 and 3.8; `fi_tagged(3)` of libfabric 1.17.

use alloc::collections::VecDeque;

#[cfg(test)]
mod tests;

/// Whence a message comes, and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The sender, by a number that the caller chose.
    pub source: u64,
    /// The sender's tag.
    pub tag: u64,
}

/// Which messages a receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The only sender, or any.
    pub source: Option<u64>,
    /// The tag that a message must have.
    pub tag: u64,
    /// Bits of the tag that do not matter: those that are 1 here.
    pub ignore: u64,
}

impl Pattern {
    /// Whether it takes such a message.
    #[must_use]
    #[inline]
    pub fn takes(&self, envelope: &Envelope) -> bool {
        (self.tag ^ envelope.tag) & !self.ignore == 0
            && self.source.is_none_or(|source| source == envelope.source)
    }
}

#[derive(Debug)]
struct Posted<R> {
    pattern: Pattern,
    receive: R,
}

#[derive(Debug)]
struct Unexpected<M> {
    envelope: Envelope,
    message: M,
}

#[derive(Debug)]
struct Claimed<M, K> {
    key: K,
    unexpected: Unexpected<M>,
}

/// The posted receives (`R`), the unexpected messages (`M`), and those set aside under keys (`K`).
#[derive(Debug)]
pub struct Matching<R, M, K> {
    /// In the order of posting.
    posted: VecDeque<Posted<R>>,
    /// In the order of arrival.
    unexpected: VecDeque<Unexpected<M>>,
    claimed: VecDeque<Claimed<M, K>>,
}

impl<R, M, K> Default for Matching<R, M, K> {
    fn default() -> Self {
        Self {
            posted: VecDeque::new(),
            unexpected: VecDeque::new(),
            claimed: VecDeque::new(),
        }
    }
}

impl<R, M, K: PartialEq> Matching<R, M, K> {
    /// Nothing posted, nothing arrived.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A message has arrived. Returns the receive that gets it. Where there is none, the message is kept, and only
    /// then `keep` is called to make it.
    #[inline]
    pub fn arrive(&mut self, envelope: Envelope, keep: impl FnOnce() -> M) -> Option<R> {
        self.arrive_sharing(envelope, |_| None, keep)
    }

    /// As [`arrive`](Self::arrive), where a receive may take several messages. `share` sees the receive that gets this
    /// one: it takes a part out of it, which is returned, and the rest stays posted where it is; or it gives nothing,
    /// and the receive is returned itself.
    #[inline]
    pub fn arrive_sharing(
        &mut self,
        envelope: Envelope,
        share: impl FnOnce(&mut R) -> Option<R>,
        keep: impl FnOnce() -> M,
    ) -> Option<R> {
        let found = self.posted.iter().position(|p| p.pattern.takes(&envelope));
        let of = found.and_then(|at| self.posted.get_mut(at));
        if let Some(part) = of.and_then(|posted| share(&mut posted.receive)) {
            return Some(part);
        }
        let posted = match found {
            // Mostly it is the first one, which takes fewer instructions to remove.
            Some(0) => self.posted.pop_front(),
            Some(at) => self.posted.remove(at),
            None => None,
        };
        if let Some(posted) = posted {
            return Some(posted.receive);
        }
        let message = keep();
        self.unexpected.push_back(Unexpected { envelope, message });
        None
    }

    /// Posts a receive. Returns it with the unexpected message that it gets; where there is none, it waits.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, receive: R) -> Option<(R, Envelope, M)> {
        match self.remove_unexpected(&pattern) {
            Some(unexpected) => Some((receive, unexpected.envelope, unexpected.message)),
            None => {
                self.posted.push_back(Posted { pattern, receive });
                None
            }
        }
    }

    /// Takes out the message that a receive posted now would get: for one that takes several, before it is posted.
    pub fn find(&mut self, pattern: &Pattern) -> Option<(Envelope, M)> {
        let unexpected = self.remove_unexpected(pattern)?;
        Some((unexpected.envelope, unexpected.message))
    }

    /// The message that a receive posted now would get. It stays.
    #[must_use]
    pub fn peek(&self, pattern: &Pattern) -> Option<(&Envelope, &M)> {
        let mut all = self.unexpected.iter();
        all.find(|u| pattern.takes(&u.envelope))
            .map(|u| (&u.envelope, &u.message))
    }

    /// Sets the message aside that a receive posted now would get. [`take`](Self::take) with this key gives it out.
    /// Of several messages under one key, the first to be set aside is the first to be taken.
    pub fn claim(&mut self, pattern: &Pattern, key: K) -> Option<(&Envelope, &M)> {
        let unexpected = self.remove_unexpected(pattern)?;
        self.claimed.push_back(Claimed { key, unexpected });
        let claimed = self.claimed.back()?;
        Some((&claimed.unexpected.envelope, &claimed.unexpected.message))
    }

    /// Gives out a message that was set aside under this key.
    pub fn take(&mut self, key: &K) -> Option<(Envelope, M)> {
        let at = self.claimed.iter().position(|c| c.key == *key)?;
        let unexpected = self.claimed.remove(at)?.unexpected;
        Some((unexpected.envelope, unexpected.message))
    }

    /// Removes the first posted receive that `is_it` accepts. One that got its message is not there any more.
    pub fn cancel(&mut self, mut is_it: impl FnMut(&R) -> bool) -> Option<R> {
        let at = self.posted.iter().position(|p| is_it(&p.receive))?;
        self.posted.remove(at).map(|posted| posted.receive)
    }

    /// Removes the first posted receive that takes messages of this source alone. Call it until it returns `None`
    /// when nothing will come from there any more.
    pub fn orphan(&mut self, source: u64) -> Option<R> {
        let mut all = self.posted.iter();
        let at = all.position(|p| p.pattern.source == Some(source))?;
        self.posted.remove(at).map(|posted| posted.receive)
    }

    /// How many receives wait for messages.
    #[must_use]
    pub fn posted_len(&self) -> usize {
        self.posted.len()
    }

    /// How many messages wait for receives, without those that were set aside.
    #[must_use]
    pub fn unexpected_len(&self) -> usize {
        self.unexpected.len()
    }

    #[inline]
    fn remove_unexpected(&mut self, pattern: &Pattern) -> Option<Unexpected<M>> {
        let mut all = self.unexpected.iter();
        let at = all.position(|u| pattern.takes(&u.envelope))?;
        self.unexpected.remove(at)
    }
}
