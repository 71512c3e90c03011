//! `tc filter add ... u32`.

use alloc::vec::Vec;

use super::super::qdisc::ETHERTYPE_IPV4;
use super::super::u32::{
    BUCKETS_MAX, FIRST_NUMBER, HashKey, KEYS_MAX, Key, NodeHandle, Offset, Protocol, Rule, Table,
    Target,
};
use super::command::{Command, FilterConfig};
use super::head::Head;
use super::units;
use super::units::{CLASS, MASK, NODE, NUMBER};
use super::words::{Error, Fault, Word, Words};

const KINDS: &str = "`dev`, `parent`, `protocol`, `prio`, `handle`, or the kind: u32";
const PROTOCOL: &str = "`ip`, `all` or the number of a protocol";

/// What stands before `u32`.
struct Place {
    priority: u16,
    protocol: Protocol,
    handle: Option<NodeHandle>,
}

pub(super) fn parse(words: &mut Words<'_>) -> Result<Command, Error> {
    let mut head = Head::default();
    let (mut priority, mut protocol, mut handle) = (None, None, None);
    loop {
        let word = words.next(KINDS)?;
        if head.take(words, word)? {
            continue;
        }
        match word.text {
            "protocol" => words.fill(&mut protocol, word, PROTOCOL, parse_protocol)?,
            "prio" | "pref" | "priority" => {
                words.fill(&mut priority, word, NUMBER, units::number_u16)?;
            }
            "handle" => words.fill(&mut handle, word, NODE, units::node)?,
            "u32" => break,
            _ => return Err(words.unexpected(word, KINDS)),
        }
    }
    let place = Place {
        priority: words.require(priority, "`prio N` before `u32`")?,
        protocol: words.require(protocol, "`protocol` before `u32`")?,
        handle,
    };
    Ok(Command::Filter {
        device: head.device(words)?,
        parent: head.parent(words)?,
        config: u32(words, &place)?,
    })
}

fn parse_protocol(text: &str) -> Option<Protocol> {
    match text {
        "all" => Some(Protocol::All),
        "ip" => Some(Protocol::EtherType(ETHERTYPE_IPV4)),
        _ => units::number_u16(text).map(Protocol::EtherType),
    }
}

/// The options behind `u32`, as far as they have been read.
#[derive(Default)]
struct Options {
    keys: Vec<Key>,
    divisor: Option<u16>,
    bucket: Option<(u16, u8)>,
    flow: Option<super::super::handle::Handle>,
    link: Option<u16>,
    hash_key: Option<HashKey>,
    offset: Option<Offset>,
}

fn u32(words: &mut Words<'_>, place: &Place) -> Result<FilterConfig, Error> {
    let mut options = Options::default();
    while let Some(word) = words.peek() {
        words.skip();
        option(words, word, &mut options)?;
    }
    match options.divisor {
        Some(divisor) => table(words, place, divisor, &options).map(FilterConfig::Table),
        None => rule(words, place, options).map(FilterConfig::Rule),
    }
}

fn option(words: &mut Words<'_>, word: Word<'_>, options: &mut Options) -> Result<(), Error> {
    const OPTIONS: &str = "`match`, `flowid`, `ht`, `link`, `hashkey`, `offset` or `divisor`";
    const DIVISOR: &str = "a power of two up to 256";
    const BUCKET: &str = "a bucket such as 2:7b: (hex table:bucket:)";
    const LINK: &str = "a table such as 2:";
    match word.text {
        "match" => {
            let key = matched(words)?;
            add_key(words, word, &mut options.keys, key)
        }
        "flowid" | "classid" => words.fill(&mut options.flow, word, CLASS, units::handle),
        "ht" => words.fill(&mut options.bucket, word, BUCKET, |text| {
            let at = units::node(text).filter(|at| at.node == 0)?;
            Some((at.table, at.bucket))
        }),
        "link" => words.fill(&mut options.link, word, LINK, parse_table),
        "divisor" => words.fill(&mut options.divisor, word, DIVISOR, |text| {
            let fits = |&n: &u16| n.is_power_of_two() && n <= BUCKETS_MAX;
            units::number_u16(text).filter(fits)
        }),
        "hashkey" => {
            let key = hash_key(words)?;
            words.choice(&mut options.hash_key, word, key)
        }
        "offset" => {
            let parsed = offset(words)?;
            words.choice(&mut options.offset, word, parsed)
        }
        _ => Err(words.unexpected(word, OPTIONS)),
    }
}

