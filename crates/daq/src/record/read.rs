//! The file of events, read. What is damaged is left out, counted, and read behind.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::about::{self, About};
use super::damage::{Damage, Ending, Stretch};
use super::format::{
    EVENT_HEAD_BYTES, EVENT_MAGIC, EventHead, FILE_HEAD_BYTES, FRAGMENT_HEAD_BYTES, FragmentHead,
    HEAD_MAGIC, INDEX_MAGIC, RecordError, Recorded, Stored,
};
use super::index::{self, Tail};
use crate::wire::{crc32c, u32_at};

const BUFFER_BYTES: usize = 1 << 20;
/// Searched for a head at a time.
const SEARCHED_BYTES: usize = 64 << 10;
/// Going back to read bytes again is allowed for so many bytes for each byte of the file: reading
/// takes time in proportion to its length, whatever the bytes say.
const READ_AGAIN_MAX: u64 = 4;
/// Places of an index that are looked at before all of it is believed.
const PLACES_TRIED: usize = 64;

/// A file that is read, event by event.
///
/// Damage does not end it: [`Reading::next_event`] gives what is good, [`Reading::damage`] says
/// what was not, and [`Reading::ending`] how the records ended. At most one event is in memory,
/// and the index if something is damaged.
#[derive(Debug)]
pub struct Reading<R> {
    input: BufReader<R>,
    len_bytes: u64,
    at: u64,
    tail: Option<Tail>,
    /// Where the index begins, if that is known before it is reached.
    index_at: Option<u64>,
    places: Places,
    read_again_bytes: u64,
    last_at: u64,
    damage: Damage,
    ending: Option<Ending>,
    head_is_right: bool,
    /// Where records begin.
    begin: u64,
    /// What the file says of its run; `None` in files of older versions, or if that is damaged.
    pub about: Option<About>,
    /// The run.
    pub run: u32,
    /// The builder.
    pub builder: u16,
}

/// Where records begin, as the index says, in ascending order.
#[derive(Debug)]
enum Places {
    NotAsked,
    Unknown,
    Known(Vec<(u64, u64)>),
}

/// What begins at a place.
enum Found {
    Record(EventHead),
    End(Ending),
    /// Nothing that is good.
    Nothing,
}

/// A fragment in the record that is read.
enum Piece {
    Good(Stored),
    /// Its check code is wrong.
    Bad(FragmentHead),
    /// It is not where it should be, or its length is not right: what follows is not found.
    Broken,
    /// The file ends within it.
    Cut,
}

/// What was found in a record.
struct Walk {
    fragments: Vec<Stored>,
    bad: Vec<Stretch>,
    /// From here on nothing can be told.
    broken_at: Option<u64>,
    /// The file ends before the record, and nothing else is wrong.
    is_cut: bool,
    /// A good fragment stands behind the bad ones: no bytes were lost or came in between.
    is_in_step: bool,
}

impl Walk {
    fn is_good(&self) -> bool {
        self.bad.is_empty() && self.broken_at.is_none()
    }

    /// Where the damage begins, if there is any.
    fn damaged_from(&self) -> Option<u64> {
        self.bad.first().map(|it| it.at).or(self.broken_at)
    }
}

impl Reading<File> {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is none of ours.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let file = File::open(path)?;
        let len_bytes = file.metadata()?.len();
        Self::new(file, len_bytes)
    }
}

