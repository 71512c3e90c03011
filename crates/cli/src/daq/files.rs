//! `barewire daq check` and `convert`: recorded files, verified and converted. Both go on behind
//! damage, and say what was damaged. `check` takes HDF5 files of ours too.
//!
//! | exit status | means |
//! |---|---|
//! | 0 | all files are good; of one whose writer was stopped, all that it had written |
//! | 1 | something is damaged, an index is not that of its records, or fragments do not hold what the generator makes |
//! | 2 | a file cannot be read, or is no file of events |

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use barewire_daq::config::SourceKind;
use barewire_daq::generate::Generator;
use barewire_daq::record::{self, About, Checked, Damage, Ending, IndexState, RecordError};
use barewire_daq::sink::hdf5;
use clap::Args;
use serde::Serialize;

use super::error::DaqError;
use super::start::load;

/// Files to be verified.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// The recordings, *.evb or *.h5
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The configuration of the run: also verify the contents of fragments
    #[arg(long)]
    config: Option<PathBuf>,
    /// Print all event numbers
    #[arg(long)]
    events: bool,
    /// Print the configuration with which each file was recorded
    #[arg(long)]
    settings: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A file to be converted.
#[derive(Clone, Debug, Args)]
pub struct ConvertArgs {
    /// The recording, *.evb
    file: PathBuf,
    /// The file to write [default: the same name with .h5]
    #[arg(long)]
    to: Option<PathBuf>,
}

/// What became of a file, from good to bad: the worst one is the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Good = 0,
    Faulty = 1,
    Unreadable = 2,
}

impl State {
    fn exit_code(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

/// Sums of a file, or of all files.
#[derive(Clone, Debug, Default, Serialize)]
struct Sums {
    built: u64,
    incomplete: u64,
    damaged: u64,
    /// Events that indices list and that were not found; `None` of files without a good index.
    lost: Option<u64>,
    fragments: u64,
    damaged_fragments: u64,
    mismatched_fragments: u64,
    /// Of the data of good fragments.
    bytes: u64,
    damaged_stretches: u64,
    damaged_bytes: u64,
    /// In 16 hexadecimal digits: JSON has no exact numbers of 64 bits.
    #[serde(serialize_with = "as_hex")]
    contents: u64,
}

// Serde hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn as_hex<S: serde::Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{number:016x}"))
}

impl Sums {
    fn of(checked: &Checked) -> Self {
        Self {
            built: checked.built,
            incomplete: checked.incomplete,
            damaged: checked.damage.events,
            lost: checked.lost,
            fragments: checked.fragments,
            damaged_fragments: checked.damage.fragments,
            mismatched_fragments: checked.mismatched,
            bytes: checked.bytes,
            damaged_stretches: checked.damage.stretches,
            damaged_bytes: checked.damage.bytes,
            contents: checked.contents,
        }
    }

    fn add(&mut self, other: &Self) {
        self.built += other.built;
        self.incomplete += other.incomplete;
        self.damaged += other.damaged;
        // Of all files that say it.
        self.lost = self
            .lost
            .zip(other.lost)
            .map(|(one, two)| one + two)
            .or(self.lost)
            .or(other.lost);
        self.fragments += other.fragments;
        self.damaged_fragments += other.damaged_fragments;
        self.mismatched_fragments += other.mismatched_fragments;
        self.bytes += other.bytes;
        self.damaged_stretches += other.damaged_stretches;
        self.damaged_bytes += other.damaged_bytes;
        self.contents = self.contents.wrapping_add(other.contents);
    }

