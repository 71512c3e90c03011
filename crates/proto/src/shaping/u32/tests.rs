//! Keys, tables, links and the numbers of rules, given as `tc` commands.

use alloc::vec::Vec;
use proptest::prelude::*;
use std::string::ToString;

use super::super::tc::{self, Command, FilterConfig};
use super::super::{Handle, Packet, Problem};
use super::*;

/// Filters at one parent, from what stands behind `protocol`.
fn filters(rules: &[&str]) -> Result<Filters, Problem> {
    let mut filters = Filters::default();
    for rule in rules {
        let text = std::format!("tc filter add dev e parent 1: protocol {rule}");
        let command = tc::parse(&text).expect("a filter").remove(0).command;
        match command {
            Command::Filter {
                config: FilterConfig::Rule(rule),
                ..
            } => filters.insert(rule)?,
            Command::Filter {
                config: FilterConfig::Table(table),
                ..
            } => {
                filters.insert_table(table)?;
            }
            _ => unreachable!("{text}"),
        }
    }
    Ok(filters)
}

/// TCP from 192.168.1.2:1024 to 10.1.2.3:80 with `option_words` of IP options.
fn tcp(option_words: u8) -> Packet {
    let mut bytes = Vec::from([0x45 + option_words, 0x10, 0, 44, 0, 0, 0, 0, 64, 6, 0, 0]);
    bytes.extend([192, 168, 1, 2, 10, 1, 2, 3]);
    bytes.extend((0..option_words).flat_map(|_| [1; 4]));
    bytes.extend([4, 0, 0, 80, 1, 2, 3, 4]);
    Packet {
        id: 0,
        len_bytes: 44,
        protocol: 0x0800,
        bytes,
    }
}

#[track_caller]
fn assert_flows(rules: &[&str], packet: &Packet, minor: Option<u16>) {
    let found = filters(rules).expect("the rules fit").classify(packet);
    assert_eq!(found, minor.map(|minor| Handle::new(1, minor)), "{rules:?}");
}

#[test]
fn every_field_matches_what_it_should_and_nothing_else() {
    for (field, same, other) in [
        ("ip src", "192.168.1.2", "192.168.1.3"),
        ("ip src", "192.168.0.0/16", "192.169.0.0/16"),
        ("ip dst", "10.1.2.3/32", "10.1.2.2/32"),
        ("ip dst", "0.0.0.0/0", "0.0.0.0/1 match ip src 0.0.0.0/1"),
        ("ip dst", "10.0.0.0/9", "10.128.0.0/9"),
        ("ip sport", "1024 0xffff", "1025 ffff"),
        ("ip dport", "80 0xffff", "0x51 0xffff"),
        ("ip dport", "81 0xfffe", "82 0xfffe"),
        ("ip protocol", "6 0xff", "17 0xff"),
        ("ip tos", "0x10 0xf0", "0x20 0xf0"),
        ("u8", "0x45 0xff at 0", "0x46 0xff at 0"),
        ("u8", "44 ff at 3", "44 ff at 2"),
        ("u16", "44 ffff at 2", "44 ffff at 0"),
        (
            "u32",
            "0x0a010203 0xffffffff at 16",
            "0x0a010204 0xffffffff at 16",
        ),
        // Behind the end of the packet, unless nothing is asked.
        ("u32", "0 0 at 28", "0 1 at 28"),
    ] {
        let with = |value| std::format!("ip prio 1 u32 match {field} {value} flowid 1:5");
        assert_flows(&[&with(same)], &tcp(0), Some(5));
        assert_flows(&[&with(other)], &tcp(0), None);
    }
}

#[test]
fn all_keys_must_match() {
    let both = "ip prio 1 u32 match ip dst 10.1.2.3 match ip dport 80 0xffff flowid 1:1";
    let one = "ip prio 1 u32 match ip dst 10.1.2.3 match ip dport 81 0xffff flowid 1:1";
    assert_flows(&[both], &tcp(0), Some(1));
    assert_flows(&[one], &tcp(0), None);
}

