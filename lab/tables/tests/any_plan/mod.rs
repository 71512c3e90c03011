//! Any bytes as the text of a plan: it is read and checked, and never panics or takes long. What
//! passes and describes a network of its own runs for a short while, and gives tables.
//!
//! For the fuzz target `plan`, and for the test beside this folder.

use barewire_tables::plan::{PlanError, PlanSource, Wanted};
use barewire_testbed::{Progress, Setting};

/// A run ends after this time of the model. In a program that is fuzzed it also ends after 100 000
/// events, as `lab/testbed/src/network/run.rs` says.
const INPUTS: &str = "time = \"1 ms\"\nlinks = []\n";

/// Reads, checks and runs; says whether something ran.
///
/// A text that does not name its system is the description of a network, so that short inputs
/// hold what matters. Fragments may be files: a text that may name some is not read, since those
/// of the machine are no part of the input.
pub fn run(data: &[u8]) -> bool {
    let Some(text) = std::str::from_utf8(data)
        .ok()
        .filter(|text| !text.contains("with"))
    else {
        return false;
    };
    let text = match text.contains("system") {
        true => text.to_owned(),
        false => format!("system = \"network\"\n{text}"),
    };
    let source = PlanSource::default();
    let plan = source
        .read("input", &text)
        .and_then(|draft| source.resolve(&draft, &Wanted::default()));
    let plan = match plan {
        Ok(plan) => plan,
        Err(PlanError::Faults(faults)) => {
            assert!(!faults.is_empty());
            assert!(faults.iter().all(|fault| !fault.problem.is_empty()));
            return false;
        }
        Err(error) => panic!("no other error can be: {error}"),
    };
    if plan.system.name() != "network" {
        return false;
    }
    let setting = Setting {
        parameters: &plan.parameters,
        inputs: INPUTS,
        seed: plan.seed,
        packets_per_link: 4,
        progress: &Progress::default(),
    };
    match (plan.experiment.run)(&setting) {
        Ok(outcome) => {
            for table in &outcome.tables {
                let fits = |row: &Vec<_>| row.len() == table.columns.len();
                assert!(table.rows.iter().all(fits), "{}", table.name);
            }
        }
        Err(error) => assert!(error.to_string().contains("given up"), "{error}"),
    }
    true
}