    fn counts(&self) -> String {
        let damaged = match self.damaged {
            0 => String::new(),
            damaged => format!(", {damaged} damaged"),
        };
        format!(
            "{} events built, {} incomplete{damaged}, {} fragments, {} bytes",
            self.built, self.incomplete, self.fragments, self.bytes
        )
    }
}

/// A stretch of damaged bytes, in JSON.
#[derive(Clone, Debug, Serialize)]
struct StretchReport {
    at: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<u16>,
}

/// What a file says of its run. Times are in UTC, as in RFC 3339.
#[derive(Clone, Debug, Serialize)]
struct AboutReport {
    seed: u64,
    version: String,
    made: String,
    /// When an event was triggered that has the time 0 in the file.
    clock_began: String,
    config: String,
}

impl AboutReport {
    fn of(about: &About) -> Self {
        let text = |time| humantime::format_rfc3339_nanos(time).to_string();
        Self {
            seed: about.seed,
            version: about.version.clone(),
            made: text(about.made()),
            clock_began: text(about.triggered(0)),
            config: about.config.clone(),
        }
    }
}

/// What is told of a file that could be read.
#[derive(Clone, Debug, Serialize)]
struct Contents {
    run: u32,
    builder: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    about: Option<AboutReport>,
    index: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_at: Option<u64>,
    #[serde(flatten)]
    sums: Sums,
    /// The first ones.
    damage: Vec<StretchReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<u64>>,
}

/// What is told of a file, in JSON.
#[derive(Clone, Debug, Serialize)]
struct FileReport {
    file: String,
    state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    contents: Option<Contents>,
}

/// All that is told, in JSON.
#[derive(Clone, Debug, Serialize)]
struct Report {
    files: Vec<FileReport>,
    totals: Sums,
}

/// Verifies recorded files.
pub fn check(args: &CheckArgs) -> Result<ExitCode, DaqError> {
    let generator = generator(args.config.as_deref())?;
    let mut totals = Sums::default();
    let mut reports = Vec::new();
    let mut worst = State::Good;
    for path in &args.files {
        let file = path.display().to_string();
        let checked = check_file(path, generator.as_ref());
        let state = state_of(&checked);
        worst = worst.max(state);
        if let Ok(checked) = &checked {
            totals.add(&Sums::of(checked));
        }
        match args.json {
            true => reports.push(report(file, state, &checked, args.events)),
            false => print_file(&file, &checked, args),
        }
    }
    if args.json {
        let report = Report {
            files: reports,
            totals,
        };
        let text = serde_json::to_string_pretty(&report).map_err(|error| DaqError::Io {
            what: "write JSON".to_owned(),
            error: error.into(),
        })?;
        println!("{text}");
    } else if args.files.len() > 1 {
        let (files, counts) = (args.files.len(), totals.counts());
        println!("{files} files: {counts}; contents {:016x}", totals.contents);
    }
    Ok(worst.exit_code())
}

/// Reads a file of either kind; the error is for people.
fn check_file(path: &Path, generator: Option<&Generator>) -> Result<Checked, String> {
    // What cannot be read is told by the check.
    match hdf5::is_hdf5(path).unwrap_or(false) {
        true => hdf5::check(path, generator).map_err(|error| error.to_string()),
        false => record::check(path, generator).map_err(|error| error.to_string()),
    }
}

/// What made the fragments, if it is the generator.
fn generator(config: Option<&Path>) -> Result<Option<Generator>, DaqError> {
    let Some(path) = config else {
        return Ok(None);
    };
    let config = load(path)?;
    let is_generated = config.source_kind == SourceKind::Generator;
    Ok(is_generated.then(|| Generator::new(config.sizes, config.seed)))
}

fn state_of(checked: &Result<Checked, String>) -> State {
    match checked {
        Ok(checked) if checked.is_good() => State::Good,
        Ok(_) => State::Faulty,
        Err(_) => State::Unreadable,
    }
}

/// For people.
const fn index_text(index: IndexState) -> &'static str {
    match index {
        IndexState::Right => "indexed",
        IndexState::Disagrees => "its index is not that of its records",
        IndexState::Damaged => "its index is damaged",
        IndexState::Stopped => "no index: its writer was stopped",
        IndexState::Unknown => "its end is damaged",
    }
}

