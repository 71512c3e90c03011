//! The cell as a whole: vectors, round trips, and faults on the right field.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use barewire_wire::tree::{Sink, Value};

/// A tree as lines of text, and the errors as they came.
#[derive(Default)]
pub(crate) struct Collector {
    pub(crate) lines: Vec<String>,
    pub(crate) errors: Vec<Error>,
    depth: usize,
}

impl Sink for Collector {
    fn open(&mut self, name: &str, bits: core::ops::Range<usize>) {
        self.lines.push(format!("{bits:?} {name}"));
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth = self.depth.checked_sub(1).expect("an open group");
    }

    fn field(&mut self, name: &str, bits: core::ops::Range<usize>, value: Value<'_>) {
        assert!(self.depth > 0, "a field outside every group");
        self.lines.push(format!("{bits:?} {name} {value:?}"));
    }

    fn wrong(&mut self, error: Error) {
        self.errors.push(error);
    }
}

impl Collector {
    pub(crate) fn of(describe: impl FnOnce(&mut dyn Sink)) -> Self {
        let mut collector = Self::default();
        describe(&mut collector);
        assert_eq!(collector.depth, 0, "groups left open");
        collector
    }
}

fn cell_with(header: HeaderRepr, interface: Interface) -> [u8; CELL_BYTES] {
    let mut cell = Cell::new_unchecked([0x33; CELL_BYTES]);
    header.emit(&mut cell, interface);
    cell.into_inner()
}

fn any_header() -> impl Strategy<Value = (HeaderRepr, Interface)> {
    (any::<u32>(), any::<bool>()).prop_map(|(word, nni)| {
        let interface = if nni { Interface::Nni } else { Interface::Uni };
        (HeaderRepr::from_word(word, interface), interface)
    })
}

#[test]
fn the_cells_as_published() {
    assert_eq!(IDLE_CELL[..6], [0, 0, 0, 1, 0x52, 0x6a]);
    assert_eq!(IDLE_CELL[52], 0x6a);
    assert_eq!(HeaderRepr::IDLE.kind(), Kind::Idle);
    let unassigned = HeaderRepr::UNASSIGNED;
    assert_eq!(unassigned.to_bytes(Interface::Uni), [0, 0, 0, 0, 0x55]);
    assert_eq!(unassigned.kind(), Kind::Unassigned);
}

#[test]
fn fields_stand_where_the_table_says() {
    let header = HeaderRepr {
        gfc: 0x1,
        vc: Vc {
            vpi: 0x23,
            vci: 0x4567,
        },
        payload_type: PayloadType::RESERVED,
        loss_priority: false,
    };
    assert_eq!(header.to_word(Interface::Uni), 0x1234_567e);
    let header = HeaderRepr::from_word(0x1234_5678, Interface::Nni);
    assert_eq!(
        header.vc,
        Vc {
            vpi: 0x123,
            vci: 0x4567
        }
    );
    assert_eq!((header.gfc, header.payload_type.get()), (0, 4));
}

#[test]
fn kinds_follow_the_header() {
    let kind = |vpi, vci, code, loss_priority| {
        let vc = Vc { vpi, vci };
        let payload_type = PayloadType::new(code);
        let header = HeaderRepr::user(vc, payload_type);
        HeaderRepr {
            loss_priority,
            ..header
        }
        .kind()
    };
    assert_eq!(kind(0, 0, 0, true), Kind::Idle);
    assert_eq!(kind(0, 0, 4, true), Kind::Physical);
    assert_eq!(kind(0, 0, 5, false), Kind::Unassigned);
    assert_eq!(kind(7, 3, 0, false), Kind::F4Segment);
    assert_eq!(kind(7, 4, 0, false), Kind::F4EndToEnd);
    assert_eq!(kind(7, 32, 4, false), Kind::F5Segment);
    assert_eq!(kind(7, 32, 5, false), Kind::F5EndToEnd);
    assert_eq!(kind(7, 32, 6, false), Kind::ResourceManagement);
    assert_eq!(kind(7, 32, 7, false), Kind::Reserved);
    assert_eq!(kind(7, 32, 3, true), Kind::User);
    let oam = [kind(7, 3, 0, false), kind(7, 32, 5, false)];
    assert!(oam.into_iter().all(Kind::is_oam));
    assert!(!Kind::User.is_oam());
}

#[test]
fn payload_types_say_what_they_are() {
    let all = (0..8).map(PayloadType::new);
    let of = |test: fn(PayloadType) -> bool| -> Vec<u8> {
        let which = all.clone().filter(|&pt| test(pt));
        which.map(PayloadType::get).collect()
    };
    assert_eq!(of(PayloadType::is_user), [0, 1, 2, 3]);
    assert_eq!(of(PayloadType::auu), [1, 3]);
    assert_eq!(of(PayloadType::congested), [2, 3]);
}

