//! The settings of unmodified programs: from a file, from the command line, checked, and
//! put into the environment as the library reads them (`crates/sockets/src/process/settings.rs`).
//!
//! ```toml
//! profile = "throughput"
//!
//! [program.redis-server]
//! profile = "latency"
//! spin_us = 200
//! ```

use std::ffi::OsString;
use std::fmt::Write;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::args::RunArgs;
use super::environment::set;

/// The keys, with the variables that they are in the environment.
const KEYS: [(&str, &str); 7] = [
    ("profile", "BAREWIRE_PROFILE"),
    ("spin_us", "BAREWIRE_SPIN_US"),
    ("calls_before", "BAREWIRE_CALLS_BEFORE"),
    ("bytes_before", "BAREWIRE_BYTES_BEFORE"),
    ("unix", "BAREWIRE_UNIX"),
    ("io_uring", "BAREWIRE_IO_URING"),
    ("off", "BAREWIRE_OFF"),
];
const RINGS: [&str; 3] = ["inspect", "leave", "refuse"];
const PROFILES: [&str; 4] = ["balanced", "latency", "throughput", "quiet"];
/// A longer look is a mistake.
const SPIN_US_MAX: u64 = 1_000_000;
/// The table of what is for one program only.
const PROGRAMS: &str = "program";

/// What is wrong with a setting, and where.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("{}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The file is no TOML.
    #[error("{}:{line}: {message}", .path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A setting is none, or has a value that it cannot have.
    #[error("{place}: {wrong}")]
    Setting {
        /// The file with the line, or the option, or the variable.
        place: String,
        /// What is wrong.
        wrong: Wrong,
    },
}

/// What is wrong with a setting.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// There is no such setting.
    #[error(
        "no setting `{0}`; there are: profile, spin_us, calls_before, bytes_before, unix, io_uring, off"
    )]
    Key(String),
    /// It cannot have this value.
    #[error("`{key}` must be {expected}, not `{found}`")]
    Value {
        /// The setting.
        key: String,
        /// What it can be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// The name of a program stands in the environment with the settings.
    #[error("`{0}` cannot be the name of a program here")]
    Name(String),
}

/// The settings for a program that is about to begin.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// From the file, as the library reads it.
    text: String,
    /// From the command line: the variable, and its value.
    variables: Vec<(&'static str, String)>,
}

impl Settings {
    /// Reads and checks them all; those of the environment, too.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn read(args: &RunArgs, program: &Path) -> Result<Settings, SettingsError> {
        let mut settings = Settings::of_options(args.profile.as_deref(), &args.set)?;
        if let Some((path, text)) = file(args.config.as_deref())? {
            let name = program.file_name().unwrap_or_default().to_string_lossy();
            settings.text = compile(&path, &text, &name)?;
        }
        for (key, variable) in KEYS {
            if let Some(value) = std::env::var_os(variable) {
                let checked = check(key, &value.to_string_lossy());
                checked.map_err(|wrong| at(variable.to_owned(), wrong))?;
            }
        }
        Ok(settings)
    }

    /// Checks those of the command line alone: `--profile`, and each `--set`.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn of_options(profile: Option<&str>, set: &[String]) -> Result<Settings, SettingsError> {
        let mut settings = Settings::default();
        let given = profile.map(|name| ("--profile", "profile", name));
        let given = given.into_iter().chain(set.iter().map(|text| {
            let (key, value) = text.split_once('=').unwrap_or((text, ""));
            ("--set", key, value)
        }));
        for (option, key, value) in given {
            let checked = check(key.trim(), value.trim());
            let (variable, value) = checked.map_err(|wrong| at(option.to_owned(), wrong))?;
            settings.variables.push((variable, value));
        }
        Ok(settings)
    }

    /// Those of the command line: the variable, and its value.
    pub fn variables(&self) -> &[(&'static str, String)] {
        &self.variables
    }

    /// Puts them into an environment.
    pub fn add_to(&self, environment: &mut Vec<(OsString, OsString)>) {
        if !self.text.is_empty() {
            set(environment, "BAREWIRE_SETTINGS", self.text.clone().into());
        }
        for (variable, value) in &self.variables {
            set(environment, variable, value.into());
        }
    }
}

