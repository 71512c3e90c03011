//! Tests of the driver: they speak as program, processor and interface.

use barewire_units::{ByteSize, Duration, Graph};
use proptest::prelude::*;

use super::*;
use crate::penn::{CacheConfig, Costs};

const KIB: u64 = 1024;
const BUFFER: u64 = 64 * KIB;

/// A driver whose steps cost: call 100 us, copy 1 us per KiB, map 10 us, fault 30 us.
fn driver(path: Path) -> Driver {
    let us = Duration::from_us;
    let costs = Costs {
        system_call: us(100),
        copy_per_kib: us(1),
        store_per_kib: us(1),
        line_transfer: Duration::ZERO,
        status_read: Duration::ZERO,
        translation_word: Duration::ZERO,
        start: us(10),
        fault: us(30),
        page: ByteSize::from_kib(4),
        coherent: false,
    };
    let cache = CacheConfig {
        size: ByteSize::from_kib(8),
        line: ByteSize::from_bytes(128),
        ways: 4,
    };
    Driver::new(path, Processor::new(costs, cache), 1 << 30, BUFFER)
}

fn run(us: u64) -> Action {
    Action::Run(Duration::from_us(us))
}

#[track_caller]
fn expect<const N: usize>(driver: &mut Driver, actions: [Action; N]) {
    let found: Vec<_> = std::iter::from_fn(|| driver.poll()).collect();
    assert_eq!(found, actions);
}

#[test]
fn the_table_stands_still() {
    let table = "Outside --Call--> Entering
Entering --Copy--> Copying
Entering --Prepared--> Waiting
Copying --Prepared--> Waiting
Waiting --DeviceIdle--> Mapping
Mapping --Copy--> Copying
Mapping --Prepared--> Waiting
Mapping --Return--> Outside
Mapping --Block--> Blocked
Blocked --DeviceIdle--> Outside
Outside --Fault--> Faulted
Faulted --DeviceIdle--> Resuming
Resuming --Return--> Outside
";
    assert_eq!(Graph::<State>::new().to_string(), table);
}

#[test]
fn a_copy_goes_on_while_the_other_buffer_streams() {
    let mut driver = driver(Path::Copied);
    driver.write(0, 8 * KIB);
    expect(&mut driver, [run(100)]);
    driver.handle_done();
    expect(&mut driver, [run(8)]);
    driver.handle_done();
    expect(&mut driver, [run(10)]);
    driver.handle_done();
    expect(&mut driver, [Action::Start(8 * KIB), Action::Return]);
    // The program may store where it likes, and write again; then it waits.
    assert_eq!(driver.touch(0, 8 * KIB), Touch::Free);
    driver.write(0, 8 * KIB);
    expect(&mut driver, [run(100)]);
    driver.handle_done();
    expect(&mut driver, [run(8)]);
    driver.handle_done();
    expect(&mut driver, []);
    assert_eq!(driver.state(), State::Waiting);
    driver.handle_idle();
    expect(&mut driver, [run(10)]);
    driver.handle_done();
    expect(&mut driver, [Action::Start(8 * KIB), Action::Return]);
    assert_eq!((driver.stats().calls, driver.stats().blocks), (2, 2));
}

#[test]
fn a_long_write_is_split() {
    let mut driver = driver(Path::Copied);
    driver.write(0, BUFFER + 1);
    expect(&mut driver, [run(100)]);
    driver.handle_done();
    expect(&mut driver, [run(64)]);
    driver.handle_done();
    expect(&mut driver, [run(10)]);
    driver.handle_done();
    let rest = Action::Run(Duration::from_us(1) / 1024);
    expect(&mut driver, [Action::Start(BUFFER), rest]);
    driver.handle_done();
    expect(&mut driver, []);
    driver.handle_idle();
    expect(&mut driver, [run(10)]);
    driver.handle_done();
    expect(&mut driver, [Action::Start(1), Action::Return]);
    assert_eq!((driver.stats().calls, driver.stats().blocks), (1, 2));
}

/// Writes 4 KiB from address 0 up to the start of its transfer.
fn write_directly(driver: &mut Driver) {
    driver.write(0, 4 * KIB);
    expect(driver, [run(100)]);
    driver.handle_done();
    expect(driver, [run(10)]);
    driver.handle_done();
    assert_eq!(driver.poll(), Some(Action::Start(4 * KIB)));
}

#[test]
fn block_returns_when_the_transfer_is_over() {
    let mut driver = driver(Path::Block);
    write_directly(&mut driver);
    expect(&mut driver, []);
    driver.handle_idle();
    expect(&mut driver, [Action::Return]);
}

#[test]
fn trust_lets_a_store_spoil_the_block() {
    let mut driver = driver(Path::Trust);
    write_directly(&mut driver);
    expect(&mut driver, [Action::Return]);
    assert_eq!(driver.touch(4 * KIB, 1), Touch::Free);
    assert_eq!(driver.touch(4 * KIB - 1, 1), Touch::Torn);
    driver.handle_idle();
    assert_eq!(driver.touch(0, 1), Touch::Free);
    assert_eq!(driver.stats().torn, 1);
}

#[test]
fn fault_on_write_holds_only_a_program_that_stores_into_the_block() {
    let mut driver = driver(Path::FaultOnWrite);
    write_directly(&mut driver);
    expect(&mut driver, [Action::Return]);
    assert_eq!(driver.touch(4 * KIB, 64 * KIB), Touch::Free);
    assert_eq!(driver.touch(0, 1), Touch::Faulted);
    expect(&mut driver, []);
    driver.handle_idle();
    expect(&mut driver, [run(30)]);
    driver.handle_done();
    expect(&mut driver, [Action::Return]);
    assert_eq!(driver.stats().faults, 1);
}

#[test]
fn a_fault_knows_only_whole_pages() {
    for (path, touch) in [
        (Path::Trust, Touch::Free),
        (Path::FaultOnWrite, Touch::Faulted),
    ] {
        let mut driver = driver(path);
        driver.write(5 * KIB, KIB);
        driver.handle_done();
        driver.handle_done();
        assert_eq!(driver.touch(8 * KIB, 1), Touch::Free);
        assert_eq!(driver.touch(4 * KIB, 1), touch);
    }
}

fn paths() -> impl Strategy<Value = Path> {
    let all = vec![Path::Copied, Path::Block, Path::Trust, Path::FaultOnWrite];
    prop::sample::select(all)
}

proptest! {
    /// Whatever is said to the driver and when, every byte written is streamed once, in
    /// blocks of at most a buffer, and a call returns for each that was taken.
    #[test]
    fn every_byte_is_streamed_once(
        path in paths(),
        inputs in prop::collection::vec((0_u8..4, 0_u64..200_000), 0..60),
    ) {
        let mut driver = driver(path);
        let (mut taken, mut streamed) = (0, 0);
        let mut drain = |driver: &mut Driver| {
            while let Some(action) = driver.poll() {
                if let Action::Start(bytes) = action {
                    assert!(bytes <= BUFFER);
                    streamed += bytes;
                }
            }
        };
        for (input, number) in inputs {
            match input {
                0 if driver.state() == State::Outside => {
                    taken += number;
                    driver.write(0, number);
                }
                0 => driver.write(0, number),
                1 => drop(driver.touch(number, 64)),
                2 => driver.handle_done(),
                _ => driver.handle_idle(),
            }
            drain(&mut driver);
        }
        for _ in 0..50 {
            driver.handle_done();
            driver.handle_idle();
            drain(&mut driver);
        }
        prop_assert_eq!(driver.state(), State::Outside);
        prop_assert_eq!(streamed, taken);
    }
}
