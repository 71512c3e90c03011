//! The settings of a node that may change while it lives: their names, how their values are
//! written, and what a change does. Other processes read and change them through a socket (`settings/server.rs`).
//!
//! A setting is here if a change of it does not harm what exists already: limits, which apply
//! to what comes next; how long to spin; whether the capture goes on. How memory was made (its
//! size, where it lies) can not be changed afterwards.

mod ask;
mod server;

use std::time::Duration;

pub use ask::{AskError, NodeAddress, ask};
pub(crate) use server::{SettingsServer, answer};

use crate::config::{NodeConfig, Spin, check_connections_max};
use crate::error::{Error, Result};
use crate::links::base::LiveSettings;

/// A setting of a live node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name: that of the field of [`NodeConfig`], parts of it behind a dot.
    pub key: String,
    /// Its value now, as [`Node::set`](crate::Node::set) takes it.
    pub value: String,
    /// What it is, with its unit.
    pub about: String,
}

/// Why a value is not taken.
type Taken = Result<(), String>;

struct Key {
    name: &'static str,
    about: &'static str,
    read: fn(&LiveSettings) -> String,
    write: fn(&mut LiveSettings, &str) -> Taken,
}

/// A key for a number in the configuration.
macro_rules! number {
    ($name:expr, $($field:ident).+, $about:expr) => {
        Key {
            name: $name,
            about: $about,
            read: |live| live.config.$($field).+.to_string(),
            write: |live, text| parse_number(text).map(|value| live.config.$($field).+ = value),
        }
    };
}

/// Keys for the parts of a budget.
macro_rules! budget {
    ($budget:ident, $whose:literal) => {
        [
            number!(
                concat!(stringify!($budget), ".links"),
                $budget.links,
                concat!("links of ", $whose)
            ),
            number!(
                concat!(stringify!($budget), ".connections"),
                $budget.connections,
                concat!("connections of ", $whose)
            ),
            number!(
                concat!(stringify!($budget), ".private_bytes"),
                $budget.private_bytes,
                concat!("bytes of private memory for ", $whose)
            ),
            number!(
                concat!(stringify!($budget), ".mappings"),
                $budget.mappings,
                concat!("mappings for ", $whose)
            ),
            number!(
                concat!(stringify!($budget), ".descriptors"),
                $budget.descriptors,
                concat!("descriptors for ", $whose)
            ),
            number!(
                concat!(stringify!($budget), ".events"),
                $budget.events,
                concat!("events of ", $whose, " that wait")
            ),
        ]
    };
}

static PLAIN: [Key; 9] = [
    Key {
        name: "spin",
        about: "how long to spin before sleeping: never, forever, a time as 20us, adaptive, or \
                adaptive:20us (at most)",
        read: |live| spin_text(live.config.spin),
        write: |live, text| parse_spin(text).map(|spin| live.config.spin = spin),
    },
    number!(
        "ring_bytes",
        ring_bytes,
        "bytes of the receive ring of later connections"
    ),
    number!(
        "message_bytes_max",
        message_bytes_max,
        "longest message of later connections, in bytes"
    ),
    number!("connections_max", connections_max, "connections at a time"),
    number!(
        "granted_apertures_max",
        granted_apertures_max,
        "apertures that one peer may grant"
    ),
    number!(
        "foreign_ring_bytes_max",
        foreign_ring_bytes_max,
        "largest ring of a later peer of another user, in bytes"
    ),
    number!("bulk_max", bulk_max, "bulk transfers at a time"),
    number!(
        "backlog_max",
        backlog_max,
        "requests of one listener that may wait"
    ),
    Key {
        name: "capture",
        about: "whether what is sent and received is recorded: on or off; only if the node was \
                made with a capture file",
        read: |live| (if live.capturing { "on" } else { "off" }).to_owned(),
        write: write_capture,
    },
];
static OF_ONE_USER: [Key; 6] = budget!(user_budget, "one other user");
static OF_ALL_USERS: [Key; 6] = budget!(foreign_budget, "all other users");

/// Settings that are fixed when a node is made.
const FIXED: [&str; 3] = ["lock_memory", "numa_node", "huge_pages"];

fn keys() -> impl Iterator<Item = &'static Key> {
    PLAIN.iter().chain(&OF_ONE_USER).chain(&OF_ALL_USERS)
}

fn parse_number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    let wrong = || format!("`{text}` is not a whole number, or too large");
    text.parse().map_err(|_| wrong())
}

fn write_capture(live: &mut LiveSettings, text: &str) -> Taken {
    live.capturing = match text {
        "on" if live.config.capture.is_none() => {
            return Err("the node was made without a capture file".to_owned());
        }
        "on" => true,
        "off" => false,
        _ => return Err(format!("`{text}`: expected on or off")),
    };
    Ok(())
}

fn spin_text(spin: Spin) -> String {
    let time = |time: Duration| format!("{}ns", time.as_nanos());
    match spin {
        Spin::Never => "never".to_owned(),
        Spin::Forever => "forever".to_owned(),
        Spin::For(length) => time(length),
        Spin::Adaptive { at_most: None } => "adaptive".to_owned(),
        Spin::Adaptive {
            at_most: Some(most),
        } => format!("adaptive:{}", time(most)),
    }
}

