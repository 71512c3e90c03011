//! The frame header and the layout of a connection's region.
//!
//! ```text
//! region (one direction; owned and loaded by the receiver, stored to by the sender)
//! | offset | size | what                                                            |
//! |      0 |    8 | CREDIT  lines of the opposite ring that the storing side consumed|
//! |      8 |    8 | ARMED   1: ring my doorbell when you publish into my ring       |
//! |     16 |    8 | STARVED 1: ring my doorbell when you return credit              |
//! |     24 |    8 | STATE   bit 0 FINISHED no frame after those published           |
//! |        |      |         bit 1 DEAF     nothing will be read any more            |
//! |        |      |         bit 2 COPIES   messages are copied out: pieces are welcome|
//! |     32 |   32 | zero                                                            |
//! |     64 |   64 | the duplex line ([`crate::duplex`]), or unused                  |
//! |    128 |    8 | STAND_IN of a connection to another host: where the stand-in of |
//! |        |      |         the opposite region lies in its process: (63..32) the   |
//! |        |      |         descriptor + 1, (31..0) lines; 0: nothing was sent yet |
//! |    136 |    8 | SENT    lines of the stand-in's ring that are on their way      |
//! |    144 |   48 | unused                                                          |
//! |    192 |  64n | the ring: n lines, n a power of two                             |
//! |        |   64 | unused: regions in a row begin at multiples of 128              |
//! |        |  16n | the run of the duplex line, at most 4096 bytes, or unused       |
//!
//! frame (begins on a line)
//! | bits 63..32 payload length in bytes | 31..8 position in lines, low 24 bits |
//! | 7 payload begins on the next line, not behind the header            |
//! | 6 a message went through the duplex line since the frame before | 5..0 kind |
//! then the payload; the bytes from its end to the next line may hold anything.
//!
//! packed frame (kind 3): messages one after another, each
//! | 8 bytes: length | payload, padded to a multiple of 8 |
//! ```
//!
//! All words have the host's byte order: both sides are on the same host. A header of zero, or of
//! the lap before, means that nothing has been published there yet. A line is a cache line
//! of 64 bytes. Source: own design (`docs/decisions/0002`).

use crate::violation::Violation;

/// Bytes of a cache line, the unit of the ring.
pub const LINE_BYTES: usize = 64;
/// Bytes of a frame header.
pub const HEADER_BYTES: usize = 8;
/// Bytes in front of the ring: the control line, the duplex line, and one that neither side looks at. So the header of a message
/// with a line of payload is not in the same pair of lines as the payload: some processors fetch lines in pairs, and
/// whoever polls the header would take the payload away from its writer.
pub const CONTROL_BYTES: usize = 3 * LINE_BYTES;
/// Smallest ring.
pub const RING_BYTES_MIN: usize = 1024;
/// Largest ring.
pub const RING_BYTES_MAX: usize = 1 << 28;

/// Offset of the CREDIT word.
pub const CREDIT: usize = 0;
/// Offset of the ARMED word.
pub const ARMED: usize = 8;
/// Offset of the STARVED word.
pub const STARVED: usize = 16;
/// Offset of the STATE word.
pub const STATE: usize = 24;
/// Offset of the duplex line.
pub const DUPLEX: usize = LINE_BYTES;
/// Most bytes of the run of a duplex line.
pub const RUN_BYTES_MAX: usize = 4096;

/// Offset of the STAND_IN word: only those who look from outside read it, and the one behind it.
pub const STAND_IN: usize = 2 * LINE_BYTES;
/// Offset of the SENT word.
pub const SENT: usize = STAND_IN + 8;

/// STATE bit: the sender published its last frame.
pub const STATE_FINISHED: u64 = 1;
/// STATE bit: the receiver will read no more.
pub const STATE_DEAF: u64 = 2;

/// STATE bit: the receiver copies messages out, and did not read any in place. Long ones may come in pieces, so that
/// both sides copy at the same time. It may be taken back.
pub const STATE_COPIES: u64 = 4;

