//! What can be wrong with a fabric: flaws of [`Private`](super::private::Private), each of
//! which a case of a suite must see.

/// Nothing is wrong.
pub const SOUND: u8 = 0;

/// A publication becomes visible before what was stored before it.
pub const UNORDERED: u8 = 1;
/// Words are stored in halves.
pub const TORN: u8 = 2;
/// Accesses outside a window are ignored.
pub const UNBOUNDED: u8 = 3;
/// A store becomes visible with the next.
pub const LATE: u8 = 4;
/// Credit is never returned.
pub const NO_CREDIT: u8 = 5;

/// Bits set at the same time get lost.
pub const LOSES_BITS: u8 = 10;
/// The sleep word becomes visible late.
pub const LATE_SLEEP: u8 = 11;

/// Additions from both sides get lost.
pub const LOSES_SUMS: u8 = 20;
/// Read-only apertures are written.
pub const IGNORES_RIGHTS: u8 = 21;
/// A revoked aperture stays open.
pub const IGNORES_REVOCATION: u8 = 22;
/// A put across the end is cut off.
pub const CUTS_PUTS: u8 = 23;

/// Tripwires fire for their whole cache line.
pub const COARSE: u8 = 30;
/// One-shots fire again.
pub const REPEATS: u8 = 31;
/// What is disarmed fires.
pub const UNDEAD: u8 = 32;
/// A tripwire is reported before the bytes are there.
pub const EARLY: u8 = 33;

/// What the owner adds is not told to those who wait for its stores.
pub const SILENT_SUMS: u8 = 34;
/// Importers' transfers are told as if they were the owner's.
pub const TELLS_OF_IMPORTERS: u8 = 35;

/// Every firing is reported.
pub const NOT_COALESCED: u8 = 40;
/// The queue holds 64 and forgets the rest.
pub const FORGETS: u8 = 41;
/// Nobody is woken.
pub const DOES_NOT_WAKE: u8 = 42;

/// Two messages change places now and then.
pub const SWAPS: u8 = 50;
/// Two messages become one now and then.
pub const MERGES: u8 = 51;
/// The last message before the end is lost.
pub const LOSES_THE_LAST: u8 = 52;
/// Readiness is not told.
pub const SILENT: u8 = 53;
/// A stream loses a byte now and then.
pub const LOSES_BYTES: u8 = 54;
