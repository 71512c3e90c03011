//! The table of what each bit of a doorbell page stands for.

use barewire_fabric::aperture::Notice;
use barewire_fabric::doorbell::Drain;
use barewire_models::clan::EntryId;

/// What a bit of the doorbell page stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) notice: Notice,
    /// Its entry in the card; `None` once it was taken away.
    pub(super) entry: Option<EntryId>,
    /// What it had counted then.
    pub(super) counted: u64,
}

/// What the owner of an event queue keeps.
#[derive(Debug, Default)]
pub(super) struct Desk {
    pub(super) drain: Drain,
    pub(super) sources: Vec<Source>,
    pub(super) free: Vec<u32>,
    /// Numbers that were given back, but whose bit may still be set.
    pub(super) given_back: Vec<u32>,
}

impl Desk {
    pub(super) fn add(&mut self, notice: Notice) -> u32 {
        let source = Source {
            notice,
            entry: None,
            counted: 0,
        };
        if let Some(number) = self.free.pop() {
            self.sources[number as usize] = source;
            return number;
        }
        self.sources.push(source);
        self.sources.len() as u32 - 1
    }
}
