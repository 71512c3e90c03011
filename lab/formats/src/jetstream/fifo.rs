//! The elastic buffer between two clocks: a station writes it at the clock of the
//! link that it hears, and reads it at its own.
//!
//! Reading starts only when four words are held, and then takes one at each tick.
//! The tick that finds four words only starts; the next one reads, as a flag that
//! crosses clocks is seen a tick late. So the reader is behind the writer by four
//! words at least, and a frame of n words can be read by a clock that is faster by
//! 4/n: 122 parts per million over the 32 788 words of the longest. A slower reader
//! falls behind by as much, for which there is room. Fills between frames are held
//! once, as the end of a frame, and so give the slack back.
//!
//! Source: jet93; that the depth is 16 words is ours (open).

/// Words held when reading starts.
pub const START_WORDS: usize = 4;
/// Words and ends of frames that fit.
pub const DEPTH: usize = 16;

/// Why a frame broke in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slip {
    /// The reader is faster: there was no word for its tick.
    Underrun,
    /// The writer is faster: there was no room for its word.
    Overrun,
}

/// The buffer. `None` is a fill, no word.
#[derive(Clone, Debug, Default)]
pub struct ElasticFifo {
    held: [Option<u16>; DEPTH],
    first: usize,
    len: usize,
    reading: bool,
}

impl ElasticFifo {
    /// An empty buffer between frames.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            held: [None; DEPTH],
            first: 0,
            len: 0,
            reading: false,
        }
    }

    /// Words and ends of frames that are held.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True where nothing is held.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// One tick of the writer's clock: a word, or `None` for a fill.
    ///
    /// # Errors
    /// [`Slip::Overrun`]: the word is lost.
    pub fn write(&mut self, word: Option<u16>) -> Result<(), Slip> {
        let between_frames = self.len == 0 && !self.reading || self.ends_with_fill();
        if word.is_none() && between_frames {
            return Ok(());
        }
        if self.len == DEPTH {
            return Err(Slip::Overrun);
        }
        self.held[(self.first + self.len) % DEPTH] = word;
        self.len += 1;
        Ok(())
    }

    /// One tick of the reader's clock: a word, or `None` for a fill.
    ///
    /// # Errors
    /// [`Slip::Underrun`]: the frame is broken; what comes of it still reads as a new one.
    pub fn read(&mut self) -> Result<Option<u16>, Slip> {
        if !self.reading {
            // A frame below four words has its end to start the reading.
            self.reading = self.len >= START_WORDS || self.ends_with_fill();
            return Ok(None);
        }
        if self.len == 0 {
            self.reading = false;
            return Err(Slip::Underrun);
        }
        let word = self.held[self.first];
        self.first = (self.first + 1) % DEPTH;
        self.len -= 1;
        self.reading = word.is_some();
        Ok(word)
    }

    fn ends_with_fill(&self) -> bool {
        let last = (self.first + self.len + DEPTH - 1) % DEPTH;
        self.len > 0 && self.held[last].is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jetstream::FRAME_BYTES_MAX;
    use std::vec::Vec;

    const WORDS_MAX: u64 = FRAME_BYTES_MAX as u64 / 2;
    /// Period of the writer; divisible by the words of the longest frame and by 10⁶.
    const PERIOD: u64 = WORDS_MAX * 1_000_000;

    /// Passes one frame of the longest length through the buffer. The reader ticks at
    /// `phase`, `phase + period`, ... At one instant the reader goes first: the worse case.
    fn pass(period: u64, phase: u64) -> Result<usize, (Slip, u64)> {
        let mut fifo = ElasticFifo::new();
        let (mut written, mut read, mut ticks, mut held_max) = (0, 0, 0, 0);
        while read < WORDS_MAX {
            if phase + ticks * period <= written * PERIOD {
                ticks += 1;
                match fifo.read() {
                    Ok(Some(word)) => {
                        assert_eq!(word, read as u16);
                        read += 1;
                    }
                    Ok(None) => assert_eq!(read, 0, "a gap in a frame"),
                    Err(slip) => return Err((slip, read)),
                }
            } else {
                let word = (written < WORDS_MAX).then_some(written as u16);
                fifo.write(word).map_err(|slip| (slip, read))?;
                written += 1;
                held_max = held_max.max(fifo.len());
            }
        }
        Ok(held_max)
    }

    fn faster(numerator: u64, denominator: u64) -> u64 {
        PERIOD - PERIOD / denominator * numerator
    }

    /// The derived figure: four words over the longest frame, 122 parts per million.
    #[test]
    fn four_words_are_122_ppm_of_the_longest_frame() {
        assert_eq!(WORDS_MAX, 32_788);
        assert_eq!(4_000_000 / WORDS_MAX, 121);
        assert_eq!(40_000_000 / WORDS_MAX, 1_219);
        // The worst phase: the first tick that finds four words falls on the fourth write's
        // instant and just misses it, or follows at once; both ends and some between.
        let period = faster(4, WORDS_MAX);
        for sixteenth in 0..=16 {
            let phase = period / 16 * sixteenth;
            assert!(pass(period, phase).is_ok(), "phase {sixteenth}/16");
        }
        let worst_phase = 3 * PERIOD % period + 1;
        assert!(pass(period, worst_phase).is_ok());
    }

    #[test]
    fn five_words_faster_is_too_fast() {
        let (slip, read) = pass(faster(5, WORDS_MAX), 3 * PERIOD % faster(5, WORDS_MAX) + 1)
            .expect_err("a reader that gains five words");
        assert_eq!(slip, Slip::Underrun);
        // It lasts four fifths of the frame.
        assert!((26_000..27_000).contains(&read), "{read}");
    }

    /// The same 122 ppm the other way: nothing is lost at any phase, and 11 words are enough.
    #[test]
    fn a_slower_reader_has_room() {
        let mut held_max = 0;
        for sixteenth in 0..16 {
            let period = PERIOD + PERIOD / WORDS_MAX * 4;
            let held = pass(period, period / 16 * sixteenth);
            held_max = held_max.max(held.expect("122 ppm slower"));
        }
        assert!((8..=11).contains(&held_max), "{held_max}");
        let (slip, _) = pass(PERIOD + PERIOD / WORDS_MAX * 16, 0).expect_err("488 ppm slower");
        assert_eq!(slip, Slip::Overrun);
    }

    #[test]
    fn frames_stay_apart_and_short_ones_do_not_stick() {
        let mut fifo = ElasticFifo::new();
        let line = [
            Some(1),
            None,
            None,
            Some(2),
            Some(3),
            Some(4),
            Some(5),
            Some(6),
            None,
            None,
            None,
            None,
            None,
            None,
        ];
        let mut out = Vec::new();
        for word in line {
            fifo.write(word).expect("room");
            out.push(fifo.read().expect("a word or a fill"));
        }
        let mut frames: Vec<Vec<u16>> = Vec::new();
        for frame in out.split(Option::is_none) {
            if !frame.is_empty() {
                frames.push(frame.iter().copied().flatten().collect());
            }
        }
        assert_eq!(frames, [std::vec![1], std::vec![2, 3, 4, 5, 6]]);
        assert!(fifo.is_empty());
    }
}
