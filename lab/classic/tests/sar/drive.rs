//! Both reassemblers and the streaming segmenter under any commands and cells; the fuzz
//! target `proto_sar` includes this file.

use barewire_classic::sar::penn::{Generator, Penn, PennConfig, Segmenter};
use barewire_classic::sar::segment::{Aal5Segmenter, Aal34Segmenter};
use barewire_classic::sar::{Aal, Pool, PoolConfig, Reassembler, Stream};
use barewire_formats::aal34::SarPdu;
use barewire_formats::atm::{CELL_BYTES, HeaderRepr, Interface, PayloadType, Vc};
use barewire_units::{Duration, Instant};

/// Bytes of a step: what to do, and two arguments.
const STEP_BYTES: usize = 3;

struct Place<R> {
    reassembler: R,
    now: Instant,
    payload: Vec<u8>,
}

/// A cell with a good header, and a good check code if it is a segment; the body is a
/// pattern that the arguments choose.
fn cell(vci: u16, first: u8, second: u8) -> [u8; CELL_BYTES] {
    let vc = Vc { vpi: 0, vci };
    let header = HeaderRepr::user(vc, PayloadType::new(second));
    let mut cell = [second; CELL_BYTES];
    cell[..5].copy_from_slice(&header.to_bytes(Interface::Uni));
    // Segment type and number from the first, few MIDs from the second.
    cell[5] = first & 0xfc;
    cell[6] = second >> 6;
    let mut pdu = SarPdu::new_unchecked(&mut cell[5..]);
    pdu.set_length(if second & 8 == 0 { 44 } else { second >> 2 });
    pdu.fill_crc10();
    cell
}

impl<R: Reassembler> Place<R> {
    fn step(&mut self, step: [u8; STEP_BYTES]) {
        let [what, first, second] = step;
        let vc = Vc {
            vpi: 0,
            vci: u16::from(what >> 4) % 4,
        };
        let mid = (first & 1 == 0).then_some(u16::from(second) % 4);
        match what % 16 {
            0 => {
                let aal = [Aal::Aal5, Aal::Aal34][usize::from(first % 2)];
                let _ = self.reassembler.open(vc, aal);
            }
            1 => {
                let _ = self.reassembler.flush_vc(vc);
            }
            2 => {
                let _ = self.reassembler.flush_datagram(Stream { vc, mid });
            }
            3 => {
                let wait = Duration::from_us(u64::from(first));
                self.now = self.now.saturating_add(wait);
                self.reassembler.handle_timeout(self.now);
                let due = |deadline| deadline > self.now;
                assert!(self.reassembler.next_deadline().is_none_or(due));
            }
            4 => self.now = Instant::from_ps(u64::from(first) << 56),
            5 => self.reassembler.handle_cell(self.now, &[first; CELL_BYTES]),
            6 | 7 => while self.reassembler.poll(&mut self.payload).is_some() {},
            8 => {
                // The end of a good message of AAL5, or the whole of it.
                let header = HeaderRepr::user(vc, PayloadType::USER);
                let segmenter = Aal5Segmenter::new(header, Interface::Uni);
                let mut cells = [0; 6 * CELL_BYTES];
                let payload = vec![second; usize::from(second).max(1)];
                let count = segmenter.segment(&payload, first, &mut cells).unwrap_or(0);
                for cell in cells
                    .chunks_exact(CELL_BYTES)
                    .take(count)
                    .skip(first.into())
                {
                    let cell = cell.try_into().expect("a whole cell");
                    self.reassembler.handle_cell(self.now, cell);
                }
            }
            _ => self
                .reassembler
                .handle_cell(self.now, &cell(vc.vci, first, second)),
        }
    }

    fn check(mut self) -> R {
        while self.reassembler.poll(&mut self.payload).is_some() {}
        let stats = self.reassembler.stats();
        let ended = stats.pdus_delivered + stats.pdus_lost.total();
        let open = self.reassembler.open_pdus() as u64;
        assert_eq!(stats.pdus_begun, ended + open);
        let counted = stats.cells_taken
            + stats.cells_bad_header
            + stats.cells_unknown_vc
            + stats.cells_not_user
            + stats.cells_bad_segment
            + stats.cells_orphaned
            + stats.cells_refused;
        assert_eq!(stats.cells, counted);
        for vci in 0..4 {
            let _ = self.reassembler.flush_vc(Vc { vpi: 0, vci });
        }
        while self.reassembler.poll(&mut self.payload).is_some() {}
        assert_eq!(self.reassembler.open_pdus(), 0);
        assert_eq!(self.reassembler.next_deadline(), None);
        self.reassembler
    }
}

fn run<R: Reassembler>(reassembler: R, data: &[u8]) -> R {
    let mut place = Place {
        reassembler,
        now: Instant::ORIGIN,
        payload: Vec::new(),
    };
    for step in data.chunks_exact(STEP_BYTES) {
        place.step([step[0], step[1], step[2]]);
    }
    place.check()
}

/// Begins, streams, gives up and polls in any order; what is emitted is reassembled.
fn segmenter(data: &[u8]) {
    let vc = Vc { vpi: 0, vci: 1 };
    let header = HeaderRepr::user(vc, PayloadType::USER);
    let aal5 = Aal5Segmenter::new(header, Interface::Uni);
    let class4 = Aal34Segmenter::new(header, Interface::Uni, 5);
    for (aal, generator) in [
        (Aal::Aal5, Generator::Aal5(aal5)),
        (Aal::Aal34, Generator::Class4(class4)),
    ] {
        let mut segmenter = Segmenter::new(generator, 64);
        let mut pool = Pool::new(PoolConfig::default());
        let _ = pool.open(vc, aal);
        let mut payload = Vec::new();
        let mut delivered = 0;
        for step in data.chunks_exact(2) {
            match step[0] % 8 {
                0 | 1 => {
                    let _ = segmenter.begin(usize::from(step[1]), 0);
                }
                2..5 => {
                    let _ = segmenter.push(&vec![step[0]; usize::from(step[1])]);
                }
                5 => segmenter.abort(),
                _ => {
                    while let Some(cell) = segmenter.poll_cell() {
                        pool.handle_cell(Instant::ORIGIN, &cell);
                    }
                }
            }
            while let Some(report) = pool.poll(&mut payload) {
                delivered += u64::from(report.result.is_ok());
            }
        }
        assert_eq!(segmenter.stats().blocks, delivered);
        assert_eq!(pool.stats().cells_taken, segmenter.stats().cells);
    }
}

/// Drives all of it with these bytes.
pub fn drive(data: &[u8]) {
    let timeout = Duration::from_us(500);
    let pool = run(
        Pool::new(PoolConfig {
            vcs: 3,
            open_pdus: 3,
            pdu_bytes: 480,
            buffer_bytes: 960,
            timeout,
            ..PoolConfig::default()
        }),
        data,
    );
    assert_eq!(pool.held_bytes(), 0);
    let config = PennConfig {
        circuits: 3,
        datagrams: 3,
        buffer_cells: 20,
        pdu_bytes: 480,
        timeout,
        ..PennConfig::default()
    };
    for check_sequence in [false, true] {
        let penn = run(
            Penn::new(PennConfig {
                check_sequence,
                ..config
            }),
            data,
        );
        assert_eq!(penn.free_cells(), 20);
    }
    segmenter(data);
}
