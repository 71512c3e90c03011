//! Cells: the HEC receiver, the codes of each cell, and the reassembler behind them.

use std::collections::BTreeSet;

use barewire_classic::sar::{Aal, Loss, Pool, PoolConfig, Reassembler, Report};
use barewire_formats::aal34::{SEQUENCE_MODULUS, SarPdu, SarRepr};
use barewire_formats::atm::hec::{Outcome, Receiver};
use barewire_formats::atm::oam::{OamRepr, Payload};
use barewire_formats::atm::{CELL_BYTES, Cell, HEADER_BYTES, HeaderRepr, Interface, Kind, Vc};
use barewire_units::{Duration, Instant};

use super::tally::{Circuit, Tally};
use crate::wire::content::check_payload;

/// Circuits, and messages open at once, that are followed.
const PLACES: usize = 1 << 16;
/// Memory for messages that are open.
const BUFFER_BYTES: usize = 1 << 28;

/// What the cells of a capture go through.
pub struct Cells {
    receiver: Receiver,
    pool: Pool,
    aal34: BTreeSet<Vc>,
    open: BTreeSet<Vc>,
}

impl Cells {
    /// Nothing seen yet; the circuits in `aal34` carry AAL3/4.
    pub fn new(aal34: BTreeSet<Vc>) -> Self {
        let config = PoolConfig {
            vcs: PLACES,
            open_pdus: PLACES,
            buffer_bytes: BUFFER_BYTES,
            // A capture has as much time as it has.
            timeout: Duration::MAX,
            ..PoolConfig::default()
        };
        Self {
            receiver: Receiver::new(),
            pool: Pool::new(config),
            aal34,
            open: BTreeSet::new(),
        }
    }

    /// A cell that begins at byte `at` of the file; `is_aal34` where the capture says so.
    pub fn cell(&mut self, bytes: &[u8], at: usize, is_aal34: bool, tally: &mut Tally) {
        let Some(mut cell) = bytes.first_chunk::<CELL_BYTES>().copied() else {
            let error = Cell::new_checked(bytes).expect_err("it is too short");
            return tally.fault(circuit_of(bytes), "short cell", &error.shifted(at * 8));
        };
        if bytes.len() > CELL_BYTES {
            let text = format!("{} bytes at byte {at}, where a cell has 53", bytes.len());
            tally.error(circuit_of(bytes), "long cell", 1, &text);
        }
        if let Some(header) = self.header(&mut cell, at, tally) {
            self.follow(header, &cell, at + HEADER_BYTES, is_aal34, tally);
        }
    }

    /// A cell without HEC, whose payload begins at byte `payload_at` of the file.
    pub fn bare_cell(
        &mut self,
        header: HeaderRepr,
        payload: &[u8],
        payload_at: usize,
        tally: &mut Tally,
    ) {
        if let Err(error) = check_payload(payload) {
            let error = error.shifted(payload_at * 8);
            return tally.fault(Circuit::Atm(header.vc), "payload", &error);
        }
        let mut cell = Cell::new_unchecked([0; CELL_BYTES]);
        header.emit(&mut cell, Interface::Uni);
        cell.payload_mut().copy_from_slice(payload);
        self.follow(header, &cell.into_inner(), payload_at, false, tally);
    }

    /// A cell with this header; its payload begins at byte `payload_at` of the file.
    fn follow(
        &mut self,
        header: HeaderRepr,
        cell: &[u8; CELL_BYTES],
        payload_at: usize,
        is_aal34: bool,
        tally: &mut Tally,
    ) {
        let circuit = Circuit::Atm(header.vc);
        match header.kind() {
            Kind::Idle | Kind::Physical | Kind::Unassigned => {
                tally.count(Circuit::Link, "idle cells", 1);
            }
            kind if kind.is_oam() => oam(circuit, cell, payload_at, tally),
            Kind::User => self.user(header.vc, cell, payload_at, is_aal34, tally),
            _ => tally.count(circuit, "other cells", 1),
        }
    }