impl<R: Read + Seek> Reading<R> {
    /// Reads what has `len_bytes`.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is none of ours.
    pub fn new(mut input: R, len_bytes: u64) -> Result<Self, RecordError> {
        if len_bytes < FILE_HEAD_BYTES as u64 {
            return Err(RecordError::Foreign("shorter than its head"));
        }
        let mut head = [0; FILE_HEAD_BYTES];
        input.seek(SeekFrom::Start(0))?;
        input.read_exact(&mut head)?;
        let tail = index::read_tail(&mut input, len_bytes)?;
        let index_at = index::find(&mut input, tail.as_ref(), len_bytes)?;
        let about::Found {
            about,
            end: begin,
            is_damaged,
        } = about::read(&mut input, len_bytes)?;
        input.seek(SeekFrom::Start(begin))?;
        let mut reading = Self {
            input: BufReader::with_capacity(BUFFER_BYTES, input),
            len_bytes,
            at: begin,
            tail,
            index_at: index_at.filter(|&it| it >= begin),
            places: Places::NotAsked,
            read_again_bytes: len_bytes.saturating_mul(READ_AGAIN_MAX),
            last_at: begin,
            damage: Damage::default(),
            ending: None,
            head_is_right: crc32c(&head[..28]) == u32_at(&head, 28) && &head[..8] == HEAD_MAGIC,
            begin,
            about,
            run: u32_at(&head, 8),
            builder: u16::from_le_bytes([head[12], head[13]]),
        };
        if !reading.head_is_right {
            reading.accept_damaged_head(&head)?;
        }
        if is_damaged {
            reading.add_head_damage(FILE_HEAD_BYTES as u64, begin);
        }
        Ok(reading)
    }

    /// A file whose head is damaged is ours if it still begins as ours do, or if a record follows.
    fn accept_damaged_head(&mut self, head: &[u8; FILE_HEAD_BYTES]) -> Result<(), RecordError> {
        let first = FILE_HEAD_BYTES as u64;
        let says_something = self.begin > first;
        let is_ours = &head[..8] == HEAD_MAGIC || says_something || self.begins_something(first)?;
        if !is_ours {
            let what = "it does not begin with BWEVENT1";
            return Err(RecordError::Foreign(what));
        }
        self.go_to(self.begin)?;
        self.add_head_damage(0, first);
        Ok(())
    }

    /// What is before the records is damaged from byte `at` to byte `end`.
    fn add_head_damage(&mut self, at: u64, end: u64) {
        self.damage.add(Stretch {
            at,
            bytes: end - at,
            event: None,
            source: None,
        });
    }

    /// Where the next record begins.
    #[must_use]
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// Where the record of the last event began.
    #[must_use]
    pub const fn last_at(&self) -> u64 {
        self.last_at
    }

    /// Whether run and builder are what was written: the head of the file is not damaged.
    #[must_use]
    pub const fn head_is_right(&self) -> bool {
        self.head_is_right
    }

    /// What was damaged so far.
    #[must_use]
    pub const fn damage(&self) -> &Damage {
        &self.damage
    }

    /// How the records ended; `None` before their end.
    #[must_use]
    pub const fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// The next event of which the head is good, without its damaged fragments; `None` at the end.
    /// What is damaged before it is skipped, and told by [`Reading::damage`].
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn next_event(&mut self) -> Result<Option<Recorded>, RecordError> {
        while self.ending.is_none() {
            let start = self.at;
            match self.look(start)? {
                Found::Record(head) => {
                    if let Some(event) = self.record(start, &head)? {
                        self.last_at = start;
                        return Ok(Some(event));
                    }
                }
                Found::End(ending) => self.ending = Some(ending),
                Found::Nothing => self.skip(start)?,
            }
        }
        Ok(None)
    }

    /// The fragment of `source` in the record of `event` that begins at `at`, if it has one.
    ///
    /// # Errors
    ///
    /// No good record of this event begins there, the fragment is damaged, or the file cannot be
    /// read.
    pub fn fragment(
        &mut self,
        at: u64,
        event: u64,
        source: u16,
    ) -> Result<Option<Stored>, RecordError> {
        let spoilt = |what| RecordError::Spoilt { at, what };
        let head = self.head_at(at, event)?;
        if let Some(found) = self.fragment_alone(&head, source)? {
            return Ok(found);
        }
        let head = self.head_at(at, event)?;
        let walk = self.walk(&head)?;
        let is_good = walk.is_good();
        let found = walk.fragments.into_iter().find(|it| it.source == source);
        match found {
            None if !is_good => Err(spoilt("its fragment of this source is damaged")),
            found => Ok(found),
        }
    }

    /// The time of the first good fragment in the record of `event` that begins at `at`, in ns.
    ///
    /// # Errors
    ///
    /// No good record of this event begins there, or the file cannot be read.
    pub fn time_at(&mut self, at: u64, event: u64) -> Result<Option<u64>, RecordError> {
        let head = self.head_at(at, event)?;
        let walk = self.walk(&head)?;
        Ok(walk.fragments.first().map(|it| it.at_ns))
    }

