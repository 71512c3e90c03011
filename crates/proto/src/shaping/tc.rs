//! The `tc` commands that describe a tree, as text.
//!
//! ```text
//! tc qdisc add dev DEV (root | parent CLASS) [handle QDISC] KIND
//!   cbq    bandwidth RATE avpkt SIZE [cell BYTES] [mpu SIZE] [ewma LOG2]
//!   htb    [default MINOR] [r2q N]
//!   tbf    rate RATE burst SIZE (limit SIZE | latency TIME) [peakrate RATE mtu SIZE]
//!   pfifo  [limit PACKETS]
//!   bfifo  limit SIZE
//! tc class add dev DEV parent CLASS classid CLASS KIND
//!   cbq    bandwidth RATE rate RATE [allot SIZE] [weight RATE] [prio 1-8] [cell BYTES]
//!          [maxburst N] [minburst N] [minidle US] [avpkt SIZE] [ewma LOG2] [mpu SIZE]
//!          [bounded | borrow] [isolated | sharing]
//!   htb    rate RATE [ceil RATE] [burst SIZE] [cburst SIZE] [prio 0-7] [quantum BYTES]
//! tc filter add dev DEV parent CLASS protocol (ip | all | NUMBER) prio N [handle NODE] u32
//!          divisor N
//!        | [ht TABLE:BUCKET:] MATCH... (flowid CLASS | link TABLE: [hashkey mask HEX at N]
//!                                [offset [plus N] [at N] [mask HEX] [shift N] [eat]])
//!   MATCH  match ip (src | dst) A.B.C.D[/LEN]
//!          match ip (sport | dport | protocol | tos) VALUE HEX
//!          match (u8 | u16 | u32) VALUE HEX at [nexthdr+]N
//! ```
//!
//! | quantity | units, in any case |
//! |---|---|
//! | RATE | `bit`, `kbit`, `mbit`, `gbit`, `tbit`: powers of 1000, `kibit` ... `tibit`: of 1024; `bps`, `kbps`, `mbps`, `gbps`, `tbps`: **bytes** per second, powers of 1000; none: bit/s |
//! | SIZE | none or `b`: bytes; `k` or `kb`, `m`, `g`: powers of 1024; `kbit`, `mbit`, `gbit`: that many bits, powers of 1024 |
//! | TIME | `s`, `sec`, `secs`, `ms`, `msec`, `msecs`, `us`, `usec`, `usecs`; none: microseconds |
//! | CLASS, QDISC, NODE | hex `major:minor`, `major:`, `table:bucket:node` |
//! | HEX | a mask, with or without `0x` |
//!
//! Fractions must come out as whole bits, bytes or picoseconds. `buffer` and
//! `maxburst` mean `burst`, `pref` means `prio`, `classid` of a filter `flowid`.
//! Empty lines and what follows `#` are passed over. What prints is a command
//! that parses to the same, with all defaults written out and every match as `u32`.
//!
//! Source: linux-tc (tc, tc-cbq, tc-htb, tc-tbf and tc-u32 manual pages), kek00.

mod class;
mod filter;
mod qdisc;
mod units;
mod words;
mod write;

use alloc::string::String;
use alloc::vec::Vec;

use super::tbf;
use super::u32::{Rule, Table};
use super::{Handle, Limit, Part, Problem, cbq, htb};
pub use words::{Error, Fault};
use words::{Word, Words};

/// What a discipline hangs from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// The device.
    Root,
    /// A class.
    Class(Handle),
}

/// Parameters of a discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QdiscConfig {
    /// `pfifo` or `bfifo`.
    Fifo(Limit),
    /// `tbf`.
    Tbf(tbf::Config),
    /// `cbq`.
    Cbq(cbq::QdiscConfig),
    /// `htb`.
    Htb(htb::QdiscConfig),
}

/// Parameters of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassConfig {
    /// `cbq`.
    Cbq(cbq::ClassConfig),
    /// `htb`.
    Htb(htb::ClassConfig),
}