fn parse_spin(text: &str) -> Result<Spin, String> {
    Ok(match text {
        "never" => Spin::Never,
        "forever" => Spin::Forever,
        "adaptive" => Spin::Adaptive { at_most: None },
        text => match text.strip_prefix("adaptive:") {
            Some(most) => Spin::Adaptive {
                at_most: Some(parse_time(most)?),
            },
            None => Spin::For(parse_time(text)?),
        },
    })
}

/// A number with its unit, of whole nanoseconds.
fn parse_time(text: &str) -> Result<Duration, String> {
    let wrong = |why: &dyn std::fmt::Display| {
        format!("`{text}` is not a time: {why}; examples: 500ns, 20us, 1.5ms, 2s")
    };
    let time: barewire_units::Duration = text.parse().map_err(|error| wrong(&error))?;
    match time.as_ps() % 1000 {
        0 => Ok(Duration::from_nanos(time.as_ns())),
        _ => Err(wrong(&"not a whole number of nanoseconds")),
    }
}

/// What is wrong with a setting, as an error.
fn refuse(key: &str, reason: &str) -> Error {
    Error::BadSetting {
        key: key.to_owned(),
        reason: reason.to_owned(),
    }
}

fn unknown(key: &str) -> Error {
    let names: Vec<&str> = keys().map(|known| known.name).collect();
    let is_fixed = FIXED.contains(&key);
    let what = if is_fixed {
        "is fixed when the node is made"
    } else {
        "is not a setting of a node"
    };
    refuse(
        key,
        &format!("{what}; these can be set: {}", names.join(", ")),
    )
}

/// All settings that may change, as they are.
pub(crate) fn list(live: &LiveSettings) -> Vec<Setting> {
    let setting = |key: &Key| Setting {
        key: key.name.to_owned(),
        value: (key.read)(live),
        about: key.about.to_owned(),
    };
    keys().map(setting).collect()
}

/// What holds after all of these changes; `made` is what the node was made with.
pub(crate) fn changed(
    live: &LiveSettings,
    changes: &[(&str, &str)],
    made: &NodeConfig,
) -> Result<LiveSettings> {
    let mut wanted = live.clone();
    for (name, value) in changes {
        let key = keys()
            .find(|key| key.name == *name)
            .ok_or_else(|| unknown(name))?;
        (key.write)(&mut wanted, value).map_err(|reason| refuse(name, &reason))?;
    }
    wanted.config.check()?;
    // The counters page has been made for so many.
    check_connections_max(wanted.config.connections_max, made.connections_max)?;
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Node;

    fn value(node: &Node, key: &str) -> String {
        let settings = node.settings();
        let found = settings.iter().find(|setting| setting.key == key);
        found.expect("a setting").value.clone()
    }

    #[test]
    fn every_setting_takes_its_own_value() {
        let node = Node::new().unwrap();
        let settings = node.settings();
        assert_eq!(settings.len(), 21);
        for setting in &settings {
            node.set(&[(&setting.key, &setting.value)]).unwrap();
            assert!(!setting.about.is_empty());
        }
        assert_eq!(node.settings(), settings);
    }

    #[test]
    fn a_change_holds_and_is_shown() {
        let node = Node::new().unwrap();
        node.set(&[("spin", "20us"), ("user_budget.links", "3")])
            .unwrap();
        assert_eq!(value(&node, "spin"), "20000ns");
        assert_eq!(value(&node, "user_budget.links"), "3");
        assert_eq!(node.core.waiting.spinner.budget_ns(), 20_000);
        node.set(&[("spin", "never")]).unwrap();
        assert_eq!(node.core.waiting.spinner.budget_ns(), 0);
        // What it was made with stays what it was.
        assert_eq!(node.config().spin, Spin::Adaptive { at_most: None });
    }

    #[test]
    fn one_bad_value_changes_nothing() {
        let node = Node::new().unwrap();
        let before = node.settings();
        for bad in [
            ("spin", "20"),
            ("spin", "99999999999999999999s"),
            ("ring_bytes", "5000"),
            ("ring_bytes", "-1"),
            ("message_bytes_max", "0"),
            ("connections_max", "0"),
            ("connections_max", "131073"),
            ("capture", "maybe"),
            ("capture", "on"),
            ("bulk_max", "4294967296"),
        ] {
            let error = node.set(&[("backlog_max", "7"), bad]).unwrap_err();
            assert_eq!(
                error.fault(),
                crate::error::Fault::Caller,
                "{bad:?}: {error}"
            );
            assert_eq!(node.settings(), before, "{bad:?}");
        }
    }

    #[test]
    fn what_cannot_be_set_is_named_with_what_can() {
        let node = Node::new().unwrap();
        let error = node.set(&[("huge_pages", "try")]).unwrap_err().to_string();
        assert!(error.contains("fixed when the node is made"), "{error}");
        let error = node.set(&[("colour", "red")]).unwrap_err().to_string();
        assert!(error.contains("is not a setting"), "{error}");
        for setting in node.settings() {
            assert!(error.contains(&setting.key), "{error}");
        }
    }

    #[test]
    fn times_have_units() {
        for spin in ["never", "forever", "adaptive", "7ns", "adaptive:5000ns"] {
            assert_eq!(spin_text(parse_spin(spin).unwrap()), spin);
        }
        assert_eq!(parse_time("3 ms"), Ok(Duration::from_millis(3)));
        assert_eq!(parse_time("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_time("1.5us"), Ok(Duration::from_nanos(1500)));
        assert_eq!(parse_time("2e-5 s"), Ok(Duration::from_micros(20)));
        for wrong in ["", "us", "5", "1.5ns", "-1s", "1e30s"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
