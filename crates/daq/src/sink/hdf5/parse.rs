//! Object headers of version 2, read: the messages that this library writes, and no others. Everything is
//! checked against the bytes that are there.

use super::format::{
    ATTRIBUTE, DATASPACE, DATATYPE, FILL_VALUE, FRAGMENTS_MAX, GROUP_INFO, LAYOUT, LINK, LINK_INFO,
};

/// Attributes of an object at most.
const ATTRIBUTES_MAX: usize = 16;

/// What is wrong.
type Problem = String;

/// What the messages of an object header say.
#[derive(Debug, Default)]
pub(super) struct Object<'a> {
    /// Of a group: names, and where the object headers are.
    pub links: Vec<(&'a str, u64)>,
    /// Of a dataset: where its bytes are, and how many.
    layout: Option<(u64, u64)>,
    kind: Option<Kind>,
    space: Option<Space>,
    attributes: Vec<Attribute<'a>>,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A number of so many bytes.
    Number(u64),
    /// A text of so many bytes.
    Text(u64),
}

/// How many values there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    One,
    List(u64),
}

#[derive(Debug)]
struct Attribute<'a> {
    name: &'a str,
    kind: Kind,
    space: Space,
    values: &'a [u8],
}

impl Kind {
    /// Bytes of the values in `space`; `None` if there are more than can be.
    fn bytes_of(self, space: Space) -> Option<u64> {
        let (Self::Number(width) | Self::Text(width)) = self;
        match space {
            Space::One => Some(width),
            Space::List(count) => count.checked_mul(width),
        }
    }
}

/// Bytes that are taken from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Problem> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| {
            let there = self.0.len();
            format!("a message in it is cut: {there} bytes in place of {count}")
        })?;
        self.0 = rest;
        Ok(taken)
    }

    /// A number of at most 8 bytes.
    fn number(&mut self, width: usize) -> Result<u64, Problem> {
        Ok(number_in(self.take(width)?))
    }

    fn expect(&mut self, expected: &[u8], what: &str) -> Result<(), Problem> {
        match self.take(expected.len())? == expected {
            true => Ok(()),
            false => Err(format!("a {what} in it is not as this library writes it")),
        }
    }
}

/// The number in at most 8 bytes.
fn number_in(bytes: &[u8]) -> u64 {
    let mut number = [0; 8];
    number[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(number)
}

impl<'a> Object<'a> {
    /// What the messages in `bytes` say.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Problem> {
        let mut object = Self::default();
        let mut bytes = Bytes(bytes);
        while !bytes.0.is_empty() {
            let kind = bytes.number(1)?;
            let len = bytes.number(2)? as usize;
            bytes.number(1)?;
            object.add(kind as u8, Bytes(bytes.take(len)?))?;
        }
        Ok(object)
    }

    fn add(&mut self, kind: u8, mut message: Bytes<'a>) -> Result<(), Problem> {
        match kind {
            LINK_INFO | GROUP_INFO | FILL_VALUE => return Ok(()),
            DATASPACE => self.space = Some(space(&mut message)?),
            DATATYPE => self.kind = Some(datatype(&mut message)?),
            LAYOUT => {
                message.expect(&[3, 1], "layout")?;
                self.layout = Some((message.number(8)?, message.number(8)?));
            }
            LINK => {
                message.expect(&[1, 0], "link")?;
                let len = message.number(1)? as usize;
                let name = name_in(message.take(len)?)?;
                self.links.push((name, message.number(8)?));
            }
            ATTRIBUTE => {
                let attribute = attribute(&mut message)?;
                self.attributes.push(attribute);
            }
            _ => return Err(format!("it has a message of the unknown kind {kind}")),
        }
        if self.links.len() > FRAGMENTS_MAX || self.attributes.len() > ATTRIBUTES_MAX {
            return Err("it has too many links or attributes".to_owned());
        }
        match message.0.is_empty() {
            true => Ok(()),
            false => Err(format!("a message in it of kind {kind} is too long")),
        }
    }

    /// Whether there is such an attribute.
    pub fn has(&self, name: &str) -> bool {
        self.attributes.iter().any(|it| it.name == name)
    }

    fn values_of(&self, name: &str) -> Result<&Attribute<'a>, Problem> {
        let found = self.attributes.iter().find(|it| it.name == name);
        found.ok_or_else(|| format!("it has no attribute {name}"))
    }

    /// The attribute that is a number of so many bytes.
    pub fn number(&self, name: &str, width: u8) -> Result<u64, Problem> {
        let found = self.values_of(name)?;
        match (found.kind, found.space) {
            (Kind::Number(found_width), Space::One) if found_width == u64::from(width) => {
                Ok(number_in(found.values))
            }
            _ => Err(format!(
                "its attribute {name} is no number of {width} bytes"
            )),
        }
    }

    /// The attribute that is a list of numbers of 2 bytes each.
    pub fn shorts(&self, name: &str) -> Result<impl Iterator<Item = u16> + use<'a>, Problem> {
        let found = self.values_of(name)?;
        match (found.kind, found.space) {
            (Kind::Number(2), Space::List(_)) => {
                let values = found.values.chunks_exact(2);
                Ok(values.map(|it| u16::from_le_bytes([it[0], it[1]])))
            }
            _ => Err(format!(
                "its attribute {name} is no list of numbers of 2 bytes"
            )),
        }
    }

    /// The attribute that is a text.
    pub fn text(&self, name: &str) -> Result<String, Problem> {
        let found = self.values_of(name)?;
        let text = match (found.kind, found.space) {
            (Kind::Text(_), Space::One) => text_in(found.values),
            _ => None,
        };
        text.ok_or_else(|| format!("its attribute {name} is no text"))
    }

    /// Where the link of this name leads.
    pub fn link(&self, name: &str) -> Result<u64, Problem> {
        let found = self.links.iter().find(|it| it.0 == name);
        let found = found.ok_or_else(|| format!("it has no link {name}"))?;
        Ok(found.1)
    }

    /// Of a dataset that is a list of bytes: where they are, and how many.
    pub fn byte_list(&self) -> Result<(u64, u64), Problem> {
        match (self.kind, self.space, self.layout) {
            (Some(Kind::Number(1)), Some(Space::List(count)), Some((at, bytes)))
                if count == bytes =>
            {
                Ok((at, bytes))
            }
            _ => Err("it is no list of bytes, or its length is not that of its bytes".to_owned()),
        }
    }

    /// Of a dataset that is a text: where its bytes are, and how many.
    pub fn text_bytes(&self) -> Result<(u64, u64), Problem> {
        match (self.kind, self.space, self.layout) {
            (Some(Kind::Text(count)), Some(Space::One), Some((at, bytes))) if count == bytes => {
                Ok((at, bytes))
            }
            _ => Err("it is no text, or its length is not that of its bytes".to_owned()),
        }
    }
}

