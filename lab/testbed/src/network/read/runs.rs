//! What runs on the network: programs on hosts, loads on rings.

use std::collections::BTreeMap;

use barewire_units::{ByteSize, Duration};
use toml::Table;

use super::super::description::{Description, HostSpec, NamedProgram, RingKind};
use super::super::faults::Faults;
use super::super::fields::{Fields, tables};
use super::super::programs::{
    ENDS_MAX, IncastSpec, PingSpec, ProgramSpec, RequestSpec, StreamSpec, TcpRequestSpec, TcpSpec,
    TcpStreamSpec,
};
use super::super::rings::{SlottedLoad, SlottedSpec, TokenLoad, TokenSpec};
use super::lines::PASSAGES_MAX;
use super::ways::{self, NoWay};
use crate::figures::seconds;
use crate::jetstream::experiments::common::{random_sources, share_of};
use crate::jetstream::load::LoadPlan;
use crate::workbench::bench::At;

const KINDS: [&str; 8] = [
    "ping",
    "stream",
    "request",
    "incast",
    "tcp-stream",
    "tcp-request-reply",
    "cells",
    "messages",
];
/// A message.
const BYTE: ByteSize = ByteSize::from_bytes(1);
const MESSAGE_MAX: ByteSize = ByteSize::from_mib(16);
/// Buffers of all ends of TCP of a program.
const TCP_MEMORY_MAX: ByteSize = ByteSize::from_gib(1);
const LONG: Duration = Duration::from_s(1000);
/// Programs, and hosts that all of them name.
const PROGRAMS_MAX: usize = 1000;
const NAMED_MAX: usize = 100_000;
/// The longest IP packet, if nothing says less.
const MTU_BYTES: u64 = 1500;
/// Hosts that pass a message on: a packet lives for 64 hops.
const FORWARDS_MAX: usize = 60;
/// Events of a message on a ring with a token, about.
const MESSAGE_EVENTS: f64 = 10.0;
/// Events of all programs, beyond which a run would take too long.
const EVENTS_MAX: f64 = 5e7;

pub(super) fn read(whole: &Table, description: &mut Description, faults: &mut Faults) {
    let is_whole = faults.0.is_empty();
    if is_whole {
        ways::find(description);
    }
    let (mut events, mut named) = (0.0, 0);
    for (name, fields) in tables(whole, "programs", faults) {
        if description.programs.len() >= PROGRAMS_MAX || named > NAMED_MAX {
            let problem = format!(
                "too many programs: expected at most {PROGRAMS_MAX}, with {NAMED_MAX} hosts together"
            );
            faults.add(fields.key.clone(), problem);
            return;
        }
        let kind = fields.text("kind", &format!("one of: {}", KINDS.join(", ")), faults);
        let _about = fields.maybe::<String>("about", faults);
        let cards = match kind.as_str() {
            "cells" | "messages" => BTreeMap::new(),
            _ => cards(&fields, description, faults),
        };
        let spec = match kind.as_str() {
            "ping" => ping(&fields, description, faults),
            "stream" => stream(&fields, description, faults),
            "request" => request(&fields, description, faults),
            "incast" => incast(&fields, description, faults),
            "tcp-stream" => tcp_stream(&fields, (&*description, &cards), faults),
            "tcp-request-reply" => tcp_request(&fields, (&*description, &cards), faults),
            "cells" | "messages" => {
                load(&name, &kind, &fields, description, faults);
                None
            }
            "" => continue,
            other => {
                faults.unknown(fields.at("kind"), "kind of program", other, KINDS);
                continue;
            }
        };
        fields.done(faults);
        let Some(spec) = spec else { continue };
        named += spec.hosts().len();
        if !is_whole {
            continue;
        }
        check_cards(&spec, &cards, &fields, description, faults);
        check_ways(&spec, &cards, &fields, description, faults);
        events += events_of(&spec, description);
        if events > EVENTS_MAX {
            faults.add(
                fields.key.clone(),
                format!(
                    "with this, the programs would take {events:.1e} events, more than {EVENTS_MAX:.0e}: \
                     choose less"
                ),
            );
            events = 0.0;
        }
        description
            .programs
            .push(NamedProgram { name, spec, cards });
    }
}