/// All fragments of a message but the last have at least this length, or that of the longest frame: nobody can keep a
/// receiver busy with crumbs.
pub const FRAGMENT_BYTES_MIN: usize = 4096;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A whole message, or the last fragment of one.
    Whole = 1,
    /// A fragment with more to come.
    More = 2,
    /// Several messages, each with its length.
    Packed = 3,
    /// Nothing: go on at the beginning of the ring.
    Skip = 4,
}

impl Kind {
    /// The kind with this number.
    #[inline]
    fn parse(number: u8) -> Option<Kind> {
        match number {
            1 => Some(Kind::Whole),
            2 => Some(Kind::More),
            3 => Some(Kind::Packed),
            4 => Some(Kind::Skip),
            _ => None,
        }
    }
}

const _: () = {
    assert!(STATE + 8 <= DUPLEX && DUPLEX + LINE_BYTES <= STAND_IN && SENT + 8 <= CONTROL_BYTES);
    assert!(RING_BYTES_MIN.is_power_of_two() && RING_BYTES_MIN / LINE_BYTES >= 16);
    // A skip frame states its length in bytes, in 32 bits.
    assert!(RING_BYTES_MAX.is_power_of_two() && RING_BYTES_MAX < u32::MAX as usize);
    // The position in a header tells a lap from the one before.
    assert!(RING_BYTES_MAX / LINE_BYTES <= 1 << 22);
};

/// From this length on the payload begins on a line of its own, whatever its length: an
/// aligned copy is worth more than the line.
const ALIGNED_FROM_BYTES: usize = 1024;

/// Most payload bytes of a frame that takes one line.
pub(crate) const ONE_LINE_BYTES_MAX: usize = LINE_BYTES - HEADER_BYTES;

/// Where the payload of a frame with `payload_bytes` begins: behind the header, or on the
/// next line where that costs no line or the payload is long.
#[inline]
#[must_use]
pub fn payload_offset(payload_bytes: usize) -> usize {
    let whole_lines = payload_bytes % LINE_BYTES == 0 && payload_bytes > 0;
    if whole_lines || payload_bytes >= ALIGNED_FROM_BYTES {
        LINE_BYTES
    } else {
        HEADER_BYTES
    }
}

/// Lines taken by a frame whose payload begins at `offset`.
#[inline]
#[must_use]
pub fn lines_for(offset: usize, payload_bytes: usize) -> u64 {
    (payload_bytes + offset).div_ceil(LINE_BYTES) as u64
}

/// Bit of a header: the payload begins on the next line.
pub(crate) const ALIGNED: u64 = 0x80;
/// Bit of a header: a message went through the duplex line after the frame before this one.
pub(crate) const BEHIND_LINE: u64 = 0x40;
const KIND_MASK: u64 = 0x3f;

/// Low half of the header of a [`Kind::Whole`] frame at `position` that is not [`BEHIND_LINE`], but for [`ALIGNED`].
#[inline]
pub(crate) fn whole_at(position: u64) -> u32 {
    (position as u32) << 8 | Kind::Whole as u32
}

/// Builds the header of a frame at `position` (in lines).
#[inline]
#[must_use]
pub fn pack(kind: Kind, offset: usize, payload_bytes: usize, position: u64) -> u64 {
    let aligned = if offset == LINE_BYTES { ALIGNED } else { 0 };
    ((payload_bytes as u64) << 32) | ((position & 0xff_ffff) << 8) | aligned | kind as u64
}

/// Takes apart the header found at `position`: kind, offset of the payload in the frame,
/// length of the payload. The length is not yet checked against anything.
///
/// # Errors
/// [`Violation::FrameKind`], [`Violation::FramePosition`].
#[inline]
pub fn unpack(header: u64, position: u64) -> Result<(Kind, usize, usize), Violation> {
    let found = (header >> 8) as u32 & 0xff_ffff;
    let expected = position as u32 & 0xff_ffff;
    if found != expected {
        return Err(Violation::FramePosition { found, expected });
    }
    let offset = if header & ALIGNED == 0 {
        HEADER_BYTES
    } else {
        LINE_BYTES
    };
    match Kind::parse((header & KIND_MASK) as u8) {
        Some(kind) => Ok((kind, offset, (header >> 32) as usize)),
        None => Err(Violation::FrameKind { kind: header as u8 }),
    }
}

