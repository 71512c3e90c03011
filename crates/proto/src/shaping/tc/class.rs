//! `tc class add`.

use barewire_units::{ByteSize, Rate};

use super::super::{cbq, htb};
use super::command::{ClassConfig, Command};
use super::head::Head;
use super::qdisc::{CELL, EWMA, parse_cell, parse_ewma};
use super::units;
use super::units::{CLASS, NUMBER, RATE, SIZE};
use super::words::{Error, Words};

const KINDS: &str = "`dev`, `parent`, `classid`, or a kind: cbq, htb";

pub(super) fn parse(words: &mut Words<'_>) -> Result<Command, Error> {
    let mut head = Head::default();
    let mut id = None;
    let config = loop {
        let word = words.next(KINDS)?;
        if head.take(words, word)? {
            continue;
        }
        match word.text {
            "classid" => words.fill(&mut id, word, CLASS, units::handle)?,
            "cbq" => break cbq(words)?,
            "htb" => break htb(words)?,
            _ => return Err(words.unexpected(word, KINDS)),
        }
    };
    Ok(Command::Class {
        device: head.device(words)?,
        parent: head.parent(words)?,
        id: words.require(id, "`classid CLASS`")?,
        config,
    })
}

/// The options of a CBQ class, as far as they have been read.
#[derive(Default)]
struct CbqOptions {
    bandwidth: Option<Rate>,
    rate: Option<Rate>,
    allot: Option<ByteSize>,
    weight: Option<Rate>,
    priority: Option<u8>,
    cell: Option<u32>,
    maxburst: Option<u32>,
    minburst: Option<u32>,
    minidle_us: Option<u32>,
    avpkt: Option<ByteSize>,
    ewma: Option<u8>,
    mpu: Option<ByteSize>,
    bounded: Option<bool>,
    isolated: Option<bool>,
}

fn cbq(words: &mut Words<'_>) -> Result<ClassConfig, Error> {
    let mut options = CbqOptions::default();
    while let Some(word) = words.peek() {
        words.skip();
        cbq_option(words, word, &mut options)?;
    }
    let avpkt = options.avpkt.unwrap_or(cbq::AVPKT_DEFAULT);
    // Half a packet more than one, as tc has it.
    let allot = ByteSize::from_bytes(avpkt.as_bytes().saturating_mul(3) / 2);
    Ok(ClassConfig::Cbq(cbq::ClassConfig {
        bandwidth: words.require(options.bandwidth, "`bandwidth RATE`")?,
        rate: words.require(options.rate, "`rate RATE`")?,
        allot: options.allot.unwrap_or(allot),
        weight: options.weight.unwrap_or(cbq::WEIGHT_DEFAULT),
        priority: options.priority.unwrap_or(cbq::PRIORITY_LOWEST),
        cell: options.cell.unwrap_or(cbq::CELL_DEFAULT),
        maxburst: options.maxburst.unwrap_or(cbq::MAXBURST_DEFAULT),
        minburst: options.minburst.unwrap_or(0),
        minidle_us: options.minidle_us,
        avpkt,
        ewma_log2: options.ewma.unwrap_or(cbq::EWMA_LOG2_DEFAULT),
        mpu: options.mpu.unwrap_or(ByteSize::ZERO),
        bounded: options.bounded.unwrap_or(false),
        isolated: options.isolated.unwrap_or(false),
    }))
}

fn cbq_option(
    words: &mut Words<'_>,
    word: super::words::Word<'_>,
    options: &mut CbqOptions,
) -> Result<(), Error> {
    const OPTIONS: &str = "an option of a cbq class: bandwidth, rate, allot, weight, prio, \
         cell, maxburst, minburst, minidle, avpkt, ewma, mpu, bounded, borrow, isolated, sharing";
    const PRIORITY: &str = "a number from 1 (first) to 8 (last)";
    match word.text {
        "bandwidth" => words.fill(&mut options.bandwidth, word, RATE, units::rate),
        "rate" => words.fill(&mut options.rate, word, RATE, units::rate),
        "allot" => words.fill(&mut options.allot, word, SIZE, units::size),
        "weight" => words.fill(&mut options.weight, word, RATE, units::rate),
        "prio" => words.fill(&mut options.priority, word, PRIORITY, |text| {
            priority(text, 1, cbq::PRIORITY_LOWEST)
        }),
        "cell" => words.fill(&mut options.cell, word, CELL, parse_cell),
        "maxburst" => words.fill(&mut options.maxburst, word, NUMBER, units::number),
        "minburst" => words.fill(&mut options.minburst, word, NUMBER, units::number),
        "minidle" => words.fill(&mut options.minidle_us, word, NUMBER, units::number),
        "avpkt" => words.fill(&mut options.avpkt, word, SIZE, units::size),
        "ewma" => words.fill(&mut options.ewma, word, EWMA, parse_ewma),
        "mpu" => words.fill(&mut options.mpu, word, SIZE, units::size),
        "bounded" | "borrow" => words.choice(&mut options.bounded, word, word.text == "bounded"),
        "isolated" | "sharing" => {
            words.choice(&mut options.isolated, word, word.text == "isolated")
        }
        _ => Err(words.unexpected(word, OPTIONS)),
    }
}

fn htb(words: &mut Words<'_>) -> Result<ClassConfig, Error> {
    const OPTIONS: &str = "`rate`, `ceil`, `burst`, `cburst`, `prio` or `quantum`";
    const PRIORITY: &str = "a number from 0 (first) to 7 (last)";
    let (mut rate, mut ceil, mut burst, mut cburst) = (None, None, None, None);
    let (mut prio, mut quantum) = (None, None);
    while let Some(word) = words.peek() {
        words.skip();
        match word.text {
            "rate" => words.fill(&mut rate, word, RATE, units::rate)?,
            "ceil" => words.fill(&mut ceil, word, RATE, units::rate)?,
            "burst" | "buffer" | "maxburst" => words.fill(&mut burst, word, SIZE, units::size)?,
            "cburst" | "cbuffer" | "cmaxburst" => {
                words.fill(&mut cburst, word, SIZE, units::size)?;
            }
            "prio" => words.fill(&mut prio, word, PRIORITY, |text| {
                priority(text, 0, htb::PRIORITIES - 1)
            })?,
            "quantum" => words.fill(&mut quantum, word, SIZE, |text| {
                let quantum = units::size(text)?.as_bytes();
                u32::try_from(quantum).ok()
            })?,
            _ => return Err(words.unexpected(word, OPTIONS)),
        }
    }
    let rate = words.require(rate, "`rate RATE`")?;
    let ceil = ceil.unwrap_or(rate);
    Ok(ClassConfig::Htb(htb::ClassConfig {
        rate,
        ceil,
        burst: burst.unwrap_or_else(|| htb::ClassConfig::burst_for(rate)),
        cburst: cburst.unwrap_or_else(|| htb::ClassConfig::burst_for(ceil)),
        priority: prio.unwrap_or(0),
        quantum_bytes: quantum,
    }))
}

fn priority(text: &str, first: u8, last: u8) -> Option<u8> {
    let number = units::number(text).and_then(|number| u8::try_from(number).ok())?;
    (first..=last).contains(&number).then_some(number)
}
