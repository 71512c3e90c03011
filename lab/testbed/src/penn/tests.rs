//! The reproduction test of the Penn interface, and what its worlds promise.

use super::*;
use crate::asked::replaced;
use crate::expected::{hold, rows};
use crate::system::System as _;

const EXPECTED: &str = include_str!("../../../tables/expected/penn.toml");

/// The published table against the model.
#[test]
fn the_paper_is_reproduced() {
    let findings = System.run(System.parameters(), 1).expect("good parameters");
    hold(&findings, EXPECTED);
}

/// Table I with an eighth of the volume, for what does not depend on it.
fn small() -> Parameters {
    let text = System.parameters().replace("\"8 MiB\"", "\"1 MiB\"");
    Parameters::parse(&text).expect("good parameters")
}

#[test]
fn the_same_run_gives_the_same_events() {
    let first = reproduce(&small());
    assert_eq!(first, reproduce(&small()));
    let mut other = small();
    other.bus.reload = Duration::from_ns(2_001);
    assert_ne!(first.hashes, reproduce(&other).hashes);
}

#[test]
fn every_byte_arrives() {
    let parameters = small();
    for path in [Path::Copied, Path::Block, Path::Trust, Path::FaultOnWrite] {
        for count in [1_000, 65_536, 100_000] {
            let program = Program::new(count, 10, None);
            let run = run(&parameters, path, program);
            let blocks = count.div_ceil(parameters.driver.buffer.as_bytes());
            assert_eq!(run.stored_bytes, 10 * count, "{path:?}");
            assert_eq!((run.driver.calls, run.driver.blocks), (10, 10 * blocks));
        }
    }
}

/// A write longer than a buffer overlaps its own parts, so it is not slower.
#[test]
fn a_split_write_keeps_the_rate_of_whole_buffers() {
    let parameters = small();
    let whole = benchmark(&parameters, Path::Copied, ByteSize::from_kib(64));
    let split = benchmark(&parameters, Path::Copied, ByteSize::from_kib(256));
    assert!(split.elapsed < whole.elapsed);
    assert!(split.elapsed.as_ps() * 100 > whole.elapsed.as_ps() * 95);
}

/// The other cache of the time, fitted on the same rows (which changes only the time of
/// a line): the curve bends in the same places, and misses a row by 5 %.
#[test]
fn a_smaller_cache_predicts_table_one_less_well() {
    let mut parameters = Parameters::parse(System.parameters()).expect("good parameters");
    parameters.cache.size = ByteSize::from_kib(32);
    parameters.cache.line = ByteSize::from_bytes(64);
    parameters.host.line_transfer = Duration::from_ns(970);
    let mut found = Reproduction::default();
    table_one(&parameters, &mut found);
    let worst = found
        .findings
        .iter()
        .zip(&rows(EXPECTED))
        .fold(0.0_f64, |worst, (found, row)| {
            worst.max((found.value / row.published - 1.0).abs())
        });
    assert!((0.045..0.055).contains(&worst), "{worst}");
}

/// Without the flush, which only modified lines need, a program that has not stored into
/// its block streams it as fast as the line; one that has pays for each line.
#[test]
fn modified_lines_are_what_a_start_waits_for() {
    let parameters = Parameters::parse(System.parameters()).expect("good parameters");
    let clean = benchmark(&parameters, Path::Trust, parameters.driver.buffer);
    let fills = |parameters: &Parameters| {
        let rng = barewire_units::Rng::from_seed(1);
        let same_per_cent = 0;
        let fills = program::Fills { rng, same_per_cent };
        let program = Program::new(parameters.driver.buffer.as_bytes(), 128, Some(fills));
        run(parameters, Path::Trust, program)
    };
    let filled = fills(&parameters);
    assert!(filled.elapsed * 85 > clean.elapsed * 100);
    // A bus that takes lines from the cache needs no flush.
    let mut coherent = parameters.clone();
    coherent.host.coherent = true;
    assert!(fills(&coherent).work.set_up < filled.work.set_up / 2);
}

/// Cell managers add up until the list manager is busy all the time.
#[test]
fn cell_managers_in_parallel() {
    let mut parameters = small();
    let mbps: Vec<_> = (1..=6)
        .map(|managers| {
            parameters.reassembler.managers = managers;
            (flood(&parameters, FLOOD_CELLS).0.bps() / 1e6).round()
        })
        .collect();
    assert_eq!(mbps, [163.0, 326.0, 489.0, 652.0, 707.0, 707.0]);
}

#[test]
fn parameters_are_checked() {
    let with = |from: &str, to: &str| {
        let text = replaced(System.parameters(), &[(from, to)]);
        System.run(&text, 1).expect_err(from).to_string()
    };
    assert!(with("\"48 B\"", "\"49 B\"").contains("segmenter.payload"));
    let endless = "cam_cycles = 9223372036854775807";
    assert!(with("cam_cycles = 11", endless).contains("reassembler.cam_cycles"));
    assert!(with("\"100 ns\"", "\"1 h\"").contains("bus.word_time"));
    assert!(with("size = \"64 KiB\"", "size = \"1 TiB\"").contains("cache.size"));
    assert!(with("\"2 KiB\"", "\"100 B\"").contains("segmenter.fifo"));
    assert!(with("buffer = \"64 KiB\"", "buffer = \"255 B\"").contains("driver.buffer"));
    assert!(with("ways = 4", "ways = 600").contains("cache"));
    assert!(with("\"1 KiB\", ", "\"9 MiB\", ").contains("benchmark.counts"));
    assert!(with("reload =", "relaod =").contains("relaod"));
    assert!(with("ways = 8", "ways = 0").contains("present: cache"));
}
