//! Windows, fences and doorbell words over loom atomics, and the flaws they can be given.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use barewire_fabric::frame::{CONTROL_BYTES, LINE_BYTES, region_bytes};
use barewire_fabric::memory::{Fences, Incoming, Outgoing, SharedWords};
use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// What can be wrong with the memory of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing.
    #[default]
    None,
    /// Words are published with a relaxed store.
    PublishRelaxed,
    /// Words are observed with a relaxed load.
    ObserveRelaxed,
    /// The header behind a frame is not cleared.
    ClearOmitted,
    /// The header behind a frame is cleared after the frame is published.
    ClearLate,
}

/// One region: the words that one side stores and the other loads.
struct Memory {
    words: Vec<AtomicU64>,
}

/// Both kinds of window into a region.
#[derive(Clone)]
pub struct Window {
    memory: Arc<Memory>,
    flaw: Flaw,
    /// Stores left until the storing side dies: what it stores afterwards vanishes.
    life: Option<Arc<std::sync::atomic::AtomicU64>>,
    /// Clears held back by [`Flaw::ClearLate`].
    late: RefCell<Vec<usize>>,
}

impl Window {
    /// A zeroed region with a ring of `ring_bytes`.
    pub fn new(ring_bytes: usize) -> Window {
        let words = (0..region_bytes(ring_bytes) / 8).map(|_| AtomicU64::new(0));
        Window {
            memory: Arc::new(Memory {
                words: words.collect(),
            }),
            flaw: Flaw::None,
            life: None,
            late: RefCell::new(Vec::new()),
        }
    }

    /// The same region with a flaw.
    pub fn with(&self, flaw: Flaw) -> Window {
        Window {
            flaw,
            ..self.clone()
        }
    }

    /// The same region, whose storing side dies `stores` stores after [`Life::begin`].
    pub fn mortal(&self) -> (Window, Life) {
        let life = Arc::new(std::sync::atomic::AtomicU64::new(u64::MAX));
        let window = Window {
            life: Some(life.clone()),
            ..self.clone()
        };
        (window, Life(life))
    }

    fn store(&self, offset: usize, value: u64, ordering: Ordering) {
        assert!(offset % 8 == 0 && offset + 8 <= Outgoing::len_bytes(self));
        if let Some(life) = &self.life {
            // No loom atomic: counting must not order anything.
            let left = life.load(std::sync::atomic::Ordering::Relaxed);
            if left == 0 {
                return;
            }
            life.store(left - 1, std::sync::atomic::Ordering::Relaxed);
        }
        self.memory.words[offset / 8].store(value, ordering);
    }

    fn load(&self, offset: usize, ordering: Ordering) -> u64 {
        assert!(offset % 8 == 0 && offset + 8 <= Outgoing::len_bytes(self));
        self.memory.words[offset / 8].load(ordering)
    }

    fn is_header(offset: usize) -> bool {
        offset >= CONTROL_BYTES && offset % LINE_BYTES == 0
    }

    /// The offsets of the words of a transfer that really take place: the first, the last,
    /// and those where a header could stand. The others add states and no insight.
    fn touched(offset: usize, len_bytes: usize) -> impl Iterator<Item = usize> {
        let end = offset + len_bytes.next_multiple_of(8);
        (offset..end)
            .step_by(8)
            .filter(move |at| *at == offset || *at + 8 == end || Window::is_header(*at))
    }
}

/// Decides when the storing side of a mortal window dies.
pub struct Life(Arc<std::sync::atomic::AtomicU64>);

impl Life {
    /// From now on `stores` more stores take place.
    pub fn begin(&self, stores: u64) {
        self.0.store(stores, std::sync::atomic::Ordering::Relaxed);
    }

    /// Stores that were left.
    pub fn left(&self) -> u64 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl Outgoing for Window {
    fn len_bytes(&self) -> usize {
        self.memory.words.len() * 8
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        for at in Window::touched(offset, bytes.len()) {
            let rest = &bytes[at - offset..];
            let mut word = [0; 8];
            let len = rest.len().min(8);
            word[..len].copy_from_slice(&rest[..len]);
            self.store(at, u64::from_ne_bytes(word), Ordering::Relaxed);
        }
    }

    fn write_u64(&self, offset: usize, value: u64) {
        if value == 0 && Window::is_header(offset) {
            match self.flaw {
                Flaw::ClearOmitted => return,
                Flaw::ClearLate => return self.late.borrow_mut().push(offset),
                _ => {}
            }
        }
        self.store(offset, value, Ordering::Relaxed);
    }

    fn publish_u64(&self, offset: usize, value: u64) {
        let ordering = match self.flaw {
            Flaw::PublishRelaxed => Ordering::Relaxed,
            _ => Ordering::Release,
        };
        self.store(offset, value, ordering);
        for late in self.late.take() {
            self.store(late, 0, Ordering::Relaxed);
        }
    }
}

impl Incoming for Window {
    fn len_bytes(&self) -> usize {
        self.memory.words.len() * 8
    }

