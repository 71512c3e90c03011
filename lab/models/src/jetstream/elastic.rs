//! The elastic buffer of a card, frame by frame: whether a frame comes through it whole.
//!
//! A card hears at the clock of its neighbour and sends at its own. The buffer of
//! [`barewire_formats::jetstream::fifo`] lies between the two: reading starts at the tick that finds
//! four words, the next tick takes the first, and the end of a frame, which is held once,
//! stops it. So the buffer is centred again with each frame. Here the same buffer is
//! known by its two clocks alone: the instants at which word `k` is written and read are whole
//! numbers, and a frame breaks where a word is read before it was written or written
//! where none has been read. The test beside this holds it against the buffer of the format,
//! word by word.
//!
//! | clock | unit | a word takes |
//! |---|---|---|
//! | writer, `w` parts in 10⁹ fast | a word / (10⁹ + w)(10⁹ + r) | 10⁹ + r |
//! | reader, `r` parts in 10⁹ fast | the same | 10⁹ + w |
//!
//! Source: jet93, section 3.4; the depth of 16 words is ours (open), as in the format.

pub use barewire_formats::jetstream::fifo::Slip;
use barewire_formats::jetstream::fifo::{DEPTH, START_WORDS};
use barewire_formats::jetstream::link::WORD_HZ;
use barewire_units::{Duration, Instant};

/// Parts of a nominal clock.
const PARTS: i64 = 1_000_000_000;
/// A buffer that starts to be read holds its words within so many of the next ones.
const SETTLED: i128 = 2 * DEPTH as i128;

/// How fast two neighbours' clocks are, in parts of 10⁹ beyond the nominal 60 MHz.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// Of the station before: what comes in is written at it.
    pub upstream_ppb: i32,
    /// The card's own: what goes out is read at it.
    pub own_ppb: i32,
}

/// A frame that was the last: when it was written and read, and its words.
#[derive(Clone, Copy, Debug)]
struct Past {
    /// The first word is written in the tick that begins here.
    begin: i128,
    /// The tick that started the reading.
    start: i128,
    words: i128,
}

/// An elastic buffer.
#[derive(Clone, Copy, Debug)]
pub struct Elastic {
    writer: i128,
    reader: i128,
    past: Option<Past>,
}

impl Elastic {
    /// An empty buffer between two clocks.
    #[must_use]
    pub fn new(clocks: Clocks) -> Self {
        let period = |ppb: i32| i128::from(PARTS.saturating_add(ppb.into()).max(1));
        Self {
            writer: period(clocks.own_ppb),
            reader: period(clocks.upstream_ppb),
            past: None,
        }
    }

    /// A frame of `words` whose first bit comes at `begin`.
    ///
    /// # Errors
    ///
    /// Why it does not come through whole.
    pub fn pass(&mut self, begin: Instant, words: u64) -> Result<(), Slip> {
        let begin = in_units(begin.since_origin());
        // One fill at least separates it from the frame before.
        let begin = self.past.map_or(begin, |past| {
            begin.max(past.begin + (past.words + 1) * self.writer)
        });
        let frame = self.started(begin, words.into());
        let result = self.check(frame);
        self.past = Some(frame);
        result
    }

    /// A frame and the tick that starts to read it: the first that finds four words, and stands
    /// behind the one that has read the end of the frame before.
    fn started(&self, begin: i128, words: i128) -> Past {
        let held = begin + (START_WORDS as i128).min(words + 1) * self.writer;
        let free = self.past.map_or(i128::MIN / 2, |past| {
            self.read_at(past, past.words) + self.reader
        });
        let ticks = -(-held.max(free)).div_euclid(self.reader);
        let start = ticks * self.reader;
        Past {
            begin,
            start,
            words,
        }
    }

    /// When word `index` is there.
    fn written_at(&self, frame: Past, index: i128) -> i128 {
        frame.begin + (index + 1) * self.writer
    }

    /// When word `index` is taken; the end of the frame is the word behind its last.
    fn read_at(&self, frame: Past, index: i128) -> i128 {
        frame.start + (index + 1) * self.reader
    }

    /// Words, the end included, that have been taken before `time`.
    fn taken(&self, frame: Past, time: i128) -> i128 {
        let ticks = (time - frame.start - 1).div_euclid(self.reader);
        ticks.clamp(0, frame.words + 1)
    }