#[test]
fn lower_priorities_and_earlier_rules_come_first() {
    let any = |prio, flow| std::format!("ip prio {prio} u32 match u32 0 0 at 0 flowid 1:{flow}");
    assert_flows(&[&any(7, 1), &any(3, 2), &any(3, 3)], &tcp(0), Some(2));
    // A node number orders within a bucket.
    let node = "ip prio 3 handle ::7ff u32 match u32 0 0 at 0 flowid 1:4";
    assert_flows(&[&any(3, 2), node], &tcp(0), Some(4));
}

#[test]
fn a_filter_sees_its_protocol_only() {
    let of = |protocol| std::format!("{protocol} prio 1 u32 match u32 0 0 at 0 flowid 1:1");
    assert_flows(&[&of("ip")], &tcp(0), Some(1));
    assert_flows(&[&of("0x86dd")], &tcp(0), None);
    assert_flows(&[&of("all")], &tcp(0), Some(1));
    let mixed = filters(&[&of("ip"), &of("all")]).unwrap_err();
    assert_eq!(mixed, Problem::OtherProtocol(1));
}

/// The port is found behind IP options by the length in the header.
#[test]
fn a_link_finds_the_next_header() {
    let rules = [
        "ip prio 1 handle 1: u32 divisor 1",
        "ip prio 1 u32 ht 1:: match u16 80 ffff at nexthdr+2 flowid 1:1",
        "ip prio 1 u32 match ip protocol 6 ff link 1: offset at 0 mask 0f00 shift 6",
    ];
    for option_words in 0..=10 {
        assert_flows(&rules, &tcp(option_words), Some(1));
    }
    // With `eat` the offsets of the table begin there.
    let eaten = [
        rules[0],
        "ip prio 1 u32 ht 1:: match u16 80 ffff at 2 flowid 1:1",
        "ip prio 1 u32 match ip protocol 6 ff link 1: offset at 0 mask 0f00 shift 6 eat",
    ];
    assert_flows(&eaten, &tcp(3), Some(1));
    // Who eats twice goes on from where the first one stopped.
    let twice = [
        rules[0],
        "ip prio 1 handle 2: u32 divisor 1",
        "ip prio 1 u32 ht 2:: match u16 80 ffff at 2 flowid 1:1",
        "ip prio 1 u32 ht 1:: match u32 0 0 at 0 link 2: offset plus 12 eat",
        "ip prio 1 u32 match u32 0 0 at 0 link 1: offset plus 8 eat",
    ];
    assert_flows(&twice, &tcp(0), Some(1));
    let fixed = "ip prio 1 u32 match u16 80 ffff at 22 flowid 1:1";
    assert_flows(&[fixed], &tcp(3), None);
}

#[test]
fn a_hash_key_chooses_the_bucket() {
    let rules = [
        "ip prio 1 handle 2: u32 divisor 256",
        "ip prio 1 u32 ht 2:3: match u32 0 0 at 0 flowid 1:3",
        "ip prio 1 u32 ht 2:4: match u32 0 0 at 0 flowid 1:4",
        "ip prio 1 u32 match ip dst 10.0.0.0/8 link 2: hashkey mask 0x000000ff at 16",
        "ip prio 1 u32 match u32 0 0 at 0 flowid 1:9",
    ];
    let to = |last| {
        let mut packet = tcp(0);
        packet.bytes[19] = last;
        packet
    };
    assert_flows(&rules, &to(3), Some(3));
    assert_flows(&rules, &to(4), Some(4));
    // An empty bucket leads back to the rule after the link.
    assert_flows(&rules, &to(5), Some(9));
}

