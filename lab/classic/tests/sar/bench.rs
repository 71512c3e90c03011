//! The vocabulary of these tests: senders, a reassembler under test, what it reported.

use barewire_classic::sar::penn::{Penn, PennConfig};
use barewire_classic::sar::segment::{Aal5Segmenter, Aal34Segmenter, aal5_cells, aal34_cells};
use barewire_classic::sar::{Aal, Delivered, Loss, Pool, PoolConfig, Reassembler, Report, Stream};
use barewire_formats::atm::{CELL_BYTES, HeaderRepr, Interface, PayloadType, Vc};
use barewire_units::{Duration, Instant};

pub type CellBytes = [u8; CELL_BYTES];

/// What the reassemblers of the suite have room for.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub circuits: usize,
    pub open_pdus: usize,
    pub pdu_bytes: usize,
    pub buffer_cells: usize,
    pub timeout: Duration,
}

pub const SIZES: Sizes = Sizes {
    circuits: 8,
    open_pdus: 8,
    pdu_bytes: 65_568,
    buffer_cells: 4096,
    timeout: Duration::from_ms(10),
};

pub trait Make: Reassembler {
    fn make(sizes: Sizes) -> Self;
}

impl Make for Pool {
    fn make(sizes: Sizes) -> Self {
        Self::new(PoolConfig {
            interface: Interface::Uni,
            vcs: sizes.circuits,
            open_pdus: sizes.open_pdus,
            pdu_bytes: sizes.pdu_bytes,
            buffer_bytes: sizes.buffer_cells * 48,
            timeout: sizes.timeout,
        })
    }
}

impl Make for Penn {
    fn make(sizes: Sizes) -> Self {
        Self::new(PennConfig {
            interface: Interface::Uni,
            circuits: sizes.circuits,
            datagrams: sizes.open_pdus,
            buffer_cells: sizes.buffer_cells,
            pdu_bytes: sizes.pdu_bytes,
            check_sequence: true,
            timeout: sizes.timeout,
        })
    }
}

pub const fn vc(vci: u16) -> Vc {
    Vc { vpi: 3, vci }
}

pub const fn stream(vci: u16, mid: Option<u16>) -> Stream {
    Stream { vc: vc(vci), mid }
}

pub const fn header(vci: u16) -> HeaderRepr {
    HeaderRepr::user(vc(vci), PayloadType::USER)
}

/// Some bytes that are nowhere the same for long.
pub fn text(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8 ^ seed).collect()
}

/// Sends on one stream.
pub enum Sender {
    Aal5(Aal5Segmenter),
    Aal34(Aal34Segmenter),
}

impl Sender {
    pub fn new(stream: Stream) -> Self {
        let header = HeaderRepr::user(stream.vc, PayloadType::USER);
        match stream.mid {
            None => Self::Aal5(Aal5Segmenter::new(header, Interface::Uni)),
            Some(mid) => Self::Aal34(Aal34Segmenter::new(header, Interface::Uni, mid)),
        }
    }

    pub fn cells(&mut self, payload: &[u8]) -> Vec<CellBytes> {
        let count = aal5_cells(payload.len()).max(aal34_cells(payload.len()));
        let mut cells = vec![0; count * CELL_BYTES];
        let count = match self {
            Self::Aal5(aal5) => aal5.segment(payload, 0, &mut cells),
            Self::Aal34(aal34) => aal34.segment(payload, &mut cells),
        };
        let count = count.expect("a message that can be sent");
        split(&cells[..count * CELL_BYTES])
    }

    pub fn abort(&mut self, sent: &[CellBytes]) -> CellBytes {
        match self {
            Self::Aal5(aal5) => aal5.abort(sent.as_flattened()),
            Self::Aal34(aal34) => aal34.abort(sent.as_flattened()),
        }
    }
}

pub fn split(cells: &[u8]) -> Vec<CellBytes> {
    let cell = |bytes: &[u8]| bytes.try_into().expect("a whole cell");
    cells.chunks(CELL_BYTES).map(cell).collect()
}

/// A reassembler with the streams of these tests open: AAL5 on VCI 50 to 53, AAL3/4 on
/// VCI 34.
pub struct Bench<R> {
    pub reassembler: R,
    pub now: Instant,
}

pub const AAL5: Stream = stream(50, None);
pub const AAL34: Stream = stream(34, Some(341));

impl<R: Make> Bench<R> {
    pub fn new(sizes: Sizes) -> Self {
        let mut reassembler = R::make(sizes);
        for vci in 50..54 {
            reassembler.open(vc(vci), Aal::Aal5).expect("place");
        }
        reassembler.open(vc(34), Aal::Aal34).expect("place");
        Self {
            reassembler,
            now: Instant::ORIGIN,
        }
    }

    pub fn send(&mut self, cells: &[CellBytes]) {
        for cell in cells {
            self.reassembler.handle_cell(self.now, cell);
        }
    }

    /// Everything reported since, with what was delivered.
    pub fn reports(&mut self) -> Vec<(Report, Vec<u8>)> {
        let mut reports = Vec::new();
        let mut payload = vec![0xaa];
        while let Some(report) = self.reassembler.poll(&mut payload) {
            reports.push((report, payload.clone()));
        }
        assert!(payload.is_empty());
        reports
    }

    #[track_caller]
    pub fn expect_delivered(&mut self, stream: Stream, payload: &[u8]) {
        self.expect(&[(stream, Ok(payload))]);
    }

    #[track_caller]
    pub fn expect_lost(&mut self, stream: Stream, loss: Loss) {
        self.expect(&[(stream, Err(loss))]);
    }

    #[track_caller]
    pub fn expect_nothing(&mut self) {
        self.expect(&[]);
    }

    #[track_caller]
    pub fn expect(&mut self, expected: &[(Stream, Result<&[u8], Loss>)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(stream, result)| {
                let payload = result.unwrap_or(&[]).to_vec();
                let result = result.map(|payload| Delivered {
                    uu: 0,
                    payload_bytes: payload.len(),
                });
                let stream = *stream;
                (Report { stream, result }, payload)
            })
            .collect();
        assert_eq!(self.reports(), expected);
    }

    /// Cells and messages add up.
    #[track_caller]
    pub fn assert_balanced(&self) {
        let stats = self.reassembler.stats();
        let kinds = [
            stats.cells_taken,
            stats.cells_bad_header,
            stats.cells_unknown_vc,
            stats.cells_not_user,
            stats.cells_bad_segment,
            stats.cells_orphaned,
            stats.cells_refused,
        ];
        assert_eq!(stats.cells, kinds.iter().sum::<u64>(), "{stats:?}");
        let ended = stats.pdus_delivered + stats.pdus_lost.total();
        let open = self.reassembler.open_pdus() as u64;
        assert_eq!(stats.pdus_begun, ended + open, "{stats:?}");
    }
}
