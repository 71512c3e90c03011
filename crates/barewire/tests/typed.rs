//! Values and arrays in apertures: at both ends, checked, and whole where that is promised.

#![forbid(unsafe_code)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use barewire::{
    AccessError, Action, Aperture, ApertureConfig, Connection, Error, Fault, Memory, Mode, Node,
    RemoteAperture, Rights, Typed,
};
use common::*;

#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Reading {
    celsius: f64,
    sensor: u32,
    flags: [u8; 4],
}

#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(8))]
struct Halves {
    low: u32,
    high: u32,
}

fn reading(of: u32) -> Reading {
    Reading {
        celsius: f64::from(of) / 8.0,
        sensor: of,
        flags: [1, 2, 3, of as u8],
    }
}

struct Shared {
    near: Aperture,
    far: RemoteAperture,
    _connections: [Connection; 2],
    _nodes: [Node; 2],
}

fn share(len_bytes: usize, rights: Rights) -> Shared {
    let name = name("typed");
    let (a, b) = (Node::new().unwrap(), Node::new().unwrap());
    let _listener = a.listen(&name).unwrap();
    let (to_b, to_a) = thread::scope(|scope| {
        let opening = scope.spawn(|| b.connect(&name).unwrap());
        let accepted = a.next_request(SOON).unwrap().accept().unwrap();
        (accepted, opening.join().unwrap())
    });
    let near = a.export(ApertureConfig::new(len_bytes, rights)).unwrap();
    to_b.grant(&near, 0).unwrap();
    let (_, far) = to_a.import(SOON).unwrap();
    Shared {
        near,
        far,
        _connections: [to_b, to_a],
        _nodes: [a, b],
    }
}

#[test]
fn what_one_end_stores_the_other_loads() {
    let Shared { near, far, .. } = &share(4096, Rights::ReadWrite);
    near.store_value(16, &reading(5)).unwrap();
    assert_eq!(far.load_value(16), Ok(reading(5)));
    far.store_value(3, &0xa5_u8).unwrap();
    assert_eq!(near.load_value(3), Ok(0xa5_u8));
    far.store_value(24, &-1.5_f64).unwrap();
    assert_eq!(near.load_value(24), Ok(-1.5_f64));
    near.store_value(4092, &0x0102_0304_u32).unwrap();
    let mut bytes = [0; 4];
    far.get(4092, &mut bytes).unwrap();
    assert_eq!(u32::from_ne_bytes(bytes), 0x0102_0304);

    let many: Vec<Reading> = (0..50).map(reading).collect();
    far.store_values(64, &many).unwrap();
    let mut got = vec![reading(0); 50];
    near.load_values(64, &mut got).unwrap();
    assert_eq!(got, many);
    // Nothing is a value, too.
    far.store_values::<u64>(4096, &[]).unwrap();
    far.store_value(4096, &()).unwrap();
    assert_eq!(far.load_value(4096), Ok(()));

    let array = near.array::<Reading>(64, 50).unwrap();
    assert_eq!((array.len(), array.is_empty()), (50, false));
    for index in 0..50 {
        assert_eq!(array.get(index), Ok(reading(index as u32)));
    }
    array.set(49, &reading(7)).unwrap();
    let theirs = far.array::<Reading>(64, 50).unwrap();
    assert_eq!(theirs.get(49), Ok(reading(7)));
    assert_eq!(theirs.offset(49), Ok(64 + 49 * 16));
}

