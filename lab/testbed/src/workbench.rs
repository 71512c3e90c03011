//! The workbench: a card of one's own design, on a host of one's own.
//!
//! Hosts with a processor, a bus and a card, a link between two of them or a switch between
//! many; the models of [`barewire_models::host`] and [`barewire_models::workbench`]. All hosts
//! are alike. A plan changes the parameters, and asks:
//!
//! | experiment | what runs | what is measured |
//! |---|---|---|
//! | `copy` | nothing but copies of memory | their rate by size |
//! | `ping` | a message there and back | round trip, and where its time goes |
//! | `stream` | messages one after the other | throughput, what holds it up, losses |
//! | `request` | clients that ask at random times | answers, their times, losses |
//! | `incast` | many send to one at once | what arrives, and when |
//! | `events` | the processes of an event builder on one host | events built, and where time goes |
//!
//! Its fragments are hosts and cards of the papers as parameters of the workbench. Put together
//! they are the papers' systems, and what the system reproduces: that is the test of the
//! workbench itself, and nothing is fitted for it.

pub(crate) mod bench;
pub(crate) mod capture;
mod experiments;
pub(crate) mod length;
pub(crate) mod parameters;
pub(crate) mod path;
pub(crate) mod presets;
#[cfg(test)]
mod tests;
mod validation;

pub(crate) use experiments::common::events;

use crate::error::SystemError;
use crate::experiment::Experiment;
use crate::system::Finding;

/// The workbench.
pub struct System;

impl crate::system::System for System {
    fn name(&self) -> &'static str {
        "workbench"
    }

    fn parameters(&self) -> &'static str {
        include_str!("../parameters/workbench.toml")
    }

    fn run(&self, parameters: &str, seed: u64) -> Result<Vec<Finding>, SystemError> {
        validation::run(parameters, seed)
    }

    fn experiments(&self) -> &'static [Experiment] {
        &experiments::ALL
    }

    fn fragments(&self) -> &'static [(&'static str, &'static str)] {
        presets::ALL
    }
}