/// The cards that a program names: each that of its hosts, for all that they send.
fn cards(fields: &Fields<'_>, description: &Description, faults: &mut Faults) -> BTreeMap<u16, u8> {
    let mut found = BTreeMap::new();
    if fields.value("card").is_none() {
        return found;
    }
    for name in fields.names("card", "the name of a card", faults) {
        let Some((group, card)) = description.cards.get(&name) else {
            let known = description.cards.keys().map(String::as_str);
            faults.unknown(fields.at("card"), "card", &name, known);
            continue;
        };
        for &host in description.groups.get(group).into_iter().flatten() {
            if found.insert(host as u16, *card).is_some() {
                let problem =
                    format!("`{name}` is another card of `{group}`: expected one of them");
                faults.add(fields.at("card"), problem);
                break;
            }
        }
    }
    found
}

/// A program names cards of hosts that it runs on.
fn check_cards(
    spec: &ProgramSpec,
    cards: &BTreeMap<u16, u8>,
    fields: &Fields<'_>,
    description: &Description,
    faults: &mut Faults,
) {
    let hosts = spec.hosts();
    for (group, members) in &description.groups {
        let of_group = |host: &u16| members.contains(&usize::from(*host));
        let is_named = cards.keys().find(|host| of_group(host));
        if let (Some(host), None) = (is_named, hosts.iter().find(|host| of_group(host))) {
            let card = &description.hosts[usize::from(*host)].cards[usize::from(cards[host])];
            let problem = format!(
                "`{}` is a card of `{group}`, where this program does not run",
                card.name
            );
            faults.add(fields.at("card"), problem);
        }
    }
}

/// The hosts that a key names.
fn hosts(
    name: &'static str,
    fields: &Fields<'_>,
    description: &Description,
    faults: &mut Faults,
) -> Vec<u16> {
    let names = fields.names(name, "the name of a host", faults);
    let mut found = Vec::new();
    for one in &names {
        if found.len() > description.hosts.len() || faults.is_full() {
            // One is named twice.
            break;
        }
        if let Some(group) = description.groups.get(one) {
            found.extend(group.iter().map(|&host| host as u16));
            continue;
        }
        // One of several hosts of a table: `client-3`.
        let single = one.rsplit_once('-').and_then(|(group, number)| {
            let number: usize = number.parse().ok()?;
            let group = description.groups.get(group)?;
            group.get(number.checked_sub(1)?).copied()
        });
        match single {
            Some(host) => found.push(host as u16),
            None => {
                let known = description.groups.keys().map(String::as_str);
                faults.unknown(fields.at(name), "host", one, known);
            }
        }
    }
    let mut twice = found.clone();
    twice.sort_unstable();
    twice.dedup();
    if twice.len() < found.len() {
        faults.add(fields.at(name), "a host is named twice");
    }
    found
}

fn one_host(
    name: &'static str,
    fields: &Fields<'_>,
    description: &Description,
    faults: &mut Faults,
) -> Option<u16> {
    let before = faults.0.len();
    match hosts(name, fields, description, faults)[..] {
        [one] => Some(one),
        _ if faults.0.len() > before => None,
        ref several => {
            let problem = format!("found {} hosts, expected one", several.len());
            faults.add(fields.at(name), problem);
            None
        }
    }
}

/// The two hosts of a program.
fn two_hosts(
    fields: &Fields<'_>,
    description: &Description,
    faults: &mut Faults,
) -> Option<(u16, u16)> {
    let from = one_host("from", fields, description, faults);
    let to = one_host("to", fields, description, faults);
    let (from, to) = (from?, to?);
    if from == to {
        faults.add(fields.at("to"), "the same host as `from`");
        return None;
    }
    Some((from, to))
}