    fn head_at(&mut self, at: u64, event: u64) -> Result<EventHead, RecordError> {
        let what = "its head is damaged, or of another event";
        match self.look(at)? {
            Found::Record(head) if head.event == event => Ok(head),
            _ => Err(RecordError::Spoilt { at, what }),
        }
    }

    /// The fragment of `source`, read without the others; `None` if something is not as it should
    /// be, and all have to be read.
    fn fragment_alone(
        &mut self,
        head: &EventHead,
        source: u16,
    ) -> io::Result<Option<Option<Stored>>> {
        let end = self.at + head.bytes;
        let mut found = None;
        for _ in 0..head.count {
            let Ok(fragment) = self.fragment_head(end)? else {
                return Ok(None);
            };
            let bytes = fragment.data_bytes().unwrap_or(0);
            if found.is_some() || fragment.source() != source {
                self.go_to(self.at + bytes)?;
                continue;
            }
            found = fragment.with(self.data(bytes)?);
            if found.is_none() || !fragment.is_of(head.event) {
                return Ok(None);
            }
        }
        // Only if all lengths add up, none of them is damaged.
        Ok((self.at == end).then_some(found))
    }

    /// Goes on with what begins at `at`.
    fn go_to(&mut self, at: u64) -> io::Result<()> {
        // What is in the buffer is not read again. Files are shorter than 2^63.
        self.input.seek_relative(at.wrapping_sub(self.at) as i64)?;
        self.at = at;
        Ok(())
    }

    /// Whether so many more bytes may be read again.
    fn may_read_again(&mut self, bytes: u64) -> bool {
        let left = self.read_again_bytes.checked_sub(bytes);
        self.read_again_bytes = left.unwrap_or(self.read_again_bytes);
        left.is_some()
    }

    /// Goes back to `at`, if not too much was read again already.
    fn go_back(&mut self, at: u64) -> io::Result<()> {
        match self.may_read_again(self.at.saturating_sub(at)) {
            true => self.go_to(at),
            false => Ok(()),
        }
    }

    /// Where records end at the latest.
    fn limit(&self) -> u64 {
        self.index_at.unwrap_or(self.len_bytes)
    }

    fn exact(&mut self, into: &mut [u8]) -> io::Result<()> {
        self.input.read_exact(into)?;
        self.at += into.len() as u64;
        Ok(())
    }

    /// What begins at `at`. A record is behind its head then.
    fn look(&mut self, at: u64) -> io::Result<Found> {
        if at >= self.len_bytes {
            return Ok(Found::End(Ending::Stopped));
        }
        if self.index_at == Some(at) {
            return Ok(Found::End(Ending::Index(at)));
        }
        self.go_to(at)?;
        let mut first = [0; EVENT_HEAD_BYTES];
        let there = (self.len_bytes - at).min(EVENT_HEAD_BYTES as u64) as usize;
        self.exact(&mut first[..there])?;
        let looks = index::look(&first[..there], at, self.len_bytes);
        if looks.magic && looks.fits {
            return Ok(Found::End(Ending::Index(at)));
        }
        if there == EVENT_HEAD_BYTES {
            if let Some(head) = EventHead::parse(&first) {
                return Ok(Found::Record(head));
            }
        }
        let magic_there = there.min(EVENT_MAGIC.len());
        let is_short =
            there < EVENT_HEAD_BYTES && first[..magic_there] == EVENT_MAGIC[..magic_there];
        let is_cut = is_short || (looks.magic && looks.is_longer);
        Ok(match is_cut && self.may_be_cut() {
            true => Found::End(Ending::Cut(at)),
            false => Found::Nothing,
        })
    }

    /// Whether a record or the index begins at `at`.
    fn begins_something(&mut self, at: u64) -> io::Result<bool> {
        let found = self.look(at)?;
        Ok(matches!(
            found,
            Found::Record(_) | Found::End(Ending::Index(_))
        ))
    }

    /// Whether the file may end before its index.
    fn may_be_cut(&self) -> bool {
        self.index_at.is_none() && !index::has_tail(self.tail.as_ref())
    }