/// The text in these bytes, a zero for one of no length; `None` if they are none.
pub(super) fn text_in(bytes: &[u8]) -> Option<String> {
    match bytes {
        [0] => Some(String::new()),
        _ => Some(core::str::from_utf8(bytes).ok()?.to_owned()),
    }
}

fn name_in(bytes: &[u8]) -> Result<&str, Problem> {
    core::str::from_utf8(bytes).map_err(|_| "a name in it is no text".to_owned())
}

fn space(bytes: &mut Bytes<'_>) -> Result<Space, Problem> {
    bytes.expect(&[2], "dataspace")?;
    let begin = bytes.take(3)?;
    match begin {
        [0, 0, 0] => Ok(Space::One),
        [1, 0, 1] => Ok(Space::List(bytes.number(8)?)),
        _ => Err("a dataspace in it is not as this library writes it".to_owned()),
    }
}

fn datatype(bytes: &mut Bytes<'_>) -> Result<Kind, Problem> {
    let begin = bytes.take(4)?;
    let size = bytes.number(4)?;
    match begin {
        [0x10, 0, 0, 0] if matches!(size, 1 | 2 | 4 | 8) => {
            bytes.expect(&[0, 0, 8 * size as u8, 0], "datatype")?;
            Ok(Kind::Number(size))
        }
        [0x13, 0x11, 0, 0] if size > 0 => Ok(Kind::Text(size)),
        _ => Err("a datatype in it is not as this library writes it".to_owned()),
    }
}

fn attribute<'a>(bytes: &mut Bytes<'a>) -> Result<Attribute<'a>, Problem> {
    bytes.expect(&[3, 0], "attribute")?;
    let name_bytes = bytes.number(2)? as usize;
    let kind_bytes = bytes.number(2)? as usize;
    let space_bytes = bytes.number(2)? as usize;
    bytes.expect(&[0], "attribute")?;
    let name = bytes.take(name_bytes)?;
    let name = name_in(name.strip_suffix(&[0]).unwrap_or(name))?;
    let mut kind = Bytes(bytes.take(kind_bytes)?);
    let mut room = Bytes(bytes.take(space_bytes)?);
    let (kind, space) = (datatype(&mut kind)?, space(&mut room)?);
    let values = core::mem::take(&mut bytes.0);
    match kind.bytes_of(space) == Some(values.len() as u64) {
        true => Ok(Attribute {
            name,
            kind,
            space,
            values,
        }),
        false => Err(format!("its attribute {name} has a wrong length")),
    }
}
