//! A station and a monitor of the slotted ring against arbitrary frames: no panic, good
//! frames out, one end for each cell.
#![no_main]

use barewire_classic::slotted::{Channel, Config, Monitor, Station};
use barewire_formats::cbn::{CELL_BYTES, FRAME_BYTES, Frame};
use barewire_units::{Duration, Instant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&shape, steps)) = data.split_first() else {
        return;
    };
    let config = Config {
        frames: 1 + usize::from(shape & 3),
        channels_at_once: 1 + usize::from(shape >> 2 & 3),
        transmit_fifo_cells: 3,
        receive_fifo_cells: 3,
        ..Config::v1s(Channel::ALL[usize::from(shape >> 4 & 3)])
    };
    let mut station = Station::new(config).expect("within range");
    let mut monitor = Monitor::new();
    let mut frame = Frame::new_unchecked([0; FRAME_BYTES]);
    Monitor::form_frame(&mut frame);
    let (mut now, mut ends) = (Instant::ORIGIN, 0);
    for step in steps.chunks_exact(1 + CELL_BYTES) {
        let mut bytes = [0; CELL_BYTES];
        bytes.copy_from_slice(&step[1..]);
        let what = step[0];
        now = now.saturating_add(Duration::from_us(u64::from(what >> 3)));
        let channel = Channel::ALL[usize::from(bytes[0] & 3)];
        match what & 7 {
            0 | 1 => drop(station.send(channel, bytes)),
            2 => monitor.handle_frame(&mut frame),
            3 => station.handle_timeout(now),
            4 => drop(station.reform(usize::from(bytes[0]))),
            5 => station.listen(u16::from(bytes[1] & 3)),
            6 => *frame.slot_mut(channel.index()) = bytes,
            _ => frame.fill_crc(),
        }
        if what & 7 < 4 {
            let before = station.handle_frame(now, &mut frame);
            if what & 0x40 != 0 {
                let inserted = station.insert(&mut frame, channel, || bytes).is_some();
                assert!(!(inserted && before.released[channel.index()]));
            }
            assert!(frame.crc_ok());
        }
        while station.poll_report().is_some() {
            ends += 1;
        }
        if what & 0x80 != 0 {
            station.poll_received();
        }
    }
    assert_eq!(ends + station.in_flight() as u64, station.stats().sent);
});
