//! The unit between a Jetstream ring and an ATM port: cells to frames, frames to cells.
//!
//! What it does with a VC is fixed when the VC is connected:
//!
//! | [`Adaptation`] | cell to ring | frame to ATM |
//! |---|---|---|
//! | `Cells` | a constant Jetstream header in front of each cell | PDU of n · 48 bytes: cut, n cells. One keeps its user bit (AUU); of several, all are cleared: these are SAR-PDUs that the host made |
//! | `Aal5` | payloads up to the cell with AUU 1 are one PDU | cut as above; AUU cleared except on the last |
//! | `Aal34` | segments from BOM to EOM of one MID are one CPCS-PDU | the CPCS-PDU is cut into 44 bytes; ST, SN, MID, LI and CRC-10 are made; AUU 0 |
//!
//! Cells that are not user data (OAM, resource management) go either way as cells on any VC.
//! The B-ISDN header in front of a PDU is that of its cells with the VC of the ring and AUU 1; its
//! congestion bit is the last cell's, its CLP set if any cell's was. Cut, every cell has
//! the frame's congestion bit and CLP. HECs are checked and made anew.
//!
//! **Check codes.** The AAL5 CRC-32 is never looked at: it goes through with the PDU,
//! and what breaks on the way, in here too, is found at the far end. So the CRC bit of
//! the Jetstream header, by which a host asks its card for a CRC-32, is 0 in frames from here.
//! AAL3/4 is harder: its CRC-10 protects each cell alone and has to be made or checked in here,
//! and the CPCS-PDU on the ring has none. That is why the CPCS-PDU is not taken apart
//! either: only segment order, sequence and lengths are checked.
//!
//! **States.** What is under way from ATM, on a VC of AAL5 or a MID of AAL3/4:
//!
//! | AAL5 | cell | last cell | no room | rest too long |
//! |---|---|---|---|---|
//! | none | gathering | none, frame | dropping; none at the last cell | |
//! | gathering | gathering | none, frame | dropping; none at the last cell | none |
//! | dropping | dropping | none | | none |
//!
//! | AAL3/4 | BOM | COM | EOM | SSM | abort, wrong SN, no room, rest too long |
//! |---|---|---|---|---|---|
//! | none | gathering | error | error | none, frame | none |
//! | gathering | gathering, error | gathering | none, frame | none, frame and error | none |
//!
//! **Buffers.** A frame goes out with its last cell. PDUs under way are bounded in length each and
//! in sum; a PDU that has no room is dropped to its end. One whose cells stop coming
//! is dropped after at least [`Config::idle_max`] and at most twice that.
//!
//! **VCs.** The VC on the ring holds the RID of the node that it belongs to, so it is
//! unique on the ring whatever the VCs of the ATM port are.
//!
//! Source: jet93, ATM interworking unit; itu-i363-3, itu-i363-5.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use barewire_formats::aal34;
use barewire_formats::atm::{CELL_BYTES, Cell, HeaderRepr, Interface, Vc};
use barewire_formats::jetstream::{AddrType, Frame, FrameRepr, Kind, OVERHEAD_BYTES, node_vc};
use barewire_units::Instant;

mod config;
mod cut;
mod error;
mod gather;
#[cfg(test)]
mod tests;

pub use config::{Adaptation, Config};
pub use cut::Cells;
pub use error::{ConnectError, FromAtmError, FromRingError};

use config::Connection;
use gather::Gatherer;

/// What the unit has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Cells taken from ATM, good or bad.
    pub cells_in: u64,
    /// Cells given to ATM.
    pub cells_out: u64,
    /// Frames taken from the ring, good or bad.
    pub frames_in: u64,
    /// Frames given to the ring.
    pub frames_out: u64,
    /// Cells and frames refused with an error.
    pub errors: u64,
    /// Cells of AAL5 PDUs that were dropped before.
    pub cells_skipped: u64,
    /// PDUs dropped because their cells stopped coming.
    pub timed_out: u64,
}

/// The unit. After each cell drain [`Unit::poll_frame`].
#[derive(Clone, Debug)]
pub struct Unit {
    config: Config,
    by_atm: BTreeMap<Vc, Connection>,
    atm_of: BTreeMap<Vc, Vc>,
    gatherer: Gatherer,
    frames: VecDeque<Vec<u8>>,
    stats: Stats,
}

