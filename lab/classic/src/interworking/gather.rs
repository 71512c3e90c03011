//! From ATM to ring: payloads of cells are gathered behind the room for a frame's headers.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use barewire_formats::aal34::{SEQUENCE_MODULUS, SarPdu, SarRepr};
use barewire_formats::atm::{HeaderRepr, PAYLOAD_BYTES, PayloadType, Vc};
use barewire_formats::jetstream::{
    self, AddrType, Frame, FrameRepr, Kind, OVERHEAD_BYTES, PDU_WORD_BYTES,
};
use barewire_units::Instant;

use super::config::Config;
use super::error::FromAtmError;

/// What came of a cell.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// A whole frame.
    pub frame: Option<Vec<u8>>,
    /// What is wrong with this cell, or was with the message before it.
    pub error: Option<FromAtmError>,
    /// The cell belongs to a PDU that was dropped.
    pub skipped: bool,
}

impl From<FromAtmError> for Gathered {
    fn from(error: FromAtmError) -> Self {
        Self {
            error: Some(error),
            ..Self::default()
        }
    }
}

impl From<Vec<u8>> for Gathered {
    fn from(frame: Vec<u8>) -> Self {
        Self {
            frame: Some(frame),
            ..Self::default()
        }
    }
}

/// A PDU under way.
#[derive(Clone, Debug)]
struct Partial {
    /// Room for the headers, then what has come.
    frame: Vec<u8>,
    /// AAL3/4: SN of the next cell.
    sequence: u8,
    /// Some cell had CLP set.
    loss_priority: bool,
    /// AAL5: dropped; its cells are skipped up to the last.
    dropped: bool,
    last_cell: Instant,
}

impl Partial {
    fn pdu_bytes(&self) -> usize {
        self.frame.len() - OVERHEAD_BYTES
    }
}

/// The PDUs under way, by VC of the ATM port and MID (0 for AAL5).
#[derive(Clone, Debug)]
pub(super) struct Gatherer {
    config: Config,
    partials: BTreeMap<(Vc, u16), Partial>,
    buffered_bytes: usize,
    sweep_at: Option<Instant>,
}

impl Gatherer {
    pub fn new(config: Config) -> Self {
        Self {
            config: Config {
                // The ring has no longer ones.
                pdu_bytes_max: config.pdu_bytes_max.min(jetstream::PDU_BYTES_MAX),
                ..config
            },
            partials: BTreeMap::new(),
            buffered_bytes: 0,
            sweep_at: None,
        }
    }