    /// The header, corrected if it could be.
    fn header(
        &mut self,
        cell: &mut [u8; CELL_BYTES],
        at: usize,
        tally: &mut Tally,
    ) -> Option<HeaderRepr> {
        let header = cell.first_chunk_mut::<HEADER_BYTES>()?;
        let outcome = self.receiver.receive(header);
        let repr = Cell::new_unchecked(&*cell).header(Interface::Uni);
        match outcome {
            Outcome::Accepted => {}
            Outcome::Corrected(bit) => {
                let text = format!("header at byte {at}: the HEC corrected bit {bit}");
                tally.error(Circuit::Atm(repr.vc), "HEC corrected", 1, &text);
            }
            Outcome::Discarded => {
                let text = format!("header at byte {at}: the HEC is wrong, the cell discarded");
                tally.error(Circuit::Link, "HEC discarded", 1, &text);
                return None;
            }
        }
        Some(repr)
    }

    fn user(
        &mut self,
        vc: Vc,
        cell: &[u8; CELL_BYTES],
        payload_at: usize,
        is_aal34: bool,
        tally: &mut Tally,
    ) {
        let circuit = Circuit::Atm(vc);
        tally.count(circuit, "cells", 1);
        if is_aal34 {
            self.aal34.insert(vc);
        }
        let aal = match self.aal34.contains(&vc) {
            true => Aal::Aal34,
            false => Aal::Aal5,
        };
        if self.open.insert(vc) {
            if let Err(error) = self.pool.open(vc, aal) {
                return tally.error(circuit, "not followed", 1, &error.to_string());
            }
        }
        if aal == Aal::Aal34 {
            let pdu = SarPdu::new_unchecked(&cell[HEADER_BYTES..]);
            if let Err(error) = SarRepr::parse(&pdu) {
                let error = error.shifted(payload_at * 8);
                return tally.fault(circuit, error.field, &error);
            }
        }
        let orphans = self.pool.stats().cells_orphaned;
        self.pool.handle_cell(Instant::ORIGIN, cell);
        if self.pool.stats().cells_orphaned > orphans {
            let text = format!("payload at byte {payload_at}: it belongs to no message");
            tally.error(circuit, "orphans", 1, &text);
        }
        self.drain(tally);
    }

    /// What the reassembler has to say.
    fn drain(&mut self, tally: &mut Tally) {
        let mut payload = Vec::new();
        while let Some(report) = self.pool.poll(&mut payload) {
            note(report, tally);
        }
    }

    /// The capture is over: what is open stays unfinished.
    pub fn finish(&mut self, tally: &mut Tally) {
        for vc in std::mem::take(&mut self.open) {
            self.pool.flush_vc(vc);
        }
        self.drain(tally);
    }
}

/// The circuit of bytes that begin like a cell, if the HEC vouches for it.
fn circuit_of(bytes: &[u8]) -> Circuit {
    let header = bytes.first_chunk::<HEADER_BYTES>();
    let header = header.and_then(|header| HeaderRepr::from_bytes(header, Interface::Uni).ok());
    header.map_or(Circuit::Link, |header| Circuit::Atm(header.vc))
}

/// A message came, or did not.
fn note(report: Report, tally: &mut Tally) {
    let circuit = Circuit::Atm(report.stream.vc);
    tally.count(circuit, "PDUs", 1);
    let loss = match report.result {
        Ok(delivered) => return tally.count(circuit, "bytes", delivered.payload_bytes as u64),
        Err(Loss::Aborted) => return tally.count(circuit, "aborts", 1),
        Err(loss) => loss,
    };
    let (what, number) = match loss {
        Loss::Sequence { expected, found } => {
            let missing = (found + SEQUENCE_MODULUS - expected) % SEQUENCE_MODULUS;
            ("lost cells", missing.into())
        }
        Loss::Interrupted => ("interrupted", 1),
        Loss::Flushed => ("unfinished", 1),
        Loss::TooLong { .. } => ("too long", 1),
        Loss::Wrong(error) => (error.field, 1),
        _ => ("given up", 1),
    };
    let text = match loss {
        Loss::Flushed => "a PDU is not finished where the capture ends".to_owned(),
        loss => format!("PDU of {} ends here: {loss}", report.stream),
    };
    tally.error(circuit, what, number, &text);
}

fn oam(circuit: Circuit, cell: &[u8; CELL_BYTES], payload_at: usize, tally: &mut Tally) {
    tally.count(circuit, "OAM cells", 1);
    let payload = Payload::new_unchecked(&cell[HEADER_BYTES..]);
    if let Err(error) = OamRepr::parse(&payload) {
        let error = error.shifted(payload_at * 8);
        tally.fault(circuit, error.field, &error);
    }
}
