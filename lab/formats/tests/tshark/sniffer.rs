//! Writing files of the DOS Sniffer with ATM cells: the format in which Wireshark checks
//! the HEC of a cell, and shows and checks AAL3/4.
//!
//! ```text
//! file    | "TRSNIFF data    " 0x1a | version record | records | end record |
//! record  | type u16 | length u16 | 0 u16 | body |
//! version | 1: major u16 = 5, minor u16, DOS time u16, DOS date u16, type u8,
//!         |    network u8 = 10 (ATM), format u8 = 1 (plain), time unit u8 = 6 (0.1 us),
//!         |    compression u8, level u8, 0 u32
//! cell    | 8: time u40, day u8, size u16, status u8, flags u8, true size u16, 0 u16, 0 u16,
//!         |    driver status u32 = 0x100 (whole cell), AAL5 trailer u64 = 0,
//!         |    traffic u8 (low 4 bits: 0 unknown, 2 AAL3/4, 6 OAM), higher layer u8, 0 u16,
//!         |    VPI u16, VCI u16, channel u16, cells u16 = 1, 0 u64; then the 53 bytes
//! end     | 3, empty
//! ```
//!
//! Words are little-endian; the 40 bits of the time are two words and a byte, lowest
//! first. Times count from midnight of the date in the version record, which readers take
//! for local time: the date and the distances are right, the hour is where UTC is local.
//!
//! Source: wireshark (`wiretap/ngsniffer.c`).

use barewire_formats::atm::CELL_BYTES;
use barewire_wire::capture::Output;

const MAGIC: &[u8] = b"TRSNIFF data    \x1a";
const VERSION: u16 = 1;
const CELL: u16 = 8;
const END: u16 = 3;
const NETWORK_ATM: u8 = 10;
const FORMAT_PLAIN: u8 = 1;
const UNIT_100_NS: u8 = 6;
const WHOLE_CELL: u32 = 0x100;
/// Length of the body of a cell's record in front of the cell.
const CELL_HEAD_BYTES: u16 = 48;
const NS_PER_DAY: u64 = 86_400_000_000_000;
/// Days from 1970 to 1980, where DOS begins to count.
const DOS_EPOCH_DAYS: u64 = 3652;
/// Days from 1970 to the end of 2107, where DOS ends.
const DOS_LAST_DAYS: u64 = 50_402;

/// What the payload of a cell is to be shown as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Bytes; OAM where the header says so.
    Unknown = 0,
    /// A SAR PDU of AAL3/4.
    Aal34 = 2,
    /// An OAM cell.
    Oam = 6,
}

/// Writes a file of the DOS Sniffer.
#[derive(Debug)]
pub struct Sniffer<O> {
    out: O,
    midnight_ns: u64,
}

impl<O: Output> Sniffer<O> {
    /// Begins a file whose cells come at `time_ns` (nanoseconds since 1970) or up to 255
    /// days later. A day outside of 1980 to 2107 becomes the first or the last of those.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn new(mut out: O, time_ns: u64) -> Result<Self, O::Error> {
        let day = (time_ns / NS_PER_DAY).clamp(DOS_EPOCH_DAYS, DOS_LAST_DAYS);
        let date = dos_date(day);
        out.put(MAGIC)?;
        put_words(&mut out, &[VERSION, 18, 0, 5, 0, 0, date])?;
        out.put(&[0, NETWORK_ATM, FORMAT_PLAIN, UNIT_100_NS, 0, 0, 0, 0, 0, 0])?;
        Ok(Self {
            out,
            midnight_ns: day * NS_PER_DAY,
        })
    }

    /// Writes a cell of 53 bytes, seen at `time_ns` nanoseconds since 1970.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn cell(
        &mut self,
        time_ns: u64,
        payload: Payload,
        cell: &[u8; CELL_BYTES],
    ) -> Result<(), O::Error> {
        let since_ns = time_ns.saturating_sub(self.midnight_ns);
        let day = u8::try_from(since_ns / NS_PER_DAY).unwrap_or(u8::MAX);
        let [a, b, c, d, e, ..] = (since_ns % NS_PER_DAY / 100).to_le_bytes();
        let head = u32::from_be_bytes([cell[0], cell[1], cell[2], cell[3]]);
        let (vpi, vci) = ((head >> 20 & 0xff) as u16, (head >> 4) as u16);
        let size = CELL_BYTES as u16;
        put_words(&mut self.out, &[CELL, CELL_HEAD_BYTES + size, 0])?;
        self.out.put(&[a, b, c, d, e, day])?;
        put_words(&mut self.out, &[size, 0, size, 0, 0])?;
        self.out.put(&WHOLE_CELL.to_le_bytes())?;
        self.out.put(&[0; 8])?;
        self.out.put(&[payload as u8, 0, 0, 0])?;
        put_words(&mut self.out, &[vpi, vci, 0, 1, 0, 0, 0, 0])?;
        self.out.put(cell)
    }

    /// Ends the file.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn finish(mut self) -> Result<O, O::Error> {
        put_words(&mut self.out, &[END, 0, 0])?;
        Ok(self.out)
    }
}

fn put_words<O: Output>(out: &mut O, words: &[u16]) -> Result<(), O::Error> {
    words
        .iter()
        .try_for_each(|word| out.put(&word.to_le_bytes()))
}

/// The date of a day, counted from 1970, as DOS writes it: year from 1980, month, day.
fn dos_date(days: u64) -> u16 {
    // Between 1980 and 2107 every fourth year is a leap year, but for 2100.
    const TO_MARCH_2100: u64 = 47_541;
    let days = days - DOS_EPOCH_DAYS + u64::from(days >= TO_MARCH_2100);
    let (cycle, in_cycle) = (days / 1461, days % 1461);
    // The first year of a cycle of four has 366 days.
    let (year, mut day) = match in_cycle {
        0..366 => (0, in_cycle),
        later => (1 + (later - 366) / 365, (later - 366) % 365),
    };
    let february = if year == 0 { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    ((cycle * 4 + year) << 9 | month << 5 | (day + 1)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        let date = |year: u16, month: u16, day: u16| (year - 1980) << 9 | month << 5 | day;
        assert_eq!(dos_date(DOS_EPOCH_DAYS), date(1980, 1, 1));
        assert_eq!(dos_date(11_016), date(2000, 2, 29));
        assert_eq!(dos_date(19_675), date(2023, 11, 14));
        assert_eq!(dos_date(47_540), date(2100, 2, 28));
        assert_eq!(dos_date(47_541), date(2100, 3, 1));
        assert_eq!(dos_date(DOS_LAST_DAYS), date(2107, 12, 31));
    }
}