    /// The record that begins at `start`; its head was read. `None`: it is cut.
    fn record(&mut self, start: u64, head: &EventHead) -> io::Result<Option<Recorded>> {
        let end = self.at + head.bytes;
        let walk = self.walk(head)?;
        if walk.is_cut && self.may_be_cut() {
            self.ending = Some(Ending::Cut(start));
            return Ok(None);
        }
        let good = u32::try_from(walk.fragments.len()).unwrap_or(u32::MAX);
        let damaged = head.count.saturating_sub(good);
        self.settle(head.event, &walk, end)?;
        self.damage.events += u64::from(damaged > 0);
        self.damage.fragments += u64::from(damaged);
        Ok(Some(Recorded {
            event: head.event,
            missing: head.missing,
            damaged,
            fragments: walk.fragments,
        }))
    }

    /// Reads the fragments of a record whose head was just read. Behind a bad fragment the others are
    /// taken only if all lengths add up: else they might be bytes of something else.
    fn walk(&mut self, head: &EventHead) -> io::Result<Walk> {
        let end = self.at + head.bytes;
        let mut walk = Walk {
            fragments: Vec::new(),
            bad: Vec::new(),
            broken_at: None,
            is_cut: false,
            is_in_step: false,
        };
        let mut good_before = 0;
        for _ in 0..head.count {
            let at = self.at;
            match self.piece(Some(head.event), end)? {
                Piece::Good(fragment) => {
                    walk.is_in_step = !walk.bad.is_empty();
                    walk.fragments.push(fragment);
                    good_before += usize::from(walk.bad.is_empty());
                }
                Piece::Bad(head) => {
                    walk.is_in_step = false;
                    walk.bad.push(Stretch {
                        at,
                        bytes: self.at - at,
                        event: None,
                        source: Some(head.source()),
                    });
                }
                Piece::Broken => walk.broken_at = Some(at),
                Piece::Cut => {
                    walk.is_cut = walk.bad.is_empty();
                    walk.broken_at = Some(at);
                }
            }
            if walk.broken_at.is_some() {
                break;
            }
        }
        if walk.broken_at.is_none() && self.at != end {
            walk.broken_at = Some(self.at);
        }
        if walk.broken_at.is_some() {
            walk.is_in_step = false;
            walk.fragments.truncate(good_before);
        }
        Ok(walk)
    }

    /// The fragment that is next, of `event` if that is known.
    fn piece(&mut self, event: Option<u64>, end: u64) -> io::Result<Piece> {
        let head = match self.fragment_head(end)? {
            Ok(head) => head,
            Err(piece) => return Ok(piece),
        };
        let data = self.data(head.data_bytes().unwrap_or(0))?;
        Ok(match head.with(data) {
            Some(fragment) if event.is_none_or(|it| head.is_of(it)) => Piece::Good(fragment),
            // That of another event: bytes between were lost.
            Some(_) => Piece::Broken,
            None => Piece::Bad(head),
        })
    }

    /// The head of a fragment whose data is there, in a record that ends at `end`; or why there
    /// is none.
    fn fragment_head(&mut self, end: u64) -> io::Result<Result<FragmentHead, Piece>> {
        const HEAD_BYTES: u64 = FRAGMENT_HEAD_BYTES as u64;
        let limit = self.limit();
        if end.saturating_sub(self.at) < HEAD_BYTES {
            return Ok(Err(Piece::Broken));
        }
        if limit.saturating_sub(self.at) < HEAD_BYTES {
            return Ok(Err(Piece::Cut));
        }
        let mut head = [0; FRAGMENT_HEAD_BYTES];
        self.exact(&mut head)?;
        let head = FragmentHead(head);
        Ok(match head.data_bytes() {
            Some(bytes) if bytes <= limit.min(end) - self.at => Ok(head),
            Some(bytes) if bytes <= end - self.at => Err(Piece::Cut),
            _ => Err(Piece::Broken),
        })
    }

    /// So many bytes, which are there.
    fn data(&mut self, bytes: u64) -> io::Result<Vec<u8>> {
        let mut data = vec![0; bytes as usize];
        self.exact(&mut data)?;
        Ok(data)
    }

