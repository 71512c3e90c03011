//! `barewire enable` and `disable`: have systemd start a service with the preload library, by a file beside the
//! service's unit (a *drop-in*), and take that file away again.
//!
//! Nothing of the unit itself is changed. What in it keeps connections from being upgraded is told, not changed either:
//! it is a sandbox that somebody wanted.

mod hindrances;
mod unit;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;

use crate::run::{LibraryError, Settings, SettingsError, library, with_earlier_preloads};
use unit::{Places, Unit, UnitError};

/// The name of the drop-in.
const FILE: &str = "50-barewire.conf";
/// How each of our drop-ins begins, and no other file.
const MARK: &str = "# Written by `barewire enable";

/// Why a service was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// There is no such service, or it can not be read.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// The library is not there.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The service would not see the library, or start with another one.
    #[error("{0}")]
    Hindered(String),
    /// The drop-in is somebody else's.
    #[error("{}: this file is not from `barewire enable`; move it away", .0.display())]
    Foreign(PathBuf),
    /// A file can not be written or removed.
    #[error("{}: {error}{}", .path.display(), advice(.error))]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// systemd does not do what it is told.
    #[error("`{0}` failed; the file itself is as it should be")]
    Systemctl(String),
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ": run this as root, or with --user for a service of your own"
        }
        _ => "",
    }
}

/// Which service, and whose.
#[derive(Clone, Debug, Args)]
struct Which {
    /// The service, as systemctl calls it
    #[arg(value_name = "SERVICE")]
    service: String,
    /// A service of your own user, not of the system
    #[arg(long)]
    user: bool,
    /// Only change the files of the system in this folder, such as an image; do not call systemctl
    #[arg(long, value_name = "DIR", conflicts_with = "user")]
    root: Option<PathBuf>,
    /// Restart the service now, if it runs
    #[arg(long, conflicts_with = "root")]
    now: bool,
}

/// Have systemd start a service with its TCP connections on this host accelerated
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  sudo barewire enable nginx --now
  sudo barewire enable nginx --profile throughput --set spin_us=50
  barewire enable --user my-worker
  sudo barewire disable nginx
Writes SERVICE.service.d/50-barewire.conf, which sets LD_PRELOAD for the service.
Both ends of a connection must be accelerated: enable each service, or use `barewire run`.")]
pub struct EnableArgs {
    #[command(flatten)]
    which: Which,
    /// Defaults: balanced, latency, throughput or quiet
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Change one setting, as with `barewire run`; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The preload library, as the service sees it [default: the one that `barewire run` uses]
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
}

/// Undo `barewire enable`
#[derive(Clone, Debug, Args)]
pub struct DisableArgs {
    #[command(flatten)]
    which: Which,
}

/// Writes the drop-in.
pub fn enable(args: &EnableArgs) -> Result<ExitCode, ServiceError> {
    let which = &args.which;
    let places = Places::new(which.user, which.root.as_deref())?;
    let unit = Unit::find(&places, &which.service, FILE)?;
    let library = match &args.library {
        Some(path) => path.clone(),
        None => library()?,
    };
    if let Some(reason) = hindrances::fatal(&unit, &library, &places) {
        return Err(ServiceError::Hindered(reason));
    }
    let settings = Settings::of_options(args.profile.as_deref(), &args.set)?;
    let path = places.dropin(&unit.name).join(FILE);
    let text = dropin(&unit, &library, &settings);
    check_own(&path)?;
    write(&path, &text).map_err(|error| ServiceError::File {
        path: path.clone(),
        error,
    })?;
    for warning in hindrances::warnings(&unit) {
        eprintln!("barewire enable: {warning}");
    }
    println!("{}: written", path.display());
    apply(which, &unit.name)
}

/// Takes the drop-in away.
pub fn disable(args: &DisableArgs) -> Result<ExitCode, ServiceError> {
    let which = &args.which;
    let places = Places::new(which.user, which.root.as_deref())?;
    // The service itself may be gone by now.
    let name = unit::full_name(&which.service)?;
    let folder = places.dropin(&name);
    let path = folder.join(FILE);
    if !path.exists() {
        println!("{name} is not enabled: there is no {}", path.display());
        return Ok(ExitCode::SUCCESS);
    }
    check_own(&path)?;
    std::fs::remove_file(&path).map_err(|error| ServiceError::File {
        path: path.clone(),
        error,
    })?;
    // It stays if anything else is in it.
    let _ = std::fs::remove_dir(&folder);
    println!("{}: removed", path.display());
    apply(which, &name)
}

/// Whether the file, if there is one, is from here.
fn check_own(path: &Path) -> Result<(), ServiceError> {
    match std::fs::read_to_string(path) {
        Ok(text) if text.starts_with(MARK) => Ok(()),
        Ok(_) => Err(ServiceError::Foreign(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ServiceError::File {
            path: path.to_owned(),
            error,
        }),
    }
}

/// What the drop-in says.
fn dropin(unit: &Unit, library: &Path, settings: &Settings) -> String {
    let earlier = unit.environment("LD_PRELOAD").map(OsString::from);
    let preload = with_earlier_preloads(library, earlier.as_deref());
    let mut text = format!(
        "{MARK} {name}`; `barewire disable {name}` removes it.\n[Service]\n{}\n",
        assignment("LD_PRELOAD", &preload.to_string_lossy()),
        name = unit.name,
    );
    for (variable, value) in settings.variables() {
        text.push_str(&assignment(variable, value));
        text.push('\n');
    }
    text
}

/// A line that sets a variable. systemd replaces what follows a percent sign, and takes quotes and backslashes away.
fn assignment(variable: &str, value: &str) -> String {
    let value = value.replace('%', "%%").replace('\\', "\\\\");
    format!("Environment=\"{variable}={}\"", value.replace('"', "\\\""))
}

/// Writes the whole file or nothing.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // systemd reads only what ends in `.conf`.
    let new = path.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path)
}

/// Has systemd read the files again, and says what is left to do.
fn apply(which: &Which, name: &str) -> Result<ExitCode, ServiceError> {
    if which.root.is_some() {
        return Ok(ExitCode::SUCCESS);
    }
    let whose: &[&str] = if which.user { &["--user"] } else { &[] };
    if !unit::systemd_runs(which.user) {
        println!("systemd does not run here: the change counts when it does");
        return Ok(ExitCode::SUCCESS);
    }
    systemctl(whose, &["daemon-reload"])?;
    if which.now {
        systemctl(whose, &["try-restart", name])?;
        println!("{name} was restarted, if it ran");
    } else {
        let whose = if which.user {
            "systemctl --user"
        } else {
            "systemctl"
        };
        println!("it counts from the next start: {whose} restart {name}");
    }
    Ok(ExitCode::SUCCESS)
}

fn systemctl(whose: &[&str], what: &[&str]) -> Result<(), ServiceError> {
    let arguments = [whose, what].concat();
    let done = Command::new("systemctl").args(&arguments).status();
    match done {
        Ok(status) if status.success() => Ok(()),
        _ => Err(ServiceError::Systemctl(format!(
            "systemctl {}",
            arguments.join(" ")
        ))),
    }
}
