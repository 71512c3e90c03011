//! The u32 classifier: masked 32-bit words of the packet choose the class.
//!
//! ```text
//! handle of a rule    | 31..20 table | 19..12 bucket | 11..0 node |   800:7b:801
//! key                 mask, value, offset, offset mask; matches if
//!                     (word at base + offset + (shift & offset mask) ^ value) & mask = 0
//! rule                up to 128 keys, all of which must match; then a class or a link
//! table               1 to 256 buckets (a power of two), each a list of rules by node number
//! ```
//!
//! | step | rule |
//! |---|---|
//! | start | filters of the packet's protocol, or of any, by priority; each begins at bucket 0 of its root table, base 0, shift 0 |
//! | rule with a class matches | that is the class |
//! | rule with a link matches | go on in the linked table, in the bucket that the hash key gives; the rule's offset becomes the new shift, or with `eat` the new base |
//! | table at its end | back to the rule after the link, with its base; at the top, the next filter |
//! | word outside the packet | does not match, unless the mask is zero |
//! | more than 8 links deep, or more than [`VISITS_MAX`] rules looked at | no class |
//!
//! Words are big-endian, offsets count from the network header. The offset of a
//! rule is plus + ((16-bit word at `at` & mask) >> shift), rounded up to words.
//!
//! Source: linux-tc (tc-u32 manual page).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::handle::Handle;
pub use super::handle::NodeHandle;
use super::problem::Problem;
use super::qdisc::Packet;

/// Keys of one rule.
pub const KEYS_MAX: usize = 128;
/// Links that are followed into one another.
pub const LINK_DEPTH_MAX: usize = 8;
/// Rules looked at for one packet: bounds tables that link to one another.
pub const VISITS_MAX: usize = 4_096;
/// Buckets of a table.
pub const BUCKETS_MAX: u16 = 256;
/// Number of the first root table, and of the first node in a bucket.
pub const FIRST_NUMBER: u16 = 0x800;
/// Largest number of a table or a node: 12 bits.
pub const NUMBER_MAX: u16 = 0xfff;

/// One comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Bits that count.
    pub mask: u32,
    /// What they must be.
    pub value: u32,
    /// Where the word begins, in bytes from the base.
    pub offset: u16,
    /// Bits of the shift of the last link that are added to the offset. The text
    /// form knows none (0) and all of them (`nexthdr+`).
    pub offset_mask: u32,
}

/// Which protocol a filter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Every packet.
    All,
    /// Packets of this EtherType.
    EtherType(u16),
}

/// How the bucket of a linked table is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashKey {
    /// Bits that make the number, shifted down to bit 0.
    pub mask: u32,
    /// Where the word begins, in bytes from the base.
    pub offset: u16,
}

/// Where the header of the next protocol begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    /// Bytes always added.
    pub plus: u16,
    /// Where the 16-bit word with the length stands, if there is one.
    pub at: u16,
    /// Bits of it that count; 0 for none.
    pub mask: u16,
    /// Shifted down by this, 0 to 15.
    pub shift: u8,
    /// Becomes the base, not the shift.
    pub eat: bool,
}

/// Where a rule leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To this class.
    Class(Handle),
    /// To another table.
    Link {
        /// The table.
        table: u16,
        /// How to choose the bucket; without it, bucket 0.
        hash_key: Option<HashKey>,
        /// Where the offsets of the table count from.
        offset: Option<Offset>,
    },
}

/// A rule, as a command gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Filters with lower numbers are asked first.
    pub priority: u16,
    /// The protocol of the filter.
    pub protocol: Protocol,
    /// Table and bucket; without it, bucket 0 of the root table of the filter.
    pub bucket: Option<(u16, u8)>,
    /// Node in the bucket; without it, the first free one from 800 on.
    pub node: Option<u16>,
    /// All must match.
    pub keys: Vec<Key>,
    /// Where it leads.
    pub target: Target,
}