/// `2:`, without bucket or node.
fn parse_table(text: &str) -> Option<u16> {
    let alone = |at: &NodeHandle| at.bucket == 0 && at.node == 0;
    units::node(text).filter(alone).map(|at| at.table)
}

fn table(
    words: &Words<'_>,
    place: &Place,
    divisor: u16,
    options: &Options,
) -> Result<Table, Error> {
    let named = place.handle.filter(|handle| {
        (1..FIRST_NUMBER).contains(&handle.table) && handle.bucket == 0 && handle.node == 0
    });
    let handle = words.require(named, "`handle TABLE:` from 1: to 7ff: with `divisor`")?;
    let alone = options.keys.is_empty()
        && options.bucket.is_none()
        && options.flow.is_none()
        && options.link.is_none()
        && options.hash_key.is_none()
        && options.offset.is_none();
    words.require(alone.then_some(()), "nothing but `divisor` for a table")?;
    Ok(Table {
        priority: place.priority,
        protocol: place.protocol,
        number: handle.table,
        divisor,
    })
}

fn rule(words: &Words<'_>, place: &Place, options: Options) -> Result<Rule, Error> {
    let target = match (options.flow, options.link) {
        (Some(id), None) => Target::Class(id),
        (None, Some(table)) => Target::Link {
            table,
            hash_key: options.hash_key,
            offset: options.offset,
        },
        _ => {
            let missing = Fault::Missing("either `flowid CLASS` or `link TABLE:`");
            return Err(words.fault(words.end(), missing));
        }
    };
    let links_only = options.hash_key.is_some() || options.offset.is_some();
    if options.link.is_none() && links_only {
        let missing = Fault::Missing("`link TABLE:` with `hashkey` or `offset`");
        return Err(words.fault(words.end(), missing));
    }
    let named = place
        .handle
        .map(|at| Some(at.node).filter(|&node| node != 0 && at.table == 0 && at.bucket == 0));
    let node = match named {
        Some(node) => Some(words.require(node, "`handle ::NODE`; `ht` says where")?),
        None => None,
    };
    Ok(Rule {
        priority: place.priority,
        protocol: place.protocol,
        bucket: options.bucket,
        node,
        keys: options.keys,
        target,
    })
}

/// Adds `key`, or joins it with the key for the same word.
fn add_key(
    words: &Words<'_>,
    keyword: Word<'_>,
    keys: &mut Vec<Key>,
    key: Key,
) -> Result<(), Error> {
    let same_word =
        |other: &&mut Key| other.offset == key.offset && other.offset_mask == key.offset_mask;
    if let Some(other) = keys.iter_mut().find(same_word) {
        if (other.value ^ key.value) & other.mask & key.mask != 0 {
            return Err(words.fault(keyword, Fault::Contradiction));
        }
        other.value |= key.value;
        other.mask |= key.mask;
        return Ok(());
    }
    if keys.len() == KEYS_MAX {
        return Err(words.unexpected(keyword, "at most 128 words to match"));
    }
    keys.push(key);
    Ok(())
}

fn matched(words: &mut Words<'_>) -> Result<Key, Error> {
    const FORMS: &str = "`ip`, `u8`, `u16` or `u32`";
    let form = words.next(FORMS)?;
    match form.text {
        "ip" => matched_ip(words),
        "u8" => raw(words, 1),
        "u16" => raw(words, 2),
        "u32" => raw(words, 4),
        _ => Err(words.unexpected(form, FORMS)),
    }
}

