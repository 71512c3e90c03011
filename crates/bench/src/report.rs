//! The report of a run: as JSON, in the format that docs/bench.md describes and keeps stable,
//! and in other forms.

pub mod csv;
pub mod page;
mod summary;
pub mod table;

use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::results::Row;
use crate::results::behind::Behind;
use crate::results::half_peak::HalfPeak;

/// Everything that a run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Where and with what.
    pub environment: Environment,
    /// What came out.
    pub results: Vec<Row>,
    /// From which size on each transport reaches half of its best rate.
    pub half_peaks: Vec<HalfPeak>,
    /// Where somebody else is ahead of Barewire.
    #[serde(default)]
    pub behind: Vec<Behind>,
}

impl Report {
    /// As JSON, for people to read as well.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self)
            .map(|text| text + "\n")
            .map_err(|error| Error::Transport(format!("writing JSON: {error}")))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::case::{Test, Transport, Variant};
    use crate::placement::Placement;
    use crate::results::tests::{case, sample};
    use crate::results::{Books, CaseBook, rows};

    /// A small report for tests.
    pub fn report() -> Report {
        let cases = [
            case(Test::Rtt, Transport::Limit, Variant::Exchange),
            case(Test::Rtt, Transport::Tcp, Variant::Plain),
            case(Test::Stream, Transport::Limit, Variant::Ring64k),
            case(Test::Stream, Transport::Pipe, Variant::Plain),
            case(Test::Transactions, Transport::Limit, Variant::Ring64k),
            case(Test::Transactions, Transport::Unix, Variant::Plain),
            case(Test::Wake, Transport::Limit, Variant::Eventfd),
        ];
        let mut books: Books<'_> = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            let mut book = CaseBook::default();
            let ns = 100.0 * (index + 1) as f64;
            for turn in 0..3 {
                let ns = ns + f64::from(turn);
                book.enter(&sample(ns, 100.0, 101.0), |times| {
                    times.add_picoseconds(&[(ns * 1000.0) as u64]);
                });
            }
            books.push((case, book));
        }
        let mut environment = Environment::look(Placement::Free);
        environment.not_measured.push("a <b> & c".into());
        Report {
            environment,
            results: rows(&books, Vec::new(), false),
            half_peaks: vec![HalfPeak {
                transport: "pipe".into(),
                variant: String::new(),
                band: "A".into(),
                peak: 1e10,
                size_bytes: 128.4,
                reached: true,
            }],
            behind: vec![Behind {
                test: "rtt".into(),
                waiting: "polling".into(),
                size_bytes: 4096,
                connections: 1,
                band: "A".into(),
                who: "ucx am-lat".into(),
                own: "barewire message".into(),
                factor: 1.25,
            }],
        }
    }

    #[test]
    fn json_comes_back_and_has_the_promised_fields() {
        let report = report();
        let text = report.to_json().unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let top: Vec<&String> = value.as_object().unwrap().keys().collect();
        assert_eq!(top, ["behind", "environment", "half_peaks", "results"]);
        for row in value["results"].as_array().unwrap() {
            for field in [
                "test",
                "transport",
                "size_bytes",
                "connections",
                "unit",
                "median",
                "p99",
                "p999",
                "min",
                "max",
                "samples",
                "band_ns",
                "ratio_to_limit",
            ] {
                assert!(row.get(field).is_some(), "{field} is missing");
            }
            assert!(row["median"].is_f64() && row["size_bytes"].is_u64());
        }
    }
}
