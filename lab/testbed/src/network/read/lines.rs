//! Links and rings: which ports they join, and what goes over them.

use barewire_models::workbench::Framing;
use barewire_units::{Duration, Rate};
use toml::Table;

use super::super::description::{
    CardSpec, Description, DeviceKind, DeviceSpec, HostSpec, LinkSpec, PortSpec, RingKind, RingSpec,
};
use super::super::faults::Faults;
use super::super::fields::{Fields, tables};
use super::super::places::{End, Line};
use super::super::rings::{SlottedSpec, TokenSpec};
use super::super::stations::PortKind;
use super::parts::{Named, Owner, Parts};
use crate::system::System as _;
use crate::workbench::bench::At;
use crate::workbench::length::Length;
use crate::workbench::parameters::Parameters;
use crate::{cbn, jetstream};

/// Stations of a slotted ring.
const STATIONS_MAX: usize = 1000;
/// Stations times frames of a slotted ring: all of them are under way at once.
pub(super) const PASSAGES_MAX: usize = 1_000_000;
/// Rings, and links, of all tables together.
const RINGS_MAX: usize = 256;
const LINKS_MAX: usize = 1 << 15;
/// A line of any ring.
const FASTEST: Rate = Rate::from_gbps(100);

/// A link before all are known.
pub(super) struct LinkDraft {
    name: String,
    key: String,
    /// Ports, by their number among all.
    ends: [usize; 2],
    rate: Option<Rate>,
    length: Option<Length>,
    per_km: Option<Duration>,
    loss: f64,
}

/// A ring before all are known.
pub(super) struct RingDraft {
    name: String,
    key: String,
    kind: RingKind,
    stations: Vec<usize>,
}

/// What lines there are.
#[derive(Default)]
pub(super) struct Drafts {
    links: Vec<LinkDraft>,
    rings: Vec<RingDraft>,
}

/// What an end of a link or a station of a ring names.
enum Meant {
    Ports(Vec<usize>),
    /// Ports of a device, whichever are free.
    AnyOf(usize),
}