/// Parameters of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterConfig {
    /// A rule.
    Rule(Rule),
    /// An empty hash table.
    Table(Table),
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `tc qdisc add`.
    Qdisc {
        /// The device.
        device: String,
        /// Where it hangs.
        parent: Parent,
        /// Its name.
        handle: Option<Handle>,
        /// Its kind and parameters.
        config: QdiscConfig,
    },
    /// `tc class add`.
    Class {
        /// The device.
        device: String,
        /// The class or discipline above.
        parent: Handle,
        /// Its name.
        id: Handle,
        /// Its kind and parameters.
        config: ClassConfig,
    },
    /// `tc filter add`.
    Filter {
        /// The device.
        device: String,
        /// The discipline or class that asks it.
        parent: Handle,
        /// Its parameters.
        config: FilterConfig,
    },
}

impl Command {
    /// The device that it is for.
    #[must_use]
    pub fn device(&self) -> &str {
        match self {
            Self::Qdisc { device, .. }
            | Self::Class { device, .. }
            | Self::Filter { device, .. } => device,
        }
    }
}

/// A command and the line that it stood in, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Number of the line.
    pub number: usize,
    /// The command.
    pub command: Command,
}

/// Reads commands, one a line.
///
/// # Errors
///
/// The first word that does not fit, and what was expected.
pub fn parse(text: &str) -> Result<Vec<Line>, Error> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = Words::new(number, line);
        if words.peek().is_some() {
            let command = parse_command(&mut words)?;
            lines.push(Line { number, command });
        }
    }
    Ok(lines)
}

fn parse_command(words: &mut Words<'_>) -> Result<Command, Error> {
    words.expect("tc", "`tc`")?;
    let object = words.next("`qdisc`, `class` or `filter`")?;
    let parse = match object.text {
        "qdisc" => qdisc::parse,
        "class" => class::parse,
        "filter" => filter::parse,
        _ => return Err(words.unexpected(object, "`qdisc`, `class` or `filter`")),
    };
    words.expect("add", "`add`")?;
    parse(words)
}

/// The error for a command in line `number` of `text` that does not fit the tree.
pub(super) fn locate(text: &str, number: usize, problem: Problem) -> Error {
    let line = text.lines().nth(number.saturating_sub(1)).unwrap_or("");
    let mut words = Words::new(number, line);
    let keywords: &[&str] = match problem.part() {
        Part::Device => &["dev"],
        Part::Parent => &["parent", "root"],
        Part::Name => &["classid", "handle"],
        Part::Kind => &["cbq", "htb"],
        Part::Flow => &["flowid", "classid"],
        Part::Priority => &["prio", "pref"],
        Part::Bucket => &["ht"],
        Part::Link => &["link"],
    };
    let mut found = words.end();
    while let Some(word) = words.peek() {
        words.skip();
        if keywords.contains(&word.text) {
            let itself = problem.part() == Part::Kind || word.text == "root";
            let value = words.peek().filter(|_| !itself);
            found = value.unwrap_or(word);
            break;
        }
    }
    words.fault(found, Fault::Tree(problem))
}

/// What comes before the kind in any command.
#[derive(Default)]
struct Head {
    device: Option<String>,
    root: Option<()>,
    parent: Option<Handle>,
}

impl Head {
    /// Takes `keyword` and its value, if it is one of these.
    fn take(&mut self, words: &mut Words<'_>, keyword: Word<'_>) -> Result<bool, Error> {
        match keyword.text {
            "dev" => words.fill(&mut self.device, keyword, "a device", |text| {
                Some(text.into())
            })?,
            "root" => words.choice(&mut self.root, keyword, ())?,
            "parent" => words.fill(&mut self.parent, keyword, units::CLASS, units::handle)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn device(&mut self, words: &Words<'_>) -> Result<String, Error> {
        words.require(self.device.take(), "`dev DEVICE`")
    }

    /// The parent, where there must be one.
    fn parent(&self, words: &Words<'_>) -> Result<Handle, Error> {
        match self.root {
            Some(()) => Err(words.fault(words.end(), Fault::Missing("`parent CLASS`, not `root`"))),
            None => words.require(self.parent, "`parent CLASS`"),
        }
    }
}

#[cfg(test)]
mod tests;
