//! Commands as text that parses to the same commands.

use core::fmt;

use barewire_units::{ByteSize, Rate as BitRate};

use super::super::qdisc::{ETHERTYPE_IPV4, Limit};
use super::super::u32::{Key, Offset, Protocol, Rule, Table, Target};
use super::super::{cbq, htb, tbf};
use super::command::{ClassConfig, Command, FilterConfig, Parent, QdiscConfig};

/// A rate in the largest decimal unit that leaves no fraction.
struct Rate(BitRate);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bps = self.0.as_bps();
        let units = [
            (1_000_000_000, "Gbit"),
            (1_000_000, "Mbit"),
            (1_000, "Kbit"),
        ];
        let (scale, unit) = units
            .into_iter()
            .find(|(scale, _)| bps % scale == 0)
            .unwrap_or((1, "bit"));
        write!(f, "{}{unit}", bps / scale)
    }
}

/// A size in Kb of 1024 bytes where that leaves no fraction.
struct Size(ByteSize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_bytes() {
            0 => f.write_str("0b"),
            bytes if bytes % 1024 == 0 => write!(f, "{}Kb", bytes / 1024),
            bytes => write!(f, "{bytes}b"),
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Qdisc {
                device,
                parent,
                handle,
                config,
            } => {
                write!(f, "tc qdisc add dev {device} {parent} ")?;
                if let Some(handle) = handle {
                    write!(f, "handle {handle} ")?;
                }
                write!(f, "{config}")
            }
            Self::Class {
                device,
                parent,
                id,
                config,
            } => write!(
                f,
                "tc class add dev {device} parent {parent} classid {id} {config}"
            ),
            Self::Filter {
                device,
                parent,
                config,
            } => write!(f, "tc filter add dev {device} parent {parent} {config}"),
        }
    }
}

impl fmt::Display for Parent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("root"),
            Self::Class(class) => write!(f, "parent {class}"),
        }
    }
}

impl fmt::Display for QdiscConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo(Limit::Packets(packets)) => write!(f, "pfifo limit {packets}"),
            Self::Fifo(Limit::Bytes(bytes)) => write!(f, "bfifo limit {}", Size(*bytes)),
            Self::Tbf(config) => write_tbf(f, config),
            Self::Cbq(config) => write!(
                f,
                "cbq bandwidth {} avpkt {} cell {} mpu {} ewma {}",
                Rate(config.bandwidth),
                Size(config.avpkt),
                config.cell,
                Size(config.mpu),
                config.ewma_log2
            ),
            Self::Htb(config) => {
                let default = config.default_minor;
                write!(f, "htb default {default:x} r2q {}", config.r2q)
            }
        }
    }
}

fn write_tbf(f: &mut fmt::Formatter<'_>, config: &tbf::Config) -> fmt::Result {
    let (rate, burst, limit) = (Rate(config.rate), Size(config.burst), Size(config.limit));
    write!(f, "tbf rate {rate} burst {burst} limit {limit}")?;
    match config.peak {
        Some(peak) => write!(f, " peakrate {} mtu {}", Rate(peak.rate), Size(peak.mtu)),
        None => Ok(()),
    }
}

impl fmt::Display for ClassConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cbq(config) => write_cbq(f, config),
            Self::Htb(config) => write_htb(f, config),
        }
    }
}

fn write_cbq(f: &mut fmt::Formatter<'_>, config: &cbq::ClassConfig) -> fmt::Result {
    write!(
        f,
        "cbq bandwidth {} rate {} allot {} weight {} prio {} cell {} maxburst {} minburst {}",
        Rate(config.bandwidth),
        Rate(config.rate),
        Size(config.allot),
        Rate(config.weight),
        config.priority,
        config.cell,
        config.maxburst,
        config.minburst,
    )?;
    if let Some(us) = config.minidle_us {
        write!(f, " minidle {us}")?;
    }
    let (avpkt, mpu) = (Size(config.avpkt), Size(config.mpu));
    write!(f, " avpkt {avpkt} ewma {} mpu {mpu}", config.ewma_log2)?;
    f.write_str(if config.bounded { " bounded" } else { "" })?;
    f.write_str(if config.isolated { " isolated" } else { "" })
}

fn write_htb(f: &mut fmt::Formatter<'_>, config: &htb::ClassConfig) -> fmt::Result {
    write!(
        f,
        "htb rate {} ceil {} burst {} cburst {} prio {}",
        Rate(config.rate),
        Rate(config.ceil),
        Size(config.burst),
        Size(config.cburst),
        config.priority,
    )?;
    match config.quantum_bytes {
        Some(quantum) => write!(f, " quantum {quantum}"),
        None => Ok(()),
    }
}

impl fmt::Display for FilterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => write_rule(f, rule),
            Self::Table(Table {
                priority,
                protocol,
                number,
                divisor,
            }) => write!(
                f,
                "protocol {protocol} prio {priority} handle {number:x}: u32 divisor {divisor}"
            ),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::EtherType(ETHERTYPE_IPV4) => f.write_str("ip"),
            Self::EtherType(number) => write!(f, "{number:#06x}"),
        }
    }
}

fn write_rule(f: &mut fmt::Formatter<'_>, rule: &Rule) -> fmt::Result {
    write!(f, "protocol {} prio {}", rule.protocol, rule.priority)?;
    if let Some(node) = rule.node {
        write!(f, " handle ::{node:x}")?;
    }
    f.write_str(" u32")?;
    if let Some((table, bucket)) = rule.bucket {
        write!(f, " ht {table:x}:{bucket:x}:")?;
    }
    rule.keys.iter().try_for_each(|key| write!(f, " {key}"))?;
    write!(f, " {}", rule.target)
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = match self.offset_mask {
            0 => "",
            _ => "nexthdr+",
        };
        let (value, mask, offset) = (self.value, self.mask, self.offset);
        write!(f, "match u32 {value:#010x} {mask:#010x} at {from}{offset}")
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class(id) => write!(f, "flowid {id}"),
            Self::Link {
                table,
                hash_key,
                offset,
            } => {
                write!(f, "link {table:x}:")?;
                if let Some(key) = hash_key {
                    write!(f, " hashkey mask {:#010x} at {}", key.mask, key.offset)?;
                }
                offset.map_or(Ok(()), |offset| write!(f, " {offset}"))
            }
        }
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plus, at, mask, shift) = (self.plus, self.at, self.mask, self.shift);
        write!(
            f,
            "offset plus {plus} at {at} mask {mask:#06x} shift {shift}"
        )?;
        f.write_str(if self.eat { " eat" } else { "" })
    }
}
