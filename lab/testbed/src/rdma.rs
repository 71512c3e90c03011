//! The frame ring over a modelled RDMA card and its switches, 2 to 1024 hosts.
//!
//! The rings and message queues are `barewire-fabric`'s, over the windows of the modelled card.
//! Two hosts share one link, as the live network's will.
//!
//! | experiment | what runs | what is measured |
//! |---|---|---|
//! | `ping` | a message there and back, and the card's write alone | half a round trip |
//! | `stream` | messages over one or more connections | rate |
//! | `slow-receiver` | one core sends to two hosts, of which one is slow | what the other one gets |
//! | `incast` | many send to one | goodput, latency, buffer, drops, pauses, fairness |
//! | `bystander` | the same, beside two who send to others | what those get |
//! | `all-to-all` | everybody sends to everybody | rate, memory, contexts of the card |
//!
//! What it reproduces are measurements of cards: the test that the card is a plausible one.

pub mod bench;
mod experiments;
mod parameters;
mod program;
mod runs;
#[cfg(test)]
mod tests;
mod world;

use barewire_units::Duration;

use crate::error::SystemError;
use crate::experiment::Experiment;
use crate::system::Finding;
use parameters::Parameters;
use runs::{Shape, Times};

/// The ring over RDMA.
pub struct System;

impl crate::system::System for System {
    fn name(&self) -> &'static str {
        "rdma"
    }

    fn parameters(&self) -> &'static str {
        parameters::TEXT
    }

    fn run(&self, parameters: &str, _seed: u64) -> Result<Vec<Finding>, SystemError> {
        let mut parameters = Parameters::parse(parameters)?;
        // Cards back to back.
        parameters.switch.latency = Duration::ZERO;
        let finding = |row: String, quantity, unit, value| Finding {
            table: "card",
            row,
            quantity,
            unit,
            value,
        };
        let mut found = Vec::new();
        for message_bytes in [32, 1 << 10, 4 << 10, 32 << 10] {
            let shape = Shape {
                ring_bytes: 1 << 16,
                message_bytes,
            };
            let (half_us, _) = runs::ping(&parameters, shape, 10, true);
            let row = format!("{message_bytes} B");
            found.push(finding(row, "half a round trip", "us", half_us));
        }
        let shape = Shape {
            ring_bytes: 1 << 20,
            message_bytes: 1 << 16,
        };
        let times = Times {
            jitter: Duration::ZERO,
            warm_up: Duration::from_us(100),
            time: Duration::from_us(200),
        };
        let rate = runs::stream(&parameters, shape, 4, times).mbps(0, times);
        let row = "64 KiB, four connections".to_owned();
        found.push(finding(row, "rate", "Gbit/s", rate.unwrap_or(0.0) / 1000.0));
        Ok(found)
    }

    fn experiments(&self) -> &'static [Experiment] {
        &experiments::ALL
    }
}
