//! What HDF5 files are made of: numbers of the format, object headers of version 2, and its check code.

use core::cmp::Ordering;

pub(super) const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";
pub(super) const SUPERBLOCK_BYTES: usize = 48;
/// Version 2; addresses and lengths of 8 bytes; no flags.
pub(super) const SUPERBLOCK_VERSION: [u8; 4] = [2, 8, 8, 0];
/// No address.
pub(super) const NOWHERE: u64 = u64::MAX;
/// Names in a symbol table node, and children of a node of the B-tree: twice the format's
/// defaults of 4 and 16, which hold where the superblock does not say otherwise.
pub(super) const NAMES_MAX: usize = 8;
pub(super) const CHILDREN_MAX: usize = 32;
/// A node of the B-tree, with room for all its children.
pub(super) const NODE_BYTES: usize = 24 + 8 * (2 * CHILDREN_MAX + 1);
pub(super) const NODE_BEGIN: &[u8; 5] = b"TREE\0";
/// A symbol table node: its head, and each of its entries.
pub(super) const LEAF_HEAD_BYTES: usize = 8;
pub(super) const LEAF_ENTRY_BYTES: usize = 40;
pub(super) const LEAF_BYTES: usize = LEAF_HEAD_BYTES + NAMES_MAX * LEAF_ENTRY_BYTES;
pub(super) const LEAF_BEGIN: &[u8; 6] = b"SNOD\x01\0";
pub(super) const HEAP_BYTES: usize = 32;
pub(super) const HEAP_BEGIN: &[u8; 8] = b"HEAP\0\0\0\0";
/// Bytes of names before the first one of an event: the empty name comes first.
pub(super) const FIRST_NAME_AT: u64 = 8;
/// The object header of the table, of version 1, up to the addresses of tree and heap: one message.
pub(super) const TABLE_BEGIN: &[u8; 24] =
    b"\x01\0\x01\0\x01\0\0\0\x18\0\0\0\0\0\0\0\x11\0\x10\0\0\0\0\0";
pub(super) const TABLE_BYTES: usize = TABLE_BEGIN.len() + 16;
/// Version 2; the size of what follows has 4 bytes.
pub(super) const OBJECT_BEGIN: &[u8; 6] = b"OHDR\x02\x02";
/// What begins an object header, with that size.
pub(super) const OBJECT_HEAD_BYTES: usize = 10;

/// Fragments of an event at most: the list of their sources is an attribute, which is shorter than 64 KiB.
pub(super) const FRAGMENTS_MAX: usize = 32_000;
/// A version is text of so many bytes at most.
pub(super) const VERSION_BYTES_MAX: usize = 1024;

pub(super) const DATASPACE: u8 = 0x01;
pub(super) const LINK_INFO: u8 = 0x02;
pub(super) const DATATYPE: u8 = 0x03;
pub(super) const FILL_VALUE: u8 = 0x05;
pub(super) const LINK: u8 = 0x06;
pub(super) const LAYOUT: u8 = 0x08;
pub(super) const GROUP_INFO: u8 = 0x0a;
pub(super) const ATTRIBUTE: u8 = 0x0c;

/// The name of the group of an event.
pub(super) fn name_of(event: u64) -> String {
    format!("{event:012}")
}

/// In which order the names of two events stand: that of their text.
pub(super) fn compare_names(one: u64, other: u64) -> Ordering {
    // Those of 12 digits are as their numbers are.
    match one.max(other) < 1_000_000_000_000 {
        true => one.cmp(&other),
        false => name_of(one).cmp(&name_of(other)),
    }
}

/// Bytes of a name in the heap: a zero at least is behind it.
pub(super) const fn name_bytes(name: &str) -> usize {
    (name.len() + 1).next_multiple_of(8)
}

/// An object header of version 2.
#[derive(Default)]
pub(super) struct Header {
    messages: Vec<u8>,
}

impl Header {
    /// That of a group whose links stand in it.
    pub(super) fn group(links: &[(String, u64)]) -> Self {
        let mut header = Self::default();
        let mut info = vec![0, 0];
        // Neither heap nor tree: the links stand here.
        info.extend([0xff; 16]);
        header.message(LINK_INFO, &info);
        header.message(GROUP_INFO, &[0, 0]);
        for (name, at) in links {
            // Version 1; one byte for the length of the name; a hard link.
            let mut link = vec![1, 0, name.len() as u8];
            link.extend(name.as_bytes());
            link.extend(at.to_le_bytes());
            header.message(LINK, &link);
        }
        header
    }

