//! Where plans and fragments come from: files, and what the systems offer.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use barewire_testbed::{Experiment, System, systems};

use super::document::{
    Document, Entry, Given, Piece, Section, TEXT_BYTES_MAX, entry_of, number_of, stray_problem,
    text_of,
};
use super::resolve::Base;
use super::{Fault, Place, Plan, PlanError, REPLICATIONS_MAX, Wanted};
use crate::saved::{self, SavedPlan};
use crate::suggest;

/// The plan that a result's folder holds.
const OF_RESULT: &str = "plan.toml";

/// The systems that plans are of.
#[derive(Clone, Copy)]
pub struct PlanSource {
    pub(super) systems: &'static [&'static dyn System],
}

impl Default for PlanSource {
    /// With every system there is.
    fn default() -> Self {
        Self { systems: systems() }
    }
}

/// An experiment as a plan: all inputs and parameters as they are.
#[derive(Clone, Copy)]
pub struct BuiltIn {
    /// Whose model is asked.
    pub system: &'static dyn System,
    /// What.
    pub experiment: &'static Experiment,
    /// Of a plan that describes a network: its name and its text.
    pub described: Option<(&'static str, &'static str)>,
}

impl BuiltIn {
    /// `cbn-load`.
    #[must_use]
    pub fn name(&self) -> String {
        match self.described {
            Some((name, _)) => name.to_owned(),
            None => format!("{}-{}", self.system.name(), self.experiment.name),
        }
    }

    /// What is asked: of a network that is described, how its text begins.
    #[must_use]
    pub fn question(&self) -> String {
        let Some((_, text)) = self.described else {
            return self.experiment.question.to_owned();
        };
        let comment = text.lines().map_while(|line| line.strip_prefix('#'));
        let comment: Vec<&str> = comment
            .map(str::trim)
            .take_while(|line| !line.is_empty())
            .collect();
        comment.join(" ")
    }
}

/// A plan as it was found, not yet put over the defaults.
#[derive(Clone, Debug)]
pub struct Draft {
    name: String,
    /// How messages call it.
    source: String,
    document: Document,
}

