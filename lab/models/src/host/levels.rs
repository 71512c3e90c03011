//! A processor with two levels: a handler of interrupts that goes before the program.
//!
//! | the program | the handler | who has the processor |
//! |---|---|---|
//! | has an operation | idle | the program |
//! | has an operation | has one | the handler; the program's operation goes on after it |
//! | idle | has an operation | the handler |
//!
//! An interrupt is taken in the middle of an operation, as between two instructions. A host
//! with a second processor for its interrupts has both at once: nobody waits.

use barewire_units::{Duration, Instant};

/// Who works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The program, in or out of the system.
    Program,
    /// The handler of interrupts.
    Handler,
}

/// A processor with two levels, or one for each.
#[derive(Clone, Debug)]
pub struct Levels {
    two_processors: bool,
    /// When the program's operation ends, as far as is known.
    program: Option<Instant>,
    handler: Option<Instant>,
    /// What is left of a program's operation that the handler has interrupted.
    set_aside: Option<Duration>,
    busy: [Duration; 2],
}

impl Levels {
    /// An idle host with one processor, or with two.
    #[must_use]
    pub const fn new(two_processors: bool) -> Self {
        Self {
            two_processors,
            program: None,
            handler: None,
            set_aside: None,
            busy: [Duration::ZERO; 2],
        }
    }

    /// Whether nobody waits for the other.
    #[must_use]
    pub const fn has_two_processors(&self) -> bool {
        self.two_processors
    }

    /// Whether `level` has no operation.
    #[must_use]
    pub const fn is_idle(&self, level: Level) -> bool {
        match level {
            Level::Program => self.program.is_none() && self.set_aside.is_none(),
            Level::Handler => self.handler.is_none(),
        }
    }

    /// Begins an operation of `level`, which is idle, that takes `cost`.
    pub fn begin(&mut self, level: Level, now: Instant, cost: Duration) {
        self.busy[level as usize] = self.busy[level as usize].saturating_add(cost);
        match level {
            Level::Handler => {
                self.handler = Some(now.saturating_add(cost));
                let interrupted = self.program.take_if(|_| !self.two_processors);
                if let Some(end) = interrupted {
                    self.set_aside = Some(end.saturating_duration_since(now));
                }
            }
            Level::Program if self.handler.is_some() && !self.two_processors => {
                self.set_aside = Some(cost);
            }
            Level::Program => self.program = Some(now.saturating_add(cost)),
        }
    }

    /// When the next operation ends.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        match (self.program, self.handler) {
            (Some(program), Some(handler)) => Some(program.min(handler)),
            (program, handler) => program.or(handler),
        }
    }

    /// Whose operation has ended, if one has: the handler's first. Its level is idle then.
    pub fn poll(&mut self, now: Instant) -> Option<Level> {
        if self.handler.is_some_and(|end| end <= now) {
            self.handler = None;
            return Some(Level::Handler);
        }
        if self.program.is_some_and(|end| end <= now) {
            self.program = None;
            return Some(Level::Program);
        }
        None
    }

    /// Lets an operation that was set aside go on, if the handler has no more to do; whether
    /// there was one. To be called when the handler has returned.
    pub fn resume(&mut self, now: Instant) -> bool {
        if self.handler.is_some() {
            return false;
        }
        let left = self.set_aside.take();
        self.program = self.program.or(left.map(|left| now.saturating_add(left)));
        left.is_some()
    }

    /// Time of all operations begun, of a level.
    #[must_use]
    pub const fn busy_time(&self, level: Level) -> Duration {
        self.busy[level as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ORIGIN + Duration::from_us(us)
    }

    fn us(us: u64) -> Duration {
        Duration::from_us(us)
    }

    #[test]
    fn the_handler_goes_before_and_the_program_loses_nothing() {
        let mut levels = Levels::new(false);
        levels.begin(Level::Program, at(0), us(100));
        levels.begin(Level::Handler, at(30), us(10));
        assert_eq!(levels.next_deadline(), Some(at(40)));
        assert_eq!(levels.poll(at(39)), None);
        assert_eq!(levels.poll(at(40)), Some(Level::Handler));
        // The handler goes on at once: the program still waits.
        levels.begin(Level::Handler, at(40), us(5));
        assert!(!levels.is_idle(Level::Program) && !levels.resume(at(41)));
        assert_eq!(levels.poll(at(45)), Some(Level::Handler));
        assert!(levels.resume(at(45)));
        assert_eq!(levels.next_deadline(), Some(at(115)));
        assert_eq!(levels.poll(at(115)), Some(Level::Program));
        assert_eq!(levels.next_deadline(), None);
        assert_eq!(levels.busy_time(Level::Program), us(100));
        assert_eq!(levels.busy_time(Level::Handler), us(15));
    }

    #[test]
    fn what_begins_under_the_handler_waits_for_it() {
        let mut levels = Levels::new(false);
        levels.begin(Level::Handler, at(0), us(10));
        levels.begin(Level::Program, at(4), us(3));
        assert_eq!(levels.next_deadline(), Some(at(10)));
        assert_eq!(levels.poll(at(10)), Some(Level::Handler));
        assert!(levels.resume(at(10)));
        assert_eq!(levels.next_deadline(), Some(at(13)));
    }

    #[test]
    fn two_processors_do_not_wait_for_each_other() {
        let mut levels = Levels::new(true);
        levels.begin(Level::Program, at(0), us(10));
        levels.begin(Level::Handler, at(2), us(20));
        assert_eq!(levels.poll(at(10)), Some(Level::Program));
        assert!(!levels.resume(at(10)) && levels.is_idle(Level::Program));
        assert_eq!(levels.poll(at(22)), Some(Level::Handler));
    }
}
