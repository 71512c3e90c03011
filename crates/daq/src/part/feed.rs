//! Where a source has its fragments from: it makes them when they are sent, or a detector
//! gives them and they wait here, first for their trigger and then for their turn.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;

use barewire_proto::evb::{Command, RunState};

use crate::accounts::Intake as Account;
use crate::config::Config;
use crate::detector::{Detector, Fragment, Number, Polled, Word};
use crate::generate::Generator;

/// Asked of a detector before the source looks at its links again: fragments, and their bytes.
const POLLS_AT_ONCE: usize = 256;
const BYTES_AT_ONCE: u64 = 512 << 10;
/// Fragments that wait for their trigger, however small.
const WAITING_MAX: usize = 1 << 16;

/// What the source has of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Has {
    /// A fragment of so many bytes.
    Bytes(u64),
    /// None, and it will not get one.
    Nothing,
    /// None yet.
    NotYet,
}

/// What is to be said after a detector was asked.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Whether it had anything.
    pub any: bool,
    /// For the event log.
    pub troubles: Vec<String>,
}

/// Fragments of a detector.
pub(super) struct Given {
    detector: Box<dyn Detector>,
    /// Those whose trigger has not come, in ascending order.
    waiting: VecDeque<(u64, Fragment)>,
    waiting_bytes: u64,
    /// Those that were triggered and are to be sent.
    held: BTreeMap<u64, Fragment>,
    /// After that of the last fragment.
    next_event: u64,
    /// The first that is wanted.
    entered: u64,
    open: bool,
    ended: bool,
    account: Account,
}

/// Where a source has its fragments from.
pub(super) enum Feed {
    Generator(Generator),
    Given(Given),
}

impl Feed {
    pub fn generator(config: &Config) -> Self {
        Self::Generator(Generator::new(config.sizes, config.seed))
    }

    pub fn detector(detector: Box<dyn Detector>) -> Self {
        Self::Given(Given {
            detector,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            held: BTreeMap::new(),
            next_event: 0,
            entered: 0,
            open: false,
            ended: false,
            account: Account::default(),
        })
    }

    fn given(&mut self) -> Option<&mut Given> {
        match self {
            Self::Generator(_) => None,
            Self::Given(given) => Some(given),
        }
    }

    /// What there is of an event that was triggered; asked in ascending order.
    pub fn look(&mut self, source: u16, event: u64) -> Has {
        match self {
            Self::Generator(generator) => Has::Bytes(generator.size(source, event)),
            Self::Given(given) => given.look(event),
        }
    }

    /// The fragment that [`Feed::look`] has found will be sent, or not.
    pub fn take(&mut self, event: u64, will_be_sent: bool) {
        let Some(given) = self.given() else {
            return;
        };
        let fragment = given.pop();
        if let Some(fragment) = fragment.filter(|_| will_be_sent) {
            given.held.insert(event, fragment);
        }
    }