impl PlanSource {
    /// A source with the plans of these systems.
    #[must_use]
    pub const fn new(systems: &'static [&'static dyn System]) -> Self {
        Self { systems }
    }

    /// Its systems.
    #[must_use]
    pub fn systems(&self) -> &'static [&'static dyn System] {
        self.systems
    }

    /// The system of this name.
    #[must_use]
    pub fn system(&self, name: &str) -> Option<&'static dyn System> {
        let mut systems = self.systems.iter();
        systems.find(|system| system.name() == name).copied()
    }

    /// The built-in plans, in the order of the systems.
    #[must_use]
    pub fn plans(&self) -> Vec<BuiltIn> {
        let of = |system: &&'static dyn System| {
            let system = *system;
            let experiments = system.experiments().iter();
            let described = system.plans().iter().filter_map(move |plan| {
                let experiment = system.experiments().first()?;
                let described = Some(*plan);
                Some(BuiltIn {
                    system,
                    experiment,
                    described,
                })
            });
            // Where the network is the plan's, there is none without a plan.
            let own = experiments.filter(move |_| system.sections().is_empty());
            own.map(move |experiment| BuiltIn {
                system,
                experiment,
                described: None,
            })
            .chain(described)
        };
        self.systems.iter().flat_map(of).collect()
    }

    /// The built-in plan of this name.
    #[must_use]
    pub fn built_in(&self, name: &str) -> Option<BuiltIn> {
        self.plans().into_iter().find(|plan| plan.name() == name)
    }

    /// The fragment of this name, of whichever system: its text.
    #[must_use]
    pub fn fragment(&self, name: &str) -> Option<&'static str> {
        let mut all = self.systems.iter().flat_map(|system| system.fragments());
        all.find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// Finds a plan: a built-in one by its name, or a file, or the one that a result was
    /// made from by the result's folder or JSON.
    ///
    /// # Errors
    ///
    /// No such plan, or one that cannot be read.
    pub fn open(&self, name: &str) -> Result<Draft, PlanError> {
        if let Some(plan) = self.built_in(name) {
            return draft_of(plan);
        }
        let path = Path::new(name);
        let of_result = path.join(OF_RESULT);
        if of_result.is_file() {
            return self.open_file(&of_result);
        }
        if path.is_file() || (looks_like_a_file(name) && !path.is_dir()) {
            return self.open_file(path);
        }
        Err(PlanError::Unknown {
            name: name.to_owned(),
            hint: self.hint(name),
        })
    }

    /// Reads a plan that is a text, and called `name`. Files that it names as fragments are
    /// looked for in the current folder.
    ///
    /// # Errors
    ///
    /// It is no TOML, or too long.
    pub fn read(&self, name: &str, text: &str) -> Result<Draft, PlanError> {
        Ok(Draft {
            name: name.to_owned(),
            document: Document::read(text, name, Path::new("")).map_err(PlanError::Faults)?,
            source: name.to_owned(),
        })
    }

    fn open_file(&self, path: &Path) -> Result<Draft, PlanError> {
        let is_result = path.extension().is_some_and(|ending| ending == "json");
        let most = if is_result {
            u64::MAX
        } else {
            TEXT_BYTES_MAX as u64
        };
        let mut text = read(path, most).map_err(|source| PlanError::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut name = name_of(path);
        if is_result {
            let saved: SavedPlan = saved::read(&text).map_err(|error| PlanError::Read {
                path: path.to_owned(),
                source: std::io::Error::other(error),
            })?;
            (name, text) = (saved.plan, saved.resolved_plan);
        }
        let source = path.display().to_string();
        let folder = path.parent().unwrap_or(Path::new(""));
        Ok(Draft {
            name,
            document: Document::read(&text, &source, folder).map_err(PlanError::Faults)?,
            source,
        })
    }

    fn hint(&self, name: &str) -> String {
        let file = format!("{name}.toml");
        if Path::new(&file).is_file() {
            return format!("there is a file `{file}`, did you mean that?");
        }
        if Path::new(name).is_dir() {
            return "that is a folder, and has no result in it".to_owned();
        }
        let names: Vec<String> = self.plans().iter().map(BuiltIn::name).collect();
        if let Some(system) = self.system(name) {
            let of = |plan: &&BuiltIn| plan.system.name() == system.name();
            let own: Vec<String> = self.plans().iter().filter(of).map(BuiltIn::name).collect();
            return match own.is_empty() {
                true => "that is a system, and has no plans".to_owned(),
                false => format!("that is a system; its plans are {}", own.join(", ")),
            };
        }
        match suggest::expected(name, names.iter().map(String::as_str)) {
            near if near.starts_with("did") => near,
            _ => "`barewire lab list` shows the built-in ones; your own are files that end in \
                  .toml, and `barewire lab new` writes one"
                .to_owned(),
        }
    }

    /// Puts a plan over the defaults of its experiment, with what is wanted besides, and
    /// checks it.
    ///
    /// # Errors
    ///
    /// Everything that is wrong, each at its place.
    pub fn resolve(&self, draft: &Draft, wanted: &Wanted) -> Result<Plan, PlanError> {
        let plan = self.put_together(draft, wanted);
        plan.map_err(|mut faults| {
            faults.sort_by_key(|fault| (fault.place.source.clone(), fault.place.line));
            PlanError::Faults(faults)
        })
    }

    fn put_together(&self, draft: &Draft, wanted: &Wanted) -> Result<Plan, Vec<Fault>> {
        let set: Vec<Entry> = collect(
            wanted
                .set
                .iter()
                .map(|(option, change)| entry_of(option, change)),
        )?;
        let head = Head::of(draft.document.entries.iter().chain(&set));
        let (system, experiment) = self.subject(draft, &head)?;
        let mut base = Base {
            name: &draft.source,
            system,
            experiment,
            seed: 1,
            network: None,
        };
        let sections = system.sections();
        let mut faults = strays(&base, &draft.document.strays);
        let seed = head.number("seed", 1, 0, i64::MAX as u64);
        base.seed = kept(seed, &mut faults);
        let replications = kept(
            head.number("replications", 1, 1, REPLICATIONS_MAX),
            &mut faults,
        );
        let title = kept(head.get("title").map(text_of).transpose(), &mut faults);

        let from_command: Vec<Piece> = wanted
            .with
            .iter()
            .map(|name| piece_of_command(name))
            .collect();
        let mut headings = Vec::new();
        let mut fragments = |pieces: &[Piece]| -> Option<Vec<Entry>> {
            let found = pieces.iter().map(|piece| {
                let document = self.document_of(system, piece);
                let document = document.map_err(|found| faults.extend(found)).ok()?;
                headings.extend(document.headings_of(sections));
                Some(document.all(sections))
            });
            // All of them, so that all their faults are found.
            let found: Vec<Option<Vec<Entry>>> = found.collect();
            let found: Option<Vec<_>> = found.into_iter().collect();
            found.map(|it| it.concat())
        };
        let below = fragments(&draft.document.with);
        let above = fragments(&from_command);
        // Without a fragment that was meant, what the others come to says nothing.
        let (Some(below), Some(above)) = (below, above) else {
            return Err(faults);
        };
        headings.extend(draft.document.headings_of(sections));
        let mut entries = [below, draft.document.all(sections), above, set.clone()].concat();
        entries.retain(|entry| entry.section != Section::Head);
        let resolved = base.resolve_plan(entries, &headings);
        match resolved.map_err(|found| faults.extend(found)) {
            Ok((texts, changes)) if faults.is_empty() => Ok(Plan {
                name: draft.name.clone(),
                title,
                system,
                experiment,
                seed: base.seed,
                replications: replications as usize,
                inputs: texts.inputs,
                parameters: texts.parameters,
                changes,
            }),
            _ => Err(faults),
        }
    }

    /// What a plan asks of whom.
    fn subject(
        &self,
        draft: &Draft,
        head: &Head<'_>,
    ) -> Result<(&'static dyn System, &'static Experiment), Fault> {
        let missing = |key: &str, known: &[&str]| Fault {
            place: Place {
                source: draft.source.clone(),
                line: None,
            },
            entry: String::new(),
            problem: format!("no `{key}`; expected {key} = one of: {}", known.join(", ")),
        };
        let names: Vec<&str> = self.systems.iter().map(|system| system.name()).collect();
        let entry = head
            .get("system")
            .ok_or_else(|| missing("system", &names))?;
        let name = text_of(entry)?;
        let system = self.system(&name).ok_or_else(|| {
            let expected = suggest::expected(&name, names.iter().copied());
            entry.fault(format!("no such system; {expected}"))
        })?;
        let known: Vec<&str> = system.experiments().iter().map(|it| it.name).collect();
        let entry = match (head.get("experiment"), system.experiments()) {
            (Some(entry), _) => entry,
            (None, [only]) if !system.sections().is_empty() => return Ok((system, only)),
            (None, _) => return Err(missing("experiment", &known)),
        };
        let name = text_of(entry)?;
        let found = system.experiments().iter().find(|it| it.name == name);
        let experiment = found.ok_or_else(|| {
            let expected = suggest::expected(&name, known.iter().copied());
            entry.fault(format!(
                "{} has no such experiment; {expected}",
                system.name()
            ))
        })?;
        Ok((system, experiment))
    }

    fn document_of(
        &self,
        system: &'static dyn System,
        piece: &Piece,
    ) -> Result<Document, Vec<Fault>> {
        let known = system.fragments().iter();
        let built_in = known.clone().find(|(name, _)| *name == piece.name);
        let (text, source, folder) = match built_in {
            Some((name, text)) => (
                (*text).to_owned(),
                format!("fragment {name}"),
                PathBuf::new(),
            ),
            None if looks_like_a_file(&piece.name) => {
                let path = piece.folder.join(&piece.name);
                let text = read(&path, TEXT_BYTES_MAX as u64)
                    .map_err(|error| piece.fault(format!("{}: {error}", path.display())))?;
                let folder = path.parent().unwrap_or(Path::new("")).to_owned();
                (text, path.display().to_string(), folder)
            }
            None => {
                let names: Vec<&str> = known.map(|(name, _)| *name).collect();
                let expected = suggest::expected(&piece.name, names.iter().copied());
                let is_of = |other: &&&'static dyn System| {
                    other
                        .fragments()
                        .iter()
                        .any(|(name, _)| *name == piece.name)
                };
                let expected = match self.systems.iter().find(is_of) {
                    Some(other) => format!("it is one of {}", other.name()),
                    None => expected,
                };
                let problem = format!(
                    "neither a file that ends in .toml nor a fragment of {}; {expected}",
                    system.name()
                );
                return Err(piece.fault(problem).into());
            }
        };
        let document = Document::read(&text, &source, &folder)?;
        match document.faults_of_fragment(system.sections()) {
            faults if faults.is_empty() => Ok(document),
            faults => Err(faults),
        }
    }
}

