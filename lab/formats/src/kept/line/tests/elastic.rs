//! The bound on the clocks, from both sides.

use super::super::*;
use std::vec::Vec;

const BLOCKS_PER_S: u64 = 102_400_000;
/// A frame and the gap symbol that stays.
const RUN: u64 = FRAME_BLOCKS as u64 + 1;

/// Drives frames with `gap` symbols behind each through a buffer, `offset_ppm` the offset
/// of the line's clock. Gives the number of overflows and underflows, and what came out.
fn drive<const N: usize>(offset_ppm: i32, gap: usize, frames: u64) -> (u64, u64, Vec<u8>) {
    let line = Clock::new(BLOCKS_PER_S, offset_ppm).expect("a clock");
    let station = Clock::new(BLOCKS_PER_S, 0).expect("a clock");
    let period = FRAME_BLOCKS + gap;
    let block = |i: u64| match i as usize % period {
        0 => SYN,
        at if at < FRAME_BLOCKS => Symbol::Data((i / period as u64 + at as u64) as u8).to_block(),
        _ => GAP,
    };
    let mut buffer = Elastic::<N>::new();
    let (mut written, mut read) = (0, 0);
    let (mut overflows, mut underflows) = (0, 0);
    let mut out = Vec::new();
    while written < frames * period as u64 {
        if line.tick(written) <= station.tick(read) {
            overflows += u64::from(buffer.write(block(written)).is_err());
            written += 1;
        } else {
            match buffer.read() {
                Ok(block) => out.push(block),
                Err(Underflow) => underflows += 1,
            }
            read += 1;
        }
    }
    (overflows, underflows, out)
}

/// At the bound nothing is lost, whichever clock is fast, and only gaps change.
fn holds_at<const N: usize>() {
    let ppm = Elastic::<N>::ppm_max(RUN) as i32;
    let gap = N / 2 + 1;
    for offset in [-ppm, -ppm / 2, -1, 0, 1, ppm / 2, ppm] {
        let (overflows, underflows, out) = drive::<N>(offset, gap, 60);
        assert_eq!((overflows, underflows), (0, 0), "N {N} offset {offset}");
        let (_, _, expected) = drive::<N>(0, gap, 60);
        let frames = |blocks: &[u8]| -> Vec<u8> {
            blocks
                .iter()
                .copied()
                .filter(|&block| block != GAP)
                .collect()
        };
        let (found, expected) = (frames(&out), frames(&expected));
        let len = found.len().min(expected.len());
        assert!(len > 58 * FRAME_BLOCKS);
        assert_eq!(found[..len], expected[..len]);
        // No gap vanishes.
        let headers = out.windows(2).filter(|pair| pair[1] == SYN);
        assert!(headers.into_iter().all(|pair| pair[0] == GAP));
    }
}

/// Beyond the bound by two blocks a frame, it fails, whichever clock is fast.
fn fails_beyond<const N: usize>() {
    let margin = (N / 2 + 1) as i32 * 1_000_000 / RUN as i32;
    let gap = N / 2 + 1;
    let (overflows, _, _) = drive::<N>(margin + 3400, gap, 60);
    assert!(overflows > 0, "N {N}");
    let (_, underflows, _) = drive::<N>(-margin - 3400, gap, 60);
    assert!(underflows > 0, "N {N}");
}

#[test]
fn bound_holds() {
    assert_eq!(Elastic::<8>::ppm_max(RUN), 10_067);
    holds_at::<4>();
    holds_at::<7>();
    holds_at::<8>();
    holds_at::<16>();
}

#[test]
fn bound_is_near() {
    fails_beyond::<4>();
    fails_beyond::<8>();
    fails_beyond::<16>();
}

/// Two crystals of 100 ppm each, and a whole rotation of seven frames without a gap.
#[test]
fn crystals_of_a_hundred_ppm_need_six_blocks() {
    const { assert!(Elastic::<6>::ppm_max(7 * FRAME_BLOCKS as u64 + 1) >= 200) };
    let (overflows, underflows, out) = drive::<6>(200, 245, 40);
    assert_eq!((overflows, underflows), (0, 0));
    let (_, _, plain) = drive::<6>(0, 245, 40);
    assert!(out.len() < plain.len());
}

#[test]
fn trouble_is_reported() {
    let mut buffer = Elastic::<4>::new();
    assert_eq!(buffer.read(), Ok(GAP));
    for _ in 0..4 {
        assert_eq!(buffer.write(SYN), Ok(()));
    }
    assert_eq!(buffer.write(SYN), Err(Overflow));
    for _ in 0..4 {
        assert_eq!(buffer.read(), Ok(SYN));
    }
    assert_eq!(buffer.read(), Err(Underflow));
    assert_eq!(buffer.read(), Ok(GAP));
}

#[test]
fn clocks_do_not_drift_from_rounding() {
    let clock = Clock::new(BLOCKS_PER_S, 100).expect("a clock");
    // In 100.01 seconds at 100 ppm: 102.4 million times 100.01 times 1.0001 ticks.
    let ticks = 10_242_048_102_u64;
    let ps = clock
        .tick(ticks)
        .expect("an instant")
        .since_origin()
        .as_ps();
    assert!(ps.abs_diff(100_010_000_000_000) < 10_000, "{ps}");
    assert_eq!(Clock::new(0, 0), None);
    assert_eq!(Clock::new(1, -1_000_000), None);
    assert_eq!(
        Clock::new(1, 0).and_then(|clock| clock.tick(u64::MAX)),
        None
    );
}
