//! Any bytes as levels of a line, as data for one, and as blocks through an elastic buffer.
#![no_main]

use barewire_formats::line::{Bits, Decoder, Elastic, Encoder, Receiver, describe};
use barewire_fuzz::faults;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    faults(|sink| describe(data, 0, sink));
    let mut receiver = Receiver::new();
    let first = usize::from(data.first().copied().unwrap_or(0));
    let mut levels = Bits::in_range(data, first..usize::MAX);
    while receiver.poll(&mut levels).is_some() {}

    let mut encoder = Encoder::new();
    let mut line = vec![0; data.len() * 10 / 8 + 1];
    let mut at = encoder.data(data, &mut line).expect("room");
    at += encoder.finish(&mut line[at..]).expect("room");
    let mut back = vec![0; data.len() + 1];
    let mut faults = 0;
    let read = Decoder::new().data(&line[..at], &mut back, |_| faults += 1);
    assert_eq!(read, Ok(data.len()));
    assert_eq!((&back[..data.len()], faults), (data, 0));

    let mut decoder = Decoder::new();
    let room = decoder.data_bytes(data.len());
    let mut bytes = vec![0; room];
    assert_eq!(decoder.data(data, &mut bytes, |_| ()), Ok(room));

    let mut elastic = Elastic::<8>::new();
    for &byte in data {
        if byte & 0x80 == 0 {
            let _ = elastic.write(byte & 0x1f);
        } else {
            let _ = elastic.read();
        }
        assert!(elastic.len() <= 8);
    }
});
