//! A CPCS-PDU of AAL5 full of anything: what parses can be emitted again.
#![no_main]

use barewire_formats::aal5::{Pdu, PduRepr, describe, pdu_bytes};
use barewire_fuzz::faults;
use libfuzzer_sys::fuzz_target;

fn check(bytes: &[u8]) {
    let wrong = faults(|sink| describe(bytes, 0, sink));
    let Ok(pdu) = Pdu::new_checked(bytes) else {
        assert!(wrong > 0);
        return;
    };
    let parsed = PduRepr::parse(&pdu);
    assert_eq!(parsed.is_ok(), wrong == 0);
    let Ok(repr) = parsed else {
        return;
    };
    if !repr.is_abort() {
        assert_eq!(bytes.len(), pdu_bytes(repr.payload_bytes.into()));
        let mut copy = bytes.to_vec();
        repr.emit(&mut Pdu::new_unchecked(&mut copy[..]));
        let view = Pdu::new_unchecked(&copy[..]);
        assert_eq!(PduRepr::parse(&view), Ok(repr));
        assert_eq!(view.payload(), pdu.payload());
    }
}

fuzz_target!(|data: &[u8]| {
    check(data);
    // With the check code right, so that the checks behind it are reached.
    let mut sealed = data.to_vec();
    if Pdu::new_checked(&sealed).is_ok() {
        Pdu::new_unchecked(&mut sealed[..]).fill_crc32();
        check(&sealed);
    }
});
