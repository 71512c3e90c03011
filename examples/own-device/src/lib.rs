//! A device of one's own in the networks of `barewire lab`: a policer, which lets through what a
//! rate allows and loses the rest.
//!
//! Three things make it a part of a plan: the device itself ([`Policer`], which implements
//! [`Device`]), its name ([`OwnKinds`]), and a system of networks that knows that name
//! ([`lab`]). Plans, checks with lines, sweeps and tables are then as those of the command.
#![forbid(unsafe_code)]

mod policer;

use barewire_tables::plan::PlanSource;
use barewire_testbed::System;
use barewire_testbed::network::{self, Device, Kinds, Wrong};
use toml::Table;

pub use policer::Policer;

/// The devices of this crate, by the names that a plan has for them.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnKinds;

impl Kinds for OwnKinds {
    fn names(&self) -> &'static [&'static str] {
        &["policer"]
    }

    fn make(&self, kind: &str, ports: usize, keys: &Table) -> Result<Box<dyn Device>, Wrong> {
        match kind {
            "policer" => Ok(Box::new(Policer::new(ports, keys)?)),
            other => Err(Wrong {
                key: "kind".to_owned(),
                problem: format!("no such kind: {other}"),
            }),
        }
    }
}

/// Networks with these devices.
static NETWORK: network::System<OwnKinds> = network::System::new();
static SYSTEMS: &[&dyn System] = &[&NETWORK];

/// Where plans with these devices come from.
#[must_use]
pub fn lab() -> PlanSource {
    PlanSource::new(SYSTEMS)
}
