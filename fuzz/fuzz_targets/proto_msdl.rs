//! Any cells, associations and times through MSDL reassembly; any block through both sides.
#![no_main]

use barewire_classic::msdl::{BodySize, Config, Event, Interleave, Reassembler, Sender};
use barewire_formats::cbn::Msdl;
use barewire_units::{Duration, Instant};
use libfuzzer_sys::fuzz_target;

fn drive(data: &[u8], interleave: Interleave) {
    let mut receiver = Reassembler::new(Config {
        interleave,
        blocks_max: 3,
        block_bytes_max: 300,
        time_out: Duration::from_us(3),
        ..Config::default()
    });
    let mut now = Instant::ORIGIN;
    for step in data.chunks_exact(6) {
        now = now.saturating_add(Duration::from_ns(u64::from(step[1])));
        let word = u32::from_be_bytes([0, step[2] & 1, step[3] % 12, step[4]]);
        let msdl = Msdl::from_word(word);
        match step[0] % 16 {
            0 => drop(receiver.open(msdl.vci)),
            1 => drop(receiver.close(msdl.vci)),
            2 => receiver.handle_timeout(now),
            3 => receiver.handle_cell(now, msdl, &data[..data.len().min(40)]),
            _ => receiver.handle_cell(now, msdl, &[step[5]; 32]),
        }
        while let Some(event) = receiver.poll_event() {
            if let Event::Block { bytes, .. } = event {
                assert!(bytes.len() <= 300);
            }
        }
    }
}

fn round_trip(data: &[u8]) {
    let mut sender = Sender::new(BodySize::BACKBONE, 1);
    let mut receiver = Reassembler::new(Config::default());
    receiver.open(1);
    let blocks: Vec<&[u8]> = data.split(|&byte| byte == 0).take(64).collect();
    let sent = blocks
        .iter()
        .filter(|block| sender.submit(block.to_vec()).is_ok());
    let sent = sent.count();
    let mut body = [0; 32];
    while let Some(msdl) = sender.poll_cell(&mut body) {
        receiver.handle_cell(Instant::ORIGIN, msdl, &body);
    }
    let mut arrived = 0;
    while let Some(event) = receiver.poll_event() {
        let Event::Block { bytes, .. } = event else {
            panic!("{event:?}");
        };
        assert!(blocks.contains(&&bytes[..]));
        arrived += 1;
    }
    assert_eq!(arrived, sent);
}

fuzz_target!(|data: &[u8]| {
    drive(data, Interleave::ByRid);
    drive(data, Interleave::Never);
    round_trip(data);
});
