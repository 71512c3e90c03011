//! Hosts with their cards, devices, and their ports by name.

use std::collections::BTreeMap;

use barewire_units::{ByteSize, Duration};
use toml::{Table, Value};

use super::super::description::DeviceKind;
use super::super::faults::Faults;
use super::super::fields::{Fields, tables};
use super::super::kinds::Kinds;
use super::super::stations::{HOST_KEYS, Recipe, fragments};
use super::super::switch::SwitchSpec;
use super::super::unit::{SideSpec, UnitSpec};
use crate::workbench::parameters::{By, Parameters};

/// Hosts, all together.
const HOSTS_MAX: u64 = 4000;
/// Cards of a host.
const CARDS_MAX: usize = 16;
/// Ports of a device, and of all that has some.
const PORTS_MAX: usize = 4096;
const PORTS_ALL_MAX: usize = 1 << 16;
/// Devices of all kinds. Hosts, devices, links and rings are numbered together, in 16 bits.
const DEVICES_MAX: usize = 4096;
/// Hosts times ports: so much is looked at for the ways from everywhere to every host.
const WAYS_MAX: usize = 100_000_000;
const LATENCY_MAX: Duration = Duration::from_s(1);
const BUFFER_MAX: ByteSize = ByteSize::from_gib(1);

/// A port, and what is attached to it.
pub(super) struct Port {
    pub name: String,
    pub owner: Owner,
    /// What its own side puts on the line; a switch takes what the other side does.
    pub own: Option<Parameters>,
    /// The key of what is attached to it.
    pub used_by: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Card { host: usize, card: u8 },
    Device(usize, usize),
}

/// A host, one of those that a table describes.
pub(super) struct HostDraft {
    pub name: String,
    pub like: String,
    pub cards: Vec<CardDraft>,
    /// Bytes of messages for others that wait for a card, if it passes them on.
    pub forwards: Option<u64>,
}

/// A card of a host.
pub(super) struct CardDraft {
    /// That of its table.
    pub name: String,
    pub key: String,
    pub like: String,
    /// Its number among all ports.
    pub port: usize,
}

/// The table of a card, with its name.
type CardTable<'a> = (String, Fields<'a>, String);

/// A card as all hosts of a table have it.
struct Made {
    name: String,
    key: String,
    like: String,
    parameters: Option<Parameters>,
}

/// A device.
pub(super) struct DeviceDraft {
    pub name: String,
    pub key: String,
    pub kind: DeviceKind,
    /// Its ports, by their number among all.
    pub ports: Vec<usize>,
}

/// What a name of a port stands for.
pub(super) enum Named {
    /// The cards of as many hosts, by port.
    Cards(Vec<usize>),
    Device(usize),
}

/// All that has ports.
#[derive(Default)]
pub(super) struct Parts {
    pub hosts: Vec<HostDraft>,
    /// The hosts of each table.
    pub groups: BTreeMap<String, Vec<usize>>,
    /// The table of hosts of each table of cards, and its number among the cards of those.
    pub cards: BTreeMap<String, (String, u8)>,
    pub devices: Vec<DeviceDraft>,
    pub ports: Vec<Port>,
    pub names: BTreeMap<String, Named>,
}

pub(super) fn read(whole: &Table, kinds: &dyn Kinds, faults: &mut Faults) -> Parts {
    let mut parts = Parts::default();
    let hosts = tables(whole, "hosts", faults);
    let mut cards: Vec<CardTable<'_>> = Vec::new();
    for (name, fields) in tables(whole, "cards", faults) {
        let host = fields.text("host", "the name of a host", faults);
        cards.push((name, fields, host));
    }
    if hosts.is_empty() && !whole.contains_key("rings") {
        faults.add("hosts", "no host: expected [hosts.NAME]");
    }
    let known: Vec<&str> = hosts.iter().map(|(name, _)| name.as_str()).collect();
    for (_, fields, host) in &cards {
        if !host.is_empty() && !known.contains(&host.as_str()) {
            faults.unknown(fields.at("host"), "host", host, known.iter().copied());
        }
    }
    for (name, fields, host) in &cards {
        if !known.contains(&host.as_str()) {
            // Whoever names the card is not at fault.
            parts.name(name, &fields.key, Named::Cards(Vec::new()), faults);
        }
    }
    for (name, fields) in &hosts {
        let own = cards.iter().filter(|(_, _, host)| host == name);
        let own: Vec<_> = own.collect();
        if let Some((_, card, _)) = own.get(CARDS_MAX) {
            let problem =
                format!("`{name}` has {CARDS_MAX} cards already: expected at most so many");
            faults.add(card.at("host"), problem);
        }
        let own = &own[..own.len().min(CARDS_MAX)];
        parts.host(name, fields, own, faults);
    }
    for (name, fields) in tables(whole, "switches", faults) {
        parts.switch(&name, &fields, faults);
    }
    for (name, fields) in tables(whole, "units", faults) {
        parts.unit(&name, &fields, faults);
    }
    for (name, fields) in tables(whole, "devices", faults) {
        parts.device(&name, &fields, kinds, faults);
    }
    let (hosts, ports) = (parts.hosts.len(), parts.ports.len());
    if hosts * ports > WAYS_MAX {
        let problem = format!(
            "too large a network: {hosts} hosts and {ports} ports, expected at most {WAYS_MAX} as \
             their product"
        );
        faults.add("hosts", problem);
    }
    parts
}

