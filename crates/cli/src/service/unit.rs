//! A service's unit and its drop-ins: found where systemd finds them, and read as far as `barewire enable` needs it.
//!
//! The form is that of systemd.syntax(7). Specifiers (`%h`) are left as they are.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// The folders of system units, the first before the others: systemd.unit(5).
const SYSTEM: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];
/// Those of user units that are not in the user's own folders.
const USER: [&str; 5] = [
    "/etc/systemd/user",
    "/run/systemd/user",
    "/usr/local/lib/systemd/user",
    "/usr/lib/systemd/user",
    "/lib/systemd/user",
];
const SUFFIX: &str = ".service";
/// Other kinds of units.
const OTHER_SUFFIXES: [&str; 10] = [
    ".socket",
    ".target",
    ".timer",
    ".mount",
    ".automount",
    ".swap",
    ".path",
    ".slice",
    ".scope",
    ".device",
];

/// Why there is no such service.
#[derive(Debug, thiserror::Error)]
pub enum UnitError {
    /// It can not be the name of one.
    #[error("`{0}` is not the name of a service")]
    Name(String),
    /// Nobody has written a unit for it.
    #[error("there is no {name} in {}; `systemctl list-unit-files --type=service` lists them", looked_at(.places))]
    Missing {
        /// Its full name.
        name: String,
        /// Where it was looked for.
        places: Vec<PathBuf>,
    },
    /// A file of it can not be read.
    #[error("{}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The user has no folder of his own.
    #[error("HOME is not set, so your own services can not be found")]
    NoHome,
}

fn looked_at(places: &[PathBuf]) -> String {
    let places = places.iter().map(|place| place.display().to_string());
    places.collect::<Vec<_>>().join(", ")
}

/// `NAME.service`.
///
/// # Errors
/// [`UnitError::Name`].
pub fn full_name(name: &str) -> Result<String, UnitError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    let is_other = OTHER_SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
    let stem = name.strip_suffix(SUFFIX).unwrap_or(name);
    if stem.is_empty() || stem.starts_with('.') || is_other || !stem.chars().all(is_plain) {
        return Err(UnitError::Name(name.to_owned()));
    }
    Ok(format!("{stem}{SUFFIX}"))
}

/// Whether systemd runs here, as sd_booted(3) finds out; or that of this user.
pub fn systemd_runs(of_user: bool) -> bool {
    match of_user {
        false => Path::new("/run/systemd/system").is_dir(),
        true => std::env::var_os("XDG_RUNTIME_DIR")
            .is_some_and(|folder| Path::new(&folder).join("systemd/private").exists()),
    }
}

/// Where units are.
#[derive(Debug)]
pub struct Places {
    /// The first one is where ours goes.
    folders: Vec<PathBuf>,
    /// The folder that the service takes for `/`.
    pub root: PathBuf,
}

impl Places {
    /// Those of the system in `root`, or of this user.
    ///
    /// # Errors
    /// [`UnitError::NoHome`].
    pub fn new(of_user: bool, root: Option<&Path>) -> Result<Places, UnitError> {
        let root = root.unwrap_or(Path::new("/")).to_owned();
        let folders = match of_user {
            false => SYSTEM.iter().map(|folder| root.join(folder)).collect(),
            true => {
                let own = own_config()?.join("systemd/user");
                let others = USER.iter().map(PathBuf::from);
                [own].into_iter().chain(others).collect()
            }
        };
        Ok(Places { folders, root })
    }

    /// The folder of our drop-in.
    pub fn dropin(&self, name: &str) -> PathBuf {
        self.folders[0].join(format!("{name}.d"))
    }

    fn fragment(&self, name: &str) -> Option<PathBuf> {
        let paths = self.folders.iter().map(|folder| folder.join(name));
        // A link in a system in a folder leads out of it.
        paths
            .into_iter()
            .find(|path| path.symlink_metadata().is_ok())
    }

    /// The drop-ins, in the order in which they count: by name, and of one name that of the first folder.
    fn dropins(&self, names: &[String]) -> Vec<PathBuf> {
        let mut found = BTreeMap::new();
        for folder in &self.folders {
            for name in names {
                let entries = std::fs::read_dir(folder.join(format!("{name}.d")));
                for entry in entries.into_iter().flatten().flatten() {
                    if entry.path().extension() == Some(OsStr::new("conf")) {
                        found.entry(entry.file_name()).or_insert(entry.path());
                    }
                }
            }
        }
        found.into_values().collect()
    }
}

fn own_config() -> Result<PathBuf, UnitError> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let config = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    config
        .filter(|path| path.is_absolute())
        .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")))
        .ok_or(UnitError::NoHome)
}

