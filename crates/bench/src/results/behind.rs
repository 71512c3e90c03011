//! Where somebody else is ahead of Barewire.

use barewire_report::number::{bytes, ratio};
use serde::{Deserialize, Serialize};

use crate::case::Transport;
use crate::results::Row;

/// Less than that is printed as 1.00.
const LEAST_FACTOR: f64 = 1.005;

/// A figure of somebody else's that is better than the best of Barewire's, measured in the same band.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Behind {
    /// `rtt`, `stream`, `transactions` or `wake`.
    pub test: String,
    /// `polling` or `blocking`.
    pub waiting: String,
    /// Bytes in a message.
    pub size_bytes: u64,
    /// Connections of the one server.
    pub connections: u64,
    /// The band.
    pub band: String,
    /// Who is ahead: transport and variant.
    pub who: String,
    /// The best way of using Barewire.
    pub own: String,
    /// How many times as good the other figure is: more than 1.
    pub factor: f64,
}

impl Behind {
    fn new(other: &Row, own: &Row) -> Behind {
        let ratio = own.median / other.median;
        Behind {
            test: other.test.clone(),
            waiting: other.waiting.clone(),
            size_bytes: other.size_bytes,
            connections: other.connections,
            band: other.band.clone(),
            who: other.who(),
            own: own.who(),
            factor: if other.is_rate() { 1.0 / ratio } else { ratio },
        }
    }

    /// In a line, such as `rtt of 4 KiB, polling, band A: ucx am-lat is 1.25 times as good as barewire message`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let many = match self.connections {
            0 | 1 => String::new(),
            many => format!(", {many} connections"),
        };
        format!(
            "{} of {}{many}, {}, band {}: {} is {} times as good as {}",
            self.test,
            bytes(self.size_bytes),
            self.waiting,
            self.band,
            self.who,
            ratio(self.factor),
            self.own
        )
    }
}

/// All that is better than Barewire at the same work in the same band. `rows` are those of all bands. The limits of the
/// machine are nobody, and links between hosts are compared with TCP alone ([`super::beside_tcp`]).
#[must_use]
pub fn behind(rows: &[Row]) -> Vec<Behind> {
    let (own, others): (Vec<&Row>, Vec<&Row>) = rows
        .iter()
        .filter(|row| {
            ![Transport::Limit.name(), Transport::Hosts.name()].contains(&&*row.transport)
        })
        .partition(|row| row.transport == Transport::Barewire.name());
    let compared = others.into_iter().filter_map(|other| {
        let same = own.iter().filter(|own| {
            is_same_work(own, other) && (is_copied_out(own) || !is_copied_out(other))
        });
        Some(Behind::new(other, same.copied().reduce(better)?))
    });
    compared.filter(|it| it.factor >= LEAST_FACTOR).collect()
}

/// Whether the receiver copies the message out. Who does is compared with whoever does.
fn is_copied_out(row: &Row) -> bool {
    !["in-place", "put-lat", "put-bw", "am-lat"].contains(&row.variant.as_str())
}

fn better<'a>(first: &'a Row, second: &'a Row) -> &'a Row {
    match (first.median < second.median) == first.is_rate() {
        true => second,
        false => first,
    }
}

fn is_same_work(one: &Row, other: &Row) -> bool {
    let work = |row: &Row| {
        let connections = (row.connections, row.outstanding);
        (row.size_bytes, connections, row.disturbed)
    };
    (one.test == other.test && one.waiting == other.waiting && one.band == other.band)
        && work(one) == work(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    fn row(transport: &str, unit: &str, median: f64) -> Row {
        let some = report().results[0].clone();
        Row {
            transport: transport.into(),
            unit: unit.into(),
            median,
            ..some
        }
    }

    fn factors(rows: &[Row]) -> Vec<f64> {
        behind(rows).iter().map(|it| it.factor).collect()
    }

    #[test]
    fn the_best_of_ours_counts() {
        let times = [100.0, 50.0].map(|ns| row("barewire", "ns", ns));
        let others = [40.0, 60.0].map(|ns| row("ucx", "ns", ns));
        assert_eq!(factors(&[&times[..], &others].concat()), [1.25]);
        let rates = [100.0, 50.0].map(|rate| row("barewire", "bytes/s", rate));
        let others = [80.0, 150.0].map(|rate| row("tcp", "bytes/s", rate));
        assert_eq!(factors(&[&rates[..], &others].concat()), [1.5]);
    }

    #[test]
    fn who_copies_out_is_compared_with_who_does() {
        let with = |variant: &str, row: Row| Row {
            variant: variant.into(),
            ..row
        };
        let own = [
            with("message", row("barewire", "ns", 100.0)),
            with("in-place", row("barewire", "ns", 20.0)),
        ];
        let others = [
            with("tag-lat", row("ucx", "ns", 50.0)),
            with("am-lat", row("ucx", "ns", 10.0)),
        ];
        assert_eq!(factors(&[own, others].concat()), [2.0, 2.0]);
    }

    #[test]
    fn only_the_same_work_in_the_same_band_is_compared() {
        let own = row("barewire", "ns", 100.0);
        let other = row("unix", "ns", 50.0);
        assert!(factors(&[own.clone(), row("limit", "ns", 1.0)]).is_empty());
        let mut elsewhere = other.clone();
        elsewhere.band = "D".into();
        let mut longer = other.clone();
        longer.size_bytes += 1;
        assert!(factors(&[own.clone(), elsewhere, longer]).is_empty());
        assert_eq!(factors(&[own, other]), [2.0]);
    }
}