impl Piece {
    fn fault(&self, problem: String) -> Fault {
        Fault {
            place: self.place.clone(),
            entry: format!("with = \"{}\"", self.name),
            problem,
        }
    }
}

/// All of them, or all that is wrong.
fn collect<T>(results: impl Iterator<Item = Result<T, Fault>>) -> Result<Vec<T>, Vec<Fault>> {
    let (mut good, mut faults) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(one) => good.push(one),
            Err(fault) => faults.push(fault),
        }
    }
    match faults.is_empty() {
        true => Ok(good),
        false => Err(faults),
    }
}

/// What a result has; if it is a fault, a default to go on with and find the other faults.
fn kept<T: Default>(result: Result<T, Fault>, faults: &mut Vec<Fault>) -> T {
    result.unwrap_or_else(|fault| {
        faults.push(fault);
        T::default()
    })
}

/// Keys above the sections that do not belong there.
fn strays(base: &Base<'_>, strays: &[Entry]) -> Vec<Fault> {
    let inputs = base.keys(Section::Inputs);
    let parameters = base.keys(Section::Parameters);
    let sections = base.system.sections();
    let fault =
        |entry: &Entry| entry.fault(stray_problem(&entry.key, &inputs, &parameters, sections));
    let is_other = |entry: &&Entry| !sections.contains(&entry.key.as_str());
    strays.iter().filter(is_other).map(fault).collect()
}

