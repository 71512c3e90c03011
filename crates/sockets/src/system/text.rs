//! Short texts in buffers of a fixed size.

/// Bytes of a line at most.
pub const LINE_BYTES: usize = 512;

/// Text in a buffer of fixed size; what does not fit is cut.
pub struct Line {
    bytes: [u8; LINE_BYTES],
    len: usize,
}

impl core::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.text(text.as_bytes());
        Ok(())
    }
}

impl Line {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            bytes: [0; LINE_BYTES],
            len: 0,
        }
    }

    /// What it holds.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_and_what_does_not_fit_is_cut() {
        let mut line = Line::new();
        line.number(0);
        line.text(b" ");
        line.number(u64::MAX);
        assert_eq!(line.as_bytes(), b"0 18446744073709551615");
        line.text(&[b'x'; 2 * LINE_BYTES]);
        assert_eq!(line.as_bytes().len(), LINE_BYTES);
    }
}
