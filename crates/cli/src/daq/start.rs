//! How parts of a run are started: the command line of each, the configuration, signals.

use std::path::{Path, PathBuf};
use std::process::Command;

use barewire_daq::config::{Config, SourceKind, Start};
use barewire_daq::launch::Role;
use barewire_daq::signals;
use barewire_proto::evb::Part;

use super::error::DaqError;

/// How this program runs a part of a configuration.
#[derive(Clone, Copy)]
pub struct HowTo<'a> {
    /// This program.
    pub program: &'a Path,
    /// The configuration.
    pub config: &'a Path,
    /// The commands of the configuration by which parts are started.
    pub start: &'a Start,
    /// What is started in place of a source part.
    pub own_source: Option<&'a Path>,
    /// Of the manager.
    pub quiet: bool,
    /// Of the manager.
    pub hold: bool,
    /// Of the manager.
    pub json: bool,
}

impl<'a> HowTo<'a> {
    /// For a run that nobody watches.
    pub const fn quietly(program: &'a Path, config: &'a Path, start: &'a Start) -> Self {
        Self {
            program,
            config,
            start,
            own_source: None,
            quiet: true,
            hold: false,
            json: false,
        }
    }

    /// The command line of a part.
    pub fn command(&self, role: Role) -> Command {
        let (start, part) = (self.start, role.part());
        if let (Some(own), Some(Part::Source(id))) = (self.own_source, part) {
            let (mut command, config) = start.command(part, own, self.config);
            command.arg(config).arg(id.0.to_string());
            return command;
        }
        let program = start.program(part, self.program);
        let (mut command, config) = start.command(part, program, self.config);
        command.args(["daq", role.command()]).arg(config);
        command.args(["--part", &role.number().to_string()]);
        let flags = [
            ("--quiet", self.quiet),
            ("--hold", self.hold),
            ("--json", self.json),
        ];
        let flags = flags.iter().filter(|it| role == Role::Manager && it.1);
        command.args(flags.map(|it| it.0));
        command
    }
}

/// The program that takes the place of a source part, if there is one.
pub fn own_source(config: &Config) -> Option<&Path> {
    match &config.source_kind {
        SourceKind::Own(program) => program.as_deref(),
        _ => None,
    }
}

/// The path of this program.
pub fn own_program() -> Result<PathBuf, DaqError> {
    std::env::current_exe().map_err(|error| DaqError::Io {
        what: "this program".to_owned(),
        error,
    })
}

/// Reads a configuration.
pub fn load(path: &Path) -> Result<Config, DaqError> {
    Config::load(path).map_err(DaqError::Config)
}

/// From now on signals are counted, and end nothing by themselves.
pub fn listen() -> Result<(), DaqError> {
    signals::listen().map_err(|error| DaqError::Io {
        what: "listen to signals".to_owned(),
        error,
    })
}
