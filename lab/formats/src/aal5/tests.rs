//! The vectors of docs/sources/vectors.md, round trips, and every single fault on its own field.

use std::string::ToString;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::shown::Shown;
use super::*;

/// The PDU that carries `payload`.
fn pdu(payload: &[u8], uu: u8, cpi: u8) -> Vec<u8> {
    let repr = PduRepr {
        uu,
        cpi,
        payload_bytes: payload.len() as u16,
    };
    let mut bytes = vec![0xee; repr.buffer_len()];
    bytes[..payload.len()].copy_from_slice(payload);
    repr.emit(&mut Pdu::new_checked(&mut bytes[..]).expect("whole cells"));
    bytes
}

fn parse(bytes: &[u8]) -> Result<PduRepr, Error> {
    PduRepr::parse(&Pdu::new_checked(bytes)?)
}

fn counting(bytes: u8) -> Vec<u8> {
    (1..=bytes).collect()
}

/// Makes the check code right again, so that another fault stands alone.
fn seal(bytes: &mut [u8]) {
    Pdu::new_unchecked(bytes).fill_crc32();
}

fn crc_of(bytes: &[u8]) -> u32 {
    let mut crc = Crc32::new();
    crc.update(bytes);
    crc.finish()
}

#[test]
fn the_trailers_as_published_stand() {
    let cases: [(Vec<u8>, u8, u8, u64); 8] = [
        (vec![0; 40], 0, 0, 0x0000_0028_864d_7f99),
        (vec![0xff; 40], 0, 0, 0x0000_0028_c55e_457a),
        (counting(40), 0, 0, 0x0000_0028_bf67_1ed0),
        (counting(40), 0x11, 0x22, 0x1122_0028_acba_602a),
        (vec![], 0, 0, 0x0000_0000_3866_24c1),
        (b"A".to_vec(), 0, 0, 0x0000_0001_a5b7_bf2f),
        (counting(41), 0, 0, 0x0000_0029_b14c_a47e),
        (vec![0; 65_535], 0, 0, 0x0000_ffff_5245_070f),
    ];
    for (payload, uu, cpi, trailer) in cases {
        let bytes = pdu(&payload, uu, cpi);
        assert_eq!(bytes.len() % 48, 0);
        assert_eq!(bytes[bytes.len() - 8..], trailer.to_be_bytes());
        assert_eq!(crc_of(&bytes), GOOD);
        let repr = PduRepr {
            uu,
            cpi: 0,
            payload_bytes: payload.len() as u16,
        };
        match parse(&bytes) {
            Ok(parsed) => assert_eq!((parsed, cpi), (repr, 0)),
            Err(error) => assert_eq!((error.field, cpi), ("cpi", 0x22)),
        }
    }
}

#[test]
fn sizes_are_whole_cells() {
    let sizes = [0, 40, 41, 88, 89, 65_535].map(pdu_bytes);
    assert_eq!(sizes, [48, 48, 96, 96, 144, 65_568]);
    assert_eq!(PDU_BYTES_MAX, 1366 * 48);
}

#[test]
fn the_residue_is_its_complement_as_the_card_appends_it() {
    assert_eq!((RESIDUE, GOOD), (0xc704_dd7b, 0x38fb_2284));
}

#[test]
fn an_abort_is_one_whatever_stands_before_it() {
    let mut bytes = vec![0x77; 96];
    PduRepr::ABORT.emit(&mut Pdu::new_unchecked(&mut bytes[..]));
    bytes[..60].fill(0x77);
    seal(&mut bytes);
    let repr = parse(&bytes).expect("an abort");
    assert!(repr.is_abort());
    assert_eq!(repr.to_string(), "AAL5 abort");
}

