//! What is wrong with the description of a network: all of it, each with the key that it is
//! about. Where in which file that key stands is known to whoever has read the plan.

pub use crate::error::Fault;

/// Everything that is wrong so far.
#[derive(Debug, Default)]
pub(super) struct Faults(pub Vec<Fault>);

impl Faults {
    /// Something is wrong with what stands at `key`.
    pub(super) fn add(&mut self, key: impl Into<String>, problem: impl Into<String>) {
        self.0.push(Fault {
            key: key.into(),
            problem: problem.into(),
            meant: None,
        });
    }

    /// `found` at `key` is none of the names that there are.
    pub(super) fn unknown<'a>(
        &mut self,
        key: impl Into<String>,
        what: &str,
        found: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) {
        self.0.push(Fault {
            key: key.into(),
            problem: format!("no such {what}"),
            meant: Some((
                found.to_owned(),
                known.into_iter().map(str::to_owned).collect(),
            )),
        });
    }
}
