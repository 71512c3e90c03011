//! `barewire doctor`: whether unmodified programs can be accelerated here, and if not, what
//! to change.
//!
//! Each thing that the library needs of the kernel, of the limits and of the sandbox is tried;
//! last, two processes of this program talk to each other with the library and without.

mod check;
mod checks;
mod isolated;
mod kernel;
mod trial;

use std::process::ExitCode;

use barewire_report::columns::print;
use barewire_report::terminal::has_colour;
use clap::Args;

use check::{Check, Grade};

/// Check whether unmodified programs can be accelerated here, and report what to change
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Exit status: 0 programs can be accelerated, perhaps with warnings; 1 they cannot.")]
pub struct DoctorArgs {
    /// Print JSON: an array of objects
    #[arg(long)]
    pub json: bool,
}

/// What a process that the doctor starts is to do.
#[derive(Clone, Debug, Args)]
pub struct EndArgs {
    /// In the trial, connect to this port; listen if there is none
    pub port: Option<u16>,
    /// Make this check
    #[arg(long)]
    pub check: Option<usize>,
}

/// Does it.
///
/// # Errors
/// Of the connection, or what was found could not be said.
pub fn end(args: &EndArgs) -> std::io::Result<()> {
    match args.check {
        Some(number) => isolated::check(number),
        None => trial::end(args.port),
    }
}

/// Looks, and tells.
///
/// # Errors
/// What was found could not be written.
pub fn run(args: &DoctorArgs) -> crate::nodes::Result<ExitCode> {
    let mut all = isolated::checks();
    all.extend(checks::checks());
    all.push(trial::check());
    let worst = all.iter().any(|check| check.grade == Grade::Bad);
    if args.json {
        let text = serde_json::to_string_pretty(&all)?;
        print(&(text + "\n"))?;
    } else {
        print(&text(&all, has_colour(&std::io::stdout())))?;
    }
    Ok(if worst {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn text(all: &[Check], has_colour: bool) -> String {
    let width = all.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for check in all {
        let (grade, colour) = match check.grade {
            Grade::Good => ("good", "32"),
            Grade::Warning => ("WARN", "33"),
            Grade::Bad => ("BAD ", "31"),
        };
        let grade = match has_colour {
            true => format!("\x1b[{colour}m{grade}\x1b[0m"),
            false => grade.to_owned(),
        };
        text += &format!("{grade}  {:<width$}  {}\n", check.name, check.found);
        if let Some(change) = &check.change {
            text += &format!("{:width$}  change: {change}\n", "", width = width + 6);
        }
    }
    let count = |grade| all.iter().filter(|check| check.grade == grade).count();
    text += &match (count(Grade::Bad), count(Grade::Warning)) {
        (0, 0) => "programs are accelerated here\n".to_owned(),
        (0, 1) => "programs are accelerated here; 1 warning\n".to_owned(),
        (0, warnings) => format!("programs are accelerated here; {warnings} warnings\n"),
        (1, _) => "programs are NOT accelerated here: 1 thing must change\n".to_owned(),
        (bad, _) => format!("programs are NOT accelerated here: {bad} things must change\n"),
    };
    text
}
