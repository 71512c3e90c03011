//! Cells: their headers, the payload scrambler, and PDUs cut into cells and put
//! together again. Bytes are bytes of payload.

use std::cell::RefCell;
use std::hint::black_box;

use barewire_classic::sar::penn::{Penn, PennConfig};
use barewire_classic::sar::segment::{Aal5Segmenter, Aal34Segmenter};
use barewire_classic::sar::{Aal, Pool, PoolConfig, Reassembler};
use barewire_formats::atm::scrambler::{Descrambler, Scrambler};
use barewire_formats::atm::{CELL_BYTES, HeaderRepr, Interface, PayloadType, Vc, hec};
use barewire_units::{Instant, Rng};

use crate::harness::{Case, Effort, Target, measure};
use crate::yardstick::{memcpy, random_bytes};

const CELLS: usize = 1024;

/// HEC of headers that lie one behind the other as cells do in memory.
pub fn hec(effort: Effort) -> usize {
    const TARGET: &[Target] = &[Target::ItemsPerSecond(100e6)];
    let mut rng = Rng::from_seed(5);
    let headers: Vec<[u8; 4]> = (0..CELLS).map(|_| rng.next_u32().to_be_bytes()).collect();
    let whole: Vec<[u8; 5]> = headers
        .iter()
        .map(|&[a, b, c, d]| [a, b, c, d, hec::generate([a, b, c, d])])
        .collect();
    let bytes = random_bytes(CELLS * 5);
    let to = RefCell::new(vec![0; bytes.len()]);
    let mut out = vec![0; CELLS];
    let cells = CELLS as u64;
    let cases = vec![
        memcpy(&bytes, &to),
        Case::new("HEC generate", TARGET, || {
            for (out, header) in out.iter_mut().zip(black_box(&headers)) {
                *out = hec::generate(*header);
            }
            black_box(&mut out);
        })
        .items(cells),
        Case::new("HEC check", TARGET, || {
            let headers = black_box(&whole).iter();
            headers
                .filter(|header| hec::check(header) == hec::Verdict::Good)
                .count()
        })
        .items(cells),
    ];
    measure("HEC, 1024 headers", cells * 5, cases, effort)
}

/// The payload scrambler.
pub fn scrambler(effort: Effort) -> usize {
    let bytes = random_bytes(CELLS * 48);
    let to = RefCell::new(vec![0; bytes.len()]);
    let mut payloads: Vec<[u8; 48]> = bytes
        .chunks_exact(48)
        .map(|c| c.try_into().expect("48"))
        .collect();
    let mut scrambled = payloads.clone();
    let cells = CELLS as u64;
    let cases = vec![
        memcpy(&bytes, &to),
        Case::new("scramble", &[], || {
            let mut scrambler = Scrambler::new();
            payloads.iter_mut().for_each(|p| scrambler.scramble(p));
            black_box(&mut payloads);
        })
        .items(cells),
        Case::new("descramble", &[], || {
            let mut descrambler = Descrambler::new();
            scrambled.iter_mut().for_each(|p| descrambler.descramble(p));
            black_box(&mut scrambled);
        })
        .items(cells),
    ];
    measure("payload scrambler", cells * 48, cases, effort)
}

/// The default MTU of IP over ATM, src:rfc2225.
const PDU_BYTES: usize = 9_180;
const VC: Vc = Vc { vpi: 0, vci: 100 };
const HEADER: HeaderRepr = HeaderRepr::user(VC, PayloadType::USER);

type Cell = [u8; CELL_BYTES];

/// Cells of PDUs to bytes, over and over: a case's body.
fn reassemble<'a, R: Reassembler + 'a>(
    mut reassembler: R,
    aal: Aal,
    cells: &'a [Cell],
) -> impl FnMut() -> usize + 'a {
    reassembler.open(VC, aal).expect("an empty table");
    let mut message = Vec::new();
    move || {
        for cell in black_box(cells) {
            reassembler.handle_cell(Instant::ORIGIN, cell);
        }
        let report = reassembler.poll(&mut message).expect("a whole PDU");
        assert!(report.result.is_ok(), "a good PDU");
        message.len()
    }
}

fn whole_cells(bytes: &[u8]) -> Vec<Cell> {
    let cells = bytes.chunks_exact(CELL_BYTES);
    cells
        .map(|cell| cell.try_into().expect("53 bytes"))
        .collect()
}

/// AAL5 both ways.
pub fn aal5(effort: Effort) -> usize {
    const TARGET: &[Target] = &[Target::BytesPerSecond(10e9)];
    let payload = random_bytes(PDU_BYTES);
    let payload = payload.as_slice();
    let to = RefCell::new(vec![0; PDU_BYTES]);
    let segmenter = Aal5Segmenter::new(HEADER, Interface::Uni);
    let mut out = vec![0; 192 * CELL_BYTES];
    let count = segmenter.segment(payload, 0, &mut out).expect("room");
    let cells = whole_cells(&out[..count * CELL_BYTES]);
    let items = count as u64;
    let cases = vec![
        memcpy(payload, &to),
        Case::new("AAL5 segmentation", TARGET, || {
            let count = segmenter.segment(black_box(payload), 0, &mut out);
            black_box(&mut out);
            count
        })
        .items(items),
        Case::new(
            "AAL5 reassembly",
            TARGET,
            reassemble(Pool::new(PoolConfig::default()), Aal::Aal5, &cells),
        )
        .items(items),
        Case::new(
            "AAL5 reassembly, the Penn way",
            &[],
            reassemble(Penn::new(PennConfig::default()), Aal::Aal5, &cells),
        )
        .items(items),
    ];
    measure("AAL5", PDU_BYTES as u64, cases, effort)
}

/// AAL3/4 both ways.
pub fn aal34(effort: Effort) -> usize {
    const TARGET: &[Target] = &[Target::BytesPerSecond(1e9)];
    let payload = random_bytes(PDU_BYTES);
    let payload = payload.as_slice();
    let to = RefCell::new(vec![0; PDU_BYTES]);
    let mut segmenter = Aal34Segmenter::new(HEADER, Interface::Uni, 5);
    let mut out = vec![0; 210 * CELL_BYTES];
    let count = segmenter.segment(payload, &mut out).expect("room");
    let cells = whole_cells(&out[..count * CELL_BYTES]);
    let items = count as u64;
    let cases = vec![
        memcpy(payload, &to),
        Case::new("AAL3/4 segmentation", TARGET, || {
            let count = segmenter.segment(black_box(payload), &mut out);
            black_box(&mut out);
            count
        })
        .items(items),
        Case::new(
            "AAL3/4 reassembly",
            TARGET,
            reassemble(Pool::new(PoolConfig::default()), Aal::Aal34, &cells),
        )
        .items(items),
        Case::new(
            "AAL3/4 reassembly, the Penn way",
            &[],
            reassemble(Penn::new(PennConfig::default()), Aal::Aal34, &cells),
        )
        .items(items),
    ];
    measure("AAL3/4", PDU_BYTES as u64, cases, effort)
}