impl Unit {
    /// A unit without connections.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            by_atm: BTreeMap::new(),
            atm_of: BTreeMap::new(),
            gatherer: Gatherer::new(config),
            frames: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// What it has counted.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Bytes of the PDUs that are under way.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.gatherer.buffered_bytes()
    }

    /// Connects `atm_vc` to the `number`-th VC of node `rid`, and says which that is.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(
        &mut self,
        atm_vc: Vc,
        (rid, number): (u8, u16),
        adaptation: Adaptation,
    ) -> Result<Vc, ConnectError> {
        let ring_vc = node_vc(rid, number).ok_or(ConnectError::NoSuchRingVc { rid, number })?;
        let vpi_max = match self.config.interface {
            Interface::Uni => 0xff,
            Interface::Nni => 0xfff,
        };
        if atm_vc.vpi > vpi_max {
            let vc = atm_vc;
            return Err(ConnectError::NoSuchAtmVc { vc, vpi_max });
        }
        if let Adaptation::Aal34 { mid } = adaptation {
            if mid > aal34::MID_MAX {
                return Err(ConnectError::NoSuchMid { mid });
            }
        }
        if self.by_atm.contains_key(&atm_vc) {
            return Err(ConnectError::AtmVcInUse(atm_vc));
        }
        if self.atm_of.contains_key(&ring_vc) {
            return Err(ConnectError::RingVcInUse(ring_vc));
        }
        let connection = Connection {
            ring_vc,
            adaptation,
            sequence: 0,
        };
        self.by_atm.insert(atm_vc, connection);
        self.atm_of.insert(ring_vc, atm_vc);
        Ok(ring_vc)
    }

    /// Ends the connection of `atm_vc` and drops what is under way on it. False if there is none.
    pub fn disconnect(&mut self, atm_vc: Vc) -> bool {
        let Some(connection) = self.by_atm.remove(&atm_vc) else {
            return false;
        };
        self.atm_of.remove(&connection.ring_vc);
        self.gatherer.forget(atm_vc);
        true
    }

    /// The next frame for the ring.
    pub fn poll_frame(&mut self) -> Option<Vec<u8>> {
        let frame = self.frames.pop_front()?;
        self.stats.frames_out += 1;
        Some(frame)
    }

    /// When to call [`Unit::handle_timer`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.gatherer.next_deadline()
    }

    /// Drops PDUs whose cells stopped coming.
    pub fn handle_timer(&mut self, now: Instant) {
        self.stats.timed_out += self.gatherer.sweep(now);
    }

    /// A cell from ATM.
    ///
    /// # Errors
    /// [`FromAtmError`]. A cell that breaks one message off and begins another does both.
    pub fn handle_cell(
        &mut self,
        now: Instant,
        cell: &[u8; CELL_BYTES],
    ) -> Result<(), FromAtmError> {
        self.stats.cells_in += 1;
        let result = self.cell(now, cell);
        self.stats.errors += u64::from(result.is_err());
        result
    }

    fn cell(&mut self, now: Instant, cell: &[u8; CELL_BYTES]) -> Result<(), FromAtmError> {
        let cell = Cell::new_unchecked(cell);
        let header = HeaderRepr::from_bytes(&cell.header_bytes(), self.config.interface)?;
        let Some(connection) = self.by_atm.get(&header.vc) else {
            return Err(FromAtmError::UnknownVc(header.vc));
        };
        let (ring_vc, payload) = (connection.ring_vc, cell.payload());
        let gathered = match connection.adaptation {
            Adaptation::Aal5 if header.payload_type.is_user() => {
                self.gatherer.aal5(now, header, ring_vc, payload)
            }
            Adaptation::Aal34 { .. } if header.payload_type.is_user() => {
                self.gatherer.aal34(now, header, ring_vc, payload)
            }
            _ => self.gatherer.cell_frame(header, ring_vc, payload).into(),
        };
        self.stats.cells_skipped += u64::from(gathered.skipped);
        self.frames.extend(gathered.frame);
        gathered.error.map_or(Ok(()), Err)
    }

    /// A frame from the ring; gives its cells.
    ///
    /// # Errors
    /// [`FromRingError`].
    pub fn handle_frame<'a>(&mut self, frame: &'a [u8]) -> Result<Cells<'a>, FromRingError> {
        self.stats.frames_in += 1;
        let result = self.frame(frame);
        match &result {
            Ok(cells) => self.stats.cells_out += cells.len() as u64,
            Err(_) => self.stats.errors += 1,
        }
        result
    }

    fn frame<'a>(&mut self, frame: &'a [u8]) -> Result<Cells<'a>, FromRingError> {
        let frame = Frame::new_checked(frame)?;
        let repr = FrameRepr::parse(&frame)?;
        let (AddrType::Vc, Kind::Data { cell_header, .. }) = (repr.header.addr_type, repr.kind)
        else {
            return Err(FromRingError::NotOnVc);
        };
        let ring_vc = cell_header.vc;
        let unknown = FromRingError::UnknownVc(ring_vc);
        let atm_vc = *self.atm_of.get(&ring_vc).ok_or(unknown)?;
        let connection = self.by_atm.get_mut(&atm_vc).ok_or(unknown)?;
        let pdu = &frame.into_inner()[OVERHEAD_BYTES..];
        let header = HeaderRepr {
            vc: atm_vc,
            gfc: 0,
            ..cell_header
        };
        let cells = Cells::new(pdu, header, self.config.interface, connection);
        cells.ok_or(FromRingError::PduLength {
            vc: ring_vc,
            pdu_bytes: pdu.len(),
        })
    }
}
