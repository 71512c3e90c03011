//! `barewire man` and `barewire completions`: manual pages and completions for shells, made of the same definitions
//! as the help.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use barewire_report::columns::{PrintError, print};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

/// Write manual pages
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  barewire man | man -l -                    read the page of `barewire`
  barewire man node keygen | man -l -        the page of `barewire node keygen`
  barewire man --dir ~/.local/share/man/man1 the pages of all commands, as files
The date in the pages is that of SOURCE_DATE_EPOCH. Without it there is none, so the
same version always writes the same bytes.")]
pub struct ManArgs {
    /// Write only the page of this command to standard output
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub command: Vec<String>,
    /// Write the pages of all commands into this folder, which is made if it is missing
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Write completions for a shell to standard output
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  barewire completions bash > ~/.local/share/bash-completion/completions/barewire
  barewire completions zsh > ~/.zfunc/_barewire
  barewire completions fish > ~/.config/fish/completions/barewire.fish")]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// Why there are no pages.
#[derive(Debug, thiserror::Error)]
pub enum ManualError {
    /// A file cannot be written.
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, io::Error),
    /// There is no such command.
    #[error("there is no command `barewire {0}`; `barewire --help` lists them")]
    NoCommand(String),
    /// `SOURCE_DATE_EPOCH` is no number of seconds.
    #[error("SOURCE_DATE_EPOCH is `{0}`, not a number of seconds since 1970")]
    Date(String),
    /// Standard output takes no more.
    #[error(transparent)]
    Print(#[from] PrintError),
}

/// Writes the pages of `root` and of all that is below it.
///
/// # Errors
/// A file cannot be written, or there is no such command.
pub fn man(args: &ManArgs, mut root: Command) -> Result<(), ManualError> {
    root.build();
    let date = date()?;
    let Some(folder) = &args.dir else {
        let mut command = &root;
        for name in &args.command {
            let found = command.find_subcommand(name);
            command = found.ok_or_else(|| ManualError::NoCommand(args.command.join(" ")))?;
        }
        let page = page(command, &date);
        return Ok(print(&String::from_utf8_lossy(&page))?);
    };
    std::fs::create_dir_all(folder).map_err(|error| ManualError::File(folder.clone(), error))?;
    write_pages(&root, &date, folder)
}

fn write_pages(command: &Command, date: &str, folder: &Path) -> Result<(), ManualError> {
    let path = folder.join(format!("{}.1", name(command)));
    std::fs::write(&path, page(command, date)).map_err(|error| ManualError::File(path, error))?;
    let below = command.get_subcommands();
    below
        .filter(|it| it.get_name() != "help")
        .try_for_each(|it| write_pages(it, date, folder))
}

/// `barewire-node-keygen`
fn name(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    name.replace(' ', "-")
}

fn page(command: &Command, date: &str) -> Vec<u8> {
    let name = name(command);
    let man = Man::new(command.clone()).title(name).date(date);
    let mut page = Vec::new();
    let written = man.render(&mut page);
    written.expect("a vector takes all bytes");
    page
}

/// The day of `SOURCE_DATE_EPOCH`; empty without it.
fn date() -> Result<String, ManualError> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH") else {
        return Ok(String::new());
    };
    let text = text.to_string_lossy();
    let at = text.parse().ok().map(Duration::from_secs);
    let at = at.and_then(|seconds| UNIX_EPOCH.checked_add(seconds));
    // Later than year 9999, the day has no form in these pages.
    let last = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    let at = at
        .filter(|at| *at <= last)
        .ok_or_else(|| ManualError::Date(text.into_owned()))?;
    Ok(humantime::format_rfc3339_seconds(at).to_string()[..10].to_owned())
}

/// Writes the completions of `root`.
///
/// # Errors
/// Standard output takes no more.
pub fn completions(args: &CompletionsArgs, mut root: Command) -> Result<(), ManualError> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut root, "barewire", &mut text);
    Ok(print(&String::from_utf8_lossy(&text))?)
}
