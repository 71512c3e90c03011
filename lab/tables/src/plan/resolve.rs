//! Entries put over the defaults, and checked; and which entry is at fault if that fails.

use barewire_testbed::{Experiment, Progress, Setting, System, SystemError};

use super::document::Heading;
use super::document::{Entry, Given, Section};
use super::reason::reason;
use super::{Changed, Fault, Place, described};
use crate::parameters::{self, ParameterError, literal_at, literal_value};
use crate::suggest;

/// More keys than these are not listed in a message.
const KEYS_LISTED_MAX: usize = 12;

/// What entries are put over.
#[derive(Clone, Copy)]
pub(super) struct Base<'a> {
    pub name: &'a str,
    pub system: &'static dyn System,
    pub experiment: &'static Experiment,
    pub seed: u64,
    /// The network that the plan describes, in place of the system's own parameters.
    pub network: Option<&'a str>,
}

/// Inputs and parameters, whole.
#[derive(Clone, Debug)]
pub(super) struct Texts {
    pub inputs: String,
    pub parameters: String,
}

impl Texts {
    fn of(&mut self, section: Section) -> &mut String {
        match section {
            Section::Inputs => &mut self.inputs,
            _ => &mut self.parameters,
        }
    }
}

impl Base<'_> {
    /// The plan as a whole.
    pub fn place(&self) -> Place {
        Place {
            source: self.name.to_owned(),
            line: None,
        }
    }

    fn defaults(&self) -> Texts {
        Texts {
            inputs: self.experiment.inputs.to_owned(),
            parameters: self.network.unwrap_or(self.system.parameters()).to_owned(),
        }
    }

    /// The keys that a section has.
    pub fn keys(&self, section: Section) -> Vec<String> {
        let listed = parameters::list(self.defaults().of(section)).unwrap_or_default();
        listed.into_iter().map(|listed| listed.key).collect()
    }

    /// Puts the entries over the defaults, of each key only the last, and has the experiment
    /// look at the whole.
    pub fn resolve(&self, entries: Vec<Entry>) -> Result<(Texts, Vec<Changed>), Vec<Fault>> {
        let entries = last_of_each(entries);
        let put = self.put(&entries);
        let checked = match &put {
            Ok((texts, _)) => self.check(texts),
            Err(_) => Ok(()),
        };
        let alone = || -> Vec<Fault> {
            entries
                .iter()
                .flat_map(|entry| self.wrong_alone(entry))
                .collect()
        };
        match (put, checked) {
            (Ok(resolved), Ok(())) => Ok(resolved),
            (Err(together), _) => Err(some_of(alone(), || together)),
            (_, Err(error)) => Err(some_of(alone(), || vec![self.blame(&entries, &error)])),
        }
    }

    /// Resolves as the plan's system asks: over its parameters, or as a network.
    pub fn resolve_plan(
        &self,
        entries: Vec<Entry>,
        headings: &[Heading],
    ) -> Result<(Texts, Vec<Changed>), Vec<Fault>> {
        match self.system.sections().is_empty() {
            true => self.resolve(entries),
            false => self.resolve_described(&entries, headings),
        }
    }

    /// The same for a plan that describes its network: inputs over their defaults, the network
    /// as it is.
    pub fn resolve_described(
        &self,
        entries: &[Entry],
        headings: &[Heading],
    ) -> Result<(Texts, Vec<Changed>), Vec<Fault>> {
        let network = described::of_network(entries);
        let inputs = entries.iter().filter(|it| it.section == Section::Inputs);
        let inputs = last_of_each(inputs.cloned().collect());
        let (text, mut changes) = described::put(self.system, &network, headings)?;
        let whole = Base {
            network: Some(&text),
            ..*self
        };
        if let Err(error @ SystemError::Faults(_)) = whole.check(&whole.defaults()) {
            let mut faults = described::faults_of(&self.place(), &error, &network, headings);
            faults.extend(whole.put(&inputs).err().unwrap_or_default());
            return Err(faults);
        }
        let (texts, of_inputs) = whole.resolve(inputs)?;
        changes.extend(of_inputs);
        Ok((texts, changes))
    }

    /// What is wrong with an entry whatever the others are: it cannot be put in its place, or
    /// not be read there.
    fn wrong_alone(&self, entry: &Entry) -> Vec<Fault> {
        match self.put(std::slice::from_ref(entry)) {
            Err(faults) => faults,
            Ok((texts, _)) => match self.check(&texts) {
                Err(error) if !is_contradiction(&error) => vec![entry.fault(reason(&error))],
                _ => Vec::new(),
            },
        }
    }

    fn put(&self, entries: &[Entry]) -> Result<(Texts, Vec<Changed>), Vec<Fault>> {
        let mut texts = self.defaults();
        let (mut changes, mut faults) = (Vec::new(), Vec::new());
        for entry in entries {
            let text = texts.of(entry.section);
            let set = match &entry.given {
                Given::Literal(literal) => parameters::set_literal(text, &entry.key, literal),
                Given::Bare(value) => parameters::set(text, &entry.key, value),
            };
            match set {
                Ok(new) => {
                    let at_key = |text: &str| literal_at(text, &entry.key).unwrap_or_default();
                    let (was, value) = (at_key(text), at_key(&new));
                    if literal_value(&was) == literal_value(&value) {
                        continue;
                    }
                    changes.push(Changed {
                        key: entry.section.full(&entry.key),
                        value,
                        was,
                        from: entry.place.to_string(),
                    });
                    *text = new;
                }
                Err(error) => faults.push(entry.fault(self.problem(entry, &error))),
            }
        }
        match faults.is_empty() {
            true => Ok((texts, changes)),
            false => Err(faults),
        }
    }

    fn check(&self, texts: &Texts) -> Result<(), SystemError> {
        (self.experiment.check)(&Setting {
            parameters: &texts.parameters,
            inputs: &texts.inputs,
            seed: self.seed,
            packets_per_link: 0,
            progress: &Progress::default(),
        })
    }

    fn check_of(&self, entries: &[Entry]) -> Result<(), SystemError> {
        match self.put(entries) {
            Ok((texts, _)) => self.check(&texts),
            // Was put before without a fault.
            Err(_) => Ok(()),
        }
    }

    /// The entry with which, put over the defaults in their order, the whole began to fail
    /// for good.
    fn blame(&self, entries: &[Entry], error: &SystemError) -> Fault {
        let mut blamed: Option<(usize, SystemError)> = None;
        for count in 0..=entries.len() {
            match self.check_of(&entries[..count]) {
                Ok(()) => blamed = None,
                Err(error) if blamed.is_none() => blamed = Some((count, error)),
                Err(_) => {}
            }
        }
        match blamed {
            Some((count, error)) if count > 0 => entries[count - 1].fault(reason(&error)),
            _ => Fault {
                place: self.place(),
                entry: String::new(),
                problem: reason(error),
            },
        }
    }

    fn problem(&self, entry: &Entry, error: &ParameterError) -> String {
        match error {
            ParameterError::Form(error) => error.message().to_owned(),
            ParameterError::NoKey { .. } => self.no_key(entry),
            ParameterError::Table { known, .. } => {
                format!("it is a table; expected a key in it: {known}")
            }
            ParameterError::Type {
                expected, current, ..
            } => format!("expected {expected} as in `{current}`"),
        }
    }

    fn no_key(&self, entry: &Entry) -> String {
        let key = entry.key.as_str();
        let (other, what) = match entry.section {
            Section::Inputs => (Section::Parameters, "input"),
            _ => (Section::Inputs, "parameter"),
        };
        if self.keys(other).iter().any(|known| known == key) {
            return format!("no such {what}; did you mean `{}`?", other.full(key));
        }
        let known = self.keys(entry.section);
        let expected = suggest::expected(key, known.iter().map(String::as_str));
        let is_guess = expected.starts_with("did");
        match entry.section {
            Section::Parameters if !is_guess && known.len() > KEYS_LISTED_MAX => format!(
                "no such {what}; `barewire lab show {}` lists all",
                self.system.name()
            ),
            _ => format!("no such {what}; {expected}"),
        }
    }
}

/// The faults, or others if there are none.
fn some_of(faults: Vec<Fault>, others: impl FnOnce() -> Vec<Fault>) -> Vec<Fault> {
    match faults.is_empty() {
        true => others(),
        false => faults,
    }
}

/// The last entry of each key, in the order in which the keys first came.
fn last_of_each(entries: Vec<Entry>) -> Vec<Entry> {
    let mut kept: Vec<Entry> = Vec::new();
    for entry in entries {
        let same = |known: &&mut Entry| (known.section, &known.key) == (entry.section, &entry.key);
        match kept.iter_mut().find(same) {
            Some(known) => *known = entry,
            None => kept.push(entry),
        }
    }
    kept
}

fn is_contradiction(error: &SystemError) -> bool {
    matches!(error, SystemError::Contradiction(_))
}