/// The hosts that send, and the one that they send to.
fn several_and_one(
    fields: &Fields<'_>,
    description: &Description,
    faults: &mut Faults,
) -> Option<(Vec<u16>, u16)> {
    let from = hosts("from", fields, description, faults);
    let to = one_host("to", fields, description, faults)?;
    if from.contains(&to) {
        faults.add(fields.at("to"), "it is among those of `from`");
        return None;
    }
    (!from.is_empty()).then_some((from, to))
}

fn size(name: &'static str, default: u64, fields: &Fields<'_>, faults: &mut Faults) -> u64 {
    let default = ByteSize::from_bytes(default);
    fields
        .within(name, default, BYTE..=MESSAGE_MAX, faults)
        .as_bytes()
}

fn time(
    name: &'static str,
    default: Duration,
    fields: &Fields<'_>,
    faults: &mut Faults,
) -> Duration {
    fields.within(name, default, Duration::ZERO..=LONG, faults)
}

fn ping(
    fields: &Fields<'_>,
    description: &Description,
    faults: &mut Faults,
) -> Option<ProgramSpec> {
    let two = two_hosts(fields, description, faults);
    let (from, to) = two.unwrap_or_default();
    let spec = PingSpec {
        from,
        to,
        bytes: size("size", 64, fields, faults),
        round_trips: fields.within("round_trips", 50, 1..=10_000, faults),
        pause: time("pause", Duration::from_ms(1), fields, faults),
        time_out: time("time_out", Duration::from_s(1), fields, faults),
        start: time("start", Duration::ZERO, fields, faults),
    };
    two.map(|_| ProgramSpec::Ping(spec))
}

fn stream(
    fields: &Fields<'_>,
    description: &Description,
    faults: &mut Faults,
) -> Option<ProgramSpec> {
    let two = two_hosts(fields, description, faults);
    let (from, to) = two.unwrap_or_default();
    let bytes = size("size", 16 << 10, fields, faults);
    let volume = ByteSize::from_mib(4);
    let volume = fields.within("volume", volume, BYTE..=ByteSize::from_gib(1024), faults);
    let window = fields.or("window", ByteSize::from_kib(128), faults);
    let spec = StreamSpec {
        from,
        to,
        bytes,
        messages: (volume.as_bytes() / bytes.max(1)).clamp(20, 20_000),
        window: match window.as_bytes() {
            0 => 0,
            window => (window / bytes.max(1)).max(1),
        },
        credit_bytes: size("credit", 40, fields, faults),
        start: time("start", Duration::ZERO, fields, faults),
    };
    two.map(|_| ProgramSpec::Stream(spec))
}

fn request(
    fields: &Fields<'_>,
    description: &Description,
    faults: &mut Faults,
) -> Option<ProgramSpec> {
    let named = several_and_one(fields, description, faults);
    let (from, to) = named.clone().unwrap_or_default();
    let spec = RequestSpec {
        from,
        to,
        rate: fields.within("rate", 1000.0, 1.0..=1e9, faults),
        request_bytes: size("request", 64, fields, faults),
        answer_bytes: size("answer", 1024, fields, faults),
        work: time("work", Duration::from_us(10), fields, faults),
        time: fields.within(
            "time",
            Duration::from_ms(200),
            Duration::from_us(1)..=LONG,
            faults,
        ),
        backlog: fields.within("backlog", 100, 1..=1 << 20, faults),
    };
    named.map(|_| ProgramSpec::Request(spec))
}

