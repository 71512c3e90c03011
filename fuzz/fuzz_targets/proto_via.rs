//! The Virtual Interface Architecture under any descriptors and any numbers of a peer: nothing panics, a descriptor that
//! passes names only permitted memory, descriptors are done once and in order, and no message is without a receive.
#![no_main]

use barewire_proto::via::credit::{Credit, Offered};
use barewire_proto::via::descriptor::{
    CONTROL_BYTES, Control, Limits, SEGMENT_BYTES, Segment, Side, check,
};
use barewire_proto::via::protection::{Access, Region, Regions};
use barewire_proto::via::queue::WorkQueue;
use barewire_proto::via::state::{ViEvent, ViState};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits {
    transfer_bytes_max: 1 << 16,
    rdma_read: true,
};
const TAG: u64 = 1;

/// Reads a descriptor from any bytes and checks it.
fn descriptor(data: &[u8]) {
    let Some((control, rest)) = data.split_first_chunk::<CONTROL_BYTES>() else {
        return;
    };
    let control = Control::read(control);
    let chunks = rest.chunks_exact(SEGMENT_BYTES);
    let segments: Vec<Segment> = chunks
        .map(|bytes| Segment::read(bytes.try_into().expect("as long as it was cut")))
        .collect();
    let mut regions = Regions::new();
    let region = Region {
        start: 0x1000,
        len_bytes: 1 << 20,
        tag: TAG,
        rdma_write: true,
        rdma_read: false,
    };
    regions.register(region, 1).expect("a region");
    let allows = |s: &Segment| {
        let len = u64::from(s.len_bytes);
        regions.allows(s.handle, s.address, len, TAG, Access::Local)
    };
    for side in [Side::Send, Side::Receive] {
        let Ok(work) = check(side, &control, &segments, &LIMITS, allows) else {
            continue;
        };
        assert!(side == Side::Receive || work.len_bytes <= u64::from(LIMITS.transfer_bytes_max));
        for segment in work.data.iter().filter(|s| s.len_bytes > 0) {
            let end = segment.address + u64::from(segment.len_bytes);
            assert!(segment.address >= 0x1000 && end <= 0x1000 + (1 << 20));
        }
    }
}

/// A work queue, credit and a state under any steps.
fn steps(data: &[u8]) {
    let mut queue = WorkQueue::new(16);
    let (mut offered, mut credit) = (Offered::default(), Credit::default());
    let (mut posted, mut taken, mut told) = (0_u64, 0_u64, 0_usize);
    let mut state = ViState::Idle;
    for pair in data.chunks_exact(2) {
        let (kind, value) = (pair[0], pair[1]);
        match kind % 8 {
            0 if queue.post(posted).is_some() => posted += 1,
            1 => queue.begin(),
            2 => told += queue.end(u64::from(value)),
            3 => {
                if let Some(work) = queue.take() {
                    assert_eq!(work, taken);
                    taken += 1;
                }
            }
            4 => offered.post(),
            5 => {
                if offered.should_tell() {
                    offered.told();
                }
                // A message of a peer that may not have been told.
                let _ = offered.take();
            }
            6 => {
                let number = u32::from(value) << (value % 24);
                if credit.hear(number, 16).is_ok() && credit.has() {
                    credit.spend();
                }
            }
            7 => {
                let events = [
                    ViEvent::Request,
                    ViEvent::Accept,
                    ViEvent::Established,
                    ViEvent::Refused,
                    ViEvent::Disconnect,
                    ViEvent::Lost,
                    ViEvent::Fault,
                ];
                let event = events[usize::from(value) % events.len()];
                state = state.on(event).unwrap_or(state);
            }
            _ => {}
        }
        assert!(taken <= told as u64 && told as u64 <= posted);
        assert!(queue.len() <= 16 && queue.open_len() <= queue.len());
    }
    assert_eq!(state.on(ViEvent::Disconnect), Some(ViState::Idle));
}

fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        Some((0..128, rest)) => descriptor(rest),
        Some((_, rest)) => steps(rest),
        None => {}
    }
});