/// Whether a header found at `position` is the one that stood there a lap of `lines` ago:
/// then nothing new has been published.
#[inline]
#[must_use]
pub fn is_of_last_lap(header: u64, position: u64, lines: u64) -> bool {
    (header >> 8) & 0xff_ffff == position.wrapping_sub(lines) & 0xff_ffff
}

/// Whether a ring of this many bytes is allowed: a power of two within the limits.
#[must_use]
pub fn ring_bytes_valid(ring_bytes: usize) -> bool {
    ring_bytes.is_power_of_two() && (RING_BYTES_MIN..=RING_BYTES_MAX).contains(&ring_bytes)
}

/// Bytes of the run beside a ring of `ring_bytes`: what fits a frame fits the run, up to [`RUN_BYTES_MAX`].
#[must_use]
pub const fn run_bytes(ring_bytes: usize) -> usize {
    let quarter = ring_bytes / 4;
    if quarter < RUN_BYTES_MAX {
        quarter
    } else {
        RUN_BYTES_MAX
    }
}

/// Offset of the run in a region with a ring of `ring_bytes`.
#[must_use]
pub const fn run_offset(ring_bytes: usize) -> usize {
    CONTROL_BYTES + ring_bytes + LINE_BYTES
}

/// Bytes of a region with a ring of `ring_bytes`.
#[must_use]
pub const fn region_bytes(ring_bytes: usize) -> usize {
    run_offset(ring_bytes) + run_bytes(ring_bytes)
}

/// Bytes of the ring in a region of `region_bytes`: what else is there is less than the ring.
#[must_use]
pub const fn ring_bytes_of(region_bytes: usize) -> usize {
    1 << (region_bytes - run_offset(0)).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_and_are_never_zero() {
        for kind in [Kind::Whole, Kind::More, Kind::Packed, Kind::Skip] {
            for len in [0, 1, 56, 1016, RING_BYTES_MAX] {
                for position in [0, 1, 0xff_ffff, 0x100_0000, u64::MAX] {
                    for offset in [HEADER_BYTES, LINE_BYTES] {
                        let header = pack(kind, offset, len, position);
                        assert_ne!(header, 0);
                        assert_eq!(unpack(header, position), Ok((kind, offset, len)));
                        assert!(unpack(header, position.wrapping_add(1)).is_err());
                    }
                }
            }
        }
    }

    #[test]
    fn a_region_tells_its_ring() {
        let sizes = (RING_BYTES_MIN.ilog2()..=RING_BYTES_MAX.ilog2()).map(|log| 1 << log);
        for ring_bytes in sizes {
            assert_eq!(ring_bytes_of(region_bytes(ring_bytes)), ring_bytes);
            assert_eq!(region_bytes(ring_bytes) % (2 * LINE_BYTES), 0);
            // What fits a frame fits the run, up to its limit.
            let frame_bytes_max = crate::ring::frame_bytes_max(ring_bytes);
            assert!(run_bytes(ring_bytes) >= frame_bytes_max.min(RUN_BYTES_MAX));
        }
    }

    #[test]
    fn unknown_kinds_are_named() {
        for kind in (0_u8..=255).filter(|k| !(1..=4).contains(&(k & 0x3f))) {
            let found = unpack(u64::from(kind), 0);
            assert_eq!(found, Err(Violation::FrameKind { kind }));
        }
    }

    #[test]
    fn a_frame_takes_whole_lines() {
        let lines = |len| lines_for(payload_offset(len), len);
        assert_eq!([0, 56, 57, 64, 120, 121].map(lines), [1, 1, 2, 2, 2, 3]);
        assert_eq!(
            [128, 129, 1000, 1024, 1025, 4096].map(lines),
            [3, 3, 16, 17, 18, 65]
        );
    }

    #[test]
    fn whole_lines_are_aligned_at_no_cost() {
        for lines in 1..200 {
            let len = lines * LINE_BYTES;
            assert_eq!(payload_offset(len), LINE_BYTES);
            assert_eq!(lines_for(LINE_BYTES, len), lines_for(HEADER_BYTES, len));
        }
    }
}
