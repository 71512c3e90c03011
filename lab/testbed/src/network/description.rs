//! A network as it was described, checked: who stands where, and what runs on it.

use std::collections::BTreeMap;

use barewire_models::workbench::Framing;
use barewire_units::Duration;
use toml::Table;

use super::places::{End, Line};
use super::programs::ProgramSpec;
use super::rings::{SlottedSpec, TokenSpec};
use super::switch::SwitchSpec;
use super::unit::UnitSpec;
use crate::workbench::parameters::Parameters;

/// A host with its cards, one at least.
#[derive(Clone, Debug)]
pub(super) struct HostSpec {
    pub name: String,
    /// What it is like, for the picture.
    pub like: String,
    pub cards: Vec<CardSpec>,
    /// Bytes of messages for others that wait for a card, if it passes them on.
    pub forwards: Option<u64>,
    /// For each host, the card towards it; empty, and the first leads to all.
    pub ways: Vec<u8>,
}

/// A card.
#[derive(Clone, Debug)]
pub(super) struct CardSpec {
    /// That of its table.
    pub name: String,
    pub like: String,
    /// Its own, and those of its host.
    pub parameters: Parameters,
    pub line: Line,
}

impl HostSpec {
    /// The card by which messages go to a host.
    pub(super) fn way(&self, to: usize) -> u8 {
        self.ways.get(to).copied().unwrap_or(0)
    }
}

/// What a device is.
#[derive(Clone, Debug)]
pub(super) enum DeviceKind {
    Switch(SwitchSpec),
    Unit(UnitSpec),
    /// A device of somebody's own, with its keys.
    Own {
        kind: String,
        keys: Table,
    },
}

impl DeviceKind {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Switch(_) => "switch",
            Self::Unit(_) => "unit",
            Self::Own { .. } => "device",
        }
    }
}

/// A device.
#[derive(Clone, Debug)]
pub(super) struct DeviceSpec {
    pub name: String,
    /// Its own key, `switches.s`.
    pub key: String,
    pub kind: DeviceKind,
    /// Of each port that something is attached to: its line and what that carries.
    pub ports: Vec<Option<PortSpec>>,
    /// For each host, the port towards it.
    pub ways: Vec<Option<u16>>,
}

/// A port of a device.
#[derive(Clone, Debug)]
pub(super) struct PortSpec {
    pub line: Line,
    pub framing: Framing,
}

/// A link.
#[derive(Clone, Debug)]
pub(super) struct LinkSpec {
    pub name: String,
    pub ends: [End; 2],
    pub framing: Framing,
    pub way: Duration,
    /// The chance that a frame on it is lost, each by itself.
    pub loss: f64,
}

impl LinkSpec {
    /// Whether `name` is its own, or that of the table that it is one of several of.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name == name
            || self
                .name
                .rsplit_once('-')
                .is_some_and(|(table, _)| table == name)
    }
}

/// What a ring is.
#[derive(Clone, Debug)]
pub(super) enum RingKind {
    Slotted(SlottedSpec),
    Token(Box<TokenSpec>),
}

/// A ring.
#[derive(Clone, Debug)]
pub(super) struct RingSpec {
    pub name: String,
    pub kind: RingKind,
    /// What is at each station.
    pub ends: Vec<End>,
    /// For each host, the station towards it.
    pub ways: Vec<Option<u16>>,
}

/// A program.
#[derive(Clone, Debug)]
pub(super) struct NamedProgram {
    pub name: String,
    pub spec: ProgramSpec,
    /// Of hosts whose card it names: that card.
    pub cards: BTreeMap<u16, u8>,
}

/// A whole network.
#[derive(Clone, Debug, Default)]
pub(super) struct Description {
    pub hosts: Vec<HostSpec>,
    pub devices: Vec<DeviceSpec>,
    pub links: Vec<LinkSpec>,
    pub rings: Vec<RingSpec>,
    pub programs: Vec<NamedProgram>,
    /// The hosts of each table `[hosts.NAME]`.
    pub groups: BTreeMap<String, Vec<usize>>,
    /// The table of hosts of each table `[cards.NAME]`, and its number among the cards of those.
    pub cards: BTreeMap<String, (String, u8)>,
}

impl Description {
    /// A place where time is spent, in the order of their numbers: hosts, devices, links, rings.
    pub(super) fn place(&self, number: u16) -> String {
        let hosts = self.hosts.iter().map(|it| ("host", &it.name));
        let devices = self.devices.iter().map(|it| (it.kind.name(), &it.name));
        let links = self.links.iter().map(|it| ("link", &it.name));
        let rings = self.rings.iter().map(|it| ("ring", &it.name));
        let mut places = hosts.chain(devices).chain(links).chain(rings);
        places
            .nth(number.into())
            .map_or_else(String::new, |(kind, name)| format!("{kind} {name}"))
    }

    pub(super) fn device_place(&self, device: usize) -> u16 {
        (self.hosts.len() + device) as u16
    }

    pub(super) fn link_place(&self, link: usize) -> u16 {
        (self.hosts.len() + self.devices.len() + link) as u16
    }

    pub(super) fn ring_place(&self, ring: usize) -> u16 {
        (self.hosts.len() + self.devices.len() + self.links.len() + ring) as u16
    }
}