/// For programs.
const fn index_word(index: IndexState) -> &'static str {
    match index {
        IndexState::Right => "right",
        IndexState::Disagrees => "disagrees",
        IndexState::Damaged => "damaged",
        IndexState::Stopped => "stopped",
        IndexState::Unknown => "unknown",
    }
}

fn report(
    file: String,
    state: State,
    checked: &Result<Checked, String>,
    with_events: bool,
) -> FileReport {
    let contents = checked.as_ref().ok().map(|checked| Contents {
        run: checked.run,
        builder: checked.builder,
        about: checked.about.as_ref().map(AboutReport::of),
        index: index_word(checked.index),
        cut_at: checked.cut_at,
        sums: Sums::of(checked),
        damage: stretches(&checked.damage),
        events: with_events.then(|| checked.events.clone()),
    });
    FileReport {
        file,
        state,
        error: checked.as_ref().err().cloned(),
        contents,
    }
}

fn stretches(damage: &Damage) -> Vec<StretchReport> {
    let report = |it: &record::Stretch| StretchReport {
        at: it.at,
        bytes: it.bytes,
        event: it.event,
        source: it.source,
    };
    damage.first.iter().map(report).collect()
}

fn print_file(file: &str, checked: &Result<Checked, String>, args: &CheckArgs) {
    let checked = match checked {
        Ok(checked) => checked,
        Err(error) => {
            eprintln!("barewire: {file}: {error}");
            return;
        }
    };
    println!(
        "{file}: run {}, builder {}: {}; {}; contents {:016x}",
        checked.run,
        checked.builder,
        Sums::of(checked).counts(),
        index_text(checked.index),
        checked.contents,
    );
    if let Some(about) = &checked.about {
        print_about(about, args.settings);
    }
    if args.events {
        checked.events.iter().for_each(|event| println!("{event}"));
    }
    if checked.mismatched > 0 {
        println!(
            "  {} fragments do not hold what the generator makes",
            checked.mismatched
        );
    }
    if let Some(at) = checked.cut_at {
        println!("  what begins at byte {at} is cut");
    }
    print_damage(&checked.damage);
    if let Some(lost) = checked.lost.filter(|&lost| lost > 0) {
        println!("  {lost} events of the index were not found");
    }
}

fn print_about(about: &About, with_settings: bool) {
    println!(
        "  made {} by barewire {}, seed {}",
        humantime::format_rfc3339_seconds(about.made()),
        about.version,
        about.seed
    );
    if with_settings {
        about.config.lines().for_each(|line| println!("    {line}"));
    }
}

/// The sums, and the first places.
fn print_damage(damage: &Damage) {
    if damage.is_none() {
        return;
    }
    println!("  {damage}");
    damage.first.iter().for_each(|it| println!("    {it}"));
    let more = damage.stretches - damage.first.len() as u64;
    if more > 0 {
        println!("    and {more} more");
    }
}

/// What to do about a file that is there already.
fn advised(error: RecordError) -> RecordError {
    use std::io::{Error, ErrorKind};
    match error {
        RecordError::File(error) if error.kind() == ErrorKind::AlreadyExists => {
            let advice = "the new file is there already: remove it, or name another with --to";
            RecordError::File(Error::new(error.kind(), advice))
        }
        error => error,
    }
}

/// Converts a recorded file.
pub fn convert(args: &ConvertArgs) -> Result<ExitCode, DaqError> {
    let to = args.to.clone();
    let to = to.unwrap_or_else(|| args.file.with_extension("h5"));
    let name = format!("{} to {}", args.file.display(), to.display());
    let converted = hdf5::convert(&args.file, &to);
    let converted = converted.map_err(|error| DaqError::Record(name.clone(), advised(error)))?;
    println!("{name}: {} events", converted.events);
    if converted.damage.is_none() && converted.ending != Some(Ending::Damaged) {
        return Ok(ExitCode::SUCCESS);
    }
    println!("  left out is what is damaged:");
    print_damage(&converted.damage);
    Ok(ExitCode::FAILURE)
}
