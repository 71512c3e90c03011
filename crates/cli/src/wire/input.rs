//! What is to be looked at or encoded: bytes given as hex, in a file of either kind, or a
//! capture.

use std::io::Read;
use std::path::Path;

use super::error::{Result, WireError};

/// What the argument turned out to be.
#[derive(Debug)]
pub enum Input {
    /// Bytes without a frame around them.
    Bytes(Vec<u8>),
    /// A pcap or pcapng file.
    Capture(Vec<u8>),
}

/// How capture files begin: pcapng, and pcap in both byte orders and resolutions.
const CAPTURE_MAGICS: [[u8; 4]; 5] = [
    [0x0a, 0x0d, 0x0d, 0x0a],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
];

/// Reads `-` (standard input), a file, or hex. A file that is text must be hex, one that
/// begins like a capture is one; with `is_raw` any file is taken as it stands.
pub fn read(argument: &str, is_raw: bool) -> Result<Input> {
    let path = Path::new(argument);
    if argument != "-" && !path.exists() {
        return match parse_hex(argument) {
            Ok(bytes) => Ok(Input::Bytes(bytes)),
            Err(reason) => Err(WireError::NeitherFileNorHex(argument.to_owned(), reason)),
        };
    }
    let bytes = read_file(argument)?;
    if is_raw {
        return Ok(Input::Bytes(bytes));
    }
    if is_capture(&bytes) {
        return Ok(Input::Capture(bytes));
    }
    Ok(Input::Bytes(raw_or_hex(argument, bytes)?))
}

/// What a file holds: the bytes of its hex if it is text, else its own.
fn raw_or_hex(name: &str, bytes: Vec<u8>) -> Result<Vec<u8>> {
    let Some(text) = text(&bytes) else {
        return Ok(bytes);
    };
    parse_hex(text).map_err(|reason| WireError::Hex(name.to_owned(), reason))
}

/// Bytes to be encoded: hex, or where more of it stands.
#[derive(Clone, Debug)]
pub enum Source {
    /// The bytes themselves.
    Given(Vec<u8>),
    /// In the file of this name, or for `-` on standard input.
    In(String),
}

impl Source {
    /// Hex, `-`, or `@` and the name of a file.
    pub fn parse(argument: &str) -> std::result::Result<Self, String> {
        match argument.strip_prefix('@') {
            Some(name) => Ok(Self::In(name.to_owned())),
            None if argument == "-" => Ok(Self::In(argument.to_owned())),
            None => parse_hex(argument).map(Self::Given),
        }
    }

    /// The bytes. A file that is text must be hex, unless `is_raw`.
    pub fn read(&self, is_raw: bool) -> Result<Vec<u8>> {
        match self {
            Self::Given(bytes) => Ok(bytes.clone()),
            Self::In(name) if is_raw => read_file(name),
            Self::In(name) => raw_or_hex(name, read_file(name)?),
        }
    }
}

/// The bytes as text, if people could have written them: a comment may be in any language.
fn text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_written = |char: char| char.is_whitespace() || !char.is_control();
    (!text.is_empty() && text.chars().all(is_written)).then_some(text)
}

/// Whether a file begins like a capture.
pub fn is_capture(bytes: &[u8]) -> bool {
    bytes
        .first_chunk()
        .is_some_and(|magic| CAPTURE_MAGICS.contains(magic))
}

/// The whole file, or standard input.
pub fn read_file(name: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let outcome = match name {
        "-" => std::io::stdin().read_to_end(&mut bytes).map(drop),
        _ => std::fs::read(name).map(|read| bytes = read),
    };
    outcome.map_err(|error| WireError::File(name.to_owned(), error))?;
    Ok(bytes)
}

/// Bytes from hexadecimal digits: two for a byte; spaces, line ends, `:`, `-`, `,` and `_`
/// between bytes, `0x` in front of them; `#` begins a comment. The error names the place.
pub fn parse_hex(text: &str) -> std::result::Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut high: Option<(u8, usize)> = None;
    let mut chars = text.chars().enumerate().peekable();
    while let Some((at, char)) = chars.next() {
        match char {
            '#' => while chars.next_if(|&(_, char)| char != '\n').is_some() {},
            '0' if high.is_none()
                && chars
                    .next_if(|(_, next)| matches!(next, 'x' | 'X'))
                    .is_some() => {}
            _ if is_gap(char) => no_half_byte(high, bytes.len())?,
            _ => {
                let Some(digit) = char.to_digit(16) else {
                    let byte = bytes.len();
                    return Err(format!(
                        "{char:?} at character {at} (byte {byte}) is no hex digit"
                    ));
                };
                let digit = digit as u8;
                match high.take() {
                    Some((high, _)) => bytes.push(high << 4 | digit),
                    None => high = Some((digit, at)),
                }
            }
        }
    }
    no_half_byte(high, bytes.len())?;
    Ok(bytes)
}

fn is_gap(char: char) -> bool {
    char.is_ascii_whitespace() || matches!(char, ':' | '-' | ',' | '_')
}

fn no_half_byte(high: Option<(u8, usize)>, byte: usize) -> std::result::Result<(), String> {
    match high {
        None => Ok(()),
        Some((_, at)) => Err(format!(
            "the digit at character {at} (byte {byte}) is only half a byte"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_hex;

    #[test]
    fn hex_is_taken_as_people_write_it() {
        let bytes = Ok(vec![0x0a, 0xbc, 0x0d]);
        for text in [
            "0abc0d",
            "0a bc:0D",
            "0x0a,0xbc,0x0d",
            "0X0abc-0d\n",
            "0a # ten\nbc_0d",
        ] {
            assert_eq!(parse_hex(text), bytes, "{text}");
        }
        assert_eq!(parse_hex(" \n"), Ok(vec![]));
    }

    #[test]
    fn an_error_names_the_place() {
        let place = |text: &str| parse_hex(text).unwrap_err();
        assert!(place("0a bg").contains("'g' at character 4 (byte 1)"));
        assert!(place("0a b").contains("character 3 (byte 1) is only half a byte"));
        assert!(place("0a b c").contains("character 3 (byte 1)"));
        assert!(place("0x0").contains("character 2"));
        assert!(place("f0xf").contains("'x'"));
    }
}