    pub fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.sweep_at
    }

    /// Drops everything of `vc`.
    pub fn forget(&mut self, vc: Vc) {
        let of_vc = (vc, 0)..=(vc, u16::MAX);
        let keys: Vec<(Vc, u16)> = self.partials.range(of_vc).map(|(key, _)| *key).collect();
        for key in keys {
            self.take(key);
        }
    }

    /// Drops what has rested too long; says how many PDUs.
    pub fn sweep(&mut self, now: Instant) -> u64 {
        if self.sweep_at.is_none_or(|at| at > now) {
            return 0;
        }
        let idle_max = self.config.idle_max;
        let idle = |partial: &Partial| now.saturating_duration_since(partial.last_cell) >= idle_max;
        let stale: Vec<(Vc, u16)> = self
            .partials
            .iter()
            .filter_map(|(key, partial)| idle(partial).then_some(*key))
            .collect();
        let mut timed_out = 0;
        for key in stale {
            let partial = self.take(key);
            timed_out += u64::from(partial.is_some_and(|partial| !partial.dropped));
        }
        self.sweep_at = None;
        if !self.partials.is_empty() {
            self.sweep_later(now);
        }
        timed_out
    }

    /// Sets the next sweep: never where time ends before.
    fn sweep_later(&mut self, now: Instant) {
        let at = now.saturating_add(self.config.idle_max);
        self.sweep_at = (at < Instant::MAX).then_some(at);
    }

    /// A frame that is one cell: the constant header and the cell with the ring's VC.
    pub fn cell_frame(
        &self,
        header: HeaderRepr,
        ring_vc: Vc,
        payload: &[u8; PAYLOAD_BYTES],
    ) -> Vec<u8> {
        let mut frame = vec![0; OVERHEAD_BYTES];
        frame.extend_from_slice(payload);
        self.finish(frame, header, ring_vc)
    }

    /// A user cell of an AAL5 VC.
    pub fn aal5(
        &mut self,
        now: Instant,
        header: HeaderRepr,
        ring_vc: Vc,
        payload: &[u8; PAYLOAD_BYTES],
    ) -> Gathered {
        let key = (header.vc, 0);
        let last = header.payload_type.auu();
        let partial = self.take(key).unwrap_or_else(|| new_partial(now));
        if partial.dropped {
            self.drop_up_to(last, key, now);
            return Gathered {
                skipped: true,
                ..Gathered::default()
            };
        }
        match self.append(key, partial, header, payload) {
            Ok(partial) if last => Gathered::from(self.whole(partial, header, ring_vc)),
            Ok(partial) => {
                self.put(key, partial, now);
                Gathered::default()
            }
            Err(error) => {
                self.drop_up_to(last, key, now);
                error.into()
            }
        }
    }

    /// Skips the cells that follow on an AAL5 VC, up to the last.
    fn drop_up_to(&mut self, last: bool, key: (Vc, u16), now: Instant) {
        if !last {
            let mut dropped = new_partial(now);
            dropped.dropped = true;
            self.put(key, dropped, now);
        }
    }

    /// A user cell of an AAL3/4 VC.
    pub fn aal34(
        &mut self,
        now: Instant,
        header: HeaderRepr,
        ring_vc: Vc,
        payload: &[u8; PAYLOAD_BYTES],
    ) -> Gathered {
        let sar = SarPdu::new_unchecked(payload);
        let repr = match SarRepr::parse(&sar) {
            Ok(repr) => repr,
            Err(error) => return FromAtmError::from(error).into(),
        };
        let key = (header.vc, repr.mid);
        let (begun, error) = match self.begin(key, repr, now) {
            Ok(begun) => begun,
            Err(error) => return error.into(),
        };
        let segment = &sar.segment()[..usize::from(repr.payload_bytes)];
        let mut gathered = match self.append(key, begun, header, segment) {
            Ok(partial) if repr.segment_type.ends() => self.message(key, partial, header, ring_vc),
            Ok(partial) => {
                self.put(key, partial, now);
                Gathered::default()
            }
            Err(error) => error.into(),
        };
        gathered.error = gathered.error.or(error);
        gathered
    }

    /// The message that the SAR-PDU belongs to, and what is wrong with the one before it.
    fn begin(
        &mut self,
        key: (Vc, u16),
        repr: SarRepr,
        now: Instant,
    ) -> Result<(Partial, Option<FromAtmError>), FromAtmError> {
        let ((vc, mid), segment) = (key, repr.segment_type);
        let open = self.take(key);
        let next = (repr.sequence + 1) % SEQUENCE_MODULUS;
        if segment.begins() {
            let error = open.map(|_| FromAtmError::NotEnded { vc, mid, segment });
            let mut partial = new_partial(now);
            partial.sequence = next;
            return Ok((partial, error));
        }
        if repr.is_abort() {
            return Err(FromAtmError::Aborted { vc, mid });
        }
        let mut partial = open.ok_or(FromAtmError::NotBegun { vc, mid, segment })?;
        if repr.sequence != partial.sequence {
            return Err(FromAtmError::Sequence {
                vc,
                mid,
                expected: partial.sequence,
                found: repr.sequence,
            });
        }
        partial.sequence = next;
        Ok((partial, None))
    }

    /// The frame of a whole message.
    fn message(
        &self,
        (vc, mid): (Vc, u16),
        partial: Partial,
        header: HeaderRepr,
        ring_vc: Vc,
    ) -> Gathered {
        let pdu_bytes = partial.pdu_bytes();
        if pdu_bytes % PDU_WORD_BYTES != 0 {
            return FromAtmError::BrokenWord { vc, mid, pdu_bytes }.into();
        }
        Gathered::from(self.whole(partial, header, ring_vc))
    }

    /// Appends `bytes`, if there is room for them.
    fn append(
        &self,
        (vc, _): (Vc, u16),
        mut partial: Partial,
        header: HeaderRepr,
        bytes: &[u8],
    ) -> Result<Partial, FromAtmError> {
        let Config {
            pdu_bytes_max,
            buffer_bytes_max,
            ..
        } = self.config;
        let pdu_bytes = partial.pdu_bytes() + bytes.len();
        if pdu_bytes > pdu_bytes_max {
            let bytes_max = pdu_bytes_max;
            return Err(FromAtmError::TooLong { vc, bytes_max });
        }
        // This partial is taken out, so it is not in the sum.
        if self.buffered_bytes + pdu_bytes > buffer_bytes_max {
            let bytes_max = buffer_bytes_max;
            return Err(FromAtmError::BuffersFull { vc, bytes_max });
        }
        partial.frame.extend_from_slice(bytes);
        partial.loss_priority |= header.loss_priority;
        Ok(partial)
    }

    /// The frame of a whole PDU: user bit set, whatever the adaptation.
    fn whole(&self, partial: Partial, header: HeaderRepr, ring_vc: Vc) -> Vec<u8> {
        let header = HeaderRepr {
            payload_type: PayloadType::new(header.payload_type.get() | PayloadType::USER_END.get()),
            loss_priority: partial.loss_priority,
            ..header
        };
        self.finish(partial.frame, header, ring_vc)
    }

    /// Writes the headers into the room in front of the PDU.
    fn finish(&self, mut frame: Vec<u8>, header: HeaderRepr, ring_vc: Vc) -> Vec<u8> {
        let repr = FrameRepr {
            header: jetstream::HeaderRepr {
                crc_present: false,
                monitor: false,
                addr_type: AddrType::Vc,
                dst_rid: 0,
                src_rid: self.config.rid,
            },
            kind: Kind::Data {
                cell_header: HeaderRepr {
                    gfc: 0,
                    vc: ring_vc,
                    ..header
                },
                pdu_bytes: frame.len() - OVERHEAD_BYTES,
            },
        };
        repr.emit(&mut Frame::new_unchecked(&mut frame));
        frame
    }

    fn take(&mut self, key: (Vc, u16)) -> Option<Partial> {
        let partial = self.partials.remove(&key)?;
        self.buffered_bytes -= partial.pdu_bytes();
        Some(partial)
    }

    /// Keeps `partial` for the next cell.
    fn put(&mut self, key: (Vc, u16), mut partial: Partial, now: Instant) {
        partial.last_cell = now;
        self.buffered_bytes += partial.pdu_bytes();
        self.partials.insert(key, partial);
        if self.sweep_at.is_none() {
            self.sweep_later(now);
        }
    }
}

fn new_partial(now: Instant) -> Partial {
    Partial {
        frame: vec![0; OVERHEAD_BYTES],
        sequence: 0,
        loss_priority: false,
        dropped: false,
        last_cell: now,
    }
}