    /// Notes what is damaged in the record of `event`, and goes to where reading goes on: to its
    /// `end`, if something shows that this is right.
    fn settle(&mut self, event: u64, walk: &Walk, end: u64) -> io::Result<()> {
        let Some(from) = walk.damaged_from() else {
            return Ok(());
        };
        let event = Some(event);
        let is_at_end = walk.is_in_step || self.is_good(end)?;
        if is_at_end && walk.broken_at.is_none() {
            for bad in &walk.bad {
                self.damage.add(Stretch { event, ..*bad });
            }
            return self.go_to(end);
        }
        match is_at_end {
            true => self.go_to(end)?,
            false => self.find_next(from)?,
        }
        self.damage.add(Stretch {
            at: from,
            bytes: self.at - from,
            event,
            source: None,
        });
        Ok(())
    }

    /// Whether a record may end at `at`.
    fn is_good(&mut self, at: u64) -> io::Result<bool> {
        let before = self.at;
        // There and back, each time a buffer is filled at most.
        let bytes = at.abs_diff(before).min(2 * BUFFER_BYTES as u64);
        if at > self.limit() || !self.may_read_again(bytes) {
            return Ok(false);
        }
        let found = self.look(at)?;
        self.go_to(before)?;
        Ok(!matches!(found, Found::Nothing))
    }

    /// At `start` there should be the head of a record, and is none: goes to the next one.
    fn skip(&mut self, start: u64) -> io::Result<()> {
        self.ask_places()?;
        let behind_head = start + EVENT_HEAD_BYTES as u64;
        if matches!(self.places, Places::Unknown) && behind_head <= self.limit() {
            self.go_to(behind_head)?;
            self.step_over_fragments()?;
        }
        let has_stepped = self.at > behind_head;
        if !(has_stepped && self.is_good(self.at)?) {
            let from = if has_stepped { self.at } else { start + 1 };
            self.find_next(from)?;
        }
        self.damage.add(Stretch {
            at: start,
            bytes: self.at - start,
            event: None,
            source: None,
        });
        Ok(())
    }

    /// Goes to behind the good fragments that stand here: those of a record whose head is damaged.
    /// What is in them is not searched.
    fn step_over_fragments(&mut self) -> io::Result<()> {
        loop {
            let before = self.at;
            let is_record = matches!(self.look(before)?, Found::Record(_) | Found::End(_));
            self.go_to(before)?;
            if is_record || before >= self.limit() {
                return Ok(());
            }
            if !matches!(self.piece(None, self.limit())?, Piece::Good(_)) {
                return self.go_back(before);
            }
        }
    }

    /// Goes to the next record from `from` on, or to the index, or to the end of the file, which is
    /// the end of reading then.
    fn find_next(&mut self, from: u64) -> io::Result<()> {
        if let Some(at) = self.next_place(from)? {
            return self.go_to(at);
        }
        match from < self.at {
            true => self.go_back(from)?,
            false => self.go_to(from.min(self.len_bytes))?,
        }
        if self.search()? {
            return Ok(());
        }
        self.go_to(self.limit())?;
        if self.index_at.is_none() {
            self.ending = Some(Ending::Damaged);
        }
        Ok(())
    }

    /// Reads the index, at the first damage.
    fn ask_places(&mut self) -> io::Result<()> {
        if !matches!(self.places, Places::NotAsked) {
            return Ok(());
        }
        self.places = Places::Unknown;
        let Some(index_at) = self.index_at else {
            return Ok(());
        };
        let before = self.at;
        let index = index::load(&mut self.input, index_at, self.len_bytes)?;
        self.input.seek(SeekFrom::Start(before))?;
        let Some(index) = index.filter(|it| it.tail_is_right) else {
            return Ok(());
        };
        let mut places = index.entries;
        places.sort_unstable_by_key(|it| it.1);
        if self.covers(&places, index_at)? {
            self.places = Places::Known(places);
        }
        Ok(())
    }