    /// The bytes of a fragment from `offset` on. It has not been forgotten: that is for
    /// [`Feed::sent`] and [`Feed::keep`], after its last piece.
    pub fn fill(&self, source: u16, event: u64, offset: u64, into: &mut [u8]) {
        match self {
            Self::Generator(generator) => generator.fill(source, event, offset, into),
            Self::Given(given) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let data = given.held.get(&event).map(|it| &it.data);
                let end = start.saturating_add(into.len());
                match data.and_then(|it| it.get(start..end)) {
                    Some(bytes) => into.copy_from_slice(bytes),
                    None => {
                        debug_assert!(false, "event {event} was forgotten");
                        into.fill(0);
                    }
                }
            }
        }
    }

    /// The time that the detector gave with a fragment.
    pub fn at_ns(&self, event: u64) -> Option<u64> {
        match self {
            Self::Generator(_) => None,
            Self::Given(given) => given.held.get(&event)?.at_ns,
        }
    }

    /// All of a fragment was sent.
    pub fn sent(&mut self, event: u64) {
        self.given().map(|given| given.held.remove(&event));
    }

    /// Forgets the fragments that are not needed.
    pub fn keep(&mut self, needed: impl Fn(u64) -> bool) {
        if let Some(given) = self.given() {
            given.held.retain(|&event, _| needed(event));
        }
    }

    /// Asks the detector, if fewer than `room_bytes` wait; `drops`: even if not.
    pub fn poll(&mut self, room_bytes: u64, drops: bool) -> News {
        let mut news = News::default();
        if let Some(given) = self.given() {
            given.poll(room_bytes, drops, &mut news);
        }
        news
    }

    /// Whether a detector is there to be asked.
    pub fn wants(&self, room_bytes: u64, drops: bool) -> bool {
        match self {
            Self::Generator(_) => false,
            Self::Given(given) => given.wants(room_bytes, drops),
        }
    }

    /// What to wait for.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Generator(_) => None,
            Self::Given(given) => given.detector.descriptor(),
        }
    }

    /// Before which event it has given fragments, and whether it has ended.
    pub fn has(&self) -> Option<(u64, bool)> {
        match self {
            Self::Generator(_) => None,
            Self::Given(given) => Some((given.next_event, given.ended)),
        }
    }

    pub fn account(&self) -> Account {
        match self {
            Self::Generator(_) => Account::default(),
            Self::Given(given) => Account {
                waiting: given.waiting.len() as u64,
                ..given.account
            },
        }
    }

    pub fn triggered(&mut self, first: u64, count: u32, at_ns: u64) {
        if let Some(given) = self.given() {
            given.detector.told(Word::Triggered {
                first,
                count,
                at_ns,
            });
        }
    }

    /// The manager counts on this source from `event` on.
    pub fn entered(&mut self, event: u64) {
        if let Some(given) = self.given() {
            given.entered = event;
        }
    }

    /// The run has another state.
    pub fn enter(&mut self, state: RunState, by: Command, run: u32) {
        let Some(given) = self.given() else {
            return;
        };
        match by {
            Command::Configure => given.begin(run),
            Command::Start => given.detector.told(Word::Start),
            Command::Pause => given.detector.told(Word::Pause),
            Command::Resume => given.detector.told(Word::Resume),
            Command::Drain => given.detector.told(Word::Drain),
            Command::Drained | Command::Abort | Command::Fail => given.stop(),
        }
        debug_assert!(by != Command::Pause || state == RunState::Paused);
    }

    /// It has come while the run was in `state`.
    pub fn join(&mut self, state: RunState, run: u32) {
        let Some(given) = self.given() else {
            return;
        };
        let words: &[Word] = match state {
            RunState::Running => &[Word::Start],
            RunState::Paused => &[Word::Start, Word::Pause],
            RunState::Draining => &[Word::Start, Word::Drain],
            RunState::Configured => &[],
            RunState::Idle | RunState::Failed => return,
        };
        given.begin(run);
        words.iter().for_each(|&word| given.detector.told(word));
    }
}

impl Given {
    fn begin(&mut self, run: u32) {
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.held.clear();
        (self.next_event, self.entered) = (0, 0);
        (self.open, self.ended) = (true, false);
        self.account = Account::default();
        self.detector.told(Word::Configure { run });
    }

    fn stop(&mut self) {
        self.open = false;
        self.account.unwanted += self.waiting.len() as u64;
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.detector.told(Word::Stop);
    }

    fn pop(&mut self) -> Option<Fragment> {
        let (_, fragment) = self.waiting.pop_front()?;
        self.waiting_bytes -= fragment.data.len() as u64;
        Some(fragment)
    }

    fn look(&mut self, event: u64) -> Has {
        while let Some((number, fragment)) = self.waiting.front() {
            if *number >= event {
                return match *number == event {
                    true => Has::Bytes(fragment.data.len() as u64),
                    false => Has::Nothing,
                };
            }
            self.pop();
            self.account.unwanted += 1;
        }
        match self.ended || self.next_event > event {
            true => Has::Nothing,
            false => Has::NotYet,
        }
    }

    fn wants(&self, room_bytes: u64, drops: bool) -> bool {
        self.open && !self.ended && (drops || self.has_room(room_bytes))
    }