fn incast(
    fields: &Fields<'_>,
    description: &Description,
    faults: &mut Faults,
) -> Option<ProgramSpec> {
    let named = several_and_one(fields, description, faults);
    let (from, to) = named.clone().unwrap_or_default();
    let spec = IncastSpec {
        from,
        to,
        bytes: size("size", 32 << 10, fields, faults),
        rounds: fields.within("rounds", 10, 1..=1000, faults),
        period: time("period", Duration::from_ms(20), fields, faults),
        jitter: time("jitter", Duration::from_us(10), fields, faults),
        start: time("start", Duration::ZERO, fields, faults),
    };
    if spec.jitter >= spec.period {
        let problem = format!(
            "found {}, expected less than the period, {}",
            spec.jitter, spec.period
        );
        faults.add(fields.at("jitter"), problem);
        return None;
    }
    named.map(|_| ProgramSpec::Incast(spec))
}

/// The network, and the cards that a program names.
type Named<'a> = (&'a Description, &'a BTreeMap<u16, u8>);

/// What all programs over TCP have in common.
fn tcp(
    buffer: ByteSize,
    fields: &Fields<'_>,
    (description, cards): Named<'_>,
    faults: &mut Faults,
) -> Option<TcpSpec> {
    let named = several_and_one(fields, description, faults);
    let (from, to) = named.clone().unwrap_or_default();
    let connections = fields.within("connections", 1, 1..=ENDS_MAX / 2, faults);
    let ends = 2 * connections * from.len() as u64;
    if ends > ENDS_MAX {
        let problem = format!(
            "{connections} connections of {} hosts, expected at most {} of all together",
            from.len(),
            ENDS_MAX / 2
        );
        faults.add(fields.at("connections"), problem);
    }
    let mtu = match faults.0.is_empty() {
        true => mtu(&from, to, (description, cards)),
        false => ByteSize::from_bytes(MTU_BYTES),
    };
    let allowed = ByteSize::from_bytes(576)..=ByteSize::from_bytes(65_535);
    let mtu = fields.within("mtu", mtu, allowed, faults);
    let allowed = ByteSize::from_kib(4)..=ByteSize::from_mib(64);
    let buffer = fields.within("buffer", buffer, allowed, faults);
    if buffer.as_bytes().saturating_mul(2 * ends) > TCP_MEMORY_MAX.as_bytes() {
        let problem = format!(
            "{ends} ends with two buffers of {buffer} each, expected at most {TCP_MEMORY_MAX} together"
        );
        faults.add(fields.at("buffer"), problem);
    }
    let spec = TcpSpec {
        from,
        to,
        connections,
        start: time("start", Duration::ZERO, fields, faults),
        interval: time("interval", Duration::ZERO, fields, faults),
        mtu_bytes: mtu.as_usize().unwrap_or(usize::MAX),
        buffer_bytes: buffer.as_usize().unwrap_or(usize::MAX),
        work: time("work", Duration::ZERO, fields, faults),
    };
    named.map(|_| spec)
}

/// The longest packet: 1500 B, or what goes in one frame of all cards on the way there and back, if
/// that is less. Cells are shorter than any packet: those cut it in any case.
fn mtu(from: &[u16], to: u16, (description, cards): Named<'_>) -> ByteSize {
    let ways = from.iter().flat_map(|&from| [(from, to), (to, from)]);
    let ways = ways.filter_map(|(from, to)| {
        let card = cards.get(&from).copied();
        ways::walk(description, (from.into(), to.into()), card).ok()
    });
    let pieces = ways.flatten().map(|At { host, card }| {
        let card = &description.hosts[usize::from(host)].cards[usize::from(card)];
        card.parameters.piece_bytes(MTU_BYTES)
    });
    let least = pieces.filter(|bytes| *bytes >= 576).min();
    ByteSize::from_bytes(least.unwrap_or(MTU_BYTES))
}

fn tcp_stream(fields: &Fields<'_>, named: Named<'_>, faults: &mut Faults) -> Option<ProgramSpec> {
    let tcp = tcp(ByteSize::from_mib(1), fields, named, faults);
    let volume = ByteSize::from_mib(4);
    let volume = fields.within("volume", volume, BYTE..=ByteSize::from_gib(1024), faults);
    let volume = volume.as_bytes();
    tcp.map(|tcp| ProgramSpec::TcpStream(TcpStreamSpec { tcp, volume }))
}