#[test]
fn bounds_and_alignment_are_checked_and_named() {
    let Shared { near, far, .. } = &share(100, Rights::ReadWrite);
    let unaligned = |offset, align_bytes| AccessError::Unaligned {
        offset,
        align_bytes,
    };
    for memory in [near as &dyn Checked, far] {
        assert_eq!(memory.load_reading(4), Err(unaligned(4, 8)));
        assert_eq!(memory.store_reading(12), Err(unaligned(12, 8)));
        for outside in [88, 96, 104, usize::MAX - 7] {
            for refused in [
                memory.load_reading(outside).map(drop),
                memory.store_reading(outside),
            ] {
                let is_outside = matches!(refused, Err(AccessError::OutOfRange { .. }));
                assert!(is_outside, "{outside}: {refused:?}");
            }
        }
    }
    assert_eq!(far.load_value::<u32>(2), Err(unaligned(2, 4)));
    assert_eq!(far.store_value(1, &1_u16), Err(unaligned(1, 2)));
    assert_eq!(far.load_values(6, &mut [0_u64; 2]), Err(unaligned(6, 8)));
    assert_eq!(far.store_values(6, &[0_u64; 2]), Err(unaligned(6, 8)));
    assert_eq!(far.array::<u32>(2, 1).map(drop), Err(unaligned(2, 4)));
    // 96 bytes are 12 words; a word at 96 does not fit into 100.
    assert!(far.load_value::<u64>(88).is_ok());
    assert!(far.load_value::<u64>(96).is_err());
    assert!(far.store_value(96, &1.0_f64).is_err());
    assert!(far.load_value::<u32>(96).is_ok());

    // Nothing was stored by any of these.
    let mut all = [0; 100];
    near.get(0, &mut all).unwrap();
    assert_eq!(all, [0; 100]);

    for (offset, count) in [(8, 6), (96, 1), (104, 0), (0, usize::MAX), (0, 1 << 60)] {
        let refused = far.array::<Reading>(offset, count).unwrap_err();
        let is_outside = matches!(refused, AccessError::OutOfRange { .. });
        assert!(is_outside, "{count} at {offset}: {refused}");
    }
    let array = far.array::<Reading>(0, 6).unwrap();
    let refused = array.get(6).unwrap_err();
    assert_eq!(refused, AccessError::NoSuchElement { index: 6, count: 6 });
    assert!(array.set(usize::MAX, &reading(1)).is_err());
    for error in [refused, unaligned(2, 4)] {
        assert_eq!(Error::from(error).fault(), Fault::Caller, "{error}");
    }
}

/// One type for both ends.
trait Checked {
    fn load_reading(&self, offset: usize) -> Result<Reading, AccessError>;
    fn store_reading(&self, offset: usize) -> Result<(), AccessError>;
}

impl<M: Memory> Checked for M {
    fn load_reading(&self, offset: usize) -> Result<Reading, AccessError> {
        self.load_value(offset)
    }
    fn store_reading(&self, offset: usize) -> Result<(), AccessError> {
        self.store_value(offset, &reading(1))
    }
}

#[test]
fn rights_revocation_and_tripwires_hold_for_values_too() {
    let read_only = share(64, Rights::Read);
    read_only.near.store_value(0, &7_u32).unwrap();
    assert_eq!(read_only.far.load_value(0), Ok(7_u32));
    let refused = Err(AccessError::ReadOnly);
    assert_eq!(read_only.far.store_value(0, &8_u32), refused);
    assert_eq!(read_only.far.store_value(0, &8_u64), refused);

    let Shared { near, far, .. } = &share(64, Rights::ReadWrite);
    let touched = near.tripwire(0, 16, Mode::Sticky, Action::Count).unwrap();
    far.store_value(12, &1_u32).unwrap();
    far.store_value(8, &1_u64).unwrap();
    far.store_value(0, &reading(3)).unwrap();
    far.store_value(16, &1_u64).unwrap();
    far.load_value::<u32>(0).unwrap();
    assert_eq!(touched.count(), 3, "three stores into it, and a load");
    near.revoke().unwrap();
    assert_eq!(far.store_value(0, &1_u64), Err(AccessError::Revoked));
}

#[test]
fn a_value_of_a_word_is_never_seen_in_part() {
    let Shared { near, far, .. } = &share(64, Rights::ReadWrite);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..200_000_u32 {
                far.store_value(8, &Halves { low: i, high: i }).unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        let mut last = 0;
        while !done.load(Ordering::SeqCst) {
            let Halves { low, high } = near.load_value(8).unwrap();
            assert_eq!(low, high);
            assert!(low >= last);
            last = low;
        }
    });
}