    fn read(&self, offset: usize, into: &mut [u8]) {
        for at in Window::touched(offset, into.len()) {
            let word = self.load(at, Ordering::Relaxed).to_ne_bytes();
            let rest = &mut into[at - offset..];
            let len = rest.len().min(8);
            rest[..len].copy_from_slice(&word[..len]);
        }
    }

    fn read_u64(&self, offset: usize) -> u64 {
        self.load(offset, Ordering::Relaxed)
    }

    fn observe_u64(&self, offset: usize) -> u64 {
        let ordering = match self.flaw {
            Flaw::ObserveRelaxed => Ordering::Relaxed,
            _ => Ordering::Acquire,
        };
        self.load(offset, ordering)
    }
}

/// The asymmetric barrier; either half can be missing.
#[derive(Clone, Copy)]
pub struct Barrier {
    /// Whether the light half is there.
    pub light: bool,
    /// Whether the heavy half is there.
    pub heavy: bool,
}

impl Barrier {
    /// Both halves.
    pub const WHOLE: Barrier = Barrier {
        light: true,
        heavy: true,
    };
}

impl Fences for Barrier {
    fn light(&self) {
        if self.light {
            fence(Ordering::SeqCst);
        }
    }

    fn heavy(&self) {
        if self.heavy {
            fence(Ordering::SeqCst);
        }
    }
}

/// The words of a doorbell page that a model uses; all others stay zero.
pub struct Page {
    words: Vec<(usize, AtomicU64)>,
    settles: bool,
    fences: bool,
}

/// Word of the top level.
pub const TOP: usize = 0;
/// The sleep word.
pub const SLEEP: usize = 1;
/// Word `mid[0]`.
pub const MID_0: usize = 2;
/// Word `leaf[0]`.
pub const LEAF_0: usize = 3;

impl Page {
    /// A page of which the first words (top, sleep, `mid[0]`, the direct leaf 0), leaves 5
    /// and 6 and the path to source 4096 (`mid[1]`, `leaf[64]`) exist.
    pub fn new() -> Page {
        Page::with(true, true)
    }

    /// The same; `settle` and `fence` may do nothing.
    pub fn with(settles: bool, fences: bool) -> Page {
        let words = [TOP, SLEEP, MID_0, LEAF_0, 66 + 5, 66 + 6, 8, 66 + 64];
        Page {
            words: words.map(|index| (index, AtomicU64::new(0))).into(),
            settles,
            fences,
        }
    }

    /// A page of which these words exist.
    pub fn of(words: &[usize]) -> Page {
        Page {
            words: words.iter().map(|at| (*at, AtomicU64::new(0))).collect(),
            settles: true,
            fences: true,
        }
    }

    fn word(&self, index: usize) -> Option<&AtomicU64> {
        let found = self.words.iter().find(|(number, _)| *number == index);
        found.map(|(_, word)| word)
    }
}

impl SharedWords for Page {
    fn load(&self, index: usize) -> u64 {
        self.word(index).map_or(0, |w| w.load(Ordering::Acquire))
    }

    fn store(&self, index: usize, value: u64) {
        let word = self.word(index).expect("a word of the model");
        word.store(value, Ordering::Release);
    }

    fn or(&self, index: usize, bits: u64) -> u64 {
        let word = self.word(index).expect("a word of the model");
        word.fetch_or(bits, Ordering::AcqRel)
    }

    fn take(&self, index: usize) -> u64 {
        let word = self.word(index).expect("a word of the model");
        word.swap(0, Ordering::AcqRel)
    }

    fn settle(&self) {
        if self.settles {
            fence(Ordering::SeqCst);
        }
    }

    fn fence(&self) {
        if self.fences {
            fence(Ordering::SeqCst);
        }
    }
}

/// A page seen by a ringer that stops after so many accesses: later ones do not happen.
pub struct Stopping<'a> {
    /// The page.
    pub page: &'a Page,
    /// Accesses left.
    pub left: Cell<u32>,
}

impl Stopping<'_> {
    /// Whether the ringer got to its end.
    pub fn alive(&self) -> bool {
        self.left.get() > 0
    }

    fn step(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }
}

impl SharedWords for Stopping<'_> {
    fn load(&self, index: usize) -> u64 {
        if self.step() {
            self.page.load(index)
        } else {
            0
        }
    }

    fn store(&self, _index: usize, _value: u64) {
        unreachable!("a ringer stores nothing");
    }

    fn or(&self, index: usize, bits: u64) -> u64 {
        if self.step() {
            self.page.or(index, bits)
        } else {
            0
        }
    }

    fn take(&self, _index: usize) -> u64 {
        unreachable!("a ringer takes nothing");
    }

    fn settle(&self) {
        if self.alive() {
            self.page.settle();
        }
    }

    fn fence(&self) {
        unreachable!("a ringer only settles");
    }
}
