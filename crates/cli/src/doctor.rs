//! `barewire doctor`: whether unmodified programs can be accelerated here, and if not, what
//! to change.
//!
//! Each thing that the library needs of the kernel, of the limits and of the sandbox is tried;
//! last, two processes of this program talk to each other with the library and without.

mod checks;
mod kernel;
mod trial;

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::nodes::print;
pub use trial::{EndArgs, end};

/// Say whether unmodified programs can be accelerated here, and if not, what to change
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Status: 0 all is well, or nothing worse than a warning; 1 nothing can be accelerated here.")]
pub struct DoctorArgs {
    /// As JSON: an array of objects
    #[arg(long)]
    pub json: bool,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Grade {
    /// As it should be.
    Good,
    /// It works, but not as well, or not for all.
    Warning,
    /// Nothing is accelerated like this.
    Bad,
}

/// Something that was looked at.
#[derive(Clone, Debug, Serialize)]
struct Check {
    name: &'static str,
    grade: Grade,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<String>,
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Check {
        Check {
            name,
            grade: Grade::Good,
            found: found.into(),
            change: None,
        }
    }

    fn warning(name: &'static str, found: impl Into<String>, change: impl Into<String>) -> Check {
        Check {
            grade: Grade::Warning,
            change: Some(change.into()),
            ..Check::good(name, found)
        }
    }

    fn bad(name: &'static str, found: impl Into<String>, change: impl Into<String>) -> Check {
        Check {
            grade: Grade::Bad,
            ..Check::warning(name, found, change)
        }
    }
}

/// Looks, and tells.
///
/// # Errors
/// What was found could not be written.
pub fn run(args: &DoctorArgs) -> crate::nodes::Result<ExitCode> {
    let mut all = kernel::checks();
    all.extend(checks::checks());
    all.push(trial::check());
    let worst = all.iter().any(|check| check.grade == Grade::Bad);
    if args.json {
        let text = serde_json::to_string_pretty(&all).map_err(std::io::Error::from)?;
        print(&(text + "\n"))?;
    } else {
        print(&text(&all))?;
    }
    Ok(if worst {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn text(all: &[Check]) -> String {
    let width = all.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for check in all {
        let grade = match check.grade {
            Grade::Good => "good",
            Grade::Warning => "WARN",
            Grade::Bad => "BAD ",
        };
        text += &format!("{grade}  {:<width$}  {}\n", check.name, check.found);
        if let Some(change) = &check.change {
            text += &format!("{:width$}  change: {change}\n", "", width = width + 6);
        }
    }
    let count = |grade| all.iter().filter(|check| check.grade == grade).count();
    text += &match (count(Grade::Bad), count(Grade::Warning)) {
        (0, 0) => "programs are accelerated here\n".to_owned(),
        (0, warnings) => format!("programs are accelerated here; {warnings} warnings\n"),
        (bad, _) => format!("programs are NOT accelerated here: {bad} things must change\n"),
    };
    text
}
