//! The sketch of a network: hosts of one table that are joined alike are one thing in it.

use std::collections::{BTreeMap, BTreeSet};

use super::description::{CardSpec, Description, DeviceKind, RingKind};
use super::places::End;
use super::programs::ProgramSpec;
use crate::sketch::{Join, Shape, Sketch, Thing};
use crate::workbench::bench::At;

/// The hosts of each table as one thing; of each host, the number of its thing.
fn hosts(description: &Description, sketch: &mut Sketch) -> Vec<usize> {
    let mut of_host = vec![0; description.hosts.len()];
    for (name, hosts) in &description.groups {
        let Some(first) = hosts.first().and_then(|&host| description.hosts.get(host)) else {
            continue;
        };
        for &host in hosts {
            if let Some(thing) = of_host.get_mut(host) {
                *thing = sketch.things.len();
            }
        }
        let mut like = vec![first.like.clone()];
        match &first.cards[..] {
            [only] => like.push(only.like.clone()),
            several => {
                let card = |card: &CardSpec| format!("{} {}", card.name, card.like);
                like.extend(several.iter().map(|it| card(it).trim().to_owned()));
            }
        }
        if first.forwards.is_some() {
            like.push("forwards".to_owned());
        }
        like.retain(|like| !like.is_empty());
        sketch.things.push(Thing {
            name: name.clone(),
            shape: Shape::Host,
            about: like.join(", "),
            count: hosts.len(),
        });
    }
    of_host
}

/// The sketch of a description.
pub(super) fn sketch(description: &Description) -> Sketch {
    let mut sketch = Sketch::default();
    let of_host = hosts(description, &mut sketch);
    let devices = sketch.things.len();
    for device in &description.devices {
        let (shape, about) = match &device.kind {
            DeviceKind::Switch(spec) => (Shape::Switch, format!("{} ports", spec.ports)),
            DeviceKind::Unit(spec) => (Shape::Unit, format!("{} a message part", spec.time)),
            DeviceKind::Own { kind, .. } => (Shape::Device, kind.clone()),
        };
        sketch.things.push(Thing {
            name: device.name.clone(),
            shape,
            about,
            count: 1,
        });
    }
    let mut seen = Seen::new();
    let thing = |end: End| match end {
        End::Card(card) => of_host[usize::from(card.host)],
        End::Port { device, .. } => devices + device,
    };
    for ring in &description.rings {
        let about = match &ring.kind {
            RingKind::Slotted(spec) => format!("slots, {} once round", spec.rotation),
            RingKind::Token(spec) => format!("token, {} m", spec.parameters.ring.length_m),
        };
        let number = sketch.things.len();
        sketch.things.push(Thing {
            name: ring.name.clone(),
            shape: Shape::Ring,
            about,
            count: 1,
        });
        for &end in &ring.ends {
            let card = card(description, end).unwrap_or_default();
            let ends = [thing(end), number];
            add(&mut sketch, ends, (card.to_owned(), card), &mut seen);
        }
    }
    for link in &description.links {
        let name = link.name.as_str();
        let cards = link.ends.iter().filter_map(|&end| card(description, end));
        let cards: String = cards.map(|card| format!(", {card}")).collect();
        let about = format!("{name}, {}{cards}", link.framing.rate);
        add(
            &mut sketch,
            link.ends.map(thing),
            (about, &cards),
            &mut seen,
        );
    }
    let programs = description.programs.iter();
    sketch.programs = programs
        .map(|program| {
            format!(
                "{}: {}",
                program.name,
                of_program(description, &program.spec)
            )
        })
        .collect();
    sketch
        .programs
        .extend(description.rings.iter().filter_map(load));
    sketch
}

/// The card at an end, where the host has several.
fn card(description: &Description, end: End) -> Option<&str> {
    let End::Card(At { host, card }) = end else {
        return None;
    };
    let cards = &description.hosts[usize::from(host)].cards;
    (cards.len() > 1).then(|| cards[usize::from(card)].name.as_str())
}

/// What is joined already: two things, by which cards.
type Seen = BTreeSet<([usize; 2], String)>;

/// Joins two things, if that was not done alike before.
fn add(sketch: &mut Sketch, ends: [usize; 2], (about, cards): (String, &str), seen: &mut Seen) {
    let several = ends.iter().any(|&end| sketch.things[end].count > 1);
    if !seen.insert((ends, cards.to_owned())) && several {
        return;
    }
    let about = match several {
        // One for all: the links of a table are alike.
        true => about.replacen("-1,", ",", 1),
        false => about,
    };
    sketch.joins.push(Join { ends, about });
}

fn of_program(description: &Description, spec: &ProgramSpec) -> String {
    let name = |host: u16| description.hosts[usize::from(host)].name.as_str();
    let (kind, from, to) = match spec {
        ProgramSpec::Ping(spec) => ("ping", vec![spec.from], spec.to),
        ProgramSpec::Stream(spec) => ("stream", vec![spec.from], spec.to),
        ProgramSpec::Request(spec) => ("requests", spec.from.clone(), spec.to),
        ProgramSpec::Incast(spec) => ("all at once", spec.from.clone(), spec.to),
        ProgramSpec::TcpStream(spec) => ("TCP stream", spec.tcp.from.clone(), spec.tcp.to),
        ProgramSpec::TcpRequest(spec) => ("TCP requests", spec.tcp.from.clone(), spec.tcp.to),
    };
    let from = match from[..] {
        [one] => name(one).to_owned(),
        ref several => {
            let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
            for &host in several {
                let own = description.groups.iter();
                let mut own = own.filter(|(_, hosts)| hosts.contains(&usize::from(host)));
                let group = own.next().map_or("?", |(group, _)| group.as_str());
                *groups.entry(group).or_default() += 1;
            }
            let one = |(group, count): (&&str, &usize)| format!("{count} of {group}");
            groups.iter().map(one).collect::<Vec<_>>().join(", ")
        }
    };
    format!("{kind}, {from} to {}", name(to))
}

fn load(ring: &super::description::RingSpec) -> Option<String> {
    match &ring.kind {
        RingKind::Slotted(spec) => {
            let load = spec.load.as_ref()?;
            let share = 100.0 * load.share;
            Some(format!("{}: cells, {share} % of {}", load.name, ring.name))
        }
        RingKind::Token(spec) => {
            let load = spec.load.as_ref()?;
            let share = load.per_cent;
            Some(format!(
                "{}: messages, {share} % of {}",
                load.name, ring.name
            ))
        }
    }
}
