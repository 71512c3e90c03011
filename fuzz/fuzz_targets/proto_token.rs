//! A station of a Jetstream ring under any inputs at any time: it never panics, copies no
//! control frame, and says when it wants to be called while it sends.
#![no_main]

use barewire_classic::token::{Action, Class, Config, Offer, Role, State, Station};
use barewire_formats::jetstream::link::Fill;
use barewire_formats::jetstream::{Frame, FrameRepr, Kind};
use barewire_units::{Duration, Instant};
use libfuzzer_sys::fuzz_target;

/// Bytes of one input: time, kind, argument, and a frame's headers.
const INPUT_BYTES: usize = 12;

fuzz_target!(|data: &[u8]| {
    let Some((&setup, inputs)) = data.split_first() else {
        return;
    };
    let role = if setup & 1 == 0 {
        Role::Host
    } else {
        Role::Master
    };
    let mut config = Config::jetstream(role);
    config.full_duplex = setup & 2 != 0;
    config.synchronous = Duration::from_us(u64::from(setup));
    config.queue_frames_max = 4;
    let mut station = Station::new(config, Instant::ORIGIN).expect("a good configuration");
    let mut now = Instant::ORIGIN;
    for input in inputs.chunks_exact(INPUT_BYTES) {
        let step = u64::from(input[0]) << (input[1] % 56);
        now = now.saturating_add(Duration::from_ps(step));
        disturb(&mut station, now, input[2], &input[3..]);
        while let Some(action) = station.poll_action() {
            if let Action::Send { ends, .. } = action {
                assert!(ends >= now);
            }
        }
        assert!(station.state() != State::Holding || station.next_deadline().is_some());
        assert!(station.state() != State::Fw0 || station.rid().is_none());
    }
});

fn disturb(station: &mut Station, now: Instant, what: u8, rest: &[u8]) {
    match what % 8 {
        0 => station.handle_fill(now, Fill::Fw0),
        1 => station.handle_fill(now, Fill::Fw1),
        2 => station.handle_link_lost(now),
        3 => station.handle_timer(now),
        4 => {
            let class = match rest[0] & 1 {
                0 => Class::Synchronous,
                _ => Class::Asynchronous,
            };
            let frame_bytes = usize::from(u16::from_be_bytes([rest[1], rest[2]])) * 2;
            let _ = station.offer(
                now,
                Offer {
                    id: 0,
                    class,
                    frame_bytes,
                },
            );
        }
        5 => drop(station.handle_frame(now, FrameRepr::token(rest[0]))),
        6 => drop(station.handle_frame(now, FrameRepr::ring_up(rest[0]))),
        _ => {
            let Ok(repr) = FrameRepr::parse(&Frame::new_unchecked(rest)) else {
                return;
            };
            let verdict = station.handle_frame(now, repr);
            assert!(!verdict.copy || matches!(repr.kind, Kind::Data { .. }));
        }
    }
}
