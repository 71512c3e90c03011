//! SAR-PDUs and CPCS-PDUs of AAL3/4 full of anything: what parses can be emitted again.
#![no_main]

use barewire_formats::aal34::{CpcsPdu, CpcsRepr, SarPdu, SarRepr, describe, describe_cpcs};
use barewire_fuzz::faults;
use libfuzzer_sys::fuzz_target;

fn segment(bytes: &[u8]) {
    let wrong = faults(|sink| describe(bytes, 0, sink));
    let parsed = SarPdu::new_checked(bytes).and_then(|pdu| SarRepr::parse(&pdu));
    assert_eq!(parsed.is_ok(), wrong == 0);
    if let Ok(repr) = parsed {
        let mut copy = bytes.to_vec();
        let mut view = SarPdu::new_unchecked(&mut copy[..]);
        repr.emit(&mut view);
        assert_eq!(SarRepr::parse(&view), Ok(repr));
    }
}

fn message(bytes: &[u8]) {
    let wrong = faults(|sink| describe_cpcs(bytes, 0, sink));
    let parsed = CpcsPdu::new_checked(bytes).and_then(|pdu| CpcsRepr::parse(&pdu));
    assert_eq!(parsed.is_ok(), wrong == 0);
    if let Ok(repr) = parsed {
        assert_eq!(repr.buffer_len(), bytes.len());
        let mut copy = bytes.to_vec();
        let mut view = CpcsPdu::new_unchecked(&mut copy[..]);
        repr.emit(&mut view);
        assert_eq!(CpcsRepr::parse(&view), Ok(repr));
        assert_eq!(view.payload(), CpcsPdu::new_unchecked(bytes).payload());
    }
}

fuzz_target!(|data: &[u8]| {
    segment(data);
    message(data);
    if let Some(first) = data.get(..48) {
        let mut sealed = first.to_vec();
        SarPdu::new_unchecked(&mut sealed[..]).fill_crc10();
        segment(&sealed);
    }
});