    fn has_room(&self, room_bytes: u64) -> bool {
        self.waiting_bytes < room_bytes && self.waiting.len() < WAITING_MAX
    }

    fn poll(&mut self, room_bytes: u64, drops: bool, news: &mut News) {
        let mut bytes = 0;
        for _ in 0..POLLS_AT_ONCE {
            if bytes >= BYTES_AT_ONCE || !self.wants(room_bytes, drops) {
                return;
            }
            match self.detector.poll() {
                Polled::NotYet => return,
                Polled::End => self.ended = true,
                Polled::Trouble(text) => news.troubles.push(text),
                Polled::Fragment(fragment) => {
                    bytes += fragment.data.len() as u64;
                    self.receive(fragment, room_bytes);
                }
            }
            news.any = true;
        }
    }

    fn receive(&mut self, fragment: Fragment, room_bytes: u64) {
        self.account.given += 1;
        let event = match fragment.number {
            Number::Next => self.next_event.max(self.entered),
            Number::Event(event) => event,
        };
        if event < self.next_event {
            self.account.unordered += 1;
            return;
        }
        self.next_event = event.saturating_add(1);
        if event < self.entered {
            self.account.unwanted += 1;
            return;
        }
        if !self.has_room(room_bytes) {
            self.account.overflowed += 1;
            return;
        }
        self.waiting_bytes += fragment.data.len() as u64;
        self.waiting.push_back((event, fragment));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scripted(VecDeque<Polled>);

    impl Detector for Scripted {
        fn poll(&mut self) -> Polled {
            self.0.pop_front().unwrap_or(Polled::NotYet)
        }
    }

    fn fragment(number: Number, bytes: usize) -> Polled {
        Polled::Fragment(Fragment::new(number, Some(9), vec![7; bytes]).expect("small"))
    }

    fn feed(script: Vec<Polled>) -> Feed {
        let mut feed = Feed::detector(Box::new(Scripted(script.into())));
        feed.enter(RunState::Configured, Command::Configure, 1);
        feed
    }

    #[test]
    fn fragments_wait_for_their_events_and_every_one_is_accounted_for() {
        let script = vec![
            fragment(Number::Event(2), 10),
            fragment(Number::Event(1), 10),
            fragment(Number::Next, 10),
            fragment(Number::Event(6), 10),
            Polled::Trouble("smoke".to_owned()),
            Polled::End,
        ];
        let mut feed = feed(script);
        let news = feed.poll(100, false);
        assert_eq!(news.troubles, ["smoke"]);
        assert_eq!(feed.has(), Some((7, true)));
        assert_eq!(feed.look(0, 1), Has::Nothing);
        assert_eq!(feed.look(0, 2), Has::Bytes(10));
        feed.take(2, true);
        assert_eq!(feed.at_ns(2), Some(9));
        let mut bytes = [0; 4];
        feed.fill(0, 2, 6, &mut bytes);
        assert_eq!(bytes, [7; 4]);
        feed.sent(2);
        assert_eq!(feed.at_ns(2), None);
        assert_eq!(feed.look(0, 4), Has::Nothing);
        assert_eq!(feed.look(0, 7), Has::Nothing);
        feed.enter(RunState::Configured, Command::Drained, 1);
        let account = feed.account();
        assert_eq!((account.given, account.unordered), (4, 1));
        assert_eq!((account.unwanted, account.waiting), (2, 0));
    }

    #[test]
    fn without_room_it_is_not_asked_or_drops_what_comes() {
        let script = || {
            vec![
                fragment(Number::Next, 30),
                fragment(Number::Next, 30),
                fragment(Number::Next, 30),
            ]
        };
        let mut blocked = feed(script());
        blocked.poll(50, false);
        assert_eq!(blocked.account().given, 2);
        assert!(!blocked.wants(50, false));
        let mut dropping = feed(script());
        dropping.poll(50, true);
        let account = dropping.account();
        assert_eq!(
            (account.given, account.overflowed, account.waiting),
            (3, 1, 2)
        );
        // The third was numbered all the same: its event is not waited for.
        dropping.take(0, false);
        assert_eq!(dropping.look(0, 2), Has::Nothing);
    }
}
