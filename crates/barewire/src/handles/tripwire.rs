//! Tripwires: traps on a range of an aperture.

use std::sync::Arc;

use barewire_fabric::aperture::{Action, Mode};

use crate::apertures::exported::settle_watch;
use crate::apertures::layout::ApertureId;
use crate::apertures::tripwire::{Place, TripwireCore};
use crate::error::Result;
use crate::handles::import::Import;
use crate::node::core::NodeCore;
use crate::tables::doorbells::Source;

/// A tripwire that has been set. Dropping it disarms it.
pub struct Tripwire {
    core: Arc<TripwireCore>,
    /// What it is set on, if that is a peer's, is not given back before it.
    _import: Option<Arc<Import>>,
    node: Arc<NodeCore>,
}

impl Tripwire {
    pub(crate) fn arm(
        node: &Arc<NodeCore>,
        place: Place,
        import: Option<Arc<Import>>,
        range: (usize, usize),
        mode: Mode,
        action: Action,
    ) -> Result<Tripwire> {
        node.base.check_fork()?;
        let source = node.state().doorbells.add_source(Source::Free)?;
        let set = TripwireCore::set(&node.base, place, source, range, (mode, action));
        let core = match set {
            Ok(core) => Arc::new(core),
            Err(error) => {
                node.state().doorbells.free_source(source);
                return Err(error);
            }
        };
        let own = Source::Tripwire(Arc::clone(&core));
        node.state().doorbells.set_source(source, own);
        settle_watch();
        Ok(Tripwire {
            core,
            _import: import,
            node: Arc::clone(node),
        })
    }

    /// The aperture that it was set on, as events name it.
    #[must_use]
    pub fn aperture(&self) -> ApertureId {
        self.core.aperture()
    }

    /// Whether it is still set: not disarmed, and not a one-shot that has fired.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.core.is_armed()
    }

    /// How many transfers it has counted (action [`Action::Count`]); a one-shot counts
    /// one at most.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.core.counted()
    }

    /// Takes it away. A transfer that is under way may still be reported.
    pub fn disarm(&self) {
        self.core.disarm();
    }
}

impl Drop for Tripwire {
    fn drop(&mut self) {
        // A child may find the lock taken by a thread that it does not have.
        if self.node.base.check_fork().is_ok() {
            self.core.disarm();
            self.node.state().doorbells.free_source(self.core.source);
        }
    }
}

impl core::fmt::Debug for Tripwire {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tripwire")
            .field("mode", &self.core.mode)
            .field("action", &self.core.action)
            .field("armed", &self.is_armed())
            .finish_non_exhaustive()
    }
}