pub(super) fn read(whole: &Table, parts: &mut Parts, faults: &mut Faults) -> Drafts {
    let mut drafts = Drafts::default();
    for (name, fields) in tables(whole, "rings", faults) {
        drafts.ring(name, &fields, parts, faults);
    }
    let links: Vec<(String, Fields<'_>)> = tables(whole, "links", faults);
    let read: Vec<_> = links
        .iter()
        .map(|(name, fields)| (name, fields, ends(fields, parts, faults)))
        .collect();
    // Those that name their ports come first: the others take what is left.
    for any in [false, true] {
        for (name, fields, ends) in &read {
            let Some(ends) = ends else { continue };
            let has_any = ends.iter().any(|end| matches!(end, Meant::AnyOf(_)));
            if has_any == any {
                drafts.link(name, fields, ends, parts, faults);
            }
        }
    }
    for (_, fields) in &links {
        fields.done(faults);
    }
    not_attached(parts, faults);
    drafts
}

/// The two ends of a link.
fn ends(fields: &Fields<'_>, parts: &Parts, faults: &mut Faults) -> Option<[Meant; 2]> {
    let what = "the two ports that it joins, as in [\"client\", \"switch\"]";
    let before = faults.0.len();
    let names = fields.names("ends", what, faults);
    if faults.0.len() > before {
        return None;
    }
    let [first, second] = &names[..] else {
        let problem = format!("found {} ends, expected {what}", names.len());
        faults.add(fields.at("ends"), problem);
        return None;
    };
    let at = fields.at("ends");
    let ends = [first, second].map(|name| meant(name, &at, parts, faults));
    match ends {
        [Some(first), Some(second)] => Some([first, second]),
        _ => None,
    }
}

/// What a name of a port stands for.
fn meant(name: &str, at: &str, parts: &Parts, faults: &mut Faults) -> Option<Meant> {
    let (owner, port) = match name.split_once('.') {
        Some((owner, port)) => (owner, Some(port)),
        None => (name, None),
    };
    match (parts.names.get(owner), port) {
        (None, _) => {
            let known = parts.names.keys().map(String::as_str);
            faults.unknown(at, &format!("port `{name}`"), owner, known);
            None
        }
        (Some(Named::Cards(ports)), None) => Some(Meant::Ports(ports.clone())),
        (Some(Named::Cards(_)), Some(_)) => {
            let problem = format!("`{name}`: a card has one port; expected `{owner}`");
            faults.add(at, problem);
            None
        }
        (Some(Named::Device(device)), port) => {
            let draft = &parts.devices[*device];
            let Some(port) = port else {
                if let DeviceKind::Unit(_) = draft.kind {
                    let sides = draft.ports.iter().map(|&port| &parts.ports[port].name);
                    let sides: Vec<String> =
                        sides.map(|side| format!("`{owner}.{side}`")).collect();
                    let problem = format!(
                        "`{owner}` has several sides; expected one of: {}",
                        sides.join(", ")
                    );
                    faults.add(at, problem);
                    return None;
                }
                return Some(Meant::AnyOf(*device));
            };
            let mut ports = draft.ports.iter();
            let found = ports.find(|&&number| parts.ports[number].name == port);
            if found.is_none() {
                let known = draft
                    .ports
                    .iter()
                    .map(|&port| parts.ports[port].name.as_str());
                let known: Vec<&str> = known.take(12).collect();
                faults.unknown(at, &format!("port `{name}`"), port, known);
            }
            found.map(|&number| Meant::Ports(vec![number]))
        }
    }
}

/// Takes a port for what stands at `key`.
fn take(port: usize, key: &str, at: &str, parts: &mut Parts, faults: &mut Faults) -> bool {
    if let Some(by) = &parts.ports[port].used_by {
        let problem = format!("port `{}` is in use: {by} has it", full_name(port, parts));
        faults.add(at, problem);
        return false;
    }
    parts.ports[port].used_by = Some(key.to_owned());
    true
}

fn full_name(port: usize, parts: &Parts) -> String {
    let it = &parts.ports[port];
    match it.owner {
        Owner::Card { .. } => it.name.clone(),
        Owner::Device(device, _) => format!("{}.{}", parts.devices[device].name, it.name),
    }
}

/// A port of a device that nothing is attached to.
fn free_port(device: usize, parts: &Parts) -> Option<usize> {
    let mut ports = parts.devices[device].ports.iter().copied();
    ports.find(|&port| parts.ports[port].used_by.is_none())
}

/// Cards and devices that no line leads to.
fn not_attached(parts: &Parts, faults: &mut Faults) {
    if !faults.0.is_empty() {
        // Whoever was to lead to them may be at fault, and has been named.
        return;
    }
    for port in &parts.ports {
        if let (Owner::Card { host, card }, None) = (port.owner, &port.used_by) {
            let key = &parts.hosts[host].cards[usize::from(card)].key;
            faults.add(
                key.as_str(),
                format!(
                    "`{}` is attached to nothing: no link or ring names it",
                    port.name
                ),
            );
        }
    }
    for device in &parts.devices {
        let of = |port: &usize| parts.ports[*port].used_by.is_some();
        if !device.ports.iter().any(of) {
            faults.add(
                device.key.clone(),
                "nothing is attached to it: no link or ring names it",
            );
        }
    }
}

/// The ports of one of the links that a table stands for, taken.
fn pair(
    (number, count): (usize, usize),
    ends: &[Meant; 2],
    (key, at): (&str, &str),
    parts: &mut Parts,
    faults: &mut Faults,
) -> Option<[usize; 2]> {
    let mut two = [0, 0];
    for (end, meant) in two.iter_mut().zip(ends) {
        let port = match meant {
            Meant::Ports(ports) if ports.len() == count => Some(ports[number]),
            Meant::Ports(ports) => {
                let problem = format!(
                    "one end has {count} ports, the other {}: expected as many, or a switch",
                    ports.len()
                );
                faults.add(at, problem);
                return None;
            }
            Meant::AnyOf(device) => free_port(*device, parts),
        };
        let Some(port) = port else {
            let Meant::AnyOf(device) = meant else {
                return None;
            };
            let device = &parts.devices[*device];
            let problem = format!(
                "`{}` has no free port: it has {}, and {count} are wanted here; say `ports`",
                device.name,
                device.ports.len()
            );
            faults.add(at, problem);
            return None;
        };
        if !take(port, key, at, parts, faults) {
            return None;
        }
        *end = port;
    }
    Some(two)
}

impl Drafts {
    fn link(
        &mut self,
        name: &str,
        fields: &Fields<'_>,
        ends: &[Meant; 2],
        parts: &mut Parts,
        faults: &mut Faults,
    ) {
        let at = fields.at("ends");
        let rate = fields.maybe::<Rate>("rate", faults);
        if rate.is_some_and(|rate| rate < Rate::from_kbps(1)) {
            faults.add(fields.at("rate"), "expected at least 1 kbit/s");
        }
        let length = fields.maybe::<Length>("length", faults);
        if length.is_some_and(|length| length > Length::from_km(20_000)) {
            faults.add(fields.at("length"), "expected at most 20000 km");
        }
        let per_km = fields.maybe::<Duration>("per_km", faults);
        if per_km.is_some_and(|time| time > Duration::from_s(1)) {
            faults.add(fields.at("per_km"), "expected at most 1 s");
        }
        let loss = fields.within("loss", 0.0, 0.0..=1.0, faults);
        let _about = fields.maybe::<String>("about", faults);
        let count = ends.iter().map(|end| match end {
            Meant::Ports(ports) => ports.len(),
            Meant::AnyOf(_) => 1,
        });
        let count = count.max().unwrap_or(1);
        let is_none = |end: &Meant| matches!(end, Meant::Ports(ports) if ports.is_empty());
        if ends.iter().any(is_none) {
            return;
        }
        for number in 0..count {
            let all = (number, count);
            let Some(two) = pair(all, ends, (&fields.key, &at), parts, faults) else {
                return;
            };
            let name = match count {
                1 => name.to_owned(),
                _ => format!("{name}-{}", number + 1),
            };
            if self.links.len() >= LINKS_MAX {
                let problem = format!("with these there are more than {LINKS_MAX} links");
                faults.add(fields.key.clone(), problem);
                return;
            }
            self.links.push(LinkDraft {
                name,
                key: fields.key.clone(),
                ends: two,
                rate,
                length,
                per_km,
                loss,
            });
        }
    }

    fn ring(&mut self, name: String, fields: &Fields<'_>, parts: &mut Parts, faults: &mut Faults) {
        let names = match fields.value("stations") {
            Some(_) => fields.names(
                "stations",
                "the ports at its stations, in their order",
                faults,
            ),
            None => Vec::new(),
        };
        let _about = fields.maybe::<String>("about", faults);
        let at = fields.at("stations");
        let mut stations = Vec::new();
        for one in &names {
            if faults.is_full() {
                break;
            }
            let ports = match meant(one, &at, parts, faults) {
                Some(Meant::Ports(ports)) => ports,
                Some(Meant::AnyOf(device)) => free_port(device, parts).into_iter().collect(),
                None => continue,
            };
            for port in ports {
                if take(port, &fields.key, &at, parts, faults) {
                    stations.push(port);
                }
            }
        }
        let kinds = ["cbn", "jetstream"];
        let kind = fields.text("kind", "\"cbn\" or \"jetstream\"", faults);
        let kind = match kind.as_str() {
            "cbn" => slotted(fields, stations.len(), faults).map(RingKind::Slotted),
            "jetstream" => {
                token(fields, stations.len(), faults).map(|it| RingKind::Token(Box::new(it)))
            }
            "" => None,
            other => {
                faults.unknown(fields.at("kind"), "kind of ring", other, kinds);
                return;
            }
        };
        fields.done(faults);
        let key = fields.key.clone();
        if self.rings.len() >= RINGS_MAX {
            faults.add(
                key,
                format!("with this there are more than {RINGS_MAX} rings"),
            );
            return;
        }
        if let Some(kind) = kind {
            self.rings.push(RingDraft {
                name,
                key,
                kind,
                stations,
            });
        }
    }
}

/// A ring of the Cambridge Backbone, with its system's values where none are given.
fn slotted(fields: &Fields<'_>, stations: usize, faults: &mut Faults) -> Option<SlottedSpec> {
    let own = cbn::parameters::Parameters::parse(cbn::System.parameters());
    let mut own = own.ok()?;
    own.ring.rotation = fields.or("rotation", own.ring.rotation, faults);
    own.ring.line_rate = fields.or("line_rate", own.ring.line_rate, faults);
    let fifo_cells = fields.within("fifo_cells", own.station.fifo_cells, 1..=1 << 16, faults);
    let line = own.line();
    let (rotation, slowest) = (own.ring.rotation, Rate::from_kbps(1));
    if !(slowest..=FASTEST).contains(&own.ring.line_rate) {
        let problem = format!("expected {slowest} to {FASTEST}");
        faults.add(fields.at("line_rate"), problem);
        return None;
    }
    let frames = line.frames(rotation);
    if !(1..=65535).contains(&frames) {
        let problem = format!(
            "a ring of {rotation} holds {frames} frames of {}, expected 1 to 65535",
            line.frame_time()
        );
        faults.add(fields.at("rotation"), problem);
        return None;
    }
    if stations > STATIONS_MAX {
        let problem = format!("found {stations} stations, expected at most {STATIONS_MAX}");
        faults.add(fields.at("stations"), problem);
        return None;
    }
    if stations * frames > PASSAGES_MAX {
        let problem = format!(
            "{stations} stations and {frames} frames, expected at most {PASSAGES_MAX} as their product"
        );
        faults.add(fields.key.clone(), problem);
        return None;
    }
    Some(SlottedSpec {
        rotation,
        line,
        fifo_cells,
        stations,
        load: None,
    })
}

/// A ring of Jetstream.
fn token(fields: &Fields<'_>, attached: usize, faults: &mut Faults) -> Option<TokenSpec> {
    let mut parameters =
        jetstream::parameters::Parameters::parse(jetstream::System.parameters()).ok()?;
    let ring = &mut parameters.ring;
    ring.length_m = fields.or("length_m", ring.length_m, faults);
    ring.ttrt = fields.or("ttrt", ring.ttrt, faults);
    let allotment = fields.or("synchronous_allotment", Duration::ZERO, faults);
    // More stations than have something attached to them only pass on.
    let all = fields.or("stations_in_all", attached.max(2), faults);
    if all < attached {
        let problem = format!("found {all}, and {attached} are attached");
        faults.add(fields.at("stations_in_all"), problem);
        return None;
    }
    let spec = TokenSpec {
        parameters,
        stations: all,
        allotment,
        load: None,
    };
    let rings = spec.rings();
    let checked = rings
        .check()
        .and_then(|()| rings.check_all("synchronous_allotment"));
    if let Err(error) = checked {
        let text = error.to_string();
        let text = text.strip_prefix("parameters: ").unwrap_or(&text);
        let key = text.split(':').next().unwrap_or_default();
        let at = match key {
            "stations" if fields.value("stations").is_some() => fields.at("stations"),
            "length_m" | "ttrt" | "synchronous_allotment" => fields.at(key),
            _ => fields.key.clone(),
        };
        faults.add(at, text.to_owned());
        return None;
    }
    Some(spec)
}

/// What is known of what a line carries: what the side that says it says.
type Says<'a> = Option<&'a Parameters>;

/// What each device's lines carry, by device: a switch takes what those at its other ports put
/// on the line.
fn carried<'a>(parts: &'a Parts, drafts: &Drafts) -> Vec<Says<'a>> {
    let mut carried: Vec<Says<'a>> = parts.devices.iter().map(|_| None).collect();
    let says = |port: usize, carried: &[Says<'a>]| {
        let it = &parts.ports[port];
        match (&it.own, it.owner) {
            (Some(own), _) => Some(own),
            (None, Owner::Device(device, _)) => carried[device],
            (None, Owner::Card { .. }) => None,
        }
    };
    let mut known = usize::MAX;
    // Until nothing more is known: in a chain of switches, one more after each time.
    while known != carried.iter().flatten().count() {
        known = carried.iter().flatten().count();
        for link in &drafts.links {
            for (here, there) in [(0, 1), (1, 0)] {
                let said = says(link.ends[there], &carried);
                let it = &parts.ports[link.ends[here]];
                if let (Owner::Device(device, _), None, Some(said)) = (it.owner, &it.own, said) {
                    carried[device].get_or_insert(said);
                }
            }
        }
    }
    carried
}