    fn check(&self, frame: Past) -> Result<(), Slip> {
        let last = frame.words - 1;
        if self.read_at(frame, last) < self.written_at(frame, last) {
            return Err(Slip::Underrun);
        }
        // What is held grows evenly once the reading is on its way.
        let ends = (0..frame.words.min(SETTLED)).chain([frame.words]);
        for index in ends {
            let time = self.written_at(frame, index);
            let before = self
                .past
                .map_or(0, |past| past.words + 1 - self.taken(past, time));
            let held = before + index + 1 - self.taken(frame, time);
            if held > DEPTH as i128 {
                return Err(Slip::Overrun);
            }
        }
        Ok(())
    }
}

fn in_units(time: Duration) -> i128 {
    const PS_PER_S: i128 = 1_000_000_000_000;
    let parts = i128::from(PARTS);
    i128::from(time.as_ps()) * i128::from(WORD_HZ) * parts / PS_PER_S
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_formats::jetstream::FRAME_BYTES_MAX;
    use barewire_formats::jetstream::fifo::ElasticFifo;
    use proptest::prelude::*;

    const LONGEST_WORDS: u64 = FRAME_BYTES_MAX as u64 / 2;

    fn clocks(upstream_ppm: i32, own_ppm: i32) -> Clocks {
        Clocks {
            upstream_ppb: upstream_ppm * 1_000,
            own_ppb: own_ppm * 1_000,
        }
    }

    fn at_word(word: u64) -> Instant {
        Instant::ORIGIN + Duration::from_ps(word * 50_000 / 3)
    }

    /// The frames, each begun so many words behind the end of the one before, through the buffer
    /// of the format: a write comes before a read of the same instant.
    fn word_by_word(clocks: Clocks, frames: &[(u64, u64)]) -> Result<(), Slip> {
        let elastic = Elastic::new(clocks);
        let mut fifo = ElasticFifo::new();
        let mut line = Vec::new();
        for (gap, words) in frames {
            line.extend(std::iter::repeat_n(None, *gap as usize));
            line.extend(std::iter::repeat_n(Some(7), *words as usize));
        }
        line.extend([None; 40]);
        let mut tick = 1;
        for (index, word) in line.iter().enumerate() {
            let written = (index as i128 + 1) * elastic.writer;
            while tick * elastic.reader < written {
                fifo.read()?;
                tick += 1;
            }
            fifo.write(*word)?;
        }
        Ok(())
    }

    fn by_frames(clocks: Clocks, frames: &[(u64, u64)]) -> Result<(), Slip> {
        let mut elastic = Elastic::new(clocks);
        let mut end = 0;
        for (gap, words) in frames {
            // The writer's clock counts the words of the line.
            let begin = i128::from(end + gap) * elastic.writer;
            let frame = elastic.started(begin, (*words).into());
            elastic.check(frame)?;
            elastic.past = Some(frame);
            end += gap + words;
        }
        Ok(())
    }

    /// The longest frame, and the difference of clocks that the paper's four words carry.
    #[test]
    fn four_words_carry_122_ppm() {
        let longest = |clocks| Elastic::new(clocks).pass(at_word(5), LONGEST_WORDS);
        assert_eq!(longest(clocks(-61, 60)), Ok(()));
        assert_eq!(longest(clocks(-80, 80)), Err(Slip::Underrun));
        // A slow reader has the depth beyond four words.
        assert_eq!(longest(clocks(60, -61)), Ok(()));
        assert_eq!(longest(clocks(250, -250)), Err(Slip::Overrun));
    }

    /// A gap gives the slack back; without one a slow reader falls behind for ever.
    #[test]
    fn the_buffer_is_centred_between_frames() {
        let mut spaced = Elastic::new(clocks(50, -50));
        let mut packed = Elastic::new(clocks(50, -50));
        let mut slips = 0;
        for frame in 0..20 {
            let begin = frame * (LONGEST_WORDS + 20);
            assert_eq!(spaced.pass(at_word(begin), LONGEST_WORDS), Ok(()));
            let begin = frame * (LONGEST_WORDS + 1);
            slips += u64::from(packed.pass(at_word(begin), LONGEST_WORDS).is_err());
        }
        assert!(slips > 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// The same verdict as the buffer of the format, for differences that break frames of
        /// thousands of words.
        #[test]
        fn it_is_the_buffer_of_the_format(
            upstream in -2_000_i32..2_000,
            own in -2_000_i32..2_000,
            frames in prop::collection::vec((1_u64..30, 4_u64..4_000), 1..5),
        ) {
            let clocks = clocks(upstream, own);
            prop_assert_eq!(by_frames(clocks, &frames), word_by_word(clocks, &frames));
        }
    }
}