/// What is set for a service: the lines of its section `[Service]`, in the order in which they count.
#[derive(Debug, Default)]
pub struct Unit {
    /// `NAME.service`.
    pub name: String,
    lines: Vec<(String, String)>,
}

impl Unit {
    /// The service of this name, with all its drop-ins but those called `but`.
    ///
    /// # Errors
    /// There is none, or it can not be read.
    pub fn find(places: &Places, name: &str, but: &str) -> Result<Unit, UnitError> {
        let name = full_name(name)?;
        let mut names = vec![name.clone()];
        // `name@instance.service` is an instance of `name@.service`.
        if let Some((stem, _)) = name.split_once('@') {
            names.insert(0, format!("{stem}@{SUFFIX}"));
        }
        let fragment = names.iter().rev().find_map(|name| places.fragment(name));
        let Some(fragment) = fragment else {
            let places = places.folders.clone();
            return Err(UnitError::Missing { name, places });
        };
        let mut unit = Unit {
            name,
            lines: Vec::new(),
        };
        let dropins = places.dropins(&names);
        let others = dropins
            .into_iter()
            .filter(|path| path.file_name() != Some(OsStr::new(but)));
        for path in [fragment].into_iter().chain(others) {
            let text = std::fs::read_to_string(&path);
            unit.read(&text.map_err(|error| UnitError::File { path, error })?);
        }
        Ok(unit)
    }

    fn read(&mut self, text: &str) {
        let mut is_service = false;
        // A backslash at the end of a line stands for a space.
        for line in text.replace("\\\n", " ").lines().map(str::trim) {
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if line.starts_with('[') {
                is_service = line == "[Service]";
            } else if let (true, Some((key, value))) = (is_service, line.split_once('=')) {
                self.lines
                    .push((key.trim().to_owned(), value.trim().to_owned()));
            }
        }
    }

    /// What a key is set to, in order. An empty value takes back what was set before.
    pub fn values(&self, key: &str) -> Vec<&str> {
        let mut values = Vec::new();
        for (_, value) in self.lines.iter().filter(|(found, _)| found == key) {
            match value.as_str() {
                "" => values.clear(),
                value => values.push(value),
            }
        }
        values
    }

    /// What a key is set to last.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.values(key).pop()
    }

    /// Whether a key is set to yes.
    pub fn is_set(&self, key: &str) -> bool {
        self.value(key).is_some_and(is_yes)
    }

    /// A variable that the unit sets for the service.
    pub fn environment(&self, variable: &str) -> Option<String> {
        let lines = self.values("Environment").into_iter();
        let words = lines.flat_map(words);
        let mut values = words.filter_map(|word| {
            let (name, value) = word.split_once('=')?;
            (name == variable).then(|| value.to_owned())
        });
        values.next_back()
    }
}

/// Whether a value means yes: systemd.syntax(7).
pub fn is_yes(value: &str) -> bool {
    matches!(value, "1" | "yes" | "true" | "on" | "y" | "t")
}

/// The words of a line: separated by spaces, if those are not in quotes.
pub fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                let escaped = chars.next().unwrap_or('\\');
                word.get_or_insert_default().push(escaped);
            }
            _ if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            _ if c.is_whitespace() && quote.is_none() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_systemd_reads_them() {
        let mut unit = Unit::default();
        unit.read(
            "[Unit]\nEnvironment=A=0\n[Service]\n# Environment=A=1\nEnvironment=\"A=1 2\" B='3' \\\n  C=4\n\
             PrivateNetwork = yes\nLimitAS=1G\nLimitAS=\n[Install]\nEnvironment=A=5\n",
        );
        assert_eq!(unit.environment("A").as_deref(), Some("1 2"));
        assert_eq!(unit.environment("B").as_deref(), Some("3"));
        assert_eq!(unit.environment("C").as_deref(), Some("4"));
        assert_eq!(unit.environment("D"), None);
        assert!(unit.is_set("PrivateNetwork") && !unit.is_set("PrivateUsers"));
        assert_eq!(unit.value("LimitAS"), None, "it was taken back");
        unit.read("[Service]\nEnvironment=\nEnvironment=B=6\n");
        assert_eq!(unit.environment("A"), None);
        assert_eq!(unit.environment("B").as_deref(), Some("6"));
    }

    #[test]
    fn names_are_completed_and_checked() {
        assert_eq!(full_name("redis").unwrap(), "redis.service");
        assert_eq!(
            full_name("getty@tty1.service").unwrap(),
            "getty@tty1.service"
        );
        for name in ["", ".service", "../x", "a/b", "x.socket", "a b"] {
            assert!(full_name(name).is_err(), "{name}");
        }
    }
}
