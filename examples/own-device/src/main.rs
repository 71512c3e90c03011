//! Runs plans of networks with this crate's device: `own-device PLAN [KEY=VALUE ...]`.

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;

use barewire_tables::plan::Wanted;
use barewire_tables::runs::{Watch, run};
use barewire_tables::{Change, Results};
use own_device::lab;

fn main() -> ExitCode {
    match tables(std::env::args().skip(1)) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("own-device: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The tables of a plan with changes.
fn tables(mut arguments: impl Iterator<Item = String>) -> Result<String, Box<dyn Error>> {
    let name = arguments
        .next()
        .ok_or("expected a plan, as in `own-device policer.toml`")?;
    let mut wanted = Wanted::default();
    for change in arguments {
        let change: Change = change.parse()?;
        wanted.set.push(("KEY=VALUE", change));
    }
    let plans = [lab().resolve(&lab().open(&name)?, &wanted)?];
    let found = run(&plans, 0, &Watch::new(&plans))?;
    let results = found
        .iter()
        .map(|found| Results::of_plan(&plans[0], found, BTreeMap::new()).to_text());
    Ok(results.collect())
}