/// What is planted, and the field and bits that must be blamed.
type Planted = (fn(&mut [u8]), &'static str, Range<usize>);

#[test]
fn each_planted_fault_is_blamed_on_its_field() {
    let cases: [Planted; 6] = [
        (|pdu| pdu[0] ^= 1, "crc32", 92 * 8..96 * 8),
        (|pdu| pdu[95] ^= 0x80, "crc32", 92 * 8..96 * 8),
        (|pdu| pdu[60] ^= 0x80, "crc32", 92 * 8..96 * 8),
        (
            |pdu| {
                pdu[89] = 3;
                seal(pdu);
            },
            "cpi",
            89 * 8..90 * 8,
        ),
        (
            |pdu| {
                pdu[91] = 89;
                seal(pdu);
            },
            "length",
            90 * 8..92 * 8,
        ),
        (
            |pdu| {
                pdu[91] = 40;
                seal(pdu);
            },
            "pad",
            40 * 8..88 * 8,
        ),
    ];
    for (plant, field, bits) in cases {
        let mut bytes = pdu(&counting(50), 0, 0);
        plant(&mut bytes);
        let error = parse(&bytes).expect_err(field);
        assert_eq!(error.field, field);
        assert_eq!(error.first_bit..error.first_bit + error.bit_count, bits);
        let mut tree = Shown::default();
        describe(&bytes, 1000, &mut tree);
        assert_eq!(tree.errors, [error.shifted(1000)]);
        tree.assert_closed(1000..1000 + 96 * 8);
    }
}

#[test]
fn sizes_that_no_pdu_has_are_refused() {
    let field = |len| {
        Pdu::new_checked(vec![0; len])
            .map(|_| ())
            .map_err(|e| (e.field, e.fault))
    };
    for (len, needed_bytes) in [(0, 48), (7, 48), (47, 48), (49, 96), (100, 144)] {
        let fault = Fault::Short {
            needed_bytes,
            have_bytes: len,
        };
        assert_eq!(field(len), Err(("pdu", fault)));
    }
    let fault = Fault::Long {
        allowed_bytes: PDU_BYTES_MAX,
        have_bytes: PDU_BYTES_MAX + 48,
    };
    assert_eq!(field(PDU_BYTES_MAX + 48), Err(("pdu", fault)));
    assert_eq!(field(PDU_BYTES_MAX), Ok(()));
}

#[test]
fn it_shows_itself() {
    let repr = PduRepr {
        uu: 0x11,
        cpi: 0x22,
        payload_bytes: 40,
    };
    assert_eq!(repr.to_string(), "AAL5 40 bytes uu=0x11 cpi=0x22");
    let bytes = pdu(b"A", 0, 0);
    let trailer = TrailerRepr::parse(&Pdu::new_unchecked(&bytes[..]).trailer());
    let shown = "AAL5 trailer uu=0x00 cpi=0x00 length=1 crc32=0xa5b7bf2f";
    assert_eq!(trailer.to_string(), shown);
    let mut tree = Shown::default();
    describe(&pdu(b"A", 0, 0), 0, &mut tree);
    let expected = [
        "payload 0..8",
        "pad 8..320",
        "uu 320..328",
        "cpi 328..336",
        "length 336..352",
        "crc32 352..384",
    ];
    assert_eq!(tree.lines(), expected);
    assert_eq!(tree.errors, []);
}

proptest! {
    #[test]
    fn what_is_emitted_parses_back(
        payload in proptest::collection::vec(any::<u8>(), 1..2000),
        uu: u8,
    ) {
        let bytes = pdu(&payload, uu, 0);
        let view = Pdu::new_checked(&bytes).expect("whole cells");
        let repr = PduRepr::parse(&view).expect("a good PDU");
        prop_assert_eq!(repr, PduRepr { uu, cpi: 0, payload_bytes: payload.len() as u16 });
        prop_assert_eq!(view.payload(), &payload[..]);
        prop_assert_eq!(view.pad().len(), bytes.len() - 8 - payload.len());
        prop_assert!(view.pad().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn any_burst_of_up_to_32_bits_is_found(
        payload in proptest::collection::vec(any::<u8>(), 1..200),
        at: prop::sample::Index,
        burst in 1_u32..,
    ) {
        let mut bytes = pdu(&payload, 0, 0);
        let first = at.index(bytes.len() - 3);
        for (byte, flip) in bytes[first..].iter_mut().zip(burst.to_be_bytes()) {
            *byte ^= flip;
        }
        prop_assert_eq!(parse(&bytes).expect_err("a burst").field, "crc32");
    }

    #[test]
    fn any_bytes_are_read_without_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        length: u8,
        sealed: bool,
        first_bit in 0_usize..1000,
    ) {
        let mut bytes = bytes;
        if sealed && bytes.len() >= TRAILER_BYTES {
            let at = bytes.len() - TRAILER_BYTES;
            bytes[at + 1..at + 4].copy_from_slice(&[0, 0, length]);
            seal(&mut bytes);
        }
        let parsed = parse(&bytes);
        let mut tree = Shown::default();
        describe(&bytes, first_bit, &mut tree);
        tree.assert_closed(first_bit..first_bit + bytes.len() * 8);
        prop_assert_eq!(parsed.is_err(), !tree.errors.is_empty());
        if let Err(error) = parsed {
            prop_assert!(tree.errors.contains(&error.shifted(first_bit)));
        }
    }
}
