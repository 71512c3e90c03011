//! The head line of a direction: one cache line with HEAD and copies of short bytes, which move together.
//!
//! Words of direction 0; those of direction 1 lie two lines behind, since some processors fetch lines in pairs.
//!
//! | word | what | if HEAD says dated |
//! |---|---|---|
//! | 128 | HEAD | HEAD |
//! | 129 | SEEN | SEEN |
//! | 130, 131 | short bytes 0 to 15 | SINCE, KERNEL |
//! | 132 to 135 | short bytes 16 to 47 | short bytes 0 to 31 |
//!
//! HEAD, from the lowest bit: 56 bits for the number of bytes that were ever put into the ring, 7 bits for the number of
//! short bytes (the last of them), 1 bit for dated. Source: own design (`docs/decisions/0031`).

/// The first word of the head lines.
pub const HEAD_LINES: usize = 128;
/// Words from one head line to the other.
pub const WORDS_APART: usize = 16;
pub const HEAD: usize = HEAD_LINES;
pub const SEEN: usize = HEAD_LINES + 1;
pub const SINCE: usize = HEAD_LINES + 2;
pub const KERNEL: usize = HEAD_LINES + 3;

/// Most short bytes.
pub const SHORT_BYTES_MAX: usize = 48;

/// The first word of short bytes.
pub const fn short_begin(is_dated: bool) -> usize {
    match is_dated {
        false => HEAD_LINES + 2,
        true => HEAD_LINES + 4,
    }
}

/// Most bytes that fit there.
pub const fn short_bytes_max(is_dated: bool) -> usize {
    match is_dated {
        false => SHORT_BYTES_MAX,
        true => SHORT_BYTES_MAX - 16,
    }
}

/// Where their number stands in HEAD.
const SHORT_SHIFT: u32 = 56;
const POSITION_MASK: u64 = (1 << SHORT_SHIFT) - 1;
/// In HEAD: SINCE and KERNEL are what their names say.
pub const DATED: u64 = 1 << 63;

/// HEAD.
pub const fn head_word(position: u64, short_bytes: u64, is_dated: bool) -> u64 {
    let dated = if is_dated { DATED } else { 0 };
    position_in(position) | short_bytes << SHORT_SHIFT | dated
}

/// Bytes ever put into the ring, by the word HEAD.
pub const fn position_in(head: u64) -> u64 {
    head & POSITION_MASK
}

/// How many bytes there are from one position to another: positions in HEAD have no more than 56 bits.
pub const fn distance(from: u64, to: u64) -> u64 {
    to.wrapping_sub(from) & POSITION_MASK
}

/// How many of the last of them are short bytes.
pub const fn short_bytes_in(head: u64) -> u64 {
    (head & !DATED) >> SHORT_SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_bytes_fill_the_line_behind_the_other_words() {
        for (is_dated, last) in [(false, SEEN), (true, KERNEL)] {
            assert_eq!(short_begin(is_dated), last + 1);
            let end = short_begin(is_dated) + short_bytes_max(is_dated) / 8;
            assert_eq!(end, HEAD_LINES + 8, "one line of 8 words");
        }
    }
}