/// What becomes of programs that ask for a ring of the kernel's, by the environment or the user's file.
///
/// # Errors
/// What is wrong, and where.
pub fn rings() -> Result<String, SettingsError> {
    const KEY: &str = "io_uring";
    if let Some(value) = std::env::var_os("BAREWIRE_IO_URING") {
        let checked = check(KEY, &value.to_string_lossy());
        let checked = checked.map_err(|wrong| at("BAREWIRE_IO_URING".to_owned(), wrong))?;
        return Ok(checked.1);
    }
    let text = match file(None)? {
        Some((path, text)) => compile(&path, &text, "")?,
        None => String::new(),
    };
    let general = text.split('[').next().unwrap_or_default();
    let mut values = general.split(';').filter_map(|item| item.split_once('='));
    let last = values.rfind(|(key, _)| *key == KEY);
    Ok(last.map_or(RINGS[0], |(_, value)| value).to_owned())
}

fn at(place: String, wrong: Wrong) -> SettingsError {
    SettingsError::Setting { place, wrong }
}

/// The file that was named, or the user's, if that is there.
fn file(named: Option<&Path>) -> Result<Option<(PathBuf, String)>, SettingsError> {
    let Some(path) = named.map(Path::to_owned).or_else(default_file) else {
        return Ok(None);
    };
    let text = if named.is_some() {
        std::fs::read_to_string(&path).map(Some)
    } else {
        read_own(&path)
    };
    match text {
        Ok(text) => Ok(text.map(|text| (path, text))),
        // A folder that may not be searched is not this user's: HOME is still another's.
        Err(_) if named.is_none() && path.symlink_metadata().is_err() => Ok(None),
        Err(error) => Err(SettingsError::File { path, error }),
    }
}

/// A file's text, if the file is this user's or root's: with `sudo`, HOME may still be another's, who
/// is not to choose what this user reads, nor to make it wait.
fn read_own(path: &Path) -> io::Result<Option<String>> {
    let mut options = std::fs::OpenOptions::new();
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let mut file = options
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)?;
    let found = file.metadata()?;
    let is_own = found.uid() == 0 || found.uid() == rustix::process::geteuid().as_raw();
    if !is_own {
        return Ok(None);
    }
    if !found.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(Some(text))
}

fn default_file() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let folder = match variable("XDG_CONFIG_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(&variable("HOME")?).join(".config"),
    };
    Some(folder.join("barewire/sockets.toml"))
}

/// The variable of a setting, and its value as the library reads it.
fn check(key: &str, value: &str) -> Result<(&'static str, String), Wrong> {
    let Some((_, variable)) = KEYS.iter().find(|(known, _)| *known == key) else {
        return Err(Wrong::Key(key.to_owned()));
    };
    let expected = |expected: String| Wrong::Value {
        key: key.to_owned(),
        expected,
        found: value.to_owned(),
    };
    let value = match key {
        "profile" if PROFILES.contains(&value) => value.to_owned(),
        "profile" => return Err(expected(format!("one of {}", PROFILES.join(", ")))),
        "io_uring" if RINGS.contains(&value) => value.to_owned(),
        "io_uring" => return Err(expected(format!("one of {}", RINGS.join(", ")))),
        "unix" | "off" => match value {
            "1" | "true" => "1".to_owned(),
            "0" | "false" => "0".to_owned(),
            _ => return Err(expected("0 or 1".to_owned())),
        },
        "calls_before" if value == "never" => value.to_owned(),
        _ => {
            let most = match key {
                "spin_us" => SPIN_US_MAX,
                "calls_before" => u64::from(u32::MAX),
                _ => i64::MAX as u64,
            };
            let number = value.parse::<u64>().ok().filter(|number| *number <= most);
            let or_never = if key == "calls_before" {
                ", or never"
            } else {
                ""
            };
            let number =
                number.ok_or_else(|| expected(format!("a number from 0 to {most}{or_never}")))?;
            number.to_string()
        }
    };
    Ok((variable, value))
}

