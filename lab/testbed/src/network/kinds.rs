//! Kinds of devices of one's own: their names in a plan, and how they are made.

use toml::Table;

use super::device::Device;

/// What is wrong with a key of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The key, in the device's table.
    pub key: String,
    /// What is wrong with it, and what is expected.
    pub problem: String,
}

/// Kinds of devices, by their names, and how they are made.
pub trait Kinds: Sync {
    /// The names, as a plan has them: `kind = "NAME"`.
    fn names(&self) -> &'static [&'static str];

    /// A device of a kind, with so many ports, from the keys of its table that are its own.
    ///
    /// # Errors
    ///
    /// A key that is missing, unknown or has no such value.
    fn make(&self, kind: &str, ports: usize, keys: &Table) -> Result<Box<dyn Device>, Wrong>;
}

/// No kinds of devices but those that are built in.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoKinds;

impl Kinds for NoKinds {
    fn names(&self) -> &'static [&'static str] {
        &[]
    }

    fn make(&self, kind: &str, _ports: usize, _keys: &Table) -> Result<Box<dyn Device>, Wrong> {
        Err(Wrong {
            key: "kind".to_owned(),
            problem: format!("no such kind: {kind}"),
        })
    }
}
