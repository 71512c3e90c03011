//! `tc qdisc add`.

use barewire_units::ByteSize;

use super::super::qdisc::Limit;
use super::super::tbf::Peak;
use super::super::{cbq, htb, tbf};
use super::command::{Command, Parent, QdiscConfig};
use super::head::Head;
use super::units;
use super::units::{CLASS, NUMBER, RATE, SIZE, TIME};
use super::words::{Error, Fault, Words};

const KINDS: &str = "`dev`, `root`, `parent`, `handle`, or a kind: cbq, htb, tbf, pfifo, bfifo";

pub(super) fn parse(words: &mut Words<'_>) -> Result<Command, Error> {
    let mut head = Head::default();
    let mut handle = None;
    let config = loop {
        let word = words.next(KINDS)?;
        if head.take(words, word)? {
            continue;
        }
        match word.text {
            "handle" => words.fill(&mut handle, word, CLASS, units::handle)?,
            "cbq" => break cbq(words)?,
            "htb" => break htb(words)?,
            "tbf" => break tbf(words)?,
            "pfifo" => break pfifo(words)?,
            "bfifo" => break bfifo(words)?,
            _ => return Err(words.unexpected(word, KINDS)),
        }
    };
    let parent = match (head.root, head.parent) {
        (Some(()), None) => Parent::Root,
        (None, Some(class)) => Parent::Class(class),
        _ => {
            let missing = Fault::Missing("either `root` or `parent CLASS`");
            return Err(words.fault(words.end(), missing));
        }
    };
    Ok(Command::Qdisc {
        device: head.device(words)?,
        parent,
        handle,
        config,
    })
}

fn cbq(words: &mut Words<'_>) -> Result<QdiscConfig, Error> {
    const OPTIONS: &str = "`bandwidth`, `avpkt`, `cell`, `mpu` or `ewma`";
    let (mut bandwidth, mut avpkt, mut cell, mut mpu, mut ewma) = (None, None, None, None, None);
    while let Some(word) = words.peek() {
        words.skip();
        match word.text {
            "bandwidth" => words.fill(&mut bandwidth, word, RATE, units::rate)?,
            "avpkt" => words.fill(&mut avpkt, word, SIZE, units::size)?,
            "cell" => words.fill(&mut cell, word, CELL, parse_cell)?,
            "mpu" => words.fill(&mut mpu, word, SIZE, units::size)?,
            "ewma" => words.fill(&mut ewma, word, EWMA, parse_ewma)?,
            _ => return Err(words.unexpected(word, OPTIONS)),
        }
    }
    Ok(QdiscConfig::Cbq(cbq::QdiscConfig {
        bandwidth: words.require(bandwidth, "`bandwidth RATE`")?,
        avpkt: words.require(avpkt, "`avpkt SIZE`")?,
        cell: cell.unwrap_or(cbq::CELL_DEFAULT),
        mpu: mpu.unwrap_or(ByteSize::ZERO),
        ewma_log2: ewma.unwrap_or(cbq::EWMA_LOG2_DEFAULT),
    }))
}

pub(super) const CELL: &str = "a power of two, in bytes";
pub(super) const EWMA: &str = "a number from 1 to 31";

pub(super) fn parse_cell(text: &str) -> Option<u32> {
    units::number(text).filter(|cell| cell.is_power_of_two())
}

pub(super) fn parse_ewma(text: &str) -> Option<u8> {
    let ewma = units::number(text).filter(|ewma| (1..=31).contains(ewma));
    ewma.and_then(|ewma| u8::try_from(ewma).ok())
}

fn htb(words: &mut Words<'_>) -> Result<QdiscConfig, Error> {
    const MINOR: &str = "the minor number of a class, in hex";
    let (mut default_minor, mut r2q) = (None, None);
    while let Some(word) = words.peek() {
        words.skip();
        match word.text {
            "default" => words.fill(&mut default_minor, word, MINOR, units::minor)?,
            "r2q" => words.fill(&mut r2q, word, NUMBER, |text| {
                units::number(text).filter(|&r2q| r2q > 0)
            })?,
            _ => return Err(words.unexpected(word, "`default` or `r2q`")),
        }
    }
    Ok(QdiscConfig::Htb(htb::QdiscConfig {
        default_minor: default_minor.unwrap_or(0),
        r2q: r2q.unwrap_or(htb::R2Q_DEFAULT),
    }))
}

fn tbf(words: &mut Words<'_>) -> Result<QdiscConfig, Error> {
    const OPTIONS: &str = "`rate`, `burst`, `limit`, `latency`, `peakrate` or `mtu`";
    let (mut rate, mut burst, mut limit, mut latency) = (None, None, None, None);
    let (mut peak_rate, mut mtu) = (None, None);
    while let Some(word) = words.peek() {
        words.skip();
        match word.text {
            "limit" | "latency" if limit.is_some() || latency.is_some() => {
                return Err(words.fault(word, Fault::Twice));
            }
            "rate" => words.fill(&mut rate, word, RATE, units::rate)?,
            "burst" | "buffer" | "maxburst" => words.fill(&mut burst, word, SIZE, units::size)?,
            "limit" => words.fill(&mut limit, word, SIZE, units::size)?,
            "latency" => words.fill(&mut latency, word, TIME, units::time)?,
            "peakrate" => words.fill(&mut peak_rate, word, RATE, units::rate)?,
            "mtu" | "minburst" => words.fill(&mut mtu, word, SIZE, units::size)?,
            _ => return Err(words.unexpected(word, OPTIONS)),
        }
    }
    let rate = words.require(rate, "`rate RATE`")?;
    let burst = words.require(burst, "`burst SIZE`")?;
    let peak = match (peak_rate, mtu) {
        (None, None) => None,
        (Some(rate), Some(mtu)) => Some(Peak { rate, mtu }),
        _ => {
            let missing = Fault::Missing("`peakrate RATE` and `mtu SIZE`, or neither");
            return Err(words.fault(words.end(), missing));
        }
    };
    let limit = latency
        .map(|latency| tbf::Config::limit_for(latency, rate, burst, peak))
        .or(limit);
    Ok(QdiscConfig::Tbf(tbf::Config {
        rate,
        burst,
        limit: words.require(limit, "`limit SIZE` or `latency TIME`")?,
        peak,
    }))
}

fn pfifo(words: &mut Words<'_>) -> Result<QdiscConfig, Error> {
    let mut limit = None;
    while let Some(word) = words.peek() {
        words.skip();
        match word.text {
            "limit" => words.fill(&mut limit, word, NUMBER, units::number)?,
            _ => return Err(words.unexpected(word, "`limit`")),
        }
    }
    let limit = limit.map_or(Limit::DEFAULT, Limit::Packets);
    Ok(QdiscConfig::Fifo(limit))
}

fn bfifo(words: &mut Words<'_>) -> Result<QdiscConfig, Error> {
    let mut limit = None;
    while let Some(word) = words.peek() {
        words.skip();
        match word.text {
            "limit" => words.fill(&mut limit, word, SIZE, units::size)?,
            _ => return Err(words.unexpected(word, "`limit`")),
        }
    }
    let limit = words.require(limit, "`limit SIZE`")?;
    Ok(QdiscConfig::Fifo(Limit::Bytes(limit)))
}
