//! Which builder gets the next event.
//!
//! | policy | the builder of an event | waits |
//! |---|---|---|
//! | round robin | the next one in turn that is alive | while none is |
//! | least loaded | the one with the fewest events, of these the one that waited longest | while none is alive |
//! | pulled | the one that asked first, one event for each event asked for | while nobody asks |
//! | hash | by the event's number alone; of the next number that is alive if that one is not | while none is alive |

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use super::run::BuilderId;

/// How builders get events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// In turn.
    RoundRobin,
    /// The one with the fewest events.
    LeastLoaded,
    /// The one that asked.
    Pulled,
    /// A function of the event's number.
    Hash,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    alive: bool,
    /// Events that it has.
    load: u32,
    /// How many assignments there were before its last.
    last: u64,
    /// Events it asked for and did not get.
    asked: u32,
}

/// The builders as the policy sees them.
#[derive(Clone, Debug)]
pub(super) struct Assigner {
    policy: Policy,
    places: Vec<Place>,
    /// With the policy of the least loaded: those alive, by load and then by how long they waited.
    by_load: BTreeSet<(u32, u64, u16)>,
    /// Those alive that have asked, in order.
    asking: VecDeque<BuilderId>,
    turn: usize,
    count: u64,
}

impl Assigner {
    pub fn new(policy: Policy, builders: u16) -> Self {
        let mut assigner = Self {
            policy,
            places: vec![Place::default(); usize::from(builders)],
            by_load: BTreeSet::new(),
            asking: VecDeque::new(),
            turn: 0,
            count: 0,
        };
        for builder in 0..builders {
            assigner.join(BuilderId(builder));
        }
        assigner
    }

    fn place(&mut self, builder: BuilderId) -> Option<&mut Place> {
        self.places.get_mut(usize::from(builder.0))
    }

    /// A builder without events; it has asked for nothing.
    pub fn join(&mut self, builder: BuilderId) {
        let Some(place) = self.place(builder) else {
            return;
        };
        if place.alive {
            return;
        }
        let last = place.last;
        *place = Place {
            alive: true,
            last,
            ..Place::default()
        };
        if self.policy == Policy::LeastLoaded {
            self.by_load.insert((0, last, builder.0));
        }
    }

    /// A builder is gone with its events.
    pub fn remove(&mut self, builder: BuilderId) {
        let Some(place) = self.place(builder) else {
            return;
        };
        let key = (place.load, place.last, builder.0);
        place.alive = false;
        self.by_load.remove(&key);
        self.asking.retain(|&it| it != builder);
    }

    /// A builder asks for events.
    pub fn ask(&mut self, builder: BuilderId, events: u32) {
        let Some(place) = self.place(builder).filter(|place| place.alive) else {
            return;
        };
        let first = place.asked == 0 && events > 0;
        place.asked = place.asked.saturating_add(events);
        if first {
            self.asking.push_back(builder);
        }
    }

    /// The builder of `event`, which counts it from now on; `None` if it must wait.
    pub fn assign(&mut self, event: u64) -> Option<BuilderId> {
        let builder = match self.policy {
            Policy::RoundRobin => {
                let builder = self.alive_from(self.turn)?;
                self.turn = usize::from(builder.0) + 1;
                builder
            }
            Policy::LeastLoaded => BuilderId(self.by_load.first()?.2),
            Policy::Hash => {
                let builders = self.places.len().max(1) as u64;
                self.alive_from((scatter(event) % builders) as usize)?
            }
            Policy::Pulled => self.take_asking()?,
        };
        self.count += 1;
        let count = self.count;
        self.change(builder, |place| {
            place.load = place.load.saturating_add(1);
            place.last = count;
        });
        Some(builder)
    }

    /// The first that asked; it goes to the end if it asked for more than one.
    fn take_asking(&mut self) -> Option<BuilderId> {
        let builder = self.asking.pop_front()?;
        let place = self.place(builder)?;
        place.asked = place.asked.saturating_sub(1);
        if place.asked > 0 {
            self.asking.push_back(builder);
        }
        Some(builder)
    }

    /// An event of `builder` is closed.
    pub fn finish(&mut self, builder: BuilderId) {
        self.change(builder, |place| place.load = place.load.saturating_sub(1));
    }

    fn change(&mut self, builder: BuilderId, how: impl FnOnce(&mut Place)) {
        let Some(place) = self.place(builder).filter(|place| place.alive) else {
            return;
        };
        let before = (place.load, place.last, builder.0);
        how(place);
        let after = (place.load, place.last, builder.0);
        if self.policy == Policy::LeastLoaded {
            self.by_load.remove(&before);
            self.by_load.insert(after);
        }
    }

    fn alive_from(&self, start: usize) -> Option<BuilderId> {
        let builders = self.places.len();
        let at = (0..builders)
            .map(|step| (start + step) % builders)
            .find(|&at| self.places[at].alive)?;
        u16::try_from(at).ok().map(BuilderId)
    }
}

/// Spreads neighbouring numbers: the finishing step of SplitMix64.
const fn scatter(event: u64) -> u64 {
    let a = (event ^ event >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ a >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ b >> 31
}