#[test]
fn a_cell_on_one_line() {
    let vc = Vc { vpi: 1, vci: 32 };
    let mut cell = cell_with(HeaderRepr::user(vc, PayloadType::USER_END), Interface::Uni);
    assert_eq!(Cell::new_unchecked(cell).to_string(), "VC 1/32 user, AUU");
    cell[0] ^= 0x80;
    assert_eq!(
        Cell::new_unchecked(cell).to_string(),
        "VC 1/32 user, AUU GFC 8, bit 0 wrong by the HEC"
    );
}

#[test]
fn a_short_cell_is_short_where_it_ends() {
    for (have, field) in [
        (0, "header"),
        (4, "header"),
        (5, "payload"),
        (52, "payload"),
    ] {
        let error = Cell::new_checked(&IDLE_CELL[..have]).unwrap_err();
        assert_eq!((error.field, error.first_bit), (field, have * 8));
        let seen = Collector::of(|sink| describe(&IDLE_CELL[..have], 0, sink));
        assert_eq!(seen.errors, [error]);
    }
}

#[test]
fn the_tree_of_a_cell() {
    let vc = Vc { vpi: 1, vci: 100 };
    let mut cell = cell_with(HeaderRepr::user(vc, PayloadType::USER), Interface::Uni);
    let seen = Collector::of(|sink| describe(&cell, 100, sink));
    assert_eq!(seen.errors, []);
    assert_eq!(
        seen.lines[..8],
        [
            "100..524 cell",
            "100..140 header",
            "100..104 GFC Uint(0)",
            "104..112 VPI Uint(1)",
            "112..128 VCI Uint(100)",
            "128..131 PT Code(0, \"user\")",
            "131..132 CLP Flag(false)",
            "132..140 HEC Hex(78)",
        ]
    );
    cell[2] ^= 0x10;
    let seen = Collector::of(|sink| describe_nni(&cell, 100, sink));
    assert_eq!(seen.lines[2], "100..112 VPI Uint(1)");
    let accused = "119..120 bit that the HEC accuses Flag(true)";
    assert!(seen.lines.iter().any(|line| line == accused));
    let [error] = seen.errors[..] else {
        panic!("one error");
    };
    assert_eq!((error.field, error.first_bit), ("HEC", 132));
}

#[test]
fn the_tree_of_an_idle_and_an_oam_cell() {
    let mut two = [0; 2 * CELL_BYTES];
    two[..CELL_BYTES].copy_from_slice(&IDLE_CELL);
    two[10] = 0;
    let vc = Vc { vpi: 1, vci: 3 };
    let oam = cell_with(HeaderRepr::user(vc, PayloadType::USER), Interface::Uni);
    two[CELL_BYTES..].copy_from_slice(&oam);
    let seen = Collector::of(|sink| describe(&two, 0, sink));
    let fields: Vec<_> = seen.errors.iter().map(|e| (e.field, e.first_bit)).collect();
    let oam_at = (CELL_BYTES + HEADER_BYTES) * 8;
    let expected = [
        ("payload", 80),
        ("CRC-10", oam_at + 374),
        ("reserved", oam_at + 368),
    ];
    assert_eq!(fields, expected);
}

proptest! {
    #[test]
    fn emit_then_parse((header, interface) in any_header()) {
        let cell = Cell::new_checked(cell_with(header, interface)).unwrap();
        prop_assert_eq!(HeaderRepr::parse(&cell, interface), Ok(header));
        prop_assert_eq!(cell.header(interface), header);
        prop_assert_eq!(cell.payload(), &[0x33; PAYLOAD_BYTES]);
    }

    #[test]
    fn a_wrong_bit_is_found_and_put_right((header, interface) in any_header(), bit in 0_u8..40) {
        let good = header.to_bytes(interface);
        let mut wrong = good;
        wrong[usize::from(bit / 8)] ^= 0x80 >> (bit % 8);
        prop_assert_eq!(HeaderRepr::from_bytes(&wrong, interface).unwrap_err().field, "HEC");
        prop_assert_eq!(
            hec::Receiver::new().receive(&mut wrong),
            hec::Outcome::Corrected(bit)
        );
        prop_assert_eq!(wrong, good);
    }

    #[test]
    fn the_hec_is_filled_in_place(mut bytes: [u8; 32]) {
        let mut cell = [0; CELL_BYTES];
        bytes.reverse();
        cell[..32].copy_from_slice(&bytes);
        let mut cell = Cell::new_unchecked(cell);
        cell.fill_hec();
        prop_assert_eq!(cell.check_hec(), hec::Verdict::Good);
        prop_assert_eq!(cell.payload_mut()[..27].to_vec(), bytes[5..].to_vec());
    }

    #[test]
    fn anything_can_be_described(bytes in proptest::collection::vec(any::<u8>(), 0..160)) {
        let seen = Collector::of(|sink| describe(&bytes, 8, sink));
        let within = |e: &Error| e.first_bit >= 8 && e.first_bit <= 8 + bytes.len() * 8;
        prop_assert!(seen.errors.iter().all(within));
        Collector::of(|sink| describe_nni(&bytes, 0, sink));
    }
}
