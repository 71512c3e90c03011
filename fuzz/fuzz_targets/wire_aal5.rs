//! A CPCS-PDU of AAL5 full of anything: what parses can be emitted again.
#![no_main]

use core::ops::Range;

use barewire_wire::aal5::{Pdu, PduRepr, describe, pdu_bytes};
use barewire_wire::tree::{Sink, Value};
use libfuzzer_sys::fuzz_target;

struct Count(usize);

impl Sink for Count {
    fn open(&mut self, _name: &str, _bits: Range<usize>) {}
    fn close(&mut self) {}
    fn field(&mut self, _name: &str, _bits: Range<usize>, _value: Value<'_>) {}
    fn wrong(&mut self, _error: barewire_wire::Error) {
        self.0 += 1;
    }
}

fn check(bytes: &[u8]) {
    let mut wrong = Count(0);
    describe(bytes, 0, &mut wrong);
    let Ok(pdu) = Pdu::new_checked(bytes) else {
        assert!(wrong.0 > 0);
        return;
    };
    let parsed = PduRepr::parse(&pdu);
    assert_eq!(parsed.is_ok(), wrong.0 == 0);
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