/// A hash table, as a command gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// The priority of the filter that it is made for.
    pub priority: u16,
    /// The protocol of the filter.
    pub protocol: Protocol,
    /// Its number, 1 to 7ff.
    pub number: u16,
    /// Buckets: a power of two up to 256.
    pub divisor: u16,
}

#[derive(Clone, Debug)]
struct Entry {
    keys: Vec<Key>,
    target: Target,
}

type Bucket = BTreeMap<u16, Entry>;

#[derive(Clone, Debug)]
struct Filter {
    priority: u16,
    protocol: Protocol,
    root: u16,
}

/// All filters of one discipline or class.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// By priority.
    filters: Vec<Filter>,
    tables: BTreeMap<u16, Vec<Bucket>>,
}

/// Where a walk is.
#[derive(Clone, Copy)]
struct Place {
    table: u16,
    bucket: u8,
    /// The next node to look at.
    node: u16,
    base: usize,
    shift: u32,
}

impl Filters {
    /// The class of `packet`, if a filter knows it.
    #[must_use]
    pub fn classify(&self, packet: &Packet) -> Option<Handle> {
        let mut visits = 0;
        for filter in &self.filters {
            let wanted = match filter.protocol {
                Protocol::All => true,
                Protocol::EtherType(number) => number == packet.protocol,
            };
            if !wanted {
                continue;
            }
            let found = self.walk(filter.root, &packet.bytes, &mut visits);
            if found.is_some() || visits > VISITS_MAX {
                return found;
            }
        }
        None
    }

    fn walk(&self, root: u16, bytes: &[u8], visits: &mut usize) -> Option<Handle> {
        let mut above = Vec::new();
        let mut at = Place {
            table: root,
            bucket: 0,
            node: 0,
            base: 0,
            shift: 0,
        };
        loop {
            let Some((node, entry)) = self.next_match(at, bytes, visits) else {
                at = above.pop()?;
                continue;
            };
            match entry.target {
                Target::Class(id) => return Some(id),
                Target::Link { .. } if above.len() == LINK_DEPTH_MAX => {
                    // Tables that lead to themselves: give up on the packet.
                    *visits = VISITS_MAX + 1;
                    return None;
                }
                Target::Link {
                    table,
                    hash_key,
                    offset,
                } => {
                    above.push(Place {
                        node: node + 1,
                        ..at
                    });
                    let bucket = self.bucket_of(table, hash_key, at.base, bytes);
                    at = linked(at, table, bucket, offset, bytes);
                }
            }
        }
    }

    /// The first rule of the bucket from `at` on that matches.
    fn next_match(&self, at: Place, bytes: &[u8], visits: &mut usize) -> Option<(u16, &Entry)> {
        let bucket = self.tables.get(&at.table)?.get(usize::from(at.bucket))?;
        for (&node, entry) in bucket.range(at.node..) {
            *visits += 1;
            if *visits > VISITS_MAX {
                return None;
            }
            if entry.keys.iter().all(|key| key.matches(at, bytes)) {
                return Some((node, entry));
            }
        }
        None
    }

    fn bucket_of(&self, table: u16, key: Option<HashKey>, base: usize, bytes: &[u8]) -> u8 {
        let buckets = self.tables.get(&table).map_or(1, Vec::len);
        let Some(key) = key else {
            return 0;
        };
        let word = word_at(bytes, base + usize::from(key.offset)).unwrap_or(0);
        let folded = (word & key.mask)
            .checked_shr(key.mask.trailing_zeros())
            .unwrap_or(0);
        // At most 256 buckets, so the number fits.
        (folded as usize & (buckets - 1)) as u8
    }

