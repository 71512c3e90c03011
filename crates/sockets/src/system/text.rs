//! Short texts in buffers of a fixed size.

use core::ffi::{CStr, c_int};

/// Bytes of a line at most.
pub const LINE_BYTES: usize = 512;

/// Text in a buffer of fixed size; what does not fit is cut.
pub struct Line<const BYTES: usize = LINE_BYTES> {
    bytes: [u8; BYTES],
    len: usize,
}

impl<const BYTES: usize> core::fmt::Write for Line<BYTES> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.text(text.as_bytes());
        Ok(())
    }
}

impl<const BYTES: usize> Line<BYTES> {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            bytes: [0; BYTES],
            len: 0,
        }
    }

    /// What it holds.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// It as a path, if a zero was added; nothing otherwise.
    pub fn as_path(&self) -> &CStr {
        CStr::from_bytes_until_nul(self.as_bytes()).unwrap_or(c"")
    }

    /// Ends the line. If it was cut, its last byte is the end.
    pub fn end(&mut self) {
        match self.bytes.get_mut(..self.len) {
            Some([.., b'\n']) => {}
            Some([.., last]) if self.len == BYTES => *last = b'\n',
            _ => self.text(b"\n"),
        }
    }

    /// Adds bytes.
    pub fn text(&mut self, text: &[u8]) {
        for &byte in text {
            if let Some(place) = self.bytes.get_mut(self.len) {
                *place = byte;
                self.len += 1;
            }
        }
    }

    /// Adds a number, in decimal digits.
    pub fn number(&mut self, mut value: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                break;
            }
        }
        self.text(&digits[at..]);
    }
}

/// The link in `/proc` to what a descriptor of this process is.
pub fn link_of(fd: c_int) -> Line<32> {
    let mut path = Line::new();
    path.text(b"/proc/self/fd/");
    path.number(u64::from(fd.unsigned_abs()));
    path.text(&[0]);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_and_what_does_not_fit_is_cut() {
        let mut line = Line::<LINE_BYTES>::new();
        line.number(0);
        line.text(b" ");
        line.number(u64::MAX);
        assert_eq!(line.as_bytes(), b"0 18446744073709551615");
        line.text(&[b'x'; 2 * LINE_BYTES]);
        assert_eq!(line.as_bytes().len(), LINE_BYTES);
        line.end();
        assert_eq!(line.as_bytes()[LINE_BYTES - 2..], *b"x\n");
        let mut short = Line::<4>::new();
        short.end();
        short.end();
        assert_eq!(short.as_bytes(), b"\n");
    }
}
