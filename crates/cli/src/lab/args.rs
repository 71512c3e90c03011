//! A plan, as the arguments of several commands name it.

use std::io::{self, Read};

use barewire_tables::Change;
use barewire_tables::plan::Wanted;
use clap::Args;

/// A plan, with what is to be different in it.
#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    /// A built-in plan (`barewire lab list`), a file, or the folder of a result
    pub plan: String,
    /// Change a key: `inputs.KEY`, `seed`, `replications`, or a parameter of the system. The
    /// value `@FILE` stands for the text of that file
    #[arg(long, value_name = "KEY=VALUE", value_parser = change_or_file)]
    pub set: Vec<Change>,
    /// Replace inputs and parameters of the plan by those of a file or a built-in fragment
    #[arg(long, value_name = "FILE|NAME")]
    pub with: Vec<String>,
    /// Seed of all random numbers
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Run N times with different seeds, and give means with 95 % confidence intervals
    #[arg(long, value_name = "N")]
    pub replications: Option<u64>,
}

/// The longest text of a file that can be a value.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// `KEY=VALUE`, or `KEY=@FILE` with the text of a file for its value.
fn change_or_file(text: &str) -> std::result::Result<Change, String> {
    let mut change: Change = text.parse()?;
    let Some(path) = change.value.strip_prefix('@') else {
        return Ok(change);
    };
    let wrong = |error: io::Error| format!("{path}: {error}");
    let mut value = String::new();
    let file = std::fs::File::open(path).map_err(wrong)?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut value);
    if read.map_err(wrong)? as u64 > FILE_BYTES_MAX {
        return Err(format!("{path}: more than {FILE_BYTES_MAX} bytes"));
    }
    change.value = value;
    Ok(change)
}

impl PlanArgs {
    /// What is to be different, with the options that say so.
    pub fn wanted(&self) -> Wanted {
        let numbers = [
            ("--seed", "seed", self.seed),
            ("--replications", "replications", self.replications),
        ];
        let number = |(option, key, number): (&'static str, &str, Option<u64>)| {
            let value = number?.to_string();
            let key = key.to_owned();
            Some((option, Change { key, value }))
        };
        let changes = self.set.iter().map(|change| ("--set", change.clone()));
        Wanted {
            with: self.with.clone(),
            set: changes
                .chain(numbers.into_iter().filter_map(number))
                .collect(),
        }
    }
}