fn tcp_request(fields: &Fields<'_>, named: Named<'_>, faults: &mut Faults) -> Option<ProgramSpec> {
    let tcp = tcp(ByteSize::from_kib(64), fields, named, faults);
    let requests = fields.within("requests", 50, 1..=1_000_000, faults);
    let request_bytes = size("request", 64, fields, faults);
    let reply_bytes = size("reply", 1024, fields, faults);
    let pause = time("pause", Duration::ZERO, fields, faults);
    tcp.map(|tcp| {
        ProgramSpec::TcpRequest(TcpRequestSpec {
            tcp,
            requests,
            request_bytes,
            reply_bytes,
            pause,
        })
    })
}

/// A load of a ring.
fn load(
    name: &str,
    kind: &str,
    fields: &Fields<'_>,
    description: &mut Description,
    faults: &mut Faults,
) {
    let ring_name = fields.text("ring", "the name of a ring", faults);
    let duration = Duration::from_ms(100);
    let duration = fields.within("time", duration, Duration::from_us(1)..=LONG, faults);
    let known: Vec<String> = description
        .rings
        .iter()
        .map(|ring| ring.name.clone())
        .collect();
    let mut rings = description.rings.iter_mut();
    let ring = rings.find(|ring| ring.name == ring_name);
    if ring.is_none() && !ring_name.is_empty() {
        let known = known.iter().map(String::as_str);
        faults.unknown(fields.at("ring"), "ring", &ring_name, known);
    }
    let has_one = |faults: &mut Faults| {
        faults.add(fields.at("ring"), "this ring has a load already");
    };
    match (kind, ring.map(|ring| &mut ring.kind)) {
        ("cells", ring) => {
            let load = SlottedLoad {
                name: name.to_owned(),
                stations: fields.within("stations", 1, 1..=998, faults),
                share: fields.within("share", 0.5, 0.0..=10.0, faults),
                time: duration,
            };
            if let Some(RingKind::Slotted(spec)) = &ring {
                check_load(spec, &load, fields, faults);
            }
            match ring {
                Some(RingKind::Slotted(spec)) if spec.load.is_some() => has_one(faults),
                Some(RingKind::Slotted(spec)) => spec.load = Some(load),
                Some(RingKind::Token(_)) => {
                    let problem = "it has a token: expected a load of `messages`";
                    faults.add(fields.at("ring"), problem);
                }
                None => {}
            }
        }
        (_, ring) => {
            let per_cent = fields.within("per_cent", 25, 1..=400, faults);
            let message = ByteSize::from_kib(4);
            let most = ByteSize::from_bytes(65_535);
            let message = fields.within("size", message, BYTE..=most, faults);
            match ring {
                Some(RingKind::Token(spec)) if spec.load.is_some() => has_one(faults),
                Some(RingKind::Token(spec)) => {
                    let plan = token_load(spec, (per_cent, message, duration), fields, faults);
                    spec.load = Some(TokenLoad {
                        name: name.to_owned(),
                        plan,
                        per_cent,
                    });
                }
                Some(RingKind::Slotted(_)) => {
                    let problem = "it has slots: expected a load of `cells`";
                    faults.add(fields.at("ring"), problem);
                }
                None => {}
            }
        }
    }
}

/// Messages of a size from every station to any other, as so many per cent of the line.
fn token_load(
    spec: &TokenSpec,
    (per_cent, message, time): (u64, ByteSize, Duration),
    fields: &Fields<'_>,
    faults: &mut Faults,
) -> LoadPlan {
    let rate = share_of(spec.parameters.ring.rate, per_cent);
    let bits = rate.as_bps() as f64 * seconds(time);
    let messages = bits / (8.0 * message.as_bytes().max(1) as f64);
    too_long(messages * MESSAGE_EVENTS, fields, faults);
    let class = barewire_classic::token::Class::Asynchronous;
    let bytes = message.as_bytes() as usize;
    let sources = random_sources(spec.stations, rate, bytes, class, 0);
    LoadPlan::two_groups(spec.stations, sources, time)
}

