//! Apertures that this node has exported, and which links hold them.

use std::sync::{Arc, Weak};

use slab::Slab;

use crate::apertures::exported::Exported;

struct Export {
    /// Keeps the number from being used again while a peer may still speak of it.
    aperture: Weak<Exported>,
    links: Vec<usize>,
    gone: bool,
}

/// The table of exported apertures.
#[derive(Default)]
pub(crate) struct Exports(Slab<Export>);

impl Exports {
    /// Takes a number for an aperture that is being made.
    pub fn reserve(&mut self) -> u32 {
        self.0.insert(Export {
            aperture: Weak::new(),
            links: Vec::new(),
            gone: false,
        }) as u32
    }

    pub fn set(&mut self, number: u32, aperture: &Arc<Exported>) {
        self.0[number as usize].aperture = Arc::downgrade(aperture);
    }

    /// A link holds the aperture now; `false` if it did already.
    pub fn granted(&mut self, number: u32, link: usize) -> bool {
        let links = &mut self.0[number as usize].links;
        let new = !links.contains(&link);
        if new {
            links.push(link);
        }
        new
    }

    /// Which links hold the aperture.
    pub fn holders(&self, number: u32) -> Vec<usize> {
        let export = self.0.get(number as usize);
        export.map(|e| e.links.clone()).unwrap_or_default()
    }

    /// A link has given the aperture back. Numbers that peers make up are ignored.
    pub fn released(&mut self, number: u32, link: usize) {
        if let Some(export) = self.0.get_mut(number as usize) {
            export.links.retain(|l| *l != link);
            if let Some(aperture) = export.aperture.upgrade() {
                aperture.importer_gone(link);
            }
            self.free_if_done(number);
        }
    }

    pub fn forget_link(&mut self, link: usize) {
        let numbers: Vec<u32> = self.0.iter().map(|(n, _)| n as u32).collect();
        for number in numbers {
            self.released(number, link);
        }
    }

    /// The owner's handle is gone.
    pub fn dropped(&mut self, number: u32) {
        if let Some(export) = self.0.get_mut(number as usize) {
            export.gone = true;
            self.free_if_done(number);
        }
    }

    fn free_if_done(&mut self, number: u32) {
        let done = |e: &Export| e.gone && e.links.is_empty() && e.aperture.strong_count() == 0;
        if self.0.get(number as usize).is_some_and(done) {
            self.0.remove(number as usize);
        }
    }
}