/// The file as one line: what holds for all, what holds for the program that is begun (and
/// so for what it starts), and the parts for other programs.
fn compile(path: &Path, text: &str, program: &str) -> Result<String, SettingsError> {
    let line_of = |start: usize| 1 + text[..start.min(text.len())].matches('\n').count();
    let wrong =
        |start: usize, wrong: Wrong| at(format!("{}:{}", path.display(), line_of(start)), wrong);
    let root = DeTable::parse(text).map_err(|error| SettingsError::Form {
        path: path.to_owned(),
        line: line_of(error.span().map_or(0, |span| span.start)),
        message: error.message().to_owned(),
    })?;
    let mut general = String::new();
    let mut own = String::new();
    let mut others = String::new();
    for (key, value) in root.get_ref() {
        if key.get_ref() != PROGRAMS {
            item(&mut general, key.get_ref(), value)
                .map_err(|what| wrong(key.span().start, what))?;
            continue;
        }
        let DeValue::Table(programs) = value.get_ref() else {
            return Err(wrong(key.span().start, Wrong::Key(PROGRAMS.to_owned())));
        };
        for (name, part) in programs {
            let start = name.span().start;
            let is_plain =
                !name.get_ref().is_empty() && !name.get_ref().contains([';', '[', ']', '\0']);
            let DeValue::Table(part) = part.get_ref() else {
                return Err(wrong(
                    start,
                    Wrong::Key(format!("{PROGRAMS}.{}", name.get_ref())),
                ));
            };
            if !is_plain {
                return Err(wrong(start, Wrong::Name(name.get_ref().to_string())));
            }
            let mut items = String::new();
            for (key, value) in part {
                item(&mut items, key.get_ref(), value)
                    .map_err(|what| wrong(key.span().start, what))?;
            }
            if name.get_ref() == program {
                own.clone_from(&items);
            }
            let _ = write!(others, "[{}];{items}", name.get_ref());
        }
    }
    // A profile of its own replaces what holds for all; without one it adds to that.
    if own.contains("profile=") {
        general.clear();
    }
    Ok(general + &own + &others)
}

/// Adds a setting of the file; the profile in front.
fn item(items: &mut String, key: &str, value: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Boolean(value) => value.to_string(),
        _ => "(neither text nor number)".to_owned(),
    };
    let (_, value) = check(key, &text)?;
    let _ = write!(items, "{key}={value};");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(text: &str, program: &str) -> Result<String, String> {
        compile(Path::new("f.toml"), text, program).map_err(|error| error.to_string())
    }

    #[test]
    fn files_are_put_on_one_line() {
        let text = "spin_us = 7\noff = false\n[program.\"a b\"]\nspin_us = 1\n[program.x]\nprofile = \"quiet\"\n";
        let parts = "[a b];spin_us=1;[x];profile=quiet;";
        let compiled = |program| compiled(text, program).unwrap();
        let general = compiled("y");
        assert!(
            general == format!("spin_us=7;off=0;{parts}")
                || general == format!("off=0;spin_us=7;{parts}"),
            "{general}"
        );
        assert_eq!(compiled("x"), format!("profile=quiet;{parts}"));
        assert!(
            compiled("a b").contains("spin_us=7;") && compiled("a b").contains("spin_us=1;[a b]")
        );
    }

    #[test]
    fn mistakes_are_found_where_they_are() {
        let wrong = |text| compiled(text, "x").unwrap_err();
        assert!(wrong("\nspin = 1\n").starts_with("f.toml:2: no setting `spin`"));
        assert!(
            wrong("spin_us = 1\n\n[program.x]\nspin_us = \"long\"\n")
                .starts_with("f.toml:4: `spin_us` must be a number")
        );
        assert!(
            wrong("profile = \"fast\"\n")
                .contains("one of balanced, latency, throughput, quiet, not `fast`")
        );
        assert!(wrong("a = = 1\n").starts_with("f.toml:1: "));
        assert!(wrong("spin_us = [1]\n").contains("neither text nor number"));
        assert!(wrong("program = 1\n").contains("no setting `program`"));
        assert!(wrong("[program]\nx = 1\n").starts_with("f.toml:2: no setting `program.x`"));
        assert!(wrong("[program.\"a;b\"]\noff = 1\n").contains("cannot be the name"));
        assert!(wrong("spin_us = -1\n").contains("must be a number from 0"));
        assert!(wrong("spin_us = 1000001\n").contains("not `1000001`"));
    }

    #[test]
    fn values_are_as_the_library_reads_them() {
        assert_eq!(check("off", "true"), Ok(("BAREWIRE_OFF", "1".to_owned())));
        let refuse = Ok(("BAREWIRE_IO_URING", "refuse".to_owned()));
        assert_eq!(check("io_uring", "refuse"), refuse);
        assert!(check("io_uring", "1").is_err());
        let unix = check("unix", "false");
        assert_eq!(unix, Ok(("BAREWIRE_UNIX", "0".to_owned())));
        assert!(check("unix", "2").is_err());
        assert_eq!(
            check("calls_before", "0012"),
            Ok(("BAREWIRE_CALLS_BEFORE", "12".to_owned()))
        );
        assert_eq!(
            check("calls_before", "never"),
            Ok(("BAREWIRE_CALLS_BEFORE", "never".to_owned()))
        );
        assert!(check("calls_before", "4294967296").is_err());
        assert!(check("bytes_before", "").is_err());
    }
}