/// A load of a ring of slots has to end some day.
fn check_load(spec: &SlottedSpec, load: &SlottedLoad, fields: &Fields<'_>, faults: &mut Faults) {
    let frames = spec.line.frames(spec.rotation);
    let passages = (spec.stations + load.stations) * frames;
    if passages > PASSAGES_MAX {
        let problem = format!(
            "{} stations in all and {frames} frames, expected at most {PASSAGES_MAX} as their product",
            spec.stations + load.stations
        );
        faults.add(fields.at("stations"), problem);
    }
    let turns = load.time.as_ps() as f64 / spec.rotation.as_ps().max(1) as f64;
    too_long(turns * passages as f64, fields, faults);
}

/// The time of a load has to end before so many events.
fn too_long(events: f64, fields: &Fields<'_>, faults: &mut Faults) {
    if events > EVENTS_MAX {
        let problem = format!(
            "in this time the ring would take {events:.1e} events, more than {EVENTS_MAX:.0e}: choose less"
        );
        faults.add(fields.at("time"), problem);
    }
}

/// Every host of a program has to reach those that it sends to.
fn check_ways(
    spec: &ProgramSpec,
    cards: &BTreeMap<u16, u8>,
    fields: &Fields<'_>,
    description: &Description,
    faults: &mut Faults,
) {
    for (from, to) in spec.ways() {
        let card = cards.get(&from).copied();
        let (from, to) = (usize::from(from), usize::from(to));
        let host = &description.hosts[from];
        let by = card.map(|card| format!(" by its card `{}`", host.cards[usize::from(card)].name));
        let by = by.unwrap_or_default();
        let name = &description.hosts[to].name;
        let problem = match ways::walk(description, (from, to), card) {
            // The sender's card and the receiver's, and two of each host between.
            Ok(cards) if cards.len() / 2 <= FORWARDS_MAX + 1 => continue,
            Ok(cards) => format!(
                "the way from `{}` to `{name}` leads over {} hosts that forward, expected at most \
                 {FORWARDS_MAX}",
                host.name,
                cards.len() / 2 - 1
            ),
            Err(NoWay::Back) => {
                format!(
                    "the way from `{}`{by} to `{name}` leads back to `{}`",
                    host.name, host.name
                )
            }
            Err(NoWay::None) => {
                let several = |it: &&HostSpec| it.cards.len() > 1 && it.forwards.is_none();
                let mut between = description.hosts.iter().filter(several);
                let hint = match between.find(|it| it.name != host.name && it.name != *name) {
                    Some(it) => format!(
                        "; `{}` passes nothing on without `forwards = true`",
                        it.name
                    ),
                    None => String::new(),
                };
                format!("no way leads from `{}`{by} to `{name}`{hint}", host.name)
            }
        };
        let at = match by.is_empty() {
            true => fields.key.clone(),
            false => fields.at("card"),
        };
        faults.add(at, problem);
        return;
    }
}

/// Events of a program, about: those of a message on the workbench, and as many frames again
/// on each line between.
fn events_of(spec: &ProgramSpec, description: &Description) -> f64 {
    let hosts = spec.hosts();
    let of_message = |bytes: u64| {
        let each = hosts.iter().map(|&host| {
            let cards = description.hosts[usize::from(host)].cards.iter();
            let each = cards.map(|card| crate::workbench::events(&card.parameters, bytes));
            each.fold(0.0_f64, f64::max)
        });
        each.fold(0.0_f64, f64::max)
    };
    let forwards = description
        .hosts
        .iter()
        .filter(|host| host.forwards.is_some());
    let lines = 1 + description.devices.len() + description.rings.len() + forwards.count();
    let messages = spec.messages().into_iter();
    let events: f64 = messages
        .map(|(count, bytes)| count * of_message(bytes))
        .sum();
    events * lines.min(8) as f64
}