    /// Adds a rule.
    ///
    /// # Errors
    ///
    /// No such table or bucket, a name that is taken, no room, a filter of the
    /// same priority for another protocol.
    pub fn insert(&mut self, rule: Rule) -> Result<(), Problem> {
        if let Target::Link { table, .. } = rule.target {
            if !self.tables.contains_key(&table) {
                return Err(Problem::NoSuchLink(table));
            }
        }
        let root = self.root_table(rule.priority, rule.protocol)?;
        let (table, bucket) = rule.bucket.unwrap_or((root, 0));
        let buckets = self.tables.get_mut(&table);
        let list = buckets
            .and_then(|buckets| buckets.get_mut(usize::from(bucket)))
            .ok_or(Problem::NoSuchBucket { table, bucket })?;
        let node = match rule.node {
            Some(node) => node & NUMBER_MAX,
            None => (FIRST_NUMBER..=NUMBER_MAX)
                .find(|node| !list.contains_key(node))
                .ok_or(Problem::BucketFull { table, bucket })?,
        };
        if list.contains_key(&node) {
            let taken = NodeHandle {
                table,
                bucket,
                node,
            };
            return Err(Problem::RuleTaken(taken));
        }
        let entry = Entry {
            keys: rule.keys,
            target: rule.target,
        };
        list.insert(node, entry);
        Ok(())
    }

    /// Adds a table.
    ///
    /// # Errors
    ///
    /// The number is taken, or a filter of the same priority is for another
    /// protocol.
    pub fn insert_table(&mut self, table: Table) -> Result<(), Problem> {
        self.root_table(table.priority, table.protocol)?;
        let number = table.number & NUMBER_MAX;
        if self.tables.contains_key(&number) {
            return Err(Problem::TableTaken(number));
        }
        let divisor = table.divisor.clamp(1, BUCKETS_MAX).next_power_of_two();
        let buckets = alloc::vec![Bucket::new(); usize::from(divisor)];
        self.tables.insert(number, buckets);
        Ok(())
    }

    /// The root table of the filter, which is made if it is new.
    fn root_table(&mut self, priority: u16, protocol: Protocol) -> Result<u16, Problem> {
        if let Some(known) = self.filters.iter().find(|f| f.priority == priority) {
            return match known.protocol == protocol {
                true => Ok(known.root),
                false => Err(Problem::OtherProtocol(priority)),
            };
        }
        let root = (FIRST_NUMBER..=NUMBER_MAX)
            .find(|number| !self.tables.contains_key(number))
            .ok_or(Problem::TooManyFilters)?;
        self.tables.insert(root, Vec::from([Bucket::new()]));
        let place = self.filters.partition_point(|f| f.priority < priority);
        let filter = Filter {
            priority,
            protocol,
            root,
        };
        self.filters.insert(place, filter);
        Ok(root)
    }
}

impl Key {
    fn matches(&self, at: Place, bytes: &[u8]) -> bool {
        if self.mask == 0 {
            return true;
        }
        let shift = at.shift & self.offset_mask;
        let offset = at.base + usize::from(self.offset) + shift as usize;
        word_at(bytes, offset).is_some_and(|word| (word ^ self.value) & self.mask == 0)
    }
}

/// Where the walk goes on after a link.
fn linked(at: Place, table: u16, bucket: u8, offset: Option<Offset>, bytes: &[u8]) -> Place {
    let mut next = Place {
        table,
        bucket,
        node: 0,
        ..at
    };
    let Some(offset) = offset else {
        return next;
    };
    let length = half_at(bytes, at.base + usize::from(offset.at)).unwrap_or(0);
    let length = u32::from((length & offset.mask) >> offset.shift.min(15));
    let shift = (u32::from(offset.plus) + length).next_multiple_of(4);
    if offset.eat {
        next.base = at.base + shift as usize;
        next.shift = 0;
    } else {
        next.shift = shift;
    }
    next
}

fn word_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let word = bytes.get(offset..offset + 4)?;
    word.try_into().ok().map(u32::from_be_bytes)
}

fn half_at(bytes: &[u8], offset: usize) -> Option<u16> {
    let half = bytes.get(offset..offset + 2)?;
    half.try_into().ok().map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests;