/// The rings, with the lines of what is at their stations.
fn rings(
    drafts: Vec<RingDraft>,
    parts: &Parts,
    lines: &mut [Option<(Line, Framing)>],
    faults: &mut Faults,
) -> Vec<RingSpec> {
    let mut rings = Vec::new();
    for draft in drafts {
        let ring = rings.len();
        check_stations(&draft, parts, faults);
        for (station, &port) in draft.stations.iter().enumerate() {
            if let Some(own) = &parts.ports[port].own {
                lines[port] = Some((Line::Station { ring, station }, own.framing()));
            }
        }
        rings.push(RingSpec {
            name: draft.name,
            kind: draft.kind,
            ends: draft
                .stations
                .iter()
                .map(|&port| end_of(port, parts))
                .collect(),
            ways: Vec::new(),
        });
    }
    rings
}

/// Everything in its place.
pub(super) fn put_together(parts: Parts, drafts: Drafts, faults: &mut Faults) -> Description {
    let carried = carried(&parts, &drafts);
    let mut lines: Vec<Option<(Line, Framing)>> = parts.ports.iter().map(|_| None).collect();
    let mut stations: Vec<Option<Parameters>> =
        parts.ports.iter().map(|port| port.own.clone()).collect();
    let mut links = Vec::new();
    for draft in &drafts.links {
        let Some((framing, way, source)) = agree(draft, &parts, &carried, faults) else {
            continue;
        };
        let link = links.len();
        for (end, &port) in draft.ends.iter().enumerate() {
            lines[port] = Some((Line::Link { link, end }, framing));
            if let Some(parameters) = &mut stations[port] {
                parameters.link.rate = framing.rate;
                parameters.link.length = draft.length.unwrap_or(source.link.length);
                parameters.link.per_km = draft.per_km.unwrap_or(source.link.per_km);
            }
        }
        links.push(LinkSpec {
            name: draft.name.clone(),
            ends: draft.ends.map(|port| end_of(port, &parts)),
            framing,
            way,
            loss: draft.loss,
        });
    }
    let rings = rings(drafts.rings, &parts, &mut lines, faults);
    let mut description = Description {
        hosts: Vec::new(),
        devices: devices(&parts, &lines),
        links,
        rings,
        programs: Vec::new(),
        groups: parts.groups,
        cards: parts.cards,
    };
    for host in parts.hosts {
        let count = host.cards.len();
        let cards = host.cards.into_iter().filter_map(|card| {
            let (line, _) = lines[card.port]?;
            Some(CardSpec {
                name: card.name,
                like: card.like,
                parameters: stations[card.port].take()?,
                line,
            })
        });
        let cards: Vec<CardSpec> = cards.collect();
        // What is missing has been noted.
        if count > 0 && cards.len() == count {
            description.hosts.push(HostSpec {
                name: host.name,
                like: host.like,
                cards,
                forwards: host.forwards,
                ways: Vec::new(),
            });
        }
    }
    description
}

