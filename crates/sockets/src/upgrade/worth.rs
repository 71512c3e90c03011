//! When a connection is worth an upgrade: a decision from counts, without any system call.
//!
//! Usually the number of calls or the number of bytes decides, whichever comes first. With `calls_before`
//! set to `never`, as in the profile `quiet`, only streams are upgraded: so many bytes one way without any
//! the other way, in large calls. A thread that sleeps at once gains nothing from requests and answers in
//! shared memory, since the kernel must wake it for each of them anyway. A connection that answers too
//! often, or sends small pieces, is left to the kernel for good, where a read costs one call.

use crate::process::settings::{NEVER, Settings};

/// Mean bytes a call from which a stream is worth an upgrade, where calls are never enough. Of calls of 4
/// KiB, shared memory carries half as much as the kernel on a busy machine; of 64 KiB, as much.
const STREAM_CALL_BYTES: u64 = 16 << 10;

/// After so many turns of direction a connection is one of requests and answers.
const TURNS_MAX: u32 = 64;

/// What a connection has moved; where calls are never enough, since its direction last turned.
pub struct Moved {
    /// Calls that moved bytes.
    pub calls: u32,
    /// The bytes.
    pub bytes: u64,
    /// Turns of direction.
    pub turns: u32,
}

/// What to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Look for the other end.
    Upgrade,
    /// Count on.
    NotYet,
    /// It stays with the kernel for good.
    Never,
}

/// Decides. `factor` multiplies what is needed.
#[inline]
pub fn decide(settings: &Settings, moved: &Moved, factor: u32) -> Decision {
    let has_bytes = moved.bytes >= settings.bytes_before.saturating_mul(factor.into());
    if settings.calls_before != NEVER {
        let has_calls = moved.calls >= settings.calls_before.saturating_mul(factor);
        return if has_calls || has_bytes {
            Decision::Upgrade
        } else {
            Decision::NotYet
        };
    }
    if has_bytes && moved.bytes / u64::from(moved.calls.max(1)) >= STREAM_CALL_BYTES {
        Decision::Upgrade
    } else if has_bytes || moved.turns >= TURNS_MAX {
        Decision::Never
    } else {
        Decision::NotYet
    }
}

/// An upgrade has paid when so many bytes went through the ring,
const PAYS_BYTES: u64 = 150_000;
/// or so many calls, in both directions.
const PAYS_CALLS: u64 = 12;

/// Whether an upgrade has paid. `before`: what the connection moved before, whose calls tell how large those in
/// the ring were.
pub fn has_paid(before: &Moved, ring_bytes: u64) -> bool {
    let call_bytes = (before.bytes / u64::from(before.calls.max(1))).max(1);
    ring_bytes >= PAYS_BYTES || ring_bytes / call_bytes >= PAYS_CALLS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::settings::Rings;

    fn settings(calls_before: u32, bytes_before: u64) -> Settings {
        Settings {
            spin_ns: 0,
            calls_before,
            bytes_before,
            unix: true,
            rings: Rings::Inspect,
        }
    }

    fn decided(settings: &Settings, calls: u32, bytes: u64, turns: u32) -> Decision {
        decide(
            settings,
            &Moved {
                calls,
                bytes,
                turns,
            },
            1,
        )
    }

    #[test]
    fn calls_or_bytes_are_enough_usually() {
        let usual = settings(16, 1 << 20);
        assert_eq!(decided(&usual, 15, 960, 7), Decision::NotYet);
        assert_eq!(decided(&usual, 16, 1024, 8), Decision::Upgrade);
        assert_eq!(decided(&usual, 3, 1 << 20, 0), Decision::Upgrade);
        let patient = Moved {
            calls: 16,
            bytes: 1 << 20,
            turns: 0,
        };
        assert_eq!(decide(&usual, &patient, 4), Decision::NotYet);
    }

    #[test]
    fn an_upgrade_pays_after_some_calls_or_many_bytes() {
        let before = Moved {
            calls: 16,
            bytes: 16 * 64,
            turns: 0,
        };
        assert!(!has_paid(&before, 11 * 64));
        assert!(has_paid(&before, 12 * 64));
        let before = Moved {
            bytes: 1 << 20,
            ..before
        };
        assert!(!has_paid(&before, PAYS_BYTES - 1));
        assert!(has_paid(&before, PAYS_BYTES));
        let nothing = Moved {
            calls: 0,
            bytes: 0,
            turns: 0,
        };
        assert!(!has_paid(&nothing, 0));
    }

    #[test]
    fn where_calls_are_never_enough_only_streams_of_large_calls_are() {
        let quiet = settings(NEVER, 4 << 20);
        assert_eq!(decided(&quiet, 63, (4 << 20) - 1, 63), Decision::NotYet);
        assert_eq!(decided(&quiet, 64, 4 << 20, 0), Decision::Upgrade);
        assert_eq!(decided(&quiet, 256, 4 << 20, 0), Decision::Upgrade);
        assert_eq!(decided(&quiet, 257, 4 << 20, 0), Decision::Never);
        assert_eq!(decided(&quiet, 1, 64, TURNS_MAX), Decision::Never);
        assert_eq!(decided(&quiet, NEVER, 64, 0), Decision::NotYet);
        assert_eq!(decided(&settings(NEVER, 0), 1, 1, 0), Decision::Never);
    }
}