    pub(super) fn message(&mut self, kind: u8, data: &[u8]) {
        debug_assert!(
            u16::try_from(data.len()).is_ok(),
            "a message is shorter than 64 KiB"
        );
        self.messages.push(kind);
        self.messages.extend((data.len() as u16).to_le_bytes());
        self.messages.push(0);
        self.messages.extend_from_slice(data);
    }

    /// An attribute that is a number of so many bytes.
    pub(super) fn number(&mut self, name: &str, value: u64, width: u8) {
        self.numbers_in(name, &dataspace(None), core::iter::once(value), width);
    }

    /// An attribute that is a list of numbers.
    pub(super) fn numbers(
        &mut self,
        name: &str,
        values: impl ExactSizeIterator<Item = u64>,
        width: u8,
    ) {
        let space = dataspace(Some(values.len() as u64));
        self.numbers_in(name, &space, values, width);
    }

    fn numbers_in(
        &mut self,
        name: &str,
        space: &[u8],
        values: impl Iterator<Item = u64>,
        width: u8,
    ) {
        let mut bytes = Vec::new();
        for value in values {
            bytes.extend(&value.to_le_bytes()[..usize::from(width)]);
        }
        self.attribute(name, space, &unsigned(width), &bytes);
    }

    /// An attribute that is a text.
    pub(super) fn text(&mut self, name: &str, value: &str) {
        let datatype = text(value.len());
        let mut value = Vec::from(value);
        value.resize(value.len().max(1), 0);
        self.attribute(name, &dataspace(None), &datatype, &value);
    }

    fn attribute(&mut self, name: &str, space: &[u8], datatype: &[u8], value: &[u8]) {
        // Version 3, no flags.
        let mut data = vec![3, 0];
        for len in [name.len() + 1, datatype.len(), space.len()] {
            data.extend((len as u16).to_le_bytes());
        }
        // ASCII; the name ends with a zero.
        data.push(0);
        data.extend(name.as_bytes());
        data.push(0);
        data.extend(datatype);
        data.extend(space);
        data.extend(value);
        self.message(ATTRIBUTE, &data);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        let mut header = OBJECT_BEGIN.to_vec();
        header.extend((self.messages.len() as u32).to_le_bytes());
        header.extend(self.messages);
        header.extend(lookup3(&header).to_le_bytes());
        header
    }
}

/// A dataspace of version 2: one value, or a list of so many.
pub(super) fn dataspace(count: Option<u64>) -> Vec<u8> {
    let Some(count) = count else {
        return vec![2, 0, 0, 0];
    };
    let mut space = vec![2, 1, 0, 1];
    space.extend(count.to_le_bytes());
    space
}

/// The datatype, version 1, of an unsigned little-endian number of so many bytes.
pub(super) fn unsigned(width: u8) -> [u8; 12] {
    [0x10, 0, 0, 0, width, 0, 0, 0, 0, 0, 8 * width, 0]
}

/// The datatype, version 1, of a text in UTF-8 of so many bytes. The format has none of no length: that
/// is a zero.
pub(super) fn text(bytes: usize) -> Vec<u8> {
    let mut datatype = vec![0x13, 0x11, 0, 0];
    datatype.extend((bytes.max(1) as u32).to_le_bytes());
    datatype
}

/// The check code of the format: Bob Jenkins' `lookup3`, with 0 to begin with.
#[must_use]
pub fn lookup3(bytes: &[u8]) -> u32 {
    let begin = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let (mut a, mut b, mut c) = (begin, begin, begin);
    let mut rest = bytes;
    while rest.len() > 12 {
        let (block, after) = rest.split_at(12);
        add(block, &mut a, &mut b, &mut c);
        for (turn_a, turn_b, turn_c) in [(4, 6, 8), (16, 19, 4)] {
            a = a.wrapping_sub(c) ^ c.rotate_left(turn_a);
            c = c.wrapping_add(b);
            b = b.wrapping_sub(a) ^ a.rotate_left(turn_b);
            a = a.wrapping_add(c);
            c = c.wrapping_sub(b) ^ b.rotate_left(turn_c);
            b = b.wrapping_add(a);
        }
        rest = after;
    }
    if rest.is_empty() {
        return c;
    }
    add(rest, &mut a, &mut b, &mut c);
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

/// Adds up to 12 bytes, as if zeros followed.
fn add(bytes: &[u8], a: &mut u32, b: &mut u32, c: &mut u32) {
    let mut block = [0; 12];
    block[..bytes.len()].copy_from_slice(bytes);
    let word =
        |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    *a = a.wrapping_add(word(0));
    *b = b.wrapping_add(word(4));
    *c = c.wrapping_add(word(8));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_code_is_that_of_lookup3() {
        // From the driver at the end of the author's lookup3.c.
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
