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
mod command;
mod filter;
mod head;
mod qdisc;
mod units;
mod words;
mod write;

use alloc::vec::Vec;

use super::problem::{Part, Problem};
pub use command::{ClassConfig, Command, FilterConfig, Parent, QdiscConfig};
use words::Words;
pub use words::{Error, Fault};

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

#[cfg(test)]
mod tests;