impl Parts {
    /// The hosts of a table, each with its cards.
    fn host(
        &mut self,
        name: &str,
        fields: &Fields<'_>,
        cards: &[&CardTable<'_>],
        faults: &mut Faults,
    ) {
        let count = fields.maybe::<u64>("count", faults);
        let _about = fields.maybe::<String>("about", faults);
        let made = made(name, fields, cards, faults);
        let forwards = forwards(fields, &made, faults);
        let count_is = count.unwrap_or(1);
        let all = count_is.saturating_add(self.hosts.len() as u64);
        if count_is == 0 || all > HOSTS_MAX {
            let problem = match count_is {
                0 => format!("found 0, expected 1 to {HOSTS_MAX}"),
                _ => format!("with these there are {all} hosts, expected at most {HOSTS_MAX}"),
            };
            let at = count.map_or_else(|| fields.key.clone(), |_| fields.at("count"));
            faults.add(at, problem);
        }
        let room = HOSTS_MAX.saturating_sub(self.hosts.len() as u64).max(1);
        let mut ports: Vec<Vec<usize>> = vec![Vec::new(); made.len()];
        let mut group = Vec::new();
        for number in 1..=count_is.clamp(1, room) {
            let own = |name: &str| match count {
                None => name.to_owned(),
                Some(_) => format!("{name}-{number}"),
            };
            let host = self.hosts.len();
            group.push(host);
            let mut drafts = Vec::new();
            for (card, it) in made.iter().enumerate() {
                drafts.push(CardDraft {
                    name: it.name.clone(),
                    key: it.key.clone(),
                    like: it.like.clone(),
                    port: self.ports.len(),
                });
                ports[card].push(self.ports.len());
                self.ports.push(Port {
                    // An only card is known by its host.
                    name: own(if made.len() == 1 { name } else { &it.name }),
                    owner: Owner::Card {
                        host,
                        card: card as u8,
                    },
                    own: it.parameters.clone(),
                    used_by: None,
                });
            }
            self.hosts.push(HostDraft {
                name: own(name),
                like: like(fields),
                cards: drafts,
                forwards,
            });
        }
        self.groups.insert(name.to_owned(), group);
        for (card, (it, ports)) in made.iter().zip(ports).enumerate() {
            let of = (name.to_owned(), card as u8);
            self.cards.insert(it.name.clone(), of);
            self.name(&it.name, &it.key, Named::Cards(ports), faults);
        }
    }

    /// Names of what lines end at are different from each other.
    fn name(&mut self, name: &str, key: &str, named: Named, faults: &mut Faults) {
        if self.names.contains_key(name) {
            let problem = format!(
                "there is another `{name}`: cards, switches, units and devices need different names"
            );
            faults.add(key, problem);
            return;
        }
        self.names.insert(name.to_owned(), named);
    }

    fn add_device(
        &mut self,
        (name, key): (&str, &str),
        kind: DeviceKind,
        ports: Vec<(String, Option<Parameters>)>,
        faults: &mut Faults,
    ) {
        let device = self.devices.len();
        if device >= DEVICES_MAX || self.ports.len() + ports.len() > PORTS_ALL_MAX {
            let problem = format!(
                "too large a network: expected at most {DEVICES_MAX} switches, units and devices, \
                 and {PORTS_ALL_MAX} ports of all together, cards included"
            );
            faults.add(key, problem);
            return;
        }
        let mut numbers = Vec::new();
        for (number, (port, own)) in ports.into_iter().enumerate() {
            numbers.push(self.ports.len());
            self.ports.push(Port {
                name: port,
                owner: Owner::Device(device, number),
                own,
                used_by: None,
            });
        }
        self.devices.push(DeviceDraft {
            name: name.to_owned(),
            key: key.to_owned(),
            kind,
            ports: numbers,
        });
        self.name(name, key, Named::Device(device), faults);
    }

    fn switch(&mut self, name: &str, fields: &Fields<'_>, faults: &mut Faults) {
        let ports = fields.within("ports", 8, 2..=PORTS_MAX, faults);
        let zero = Duration::ZERO;
        let spec = SwitchSpec {
            ports,
            latency: fields.within("latency", Duration::from_us(4), zero..=LATENCY_MAX, faults),
            cut_through: fields.or("cut_through", false, faults),
            buffer_bytes: buffer(fields, ByteSize::from_kib(256), faults),
        };
        let _about = fields.maybe::<String>("about", faults);
        fields.done(faults);
        let numbered = (1..=ports).map(|port| (port.to_string(), None)).collect();
        let kind = DeviceKind::Switch(spec);
        self.add_device((name, &fields.key), kind, numbered, faults);
    }

    fn unit(&mut self, name: &str, fields: &Fields<'_>, faults: &mut Faults) {
        let time = Duration::from_us(20);
        let time = fields.within("time", time, Duration::ZERO..=LATENCY_MAX, faults);
        let buffer_bytes = buffer(fields, ByteSize::from_kib(256), faults);
        let gathers = fields.or("gathers", true, faults);
        let _about = fields.maybe::<String>("about", faults);
        let ports = match fields.value("ports") {
            Some(Value::Table(ports)) => ports.clone(),
            _ => {
                let card = fragments(true).join(", ");
                faults.add(
                    fields.key.clone(),
                    format!(
                        "no `ports`; expected a name and a card for each side, as in ports = {{ \
                         left = \"card-penn\", right = \"card-clan\" }}, with cards of: {card}"
                    ),
                );
                Table::new()
            }
        };
        fields.done(faults);
        let mut sides = Vec::new();
        let mut named = Vec::new();
        for (side, value) in &ports {
            let at = format!("{}.ports.{side}", fields.key);
            let own = side_of(&at, value, faults);
            if let Some(own) = &own {
                sides.push(SideSpec {
                    transmitter: own.transmitter(),
                    piece_bytes: own.piece_bytes(u64::MAX),
                });
            }
            named.push((side.clone(), own));
        }
        if ports.len() == 1 {
            let problem = "a unit joins two sides or more, and this has one";
            faults.add(fields.at("ports"), problem);
        }
        let spec = UnitSpec {
            sides,
            time,
            buffer_bytes,
            gathers,
        };
        let kind = DeviceKind::Unit(spec);
        self.add_device((name, &fields.key), kind, named, faults);
    }

    fn device(&mut self, name: &str, fields: &Fields<'_>, kinds: &dyn Kinds, faults: &mut Faults) {
        let ports = fields.within("ports", 2, 1..=PORTS_MAX, faults);
        let kind = fields.text("kind", "the name of a kind of device", faults);
        let _about = fields.maybe::<String>("about", faults);
        let keys = fields.rest();
        let numbered: Vec<_> = (1..=ports).map(|port| (port.to_string(), None)).collect();
        if !kind.is_empty() {
            match kinds.names().contains(&kind.as_str()) {
                true => {
                    if let Err(wrong) = kinds.make(&kind, ports, &keys) {
                        faults.add(fields.at(&wrong.key), wrong.problem);
                    }
                }
                false if kinds.names().is_empty() => {
                    let problem = "this program has no devices of its own: those are written \
                                   in Rust, as docs/laboratory.md says";
                    faults.add(fields.at("kind"), problem);
                }
                false => {
                    let known = kinds.names().iter().copied();
                    faults.unknown(fields.at("kind"), "kind of device", &kind, known);
                }
            }
        }
        let kind = DeviceKind::Own { kind, keys };
        self.add_device((name, &fields.key), kind, numbered, faults);
    }
}

fn like(fields: &Fields<'_>) -> String {
    let like = fields.value("like").and_then(Value::as_str);
    like.unwrap_or_default().to_owned()
}

/// The cards of the hosts of a table: each with the parameters of its own and those of the host.
fn made(
    name: &str,
    fields: &Fields<'_>,
    cards: &[&CardTable<'_>],
    faults: &mut Faults,
) -> Vec<Made> {
    let mut host = Recipe::new();
    host.host(fields, faults);
    if cards.is_empty() {
        let problem = format!("it has no card: expected [cards.NAME] with host = \"{name}\"");
        faults.add(fields.key.clone(), problem);
        host.finish((&fields.key, ""), faults);
    }
    let before = faults.0.len();
    let mut made: Vec<Made> = Vec::new();
    for (name, card, _) in cards {
        let mut recipe = host.clone();
        recipe.card(card, faults);
        let _about = card.maybe::<String>("about", faults);
        made.push(Made {
            name: name.clone(),
            key: card.key.clone(),
            like: like(card),
            parameters: recipe.finish((&fields.key, &card.key), faults),
        });
    }
    // What is wrong with the host is found with each card.
    let mut known = Vec::new();
    let mut number = 0;
    faults.0.retain(|fault| {
        number += 1;
        let is_new = number <= before || !known.contains(fault);
        known.push(fault.clone());
        is_new
    });
    let by = |made: &Made| made.parameters.as_ref().map(|it| it.notice.by);
    let first = made.first().and_then(by);
    let other = made.iter().find(|it| by(it).is_some() && by(it) != first);
    if let (Some(_), Some(other)) = (first, other) {
        let problem = format!(
            "`notice.by` is not that of `{}`: a host is interrupted by all of its cards, or polls all",
            made[0].name
        );
        faults.add(other.key.clone(), problem);
    }
    made
}

/// Whether hosts pass on what comes for others, and how much of it may wait for a card.
fn forwards(fields: &Fields<'_>, cards: &[Made], faults: &mut Faults) -> Option<u64> {
    let forwards = fields.or("forwards", false, faults);
    let buffer = match fields.value("forward_buffer") {
        Some(_) if !forwards => {
            let problem = "without `forwards = true` nothing waits to be passed on";
            faults.add(fields.at("forward_buffer"), problem);
            return None;
        }
        _ => {
            let least = ByteSize::from_bytes(1);
            let default = ByteSize::from_kib(256);
            fields.within("forward_buffer", default, least..=BUFFER_MAX, faults)
        }
    };
    if !forwards {
        return None;
    }
    let polls = |card: &Made| {
        card.parameters
            .as_ref()
            .is_some_and(|it| it.notice.by == By::Poll)
    };
    if let [only] = cards {
        let problem = format!(
            "it has one card, `{}`, and passes nothing on: expected another [cards.NAME] with this host",
            only.name
        );
        faults.add(fields.at("forwards"), problem);
    } else if let Some(card) = cards.iter().find(|card| polls(card)) {
        let problem = format!(
            "the handler of interrupts passes on, and `{}` is polled: expected notice.by = \"interrupt\"",
            card.name
        );
        faults.add(fields.at("forwards"), problem);
    }
    Some(buffer.as_bytes())
}

fn buffer(fields: &Fields<'_>, default: ByteSize, faults: &mut Faults) -> u64 {
    let least = ByteSize::from_bytes(1);
    fields
        .within("buffer", default, least..=BUFFER_MAX, faults)
        .as_bytes()
}

/// A side of a unit: a card by its name, or with keys of its own.
fn side_of(at: &str, value: &Value, faults: &mut Faults) -> Option<Parameters> {
    let mut recipe = Recipe::new();
    let table = match value {
        Value::String(like) => Table::from_iter([("like".to_owned(), Value::from(like.clone()))]),
        Value::Table(table) => table.clone(),
        _ => {
            faults.add(at, "expected a card as text, or a table with its keys");
            return None;
        }
    };
    for key in HOST_KEYS.iter().filter(|key| **key == "count") {
        if table.contains_key(*key) {
            faults.add(format!("{at}.{key}"), "a side of a unit is one");
        }
    }
    let before = faults.0.len();
    let fields = Fields::new(at.to_owned(), &table);
    recipe.card(&fields, faults);
    if value.is_str() {
        // The key is the side's own, not one below it.
        for fault in &mut faults.0[before..] {
            at.clone_into(&mut fault.key);
        }
    }
    if faults.0.len() > before {
        return None;
    }
    recipe.finish((at, at), faults)
}
