//! `barewire run`: a program that knows nothing of us, with its TCP connections to other
//! such programs on this host carried through shared memory.
//!
//! Sets the environment and becomes the program: process id, exit status and signals are
//! the program's own. What cannot be accelerated is run all the same, and said so.

mod elf;
mod find;
mod settings;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rustix::fs::Access;

pub use find::{LibraryError, library};
use settings::Settings;
pub use settings::rings as rings_setting;

const EXAMPLES: &str = "\
Examples:
  barewire run redis-server &
  barewire run redis-benchmark -t get,set           both ends: accelerated
  barewire run --why -- curl http://localhost:8000  how each was carried
  barewire run --profile latency --set spin_us=100 -- PROGRAM
Connections on this host are accelerated if both ends run this way; all else
stays with the kernel. See also `barewire ls` and `barewire doctor`.";

/// What `-h` leaves out: its page fits a screen.
const SETTINGS: &str = "\
Settings, in the file also under [program.NAME] for programs of that name:
  spin_us        how long to look for bytes before a sleep, at most [200]
  calls_before   calls on a connection before it is worth it, or never [16]
  bytes_before   or bytes [1048576]
  unix           1: Unix sockets too, if no program confines itself [0]
  io_uring       inspect, leave or refuse: see docs/sockets.md [inspect]
  off            1: the library does nothing [0]
Status: the program's; 127 no such program, 126 it cannot be executed, 125 wrong
settings or no library, 2 wrong options.";

/// Run a program with its TCP connections and Unix sockets on this host accelerated
#[derive(Clone, Debug, Args)]
#[command(
    override_usage = "barewire run [OPTIONS] [--] PROGRAM [ARGUMENTS]...",
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n{SETTINGS}")
)]
pub struct RunArgs {
    /// Settings for balanced use, latency, throughput or quiet
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// A setting; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Settings [default: ~/.config/barewire/sockets.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Say of each connection how it was carried, or why not
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub why: Option<PathBuf>,
    /// Do not say why a program is not accelerated
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        required = true,
        trailing_var_arg = true,
        hide = true
    )]
    pub program: Vec<OsString>,
}

/// Why a program was not begun.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The library is not there.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] settings::SettingsError),
    /// Who began us has fewer rights than we have.
    #[error("has more rights than who began it (set-user-id, or file capabilities): not for this")]
    Privileged,
    /// Nothing can be told there.
    #[error("--why: {}: {}", .0.display(), .1)]
    Why(PathBuf, io::Error),
    /// There is no such program.
    #[error("{}: no such program", .0.display())]
    Missing(PathBuf),
    /// It cannot be executed.
    #[error("{}: cannot be executed: {}", .0.display(), .1)]
    NotExecutable(PathBuf, io::Error),
}

impl RunError {
    /// The status that `env`, `nice` and their like give.
    fn code(&self) -> u8 {
        match self {
            Self::Library(_) | Self::Settings(_) | Self::Why(..) | Self::Privileged => 125,
            Self::NotExecutable(..) => 126,
            Self::Missing(_) => 127,
        }
    }
}

/// Becomes the program; returns only if it cannot.
pub fn run(args: &RunArgs) -> ExitCode {
    let Err(error) = begin(args);
    eprintln!("barewire run: {error}");
    ExitCode::from(error.code())
}

enum Never {}

fn begin(args: &RunArgs) -> Result<Never, RunError> {
    // Environment, settings and program are somebody's with fewer rights.
    if barewire_sys::exec::is_secure() {
        return Err(RunError::Privileged);
    }
    let name = args
        .program
        .first()
        .map_or(OsStr::new(""), OsString::as_os_str);
    let path = find::program(name)?;
    let settings = Settings::read(args, Path::new(name))?;
    let verdict = elf::examine(&path);
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    settings.add_to(&mut environment);
    if let Some(target) = &args.why {
        let target = absolute(target);
        may_tell(&target).map_err(|error| RunError::Why(target.clone(), error))?;
        set(&mut environment, "BAREWIRE_WHY", target.into());
    }
    if verdict.may_preload() {
        preload(&mut environment, &library()?);
    }
    if let (Some(reason), false) = (verdict.reason(), args.quiet) {
        let name = Path::new(name).display();
        eprintln!("barewire run: {name} is not accelerated: {reason}");
    }
    let error = barewire_sys::exec::exec(&path, &args.program, &environment);
    Err(match error.kind() {
        io::ErrorKind::NotFound if !path.exists() => RunError::Missing(path),
        _ => RunError::NotExecutable(path, error),
    })
}

/// The program may change its directory before it tells why.
fn absolute(path: &Path) -> PathBuf {
    if path == Path::new("-") {
        return path.to_owned();
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Whether lines can be appended to the file: the library has nobody to complain to.
fn may_tell(path: &Path) -> io::Result<()> {
    if path == Path::new("-") {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    let is_new = !path.exists();
    rustix::fs::access(if is_new { folder } else { path }, Access::WRITE_OK)?;
    match path.symlink_metadata() {
        Err(_) => Ok(()),
        // As the library opens it.
        Ok(found) if found.is_file() && found.nlink() == 1 => Ok(()),
        Ok(found) if found.is_file() => Err(io::Error::other("it has another name, too")),
        Ok(found) if found.is_symlink() => Err(io::Error::other("it is a symbolic link")),
        Ok(_) => Err(io::Error::other("it is not a file")),
    }
}

/// Sets a variable, in place of an earlier one of the name.
fn set(environment: &mut Vec<(OsString, OsString)>, name: &str, value: OsString) {
    environment.retain(|(known, _)| known != name);
    environment.push((name.into(), value));
}

/// Puts the library behind what is preloaded already: some of that must come first.
fn preload(environment: &mut Vec<(OsString, OsString)>, library: &Path) {
    const NAME: &str = "LD_PRELOAD";
    let before = environment.iter().find(|(name, _)| name == NAME);
    let mut list = before.map_or(Vec::new(), |(_, value)| value.as_bytes().to_vec());
    let library = library.as_os_str().as_bytes();
    let is_break = |byte: &u8| *byte == b':' || byte.is_ascii_whitespace();
    if list.split(is_break).any(|item| item == library) {
        return;
    }
    if !list.is_empty() {
        list.push(b':');
    }
    list.extend_from_slice(library);
    set(environment, NAME, OsString::from_vec(list));
}

/// What `doctor` and others start with the library, and a reason if that is of no use.
pub fn with_library(environment: &mut Vec<(OsString, OsString)>) -> Result<(), LibraryError> {
    preload(environment, &library()?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preloaded(before: Option<&str>) -> String {
        let mut environment = vec![("A".into(), "b".into())];
        if let Some(before) = before {
            environment.push(("LD_PRELOAD".into(), before.into()));
        }
        preload(&mut environment, Path::new("/l/ours.so"));
        let found: Vec<_> = environment
            .iter()
            .filter(|(name, _)| name == "LD_PRELOAD")
            .collect();
        assert_eq!(found.len(), 1);
        found[0].1.to_str().unwrap().to_owned()
    }

    #[test]
    fn what_is_preloaded_stays() {
        assert_eq!(preloaded(None), "/l/ours.so");
        assert_eq!(preloaded(Some("")), "/l/ours.so");
        assert_eq!(preloaded(Some("a.so b.so")), "a.so b.so:/l/ours.so");
        assert_eq!(
            preloaded(Some("a.so:/l/ours.so b.so")),
            "a.so:/l/ours.so b.so"
        );
    }
}
