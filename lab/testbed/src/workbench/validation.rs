//! The workbench put together as systems of the papers, and measured as they were.
//!
//! | table | host and card | what is measured |
//! |---|---|---|
//! | `cbn91` | `mvme147`, `card-v1s` | Table 1: sent, call to call; Table 3: ping, each cell interrupts |
//! | `penn91` | `rs6000`, `card-penn` | Table I: sent, call to call |
//! | `jet93` | `hp9000-730`, `card-afterburner` | received, messages of one segment |
//! | `kek00` | `pc733`, `card-acenic` and `card-acenic-jumbo` | received |
//! | `clan02` | `alpha533`, `card-clan` | ping; 8 B are the header of the Queue |
//!
//! Nothing is fitted here: costs are those that the systems' own models were calibrated with,
//! which the workbench's simpler parts then have to make the right use of. The workbench knows
//! no TCP, no slots of a ring, and no waits for a card's memory: hence 10 percent.

use barewire_units::Duration;

use super::experiments::{Pings, Streams, ping, stream};
use super::parameters::Parameters;
use super::presets;
use crate::error::SystemError;
use crate::replicate::replicate;
use crate::system::Finding;

const CELL_BYTES: u64 = 32;
const SENT_CELLS: [u64; 7] = [1, 2, 10, 30, 63, 125, 250];
const PING_CELLS: [u64; 8] = [1, 2, 5, 10, 20, 30, 40, 44];
const BLOCKS_KIB: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
const SEGMENT: u64 = 14 << 10;
/// By which a receiver lets its sender go on: a header.
const CREDIT_BYTES: u64 = 40;
/// Of a message of 40 B: that and its header.
const CLAN_BYTES: u64 = 48;

#[derive(Clone, Copy)]
enum Measure {
    /// Mbit/s from call to call.
    Sent(u64),
    /// Mbit/s at the receiver.
    Received(u64),
    /// Microseconds.
    RoundTrip(u64),
}

struct Row {
    table: &'static str,
    row: String,
    host: &'static str,
    card: &'static str,
    measure: Measure,
    /// How often, for a stream.
    messages: u64,
    window: u64,
}

fn rows() -> Vec<Row> {
    let row = |table, row: String, (host, card), measure| Row {
        table,
        row,
        host,
        card,
        measure,
        messages: 64,
        window: 0,
    };
    let cbn = ("mvme147", "card-v1s");
    let mut all = Vec::new();
    for cells in SENT_CELLS {
        let sent = Measure::Sent(cells * CELL_BYTES);
        all.push(row("cbn91", format!("Table 1, {cells} cells"), cbn, sent));
    }
    for cells in PING_CELLS {
        let ping = Measure::RoundTrip(cells * CELL_BYTES);
        all.push(row("cbn91", format!("Table 3, {cells} cells"), cbn, ping));
    }
    for kib in BLOCKS_KIB {
        let sent = Measure::Sent(kib << 10);
        let name = format!("Table I, {} B", kib << 10);
        all.push(row("penn91", name, ("rs6000", "card-penn"), sent));
    }
    let afterburner = ("hp9000-730", "card-afterburner");
    let name = "messages of 14 KB".to_owned();
    let received = Measure::Received(SEGMENT);
    all.push(Row {
        messages: 200,
        window: 12,
        ..row("jet93", name, afterburner, received)
    });
    let stream = Measure::Received(64 << 10);
    for (mtu, card) in [(1500, "card-acenic"), (9000, "card-acenic-jumbo")] {
        let name = format!("PC733, MTU {mtu}");
        all.push(Row {
            messages: 200,
            window: 8,
            ..row("kek00", name, ("pc733", card), stream)
        });
    }
    let ping = Measure::RoundTrip(CLAN_BYTES);
    let clan = ("alpha533", "card-clan");
    all.push(row("clan02", "40 B".to_owned(), clan, ping));
    all
}

/// All rows, on hosts and cards of the papers in place of those of `parameters`.
pub(super) fn run(parameters: &str, seed: u64) -> Result<Vec<Finding>, SystemError> {
    let rows = rows();
    let findings = replicate(rows.len(), |index| rows[index].measure(parameters, seed));
    findings.into_iter().collect()
}

impl Row {
    fn measure(&self, parameters: &str, seed: u64) -> Result<Finding, SystemError> {
        let whole = presets::with(parameters, &[self.host, self.card])?;
        let parameters = Parameters::parse(&whole)?;
        let streamed = |bytes| {
            let plan = Streams {
                bytes,
                messages: self.messages,
                window: self.window,
                credit_bytes: CREDIT_BYTES,
            };
            stream(&parameters, plan, 0)
        };
        let (quantity, unit, value) = match self.measure {
            Measure::Sent(bytes) => ("sent", "Mbit/s", streamed(bytes).sent_mbps),
            Measure::Received(bytes) => ("received", "Mbit/s", streamed(bytes).received_mbps),
            Measure::RoundTrip(bytes) => {
                let plan = Pings {
                    bytes,
                    round_trips: 20,
                    pause: Duration::ZERO,
                    time_out: Duration::from_s(1),
                };
                let times = ping(&parameters, plan, seed, 0).round_trips_us;
                ("round trip", "us", crate::figures::mean(&times))
            }
        };
        let Some(value) = value else {
            let (table, row) = (self.table, &self.row);
            return Err(SystemError::Contradiction(format!(
                "{table}, {row}: nothing arrives"
            )));
        };
        Ok(Finding {
            table: self.table,
            row: self.row.clone(),
            quantity,
            unit,
            value,
        })
    }
}
