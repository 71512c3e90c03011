//! All of a file of events, read and verified.

use std::fs::File;
use std::path::Path;

use super::about::About;
use super::damage::{Damage, Ending};
use super::format::{RecordError, Recorded, fragment_head};
use super::index::{self, Index};
use super::read::Reading;
use crate::generate::Generator;
use crate::scatter::scatter;
use crate::wire::u32_at;

/// What became of the index of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexState {
    /// It is right, and lists all events that were read.
    Right,
    /// Its check code is right, and it does not list what the records are.
    Disagrees,
    /// It or the tail is damaged.
    Damaged,
    /// There is none: the writer was stopped.
    #[default]
    Stopped,
    /// The file ends with damaged bytes: whether there was one is not known.
    Unknown,
}

/// What a file holds.
#[derive(Debug, Default)]
pub struct Checked {
    /// The run.
    pub run: u32,
    /// The builder.
    pub builder: u16,
    /// What the file says of its run; `None` in files of older versions, or if that is damaged.
    pub about: Option<About>,
    /// Events that were built, and are not damaged.
    pub built: u64,
    /// Events that were given up, with what was there, and are not damaged.
    pub incomplete: u64,
    /// Fragments that are good.
    pub fragments: u64,
    /// Bytes of their data.
    pub bytes: u64,
    /// A sum over all events, of their numbers, and of times and bytes of their fragments:
    /// whatever the order and however they are shared among files, the sum of the files'
    /// sums (modulo 2^64) is that of another recording of the same events.
    pub contents: u64,
    /// Fragments that do not hold what the generator makes, if that was asked for.
    pub mismatched: u64,
    /// What is damaged, but for the index.
    pub damage: Damage,
    /// Events that the index lists and that were not found; `None` without a right index.
    pub lost: Option<u64>,
    /// What became of the index.
    pub index: IndexState,
    /// Where the last record or the index is cut: the writer was stopped while it wrote it.
    pub cut_at: Option<u64>,
    /// All events that were read, in the order of the file.
    pub events: Vec<u64>,
}

impl Checked {
    /// Whether all is as it was written, as far as the writer came: a file whose writer was
    /// stopped is good.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let index_is_good = matches!(self.index, IndexState::Right | IndexState::Stopped);
        index_is_good && self.damage.is_none() && self.mismatched == 0
    }
}

/// What an event adds to [`Checked::contents`].
fn contents_of(event: &Recorded) -> u64 {
    let mut sum = scatter(event.event ^ scatter(u64::from(event.missing)));
    for fragment in &event.fragments {
        // The same for a fragment whatever the event, whose number is in the sum already.
        let head = fragment_head(0, fragment);
        let code = u64::from(u32_at(&head, 4)) | u64::from(fragment.source) << 32;
        let sized = scatter(code ^ scatter(fragment.data.len() as u64));
        sum = sum.wrapping_add(scatter(sized ^ scatter(event.event)));
    }
    sum
}

/// Reads a whole file; with a generator, verifies what is in the fragments.
///
/// # Errors
///
/// It cannot be read, or is none of ours.
pub fn check(path: &Path, generator: Option<&Generator>) -> Result<Checked, RecordError> {
    let mut reading = Reading::open(path)?;
    let mut checked = Checked {
        run: reading.run,
        builder: reading.builder,
        about: reading.about.clone(),
        ..Checked::default()
    };
    let mut found = Vec::new();
    while let Some(event) = reading.next_event()? {
        found.push((event.event, reading.last_at()));
        checked.add(&event, generator);
    }
    checked.damage = reading.damage().clone();
    checked.index = match reading.ending() {
        Some(Ending::Index(at)) => {
            let mut file = File::open(path)?;
            let len_bytes = file.metadata()?.len();
            let index = index::load(&mut file, at, len_bytes)?;
            checked.judge(index, found)
        }
        Some(Ending::Damaged) => IndexState::Unknown,
        Some(Ending::Cut(at)) => {
            checked.cut_at = Some(at);
            IndexState::Stopped
        }
        Some(Ending::Stopped) | None => IndexState::Stopped,
    };
    Ok(checked)
}

impl Checked {
    pub(crate) fn add(&mut self, event: &Recorded, generator: Option<&Generator>) {
        self.events.push(event.event);
        if event.damaged == 0 {
            self.built += u64::from(event.missing == 0);
            self.incomplete += u64::from(event.missing > 0);
        }
        self.contents = self.contents.wrapping_add(contents_of(event));
        for fragment in &event.fragments {
            self.fragments += 1;
            self.bytes += fragment.data.len() as u64;
            let good = generator.is_none_or(|it| {
                it.size(fragment.source, event.event) == fragment.data.len() as u64
                    && it.verify(fragment.source, event.event, 0, &fragment.data)
            });
            self.mismatched += u64::from(!good);
        }
    }

    /// Compares the index with the records that were `found`.
    fn judge(&mut self, index: Option<Index>, mut found: Vec<(u64, u64)>) -> IndexState {
        let Some(index) = index else {
            return IndexState::Damaged;
        };
        let mut listed = index.entries;
        if self.damage.is_none() {
            self.lost = Some(0);
            return match (listed == found, index.tail_is_right) {
                (false, _) => IndexState::Disagrees,
                (true, false) => IndexState::Damaged,
                (true, true) => IndexState::Right,
            };
        }
        // Bytes that were lost or came in between have moved the records behind them: only their
        // events can be compared.
        listed.sort_unstable();
        found.sort_unstable();
        let (lost, unlisted) = differences(&listed, &found);
        self.lost = Some(lost);
        match unlisted {
            0 => IndexState::Right,
            _ => IndexState::Disagrees,
        }
    }
}

/// How many events are in the one list only, and how many in the other only; both are sorted.
fn differences(one: &[(u64, u64)], other: &[(u64, u64)]) -> (u64, u64) {
    let (mut in_one, mut in_other) = (0, 0);
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    while let (Some((a, _)), Some((b, _))) = (one.peek(), other.peek()) {
        let order = a.cmp(b);
        if order.is_le() {
            one.next();
        }
        if order.is_ge() {
            other.next();
        }
        in_one += u64::from(order.is_lt());
        in_other += u64::from(order.is_gt());
    }
    (in_one + one.count() as u64, in_other + other.count() as u64)
}
