//! A network as a picture shows it: what stands there, what joins it, and what runs.

/// What a thing of a network is, for its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A host with its card.
    Host,
    /// A switch.
    Switch,
    /// A ring.
    Ring,
    /// An interworking unit.
    Unit,
    /// A device of somebody's own.
    Device,
}

impl Shape {
    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Switch => "switch",
            Self::Ring => "ring",
            Self::Unit => "unit",
            Self::Device => "device",
        }
    }
}

/// A thing of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thing {
    /// Its name.
    pub name: String,
    /// What it is.
    pub shape: Shape,
    /// What it is like: `pc733, card-acenic`.
    pub about: String,
    /// How many of these there are, all alike and joined alike.
    pub count: usize,
}

/// What joins two things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// Their numbers among the things.
    pub ends: [usize; 2],
    /// What it is: `cable, 1 Gbit/s`; empty at the station of a ring.
    pub about: String,
}

/// A network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    /// What stands there.
    pub things: Vec<Thing>,
    /// What joins it.
    pub joins: Vec<Join>,
    /// What runs on it, a line each.
    pub programs: Vec<String>,
}