    /// Whether these places are from the first record to the last, behind which is the index: only
    /// then it is right to go by them and to look nowhere else.
    fn covers(&mut self, places: &[(u64, u64)], index_at: u64) -> io::Result<bool> {
        let (Some(first), Some(last)) = (places.first(), places.last()) else {
            return Ok(false);
        };
        let before = self.at;
        let found = self.look(last.1)?;
        let behind_head = self.at;
        self.go_to(before)?;
        let ends_at_index = match found {
            Found::Record(head) => behind_head + head.bytes == index_at,
            // Its head is damaged.
            _ => true,
        };
        Ok(first.1 == self.begin && ends_at_index)
    }

    /// Where the next good record from `from` on is, or the index, as the index says. An index
    /// that leads to no record is not asked again.
    fn next_place(&mut self, from: u64) -> io::Result<Option<u64>> {
        self.ask_places()?;
        let Places::Known(places) = core::mem::replace(&mut self.places, Places::Unknown) else {
            return Ok(None);
        };
        let first = places.partition_point(|it| it.1 < from);
        let mut found = None;
        for &(event, at) in &places[first..] {
            if matches!(self.look(at)?, Found::Record(head) if head.event == event) {
                found = Some(at);
                break;
            }
        }
        if found.is_none() && first == places.len() {
            found = self.index_at;
        }
        if found.is_some() {
            self.places = Places::Known(places);
        }
        Ok(found)
    }

    /// Goes to the next place from here on where a record or the index begins; whether there is one.
    fn search(&mut self) -> io::Result<bool> {
        let mut bytes = vec![0; SEARCHED_BYTES];
        loop {
            let start = self.at;
            let there = (self.limit().saturating_sub(start)).min(SEARCHED_BYTES as u64) as usize;
            if there < EVENT_HEAD_BYTES {
                return Ok(false);
            }
            self.exact(&mut bytes[..there])?;
            for at in magics(&bytes[..there]) {
                let place = start + at as u64;
                if self.begins_something(place)? {
                    self.go_to(place)?;
                    return Ok(true);
                }
            }
            // The last bytes again, with those that follow.
            let overlap = EVENT_HEAD_BYTES as u64 - 1;
            self.go_to(start + there as u64 - overlap)?;
        }
    }
}

/// Where a record or an index may begin.
fn magics(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let places = bytes.windows(EVENT_MAGIC.len()).enumerate();
    let is_magic = |it: &[u8]| it == EVENT_MAGIC || it == INDEX_MAGIC;
    places.filter(move |(_, it)| is_magic(it)).map(|it| it.0)
}

/// Events and where their records begin, and what is damaged as far as it was seen: what the index
/// says, if it leads to records; otherwise all of the file is read.
///
/// # Errors
///
/// The file cannot be read, or is none of ours.
pub fn places(path: &Path) -> Result<(Vec<(u64, u64)>, Damage), RecordError> {
    let mut reading = Reading::open(path)?;
    if let Some(index) = super::index::read_index(path)? {
        if reading.agrees_with(&index)? {
            return Ok((index, reading.damage));
        }
        reading.go_to(reading.begin)?;
    }
    let mut places = Vec::new();
    while let Some(event) = reading.next_event()? {
        places.push((event.event, reading.last_at()));
    }
    Ok((places, reading.damage))
}

/// The events of a file up to the first damage, and whether each has all its fragments, as the heads of
/// its records say: the fragments are not looked at.
///
/// # Errors
///
/// The file cannot be read, or is none of ours.
pub fn outline(path: &Path) -> Result<Vec<(u64, bool)>, RecordError> {
    let mut reading = Reading::open(path)?;
    let mut events = Vec::new();
    loop {
        let found = reading.look(reading.at)?;
        let Found::Record(head) = found else {
            return Ok(events);
        };
        let end = reading.at + head.bytes;
        if end > reading.len_bytes {
            return Ok(events);
        }
        events.push((head.event, head.missing == 0));
        reading.go_to(end)?;
    }
}

impl Reading<File> {
    /// Whether the first, the last and some entries between them lead to their events.
    fn agrees_with(&mut self, index: &[(u64, u64)]) -> Result<bool, RecordError> {
        let step = index.len().div_ceil(PLACES_TRIED).max(1);
        for &(event, at) in index.iter().step_by(step).chain(index.last()) {
            let found = self.look(at)?;
            if !matches!(found, Found::Record(head) if head.event == event) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