fn matched_ip(words: &mut Words<'_>) -> Result<Key, Error> {
    const FIELDS: &str = "`src`, `dst`, `sport`, `dport`, `protocol` or `tos`";
    const NETWORK: &str = "an address such as 10.1.2.3, or a network such as 10.0.0.0/8";
    let field = words.next(FIELDS)?;
    let network = |words: &mut Words<'_>, offset| {
        let (value, mask) = words.value(NETWORK, units::network)?;
        Ok(Key {
            mask,
            value,
            offset,
            offset_mask: 0,
        })
    };
    match field.text {
        "src" => network(words, 12),
        "dst" => network(words, 16),
        // The ports stand there in a packet without IP options.
        "sport" => value_and_mask(words, 2).map(|pair| key(pair, 2, 20, 0)),
        "dport" => value_and_mask(words, 2).map(|pair| key(pair, 2, 22, 0)),
        "protocol" => value_and_mask(words, 1).map(|pair| key(pair, 1, 9, 0)),
        "tos" | "dsfield" => value_and_mask(words, 1).map(|pair| key(pair, 1, 1, 0)),
        _ => Err(words.unexpected(field, FIELDS)),
    }
}

/// `VALUE MASK at [nexthdr+]OFFSET`.
fn raw(words: &mut Words<'_>, bytes: u16) -> Result<Key, Error> {
    const AT: &str = "an offset that is a multiple of the width, such as 16 or nexthdr+0";
    let pair = value_and_mask(words, bytes)?;
    words.expect("at", "`at OFFSET`")?;
    let (offset, offset_mask) = words.value(AT, |text| {
        let (digits, offset_mask) = match text.strip_prefix("nexthdr+") {
            Some(digits) => (digits, u32::MAX),
            None => (text, 0),
        };
        let offset = units::number_u16(digits).filter(|offset| offset % bytes == 0)?;
        Some((offset, offset_mask))
    })?;
    Ok(key(pair, bytes, offset, offset_mask))
}

fn value_and_mask(words: &mut Words<'_>, bytes: u16) -> Result<(u32, u32), Error> {
    let fits = |&number: &u32| bytes == 4 || number >> (8 * bytes) == 0;
    let value = words.value(NUMBER, |text| units::number(text).filter(fits))?;
    let mask = words.value(MASK, |text| units::mask(text).filter(fits))?;
    Ok((value, mask))
}

/// A field of one, two or four bytes as a key for the word that it lies in.
fn key((value, mask): (u32, u32), bytes: u16, offset: u16, offset_mask: u32) -> Key {
    let shift = 8 * (4 - bytes - offset % 4);
    Key {
        mask: mask << shift,
        value: (value & mask) << shift,
        offset: offset - offset % 4,
        offset_mask,
    }
}

/// `mask HEX at OFFSET`.
fn hash_key(words: &mut Words<'_>) -> Result<HashKey, Error> {
    words.expect("mask", "`mask HEX at OFFSET`")?;
    let mask = words.value(MASK, units::mask)?;
    words.expect("at", "`at OFFSET`")?;
    let offset = words.value(NUMBER, units::number_u16)?;
    Ok(HashKey { mask, offset })
}

/// `[plus N] [at N] [mask HEX] [shift N] [eat]`.
fn offset(words: &mut Words<'_>) -> Result<Offset, Error> {
    const SHIFT: &str = "a number from 0 to 15";
    let (mut plus, mut at, mut mask, mut shift, mut eat) = (None, None, None, None, None);
    while let Some(word) = words.peek() {
        if !["plus", "at", "mask", "shift", "eat"].contains(&word.text) {
            break;
        }
        words.skip();
        match word.text {
            "plus" => words.fill(&mut plus, word, NUMBER, units::number_u16)?,
            "at" => words.fill(&mut at, word, NUMBER, units::number_u16)?,
            "mask" => words.fill(&mut mask, word, MASK, |text| {
                units::mask(text).and_then(|mask| u16::try_from(mask).ok())
            })?,
            "shift" => words.fill(&mut shift, word, SHIFT, |text| {
                let shift = units::number(text).filter(|shift| *shift <= 15)?;
                u8::try_from(shift).ok()
            })?,
            _ => words.choice(&mut eat, word, true)?,
        }
    }
    let mask_default = at.map_or(0, |_| u16::MAX);
    Ok(Offset {
        plus: plus.unwrap_or(0),
        at: at.unwrap_or(0),
        mask: mask.unwrap_or(mask_default),
        shift: shift.unwrap_or(0),
        eat: eat.unwrap_or(false),
    })
}