/// A fragment of the command line.
fn piece_of_command(name: &str) -> Piece {
    Piece {
        name: name.to_owned(),
        folder: PathBuf::new(),
        place: Place {
            source: "--with".to_owned(),
            line: None,
        },
    }
}

/// The last entry of each key above the sections.
struct Head<'a>(Vec<&'a Entry>);

impl<'a> Head<'a> {
    fn of(entries: impl Iterator<Item = &'a Entry>) -> Head<'a> {
        Head(entries.filter(|it| it.section == Section::Head).collect())
    }

    fn get(&self, key: &str) -> Option<&'a Entry> {
        self.0.iter().rev().find(|entry| entry.key == key).copied()
    }

    fn number(&self, key: &str, default: u64, least: u64, greatest: u64) -> Result<u64, Fault> {
        let entry = self.get(key);
        entry.map_or(Ok(default), |entry| number_of(entry, least, greatest))
    }
}

fn draft_of(plan: BuiltIn) -> Result<Draft, PlanError> {
    let name = plan.name();
    if let Some((_, text)) = plan.described {
        return Ok(Draft {
            document: Document::read(text, &name, Path::new("")).map_err(PlanError::Faults)?,
            source: name.clone(),
            name,
        });
    }
    let entry = |key: &str, value: &str| Entry {
        section: Section::Head,
        key: key.to_owned(),
        given: Given::Bare(value.to_owned()),
        place: Place {
            source: name.clone(),
            line: None,
        },
    };
    let entries = vec![
        entry("system", plan.system.name()),
        entry("experiment", plan.experiment.name),
    ];
    Ok(Draft {
        source: name.clone(),
        document: Document {
            entries,
            ..Document::default()
        },
        name,
    })
}

/// The file's name without its ending; of a result's plan the folder's.
fn name_of(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name);
    let name = match folder {
        Some(folder) if path.ends_with(OF_RESULT) => Some(folder),
        _ => path.file_stem(),
    };
    name.unwrap_or_default().to_string_lossy().into_owned()
}

fn looks_like_a_file(name: &str) -> bool {
    let ending = Path::new(name).extension();
    name.contains('/') || ending.is_some_and(|it| it == "toml" || it == "json")
}

/// The text of a file of at most so many bytes.
fn read(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?.take(most.saturating_add(1));
    io::BufReader::new(file).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        let problem = format!("longer than {most} bytes, the longest plan");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    Ok(text)
}
