//! The interworking unit under any cells and frames: bounds hold, frames are legal, and
//! nothing panics.
#![no_main]

use barewire_classic::interworking::{Adaptation, Config, Unit};
use barewire_formats::aal34::SarPdu;
use barewire_formats::atm::{CELL_BYTES, Cell, HeaderRepr, Interface, PayloadType, Vc};
use barewire_formats::jetstream::{Frame, FrameRepr};
use barewire_units::{Duration, Instant};
use libfuzzer_sys::fuzz_target;

const BUFFER_BYTES: usize = 500;

fuzz_target!(|data: &[u8]| {
    let mut config = Config::new(Interface::Uni);
    config.pdu_bytes_max = 300;
    config.buffer_bytes_max = BUFFER_BYTES;
    let mut unit = Unit::new(config);
    let adaptations = [
        Adaptation::Cells,
        Adaptation::Aal5,
        Adaptation::Aal34 { mid: 3 },
    ];
    for (vci, adaptation) in (0..).zip(adaptations) {
        let vc = Vc { vpi: 0, vci };
        unit.connect(vc, (1, vci), adaptation).expect("free");
    }
    if let Ok(cells) = unit.handle_frame(data) {
        assert_eq!(cells.len(), cells.count());
    }
    let mut now = Instant::ORIGIN;
    for chunk in data.chunks(CELL_BYTES) {
        now = now.saturating_add(Duration::from_ms(u64::from(chunk[0])));
        let _ = unit.handle_cell(now, &plausible(chunk));
        while let Some(frame) = unit.poll_frame() {
            FrameRepr::parse(&Frame::new_unchecked(&frame[..])).expect("a legal frame");
            if let Ok(cells) = unit.handle_frame(&frame) {
                assert_eq!(cells.len(), cells.count());
            }
        }
        assert!(unit.buffered_bytes() <= BUFFER_BYTES);
        unit.handle_timer(now);
    }
});

/// A cell whose check codes are mostly right, or no input would get past them.
fn plausible(chunk: &[u8]) -> [u8; CELL_BYTES] {
    let mut bytes = [0; CELL_BYTES];
    bytes[..chunk.len()].copy_from_slice(chunk);
    let (what, checks) = (bytes[1], bytes[2]);
    let vc = Vc {
        vpi: 0,
        vci: u16::from(what & 3),
    };
    let header = HeaderRepr::user(vc, PayloadType::new(what >> 5));
    let mut cell = Cell::new_unchecked(&mut bytes);
    if checks & 0x0f != 0 {
        cell.set_header_bytes(header.to_bytes(Interface::Uni));
    }
    if checks & 0xf0 != 0 {
        SarPdu::new_unchecked(cell.payload_mut()).fill_crc10();
    }
    bytes
}
