//! `barewire run`: a program that knows nothing of us, with its TCP connections to other
//! such programs on this host carried through shared memory.
//!
//! Sets the environment and becomes the program: process id, exit status and signals are
//! the program's own. What cannot be accelerated is run all the same, and said so.

mod args;
#[cfg(feature = "full")]
pub mod edge;
mod elf;
mod environment;
mod library;
mod program;
mod settings;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::fs::Access;

pub use args::RunArgs;
pub use environment::with_earlier_preloads;
use environment::{preload, set};
pub use library::{LibraryError, library};
use program::{ProgramError, find_program};
pub use settings::rings as rings_setting;
pub use settings::{Settings, SettingsError};

/// Why a program was not begun.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The library is not there.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Who began us has fewer rights than we have.
    #[error(
        "refused: this command has more rights than its caller (set-user-id, or file capabilities)"
    )]
    Privileged,
    /// Nothing can be told there.
    #[error("--why: {}: {}", .0.display(), .1)]
    Why(PathBuf, io::Error),
    /// There is no gateway.
    #[cfg(feature = "full")]
    #[error(transparent)]
    Edge(#[from] edge::EdgeError),
    /// There is no such program, or it cannot be executed.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

impl RunError {
    /// The status that `env`, `nice` and their like give.
    fn code(&self) -> u8 {
        match self {
            #[cfg(feature = "full")]
            Self::Edge(_) => 125,
            Self::Library(_) | Self::Settings(_) | Self::Why(..) | Self::Privileged => 125,
            Self::Program(ProgramError::NotExecutable(..)) => 126,
            Self::Program(ProgramError::Missing(_)) => 127,
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
    let path = find_program(name)?;
    let settings = Settings::read(args, Path::new(name))?;
    let verdict = elf::examine(&path);
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    settings.add_to(&mut environment);
    if let Some(target) = &args.why {
        let target = absolute(target);
        check_can_append(&target).map_err(|error| RunError::Why(target.clone(), error))?;
        set(&mut environment, "BAREWIRE_WHY", target.into());
        let format = if args.json { "json" } else { "text" };
        set(&mut environment, "BAREWIRE_WHY_FORMAT", format.into());
    }
    if verdict.may_preload() {
        preload(&mut environment, &library()?);
    }
    #[cfg(feature = "full")]
    add_edge(args, verdict.may_preload(), &mut environment)?;
    if let (Some(reason), false) = (verdict.reason(), args.quiet) {
        let name = Path::new(name).display();
        eprintln!("barewire run: {name} is not accelerated: {reason}");
    }
    let error = barewire_sys::exec::exec(&path, &args.program, &environment);
    Err(RunError::Program(match error.kind() {
        io::ErrorKind::NotFound if !path.exists() => ProgramError::Missing(path),
        _ => ProgramError::NotExecutable(path, error),
    }))
}

/// With `--edge`, starts the gateway, and says to the program's sockets where it is.
#[cfg(feature = "full")]
fn add_edge(
    args: &RunArgs,
    may_preload: bool,
    environment: &mut Vec<(OsString, OsString)>,
) -> Result<(), RunError> {
    use barewire_proto::edge::program::VARIABLE;
    // Of another gateway, which is there for another program.
    environment.retain(|(name, _)| name != VARIABLE);
    if let (Some(bridge), true) = (&args.edge, may_preload) {
        let place = edge::start(bridge, &args.edge_net)?;
        set(environment, VARIABLE, place.into());
    }
    Ok(())
}

/// The program may change its directory before it tells why.
fn absolute(path: &Path) -> PathBuf {
    if path == Path::new("-") {
        return path.to_owned();
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Whether lines can be appended to the file: the library has nobody to complain to.
fn check_can_append(path: &Path) -> io::Result<()> {
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

/// What `doctor` and others start with the library, and a reason if that is of no use.
pub fn with_library(environment: &mut Vec<(OsString, OsString)>) -> Result<(), LibraryError> {
    preload(environment, &library()?);
    Ok(())
}