#[test]
fn tables_that_lead_to_themselves_end() {
    let rules = [
        "ip prio 1 handle 1: u32 divisor 1",
        "ip prio 1 u32 ht 1:: match u32 0 0 at 0 link 1:",
        "ip prio 1 u32 ht 1:: match u32 0 0 at 0 link 1:",
        "ip prio 1 u32 match u32 0 0 at 0 link 1:",
        "ip prio 1 u32 match u32 0 0 at 0 flowid 1:1",
    ];
    assert_flows(&rules, &tcp(0), None);
}

#[test]
fn eight_links_are_followed_and_nine_are_not() {
    let chain = |links: u16| {
        let mut rules = Vec::new();
        for table in 1..=links {
            rules.push(std::format!("ip prio 1 handle {table:x}: u32 divisor 1"));
        }
        for table in 1..links {
            let next = table + 1;
            rules.push(std::format!(
                "ip prio 1 u32 ht {table:x}:: match u32 0 0 at 0 link {next:x}:"
            ));
        }
        rules.push("ip prio 1 u32 match u32 0 0 at 0 link 1:".into());
        rules.push(std::format!(
            "ip prio 1 u32 ht {links:x}:: match u32 0 0 at 0 flowid 1:1"
        ));
        rules
    };
    let eight = chain(8);
    let eight: Vec<&str> = eight.iter().map(|rule| &**rule).collect();
    assert_flows(&eight, &tcp(0), Some(1));
    let nine = chain(9);
    let nine: Vec<&str> = nine.iter().map(|rule| &**rule).collect();
    assert_flows(&nine, &tcp(0), None);
}

#[test]
fn what_does_not_fit_is_named() {
    let table = "ip prio 1 handle 2: u32 divisor 4";
    for (rules, problem) in [
        (
            &["ip prio 1 u32 match u32 0 0 at 0 link 7:"][..],
            "no table 7:",
        ),
        (
            &[table, "ip prio 1 u32 ht 2:4: match u32 0 0 at 0 flowid 1:1"],
            "no bucket 2:4:",
        ),
        (&[table, table], "table 2: exists already"),
        (
            &[
                "ip prio 1 handle ::5 u32 match u32 0 0 at 0 flowid 1:1",
                "ip prio 1 handle ::5 u32 match u32 0 0 at 0 flowid 1:2",
            ],
            "rule 800:0:5 exists already",
        ),
    ] {
        assert_eq!(filters(rules).unwrap_err().to_string(), problem);
    }
}

#[test]
fn a_handle_is_twelve_eight_and_twelve_bits() {
    let handle = NodeHandle {
        table: 0x800,
        bucket: 0x7b,
        node: 0x801,
    };
    assert_eq!(handle.to_word(), 0x8007_b801);
    assert_eq!(NodeHandle::from_word(0x8007_b801), handle);
    assert_eq!(handle.to_string(), "800:7b:801");
}

proptest! {
    /// One key, against its definition: all (word ^ value) & mask = 0.
    #[test]
    fn a_key_compares_masked_words(
        bytes in proptest::collection::vec(any::<u8>(), 0..24),
        flips in any::<u32>(),
        mask in any::<u32>(),
        offset in 0..24_usize,
    ) {
        let word = bytes.get(offset..offset + 4).map(|w| u32::from_be_bytes(w.try_into().unwrap()));
        let key = Key {
            mask,
            value: word.unwrap_or(0) ^ flips,
            offset: offset as u16,
            offset_mask: 0,
        };
        let rule = Rule {
            priority: 1,
            protocol: Protocol::All,
            bucket: None,
            node: None,
            keys: Vec::from([key]),
            target: Target::Class(Handle::new(1, 1)),
        };
        let mut filters = Filters::default();
        filters.insert(rule).unwrap();
        let found = filters.classify(&Packet { id: 0, len_bytes: 0, protocol: 0, bytes });
        let expected = mask == 0 || (word.is_some() && flips & mask == 0);
        prop_assert_eq!(found.is_some(), expected);
    }
}
