//! Reads the description of a network from its tables, and notes all that is wrong with it.
//!
//! | step | module |
//! |---|---|
//! | hosts with their cards, devices, and the ports that these have | `parts` |
//! | links and rings between the ports; what each line carries | `lines` |
//! | who can reach whom | `ways` |
//! | what runs on it | `runs` |
//!
//! A step goes on with what the one before it could make sense of.

mod lines;
mod parts;
mod runs;
mod ways;

use toml::Table;

use super::description::Description;
use super::faults::{Fault, Faults};
use super::kinds::Kinds;

/// Tables that a description is made of, in the order in which they are best written.
pub(super) const SECTIONS: [&str; 8] = [
    "hosts", "cards", "switches", "units", "devices", "rings", "links", "programs",
];

/// The network that `text` describes.
pub(super) fn read(whole: &Table, kinds: &dyn Kinds) -> Result<Description, Vec<Fault>> {
    let mut faults = Faults::default();
    for key in whole.keys() {
        if !SECTIONS.contains(&key.as_str()) {
            faults.unknown(key.clone(), "section", key, SECTIONS);
        }
    }
    let mut parts = parts::read(whole, kinds, &mut faults);
    let drafts = lines::read(whole, &mut parts, &mut faults);
    let mut description = lines::put_together(parts, drafts, &mut faults);
    runs::read(whole, &mut description, &mut faults);
    if faults.0.is_empty() && description.programs.is_empty() && description.rings.is_empty() {
        faults.add("programs", "nothing runs: expected [programs.NAME]");
    }
    match faults.0.is_empty() {
        true => Ok(description),
        false => Err(faults.0),
    }
}
