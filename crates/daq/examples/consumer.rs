//! A consumer of built events: takes them from a builder of this host, and says how many.
//!
//! ```text
//! $ cargo run --example consumer daq.toml 0 &    # builder 0
//! $ barewire daq run daq.toml                    # sink.kind = "hand-over"
//! ```
//!
//! It may be killed and started again at any time: `sink.consumer` says whether the run waits
//! for it. If the builder dies it connects to the next one.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use barewire_daq::config::Config;
use barewire_daq::consumer::{Consumer, ConsumerError};
use barewire_daq::record::Recorded;

const PATIENCE: Duration = Duration::from_secs(10);
/// For a builder that is started again.
const PATIENCE_AGAIN: Duration = Duration::from_secs(2);

/// Gives every event of a run at a builder to `each`, until the run is over.
pub fn consume(
    config: &Config,
    builder: u16,
    mut each: impl FnMut(&Recorded),
) -> Result<(), ConsumerError> {
    let mut consumer = Consumer::connect(config, builder, PATIENCE)?;
    loop {
        match consumer.next_event(None) {
            Ok(Some(event)) => each(&event),
            Ok(None) => return Ok(()),
            Err(ConsumerError::Net(barewire::Error::PeerDied { .. })) => {
                consumer = Consumer::connect(config, builder, PATIENCE_AGAIN)?;
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg_attr(
    test,
    allow(
        dead_code,
        reason = "the tests of this crate take the rest of this file"
    )
)]
fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let (Some(config), Some(Ok(builder))) = (args.first(), args.get(1).map(|it| it.parse())) else {
        eprintln!("usage: consumer CONFIG BUILDER");
        return ExitCode::from(2);
    };
    let config = match Config::load(Path::new(config)) {
        Ok(config) => config,
        Err(faults) => {
            faults.iter().for_each(|it| eprintln!("{it}"));
            return ExitCode::from(2);
        }
    };
    let (mut events, mut bytes, mut said) = (0_u64, 0, Instant::now());
    let done = consume(&config, builder, |event| {
        events += 1;
        bytes += event
            .fragments
            .iter()
            .map(|it| it.data.len())
            .sum::<usize>();
        if said.elapsed() > Duration::from_secs(1) {
            said = Instant::now();
            println!(
                "event {}: {events} events, {bytes} bytes so far",
                event.event
            );
        }
    });
    println!("{events} events, {bytes} bytes");
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}
