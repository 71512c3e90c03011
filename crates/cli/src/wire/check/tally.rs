//! Counts per circuit, and the list of what was wrong.

use std::collections::BTreeMap;
use std::fmt;

use barewire_formats::atm::Vc;
use barewire_report::columns::in_columns;
use barewire_wire::Error;
use serde_json::{Value as Json, json};

use crate::wire::show::counted;

/// Errors that are listed where not all are asked for.
const LISTED: usize = 20;

/// Whom a count belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Circuit {
    /// No circuit: the link itself, or nobody knows.
    Link,
    /// A circuit of ATM.
    Atm(Vc),
    /// A circuit of the Cambridge Backbone.
    Backbone(u16),
    /// A node of a Jetstream ring.
    Rid(u8),
}

impl fmt::Display for Circuit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link => f.write_str("link"),
            Self::Atm(vc) => write!(f, "VC {vc}"),
            Self::Backbone(vci) => write!(f, "VCI {vci:#06x}"),
            Self::Rid(rid) => write!(f, "RID {rid}"),
        }
    }
}

/// One thing that was wrong.
#[derive(Debug)]
struct Finding {
    packet: usize,
    circuit: Circuit,
    text: String,
}

/// Counts under names, by circuit: what was seen, and what was wrong with it.
#[derive(Debug, Default)]
struct Counts {
    seen: BTreeMap<&'static str, u64>,
    errors: BTreeMap<&'static str, u64>,
}

/// All counts of a capture.
#[derive(Debug, Default)]
pub struct Tally {
    packets: usize,
    circuits: BTreeMap<Circuit, Counts>,
    findings: Vec<Finding>,
}

impl Tally {
    /// What follows is about the next packet.
    pub fn next_packet(&mut self) {
        self.packets += 1;
    }

    /// Something was seen, nothing is wrong with it.
    pub fn count(&mut self, circuit: Circuit, what: &'static str, number: u64) {
        let counts = self.circuits.entry(circuit).or_default();
        *counts.seen.entry(what).or_default() += number;
    }

    /// Something is wrong, `number` times.
    pub fn error(&mut self, circuit: Circuit, what: &'static str, number: u64, text: &str) {
        let counts = self.circuits.entry(circuit).or_default();
        *counts.errors.entry(what).or_default() += number;
        self.findings.push(Finding {
            packet: self.packets,
            circuit,
            text: text.to_owned(),
        });
    }

    /// A field is wrong; positions are those of the file.
    pub fn fault(&mut self, circuit: Circuit, what: &'static str, error: &Error) {
        self.error(circuit, what, 1, &error.to_string());
    }

    /// Errors in all.
    pub fn error_count(&self) -> usize {
        self.findings.len()
    }

    /// A table of the circuits, and the errors one by one.
    pub fn text(&self, all: bool) -> String {
        let mut text = format!("{}\n", counted(self.packets, "packet"));
        text += &self.table("seen", |counts| &counts.seen);
        text += &self.table("errors", |counts| &counts.errors);
        let listed = if all { self.findings.len() } else { LISTED };
        for finding in self.findings.iter().take(listed) {
            let (packet, circuit) = (finding.packet, finding.circuit);
            text += &format!("packet {packet}, {circuit}: {}\n", finding.text);
        }
        if let Some(more) = self
            .findings
            .len()
            .checked_sub(listed)
            .filter(|more| *more > 0)
        {
            text += &format!("and {more} more (--all lists them)\n");
        }
        if self.findings.is_empty() {
            text += "no errors\n";
        }
        text
    }

    /// The circuits that have such counts, in columns.
    fn table(&self, title: &str, of: fn(&Counts) -> &BTreeMap<&'static str, u64>) -> String {
        let mut names: Vec<&str> = self
            .circuits
            .values()
            .flat_map(|c| of(c).keys().copied())
            .collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            return String::new();
        }
        let mut lines = vec![vec![title.to_owned()]];
        lines[0].extend(names.iter().map(|&name| name.to_owned()));
        for (circuit, counts) in self.circuits.iter().filter(|(_, c)| !of(c).is_empty()) {
            let cells = names.iter().map(|name| of(counts).get(name));
            let mut line = vec![circuit.to_string()];
            line.extend(cells.map(|cell| cell.map_or(String::new(), u64::to_string)));
            lines.push(line);
        }
        in_columns(&lines, &[0], "") + "\n"
    }

    /// The same as JSON.
    pub fn json(&self) -> Json {
        let circuit = |(circuit, counts): (&Circuit, &Counts)| {
            json!({
                "circuit": circuit.to_string(),
                "seen": counts.seen,
                "errors": counts.errors,
            })
        };
        let finding = |finding: &Finding| {
            json!({
                "packet": finding.packet,
                "circuit": finding.circuit.to_string(),
                "what": finding.text,
            })
        };
        json!({
            "packets": self.packets,
            "circuits": self.circuits.iter().map(circuit).collect::<Vec<_>>(),
            "errors": self.findings.iter().map(finding).collect::<Vec<_>>(),
        })
    }
}
