//! Jetstream frames, words of its link, and its elastic buffer: what parses comes back, what
//! is refused is described, and nothing panics.
#![no_main]

use barewire_formats::jetstream::{Frame, FrameRepr, describe, fifo::ElasticFifo, link};
use barewire_fuzz::faults;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let wrong = faults(|sink| describe(data, 0, sink));
    match Frame::new_checked(data).and_then(|frame| FrameRepr::parse(&frame)) {
        Ok(repr) => {
            let mut bytes = data.to_vec();
            repr.emit(&mut Frame::new_unchecked(&mut bytes));
            assert_eq!((repr.buffer_len(), &bytes[..]), (data.len(), data));
        }
        Err(_) => assert!(wrong > 0),
    }
    let mut fifo = ElasticFifo::new();
    for word in data.chunks_exact(4) {
        let bits = u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
        let _ = link::decode(bits & 0xf_ffff);
        let _ = fifo.write((bits & 1 == 1).then_some(bits as u16));
        if bits & 2 == 2 {
            let _ = fifo.read();
        }
    }
});