fn devices(parts: &Parts, lines: &[Option<(Line, Framing)>]) -> Vec<DeviceSpec> {
    let device = |draft: &super::parts::DeviceDraft| {
        let port =
            |&number: &usize| lines[number].map(|(line, framing)| PortSpec { line, framing });
        DeviceSpec {
            name: draft.name.clone(),
            key: draft.key.clone(),
            kind: draft.kind.clone(),
            ports: draft.ports.iter().map(port).collect(),
            ways: Vec::new(),
        }
    };
    parts.devices.iter().map(device).collect()
}

fn end_of(port: usize, parts: &Parts) -> End {
    match parts.ports[port].owner {
        Owner::Card { host, card } => End::Card(At {
            host: host as u16,
            card,
        }),
        Owner::Device(device, port) => End::Port { device, port },
    }
}

/// What a link carries: both ends have to say the same.
fn agree(
    draft: &LinkDraft,
    parts: &Parts,
    carried: &[Says<'_>],
    faults: &mut Faults,
) -> Option<(Framing, Duration, Parameters)> {
    let says = |port: usize| {
        let it = &parts.ports[port];
        let of_device = match it.owner {
            Owner::Device(device, _) => carried[device],
            Owner::Card { .. } => None,
        };
        it.own.as_ref().or(of_device)
    };
    let is_spoilt = |port: usize| parts.ports[port].own.is_none() && says(port).is_none();
    let at = format!("{}.ends", draft.key);
    if faults.0.iter().any(|fault| fault.key == at) {
        // The links of a table are alike, and so is what is wrong with them.
        return None;
    }
    let [left, right] = draft.ends.map(says);
    let source = match (left, right) {
        (Some(left), Some(right)) => {
            let kinds = [left, right].map(|it| PortKind::of(&it.framing()));
            let names = draft.ends.map(|port| full_name(port, parts));
            if kinds[0] != kinds[1] {
                let problem = format!(
                    "`{}` has {}, `{}` has {}: an interworking unit joins such networks",
                    names[0], kinds[0], names[1], kinds[1]
                );
                faults.add(at, problem);
                return None;
            }
            if left.link.rate != right.link.rate
                && draft.rate.is_none()
                && draft_of_cards(draft, parts)
            {
                let problem = format!(
                    "`{}` sends {}, `{}` {}: say the link's `rate`",
                    names[0], left.link.rate, names[1], right.link.rate
                );
                faults.add(draft.key.clone(), problem);
                return None;
            }
            left.clone()
        }
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (None, None) => {
            if draft.ends.iter().all(|&port| is_spoilt(port)) && faults.0.is_empty() {
                let problem =
                    "nothing says what it carries: there is no card or unit on either side";
                faults.add(at, problem);
            }
            return None;
        }
    };
    let framing = Framing {
        rate: draft.rate.unwrap_or(source.link.rate),
        ..source.framing()
    };
    let length = draft.length.unwrap_or(source.link.length);
    let way = length.delay(draft.per_km.unwrap_or(source.link.per_km));
    Some((framing, way, source))
}

/// Whether both ends say themselves what they send.
fn draft_of_cards(draft: &LinkDraft, parts: &Parts) -> bool {
    draft
        .ends
        .iter()
        .all(|&port| parts.ports[port].own.is_some())
}

/// Stations take what fits the ring.
fn check_stations(draft: &RingDraft, parts: &Parts, faults: &mut Faults) {
    let at = format!("{}.stations", draft.key);
    let (most, what) = match &draft.kind {
        RingKind::Slotted(spec) => (spec.line.body().bytes() as u64, "cells"),
        RingKind::Token(_) => (65_535, "messages"),
    };
    for &port in &draft.stations {
        let Some(own) = &parts.ports[port].own else {
            if let Owner::Device(device, _) = parts.ports[port].owner {
                let problem = format!(
                    "`{}` is a {}: expected cards and units at the stations of a ring",
                    full_name(port, parts),
                    parts.devices[device].kind.name()
                );
                faults.add(at.clone(), problem);
            }
            continue;
        };
        let kind = PortKind::of(&own.framing());
        if kind.payload_bytes > most {
            let name = full_name(port, parts);
            let problem =
                format!("`{name}` has {kind}: this ring takes {what} of at most {most} B");
            faults.add(at.clone(), problem);
        }
    }
}
