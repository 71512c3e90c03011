//! `barewire lab list`, `show` and `new`: what there is to run, and how to begin.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use barewire_report::columns::{in_columns, print};
use barewire_tables::Expected;
use barewire_tables::plan::{PlanError, PlanSource, Wanted};
use barewire_testbed::System;
use clap::Args;

use super::args::PlanArgs;
use super::error::{LabError, Result};
use super::reproduce::expected_of;

pub const AFTER_SHOW: &str = "\
Examples:
  barewire lab show cbn                     the parameters of a system, each with its source
  barewire lab show cbn-ping > mine.toml    a plan, whole: run, changed or not, as it is
  barewire lab show cbn-ping --set KEY=VALUE  the same with a change, checked and marked";

/// Where lines of text are broken.
const COLUMNS: usize = 100;
/// Plans to begin with, the first that there is.
const BEGINNINGS: [&str; 2] = ["workbench-ping", "cbn-ping"];

/// Write a plan of your own to begin with, NAME.toml
#[derive(Clone, Debug, Args)]
pub struct NewArgs {
    /// Name of the plan; its file is NAME.toml
    pub name: PathBuf,
    /// The plan to copy: a built-in one, or a file
    #[arg(long, value_name = "PLAN")]
    pub from: Option<String>,
}

/// Lists systems, plans and fragments.
pub fn list(lab: PlanSource) -> Result<()> {
    let mut out = systems(lab)?;
    let plans: Vec<(String, String)> = lab
        .plans()
        .iter()
        .map(|plan| (plan.name(), plan.question()))
        .collect();
    out += &named("plan", "question", &plans);
    let of = |system: &&'static dyn System| {
        let name = system.name();
        let fragments = system.fragments().iter();
        fragments.map(move |(fragment, text)| {
            let about = format!("{name}: {}", first_sentence(text));
            ((*fragment).to_owned(), about)
        })
    };
    let fragments: Vec<(String, String)> = lab.systems().iter().flat_map(of).collect();
    out += &named("fragment", "of what", &fragments);
    Ok(print(&out)?)
}

fn systems(lab: PlanSource) -> Result<String> {
    let mut lines = vec![
        ["system", "what it is", "published values"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for system in lab.systems() {
        let (title, tables) = match expected_of(*system)? {
            Some(expected) => (expected.title.clone(), tables(&expected)),
            None => (first_sentence(system.parameters()), "-".to_owned()),
        };
        lines.push(vec![system.name().to_owned(), title, tables]);
    }
    Ok(in_columns(&lines, &[0, 1, 2], ""))
}

fn tables(expected: &Expected) -> String {
    let tables = expected.tables();
    let tables = tables
        .iter()
        .map(|(table, count)| format!("{count} of {table}"));
    tables.collect::<Vec<_>>().join(", ")
}

/// The first sentence of the comment that a text begins with.
fn first_sentence(text: &str) -> String {
    let comment = text.lines().map_while(|line| line.strip_prefix('#'));
    let comment: Vec<&str> = comment
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let comment = comment.join(" ");
    let sentence = comment.split(". ").next().unwrap_or_default();
    sentence.trim_end_matches('.').to_owned()
}

/// Names to the left, what they are to the right, in as many lines as it takes.
fn named(name: &str, what: &str, entries: &[(String, String)]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let width = entries.iter().map(|(name, _)| name.chars().count()).max();
    let width = width.unwrap_or(0).max(name.len());
    let mut out = format!("\n{name:<width$}  {what}\n");
    for (name, what) in entries {
        let mut line = format!("{name:<width$} ");
        for word in what.split_whitespace() {
            if line.chars().count() + 1 + word.chars().count() > COLUMNS {
                out += &line;
                out.push('\n');
                line = " ".repeat(width + 1);
            }
            line.push(' ');
            line += word;
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

/// Shows a plan, a system or a fragment.
pub fn show(lab: PlanSource, args: &PlanArgs) -> Result<()> {
    let wanted = args.wanted();
    let text = match (lab.system(&args.plan), lab.fragment(&args.plan)) {
        (Some(system), _) => Some(system.parameters()),
        (None, fragment) => fragment,
    };
    match text {
        Some(text) if wanted.set.is_empty() && wanted.with.is_empty() => Ok(print(text)?),
        Some(_) => Err(LabError::Usage(format!(
            "--set, --with, --seed and --replications are for plans, and `{}` is none",
            args.plan
        ))),
        None => {
            let plan = lab.resolve(&lab.open(&args.plan)?, &wanted)?;
            Ok(print(&plan.to_toml())?)
        }
    }
}

/// Writes a plan to begin with.
pub fn new(lab: PlanSource, args: &NewArgs) -> Result<()> {
    let path = with_ending(&args.name);
    let from = match &args.from {
        Some(from) => lab.open(from)?,
        None => beginning(lab)?,
    };
    let plan = lab.resolve(&from, &Wanted::default())?;
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let text = plan.starter(&file);
    let at_path = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::AlreadyExists => LabError::InTheWay {
            path: path.clone(),
            problem: "is there already; choose another name, or remove it first",
        },
        _ => LabError::File {
            path: path.clone(),
            source,
        },
    };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(at_path)?;
    file.write_all(text.as_bytes()).map_err(at_path)?;
    eprintln!(
        "wrote {0}; change it, and run it with `barewire lab run {0}`",
        path.display()
    );
    Ok(())
}

fn with_ending(name: &Path) -> PathBuf {
    match name.extension() {
        Some(ending) if ending == "toml" => name.to_owned(),
        _ => {
            let mut name = name.as_os_str().to_owned();
            name.push(".toml");
            name.into()
        }
    }
}

fn beginning(lab: PlanSource) -> Result<barewire_tables::plan::Draft> {
    let of_name = |name: &&str| lab.built_in(name).map(|plan| plan.name());
    let any = || lab.plans().first().map(|plan| plan.name());
    let name = BEGINNINGS.iter().find_map(of_name).or_else(any);
    let name = name.ok_or_else(|| PlanError::Unknown {
        name: BEGINNINGS[0].to_owned(),
        hint: "there are no built-in plans".to_owned(),
    })?;
    Ok(lab.open(&name)?)
}
