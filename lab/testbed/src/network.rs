//! A network of one's own: hosts with cards, links, rings, switches, interworking units and
//! devices, and what runs on them, all described in a plan.
//!
//! Hosts, cards and the programs' experiments are those of the [`crate::workbench`]; rings are
//! those of [`crate::cbn`] and [`crate::jetstream`]. A host may have several cards, and pass on what
//! comes by one for somebody at another. A network that one of these has, too, gives
//! the same times, to the picosecond.
//!
//! | part | module |
//! |---|---|
//! | the tables of the plan, read and checked | `read`, with `fields`, `faults`, `stations` |
//! | the network, checked | `description` |
//! | lines between cards, devices and rings | `wiring`, `rings` |
//! | what is recorded of links | `capture` |
//! | devices: the trait, the switch, the interworking unit | `device`, `switch`, `unit` |
//! | programs | `programs` |
//! | a run, and its tables | `run` |
//!
//! A device of one's own is a [`Device`] in a crate of one's own, and a [`Kinds`] that makes it:
//! `System::<OwnKinds>::new()` is then a system like the others, with plans, checks and
//! results.

mod capture;
mod description;
mod device;
mod faults;
mod fields;
mod kinds;
mod picture;
mod places;
mod programs;
mod read;
mod rings;
mod run;
mod stations;
mod switch;
#[cfg(test)]
mod tests;
mod unit;
mod wiring;

use std::marker::PhantomData;

use barewire_units::Duration;
use toml::Table;

pub use barewire_models::workbench::{Frame, Framing, Piece};
pub use device::{Desk, Device};
pub use faults::Fault;
pub use kinds::{Kinds, NoKinds, Wrong};

use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting};
use crate::refuse::{AboveZero, inputs, wrong};
use crate::sketch::Sketch;
use crate::system::Finding;
use description::Description;

/// Networks of one's own, with devices of the kinds of `K`.
pub struct System<K = NoKinds>(PhantomData<K>);

impl<K> System<K> {
    /// The system.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<K> Default for System<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Kinds + Default + 'static> System<K> {
    const EXPERIMENTS: &'static [Experiment] = &[Experiment {
        name: "run",
        question: "What do these programs find on this network?",
        inputs: include_str!("../plans/network-run.toml"),
        check: check::<K>,
        run: run::<K>,
    }];
}

impl<K: Kinds + Default + 'static> crate::system::System for System<K> {
    fn name(&self) -> &'static str {
        "network"
    }

    fn parameters(&self) -> &'static str {
        include_str!("../parameters/network.toml")
    }

    /// There is no paper about a network that nobody has described.
    fn run(&self, _parameters: &str, _seed: u64) -> Result<Vec<Finding>, SystemError> {
        Ok(Vec::new())
    }

    fn experiments(&self) -> &'static [Experiment] {
        Self::EXPERIMENTS
    }

    fn sections(&self) -> &'static [&'static str] {
        &read::SECTIONS
    }

    fn sketch(&self, parameters: &str) -> Option<Result<Sketch, SystemError>> {
        let description = description::<K>(parameters);
        Some(description.map(|description| picture::sketch(&description)))
    }

    fn plans(&self) -> &'static [(&'static str, &'static str)] {
        PLANS
    }
}

/// Networks that are described already.
const PLANS: &[(&str, &str)] = &[
    ("network-ping", include_str!("../plans/networks/ping.toml")),
    ("network-five", include_str!("../plans/networks/five.toml")),
    ("network-tcp", include_str!("../plans/networks/tcp.toml")),
    (
        "network-five-tcp",
        include_str!("../plans/networks/five-tcp.toml"),
    ),
    (
        "network-gateway",
        include_str!("../plans/networks/gateway.toml"),
    ),
];

inputs! {
    struct Inputs {
        time: Duration => AboveZero(Duration::from_s(1000)),
        #[serde(default)]
        links: Vec<String>,
    }
}

fn description<K: Kinds + Default>(text: &str) -> Result<Description, SystemError> {
    let whole: Table = toml::from_str(text)?;
    read::read(&whole, &K::default()).map_err(SystemError::Faults)
}

fn check<K: Kinds + Default>(setting: &Setting<'_>) -> Result<(), SystemError> {
    let inputs: Inputs = setting.checked_inputs()?;
    let description = description::<K>(setting.parameters)?;
    check_links(&inputs, &description)
}

/// Links that are to be recorded have to be there.
fn check_links(inputs: &Inputs, description: &Description) -> Result<(), SystemError> {
    let is_known = |name: &str| description.links.iter().any(|link| link.is_named(name));
    match inputs.links.iter().find(|name| !is_known(name)) {
        Some(name) => Err(wrong("links", name, "the name of a link")),
        None => Ok(()),
    }
}

fn run<K: Kinds + Default>(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let inputs: Inputs = setting.checked_inputs()?;
    let description = description::<K>(setting.parameters)?;
    check_links(&inputs, &description)?;
    setting.progress.announce(1);
    let wanted = run::Wanted {
        seed: setting.seed,
        limit: inputs.time,
        links: &inputs.links,
        packets_per_link: setting.packets_per_link,
    };
    let outcome = run::run(&description, &K::default(), &wanted);
    setting.progress.step();
    outcome
}
