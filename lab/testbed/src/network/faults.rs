//! What is wrong with the description of a network: all of it, each with the key that it is
//! about. Where in which file that key stands is known to whoever has read the plan.

pub use crate::error::Fault;

/// More faults than these are not noted: whoever mends them sees the others then.
const FAULTS_MAX: usize = 200;
/// So many names are looked through for the one that may have been meant.
const KNOWN_MAX: usize = 1000;

/// Everything that is wrong so far.
#[derive(Debug, Default)]
pub(super) struct Faults(pub Vec<Fault>);

impl Faults {
    /// Something is wrong with what stands at `key`.
    pub(super) fn add(&mut self, key: impl Into<String>, problem: impl Into<String>) {
        self.push(key.into(), problem.into(), None);
    }

    /// `found` at `key` is none of the names that there are.
    pub(super) fn unknown<'a>(
        &mut self,
        key: impl Into<String>,
        what: &str,
        found: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) {
        let known = known.into_iter().take(KNOWN_MAX).map(str::to_owned);
        let meant = Some((found.to_owned(), known.collect()));
        self.push(key.into(), format!("no such {what}"), meant);
    }

    fn push(&mut self, key: String, problem: String, meant: Option<(String, Vec<String>)>) {
        if !self.is_full() {
            self.0.push(Fault {
                key,
                problem,
                meant,
            });
        }
    }

    /// Whether nothing more is noted.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= FAULTS_MAX
    }
}
