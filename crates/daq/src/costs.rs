//! What the program's own work costs on this machine: the parts of it that need no transport,
//! done by themselves. `barewire daq predict` gives them to the laboratory.

use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

use barewire_proto::evb::{
    Builder, BuilderAction, BuilderId, Command, ConfigError, Flow, Fragment, Manager,
    ManagerAction, ManagerConfig, Outcome, Source, SourceConfig, SourceId,
};
use barewire_units::Instant;

use crate::config::{Config, Sizes};
use crate::generate::Generator;
use crate::wire::{Batch, Control, PIECE_HEADER_BYTES, PieceHeader, crc32c};

/// Samples of which the median is taken, and how long each is at least.
const SAMPLES: usize = 7;
const SAMPLE: Duration = Duration::from_millis(8);
/// As much as the parts take at a time: see `part/source.rs` and `part/builder.rs`.
const MADE_BYTES: usize = 8 << 10;
const VERIFIED_BYTES: usize = 16 << 10;
/// How often each of two configurations is measured, in turn.
const TURNS: usize = 3;
/// Events that are under way together.
const EVENTS: u64 = 64;

/// Times, in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// A source: a fragment, beside its bytes.
    pub fragment_out: f64,
    /// A KiB of a fragment made and summed.
    pub make_kib: f64,
    /// A builder: a fragment, beside its bytes.
    pub fragment_in: f64,
    /// A KiB summed and verified.
    pub verify_kib: f64,
    /// The manager: an event triggered, assigned and closed.
    pub event: f64,
    /// A control message, written or read.
    pub message: f64,
    /// Each event in it.
    pub message_event: f64,
}

impl Costs {
    /// Measures them, with the cores that `config` has; about half a second.
    ///
    /// # Errors
    ///
    /// There are no such cores.
    pub fn measure(config: &Config) -> Result<Self, ConfigError> {
        let generator = Generator::new(config.sizes, config.seed);
        let (message, message_event) = messages();
        // Whatever needs its time would be measured instead of what costs time.
        let flow = match config.source.flow {
            Flow::Credits => Flow::Credits,
            _ => Flow::Free,
        };
        let source = SourceConfig {
            flow,
            ..config.source(0)
        };
        Ok(Self {
            fragment_out: fragments_out(source, &generator, config.sizes)?,
            make_kib: make(&generator),
            fragment_in: fragments_in(config),
            verify_kib: verify(&generator),
            event: events(config.manager),
            message,
            message_event,
        })
    }

    /// Measures two configurations in turn, some three seconds, so that a change of the machine's speed meets
    /// both. Each cost is the least that was seen: other work makes it larger, and never smaller.
    ///
    /// # Errors
    ///
    /// As [`Costs::measure`].
    pub fn measure_both(first: &Config, second: &Config) -> Result<(Self, Self), ConfigError> {
        let (mut least_first, mut least_second) = (Self::measure(first)?, Self::measure(second)?);
        for _ in 1..TURNS {
            least_first = least_first.with(&Self::measure(first)?, f64::min);
            least_second = least_second.with(&Self::measure(second)?, f64::min);
        }
        Ok((least_first, least_second))
    }

    /// These costs, each times the ratio of `to` to `from`.
    #[must_use]
    pub fn scaled(&self, to: &Self, from: &Self) -> Self {
        let ratios = to.with(from, |to, from| if from > 0.0 { to / from } else { 1.0 });
        self.with(&ratios, |cost, ratio| cost * ratio)
    }

    fn with(&self, other: &Self, join: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            fragment_out: join(self.fragment_out, other.fragment_out),
            make_kib: join(self.make_kib, other.make_kib),
            fragment_in: join(self.fragment_in, other.fragment_in),
            verify_kib: join(self.verify_kib, other.verify_kib),
            event: join(self.event, other.event),
            message: join(self.message, other.message),
            message_event: join(self.message_event, other.message_event),
        }
    }
}

/// Nanoseconds of each of `count` things that `work` does: the median of the samples.
fn each_ns(count: u64, mut work: impl FnMut()) -> f64 {
    work();
    let mut samples = [(); SAMPLES].map(|()| {
        let (begun, mut rounds) = (Clock::now(), 0_u64);
        while begun.elapsed() < SAMPLE {
            work();
            rounds += 1;
        }
        begun.elapsed().as_nanos() as f64 / (rounds * count) as f64
    });
    samples.sort_by(f64::total_cmp);
    samples[SAMPLES / 2]
}

fn make(generator: &Generator) -> f64 {
    let mut chunk = vec![0; MADE_BYTES];
    let mut event = 0;
    each_ns(MADE_BYTES as u64 >> 10, || {
        event += 1;
        generator.fill(0, event, 0, &mut chunk);
        black_box(crc32c(&chunk));
    })
}

fn verify(generator: &Generator) -> f64 {
    let mut chunk = vec![0; VERIFIED_BYTES];
    generator.fill(0, 1, 0, &mut chunk);
    each_ns(VERIFIED_BYTES as u64 >> 10, || {
        let bytes = black_box(&chunk);
        black_box((crc32c(bytes), generator.verify(0, 1, 0, bytes)));
    })
}

fn fragments_out(
    config: SourceConfig,
    generator: &Generator,
    sizes: Sizes,
) -> Result<f64, ConfigError> {
    let mut core = Source::new(config)?;
    let mut next = 0;
    let sized = Generator::new(sizes, 1);
    let now = Instant::ORIGIN;
    let mut gathered = Vec::new();
    Ok(each_ns(EVENTS, || {
        let events = next..next + EVENTS;
        next += EVENTS;
        for event in events.clone() {
            black_box(sized.size(0, event));
            // Without bytes there is always room.
            let _ = core.offer(event, 0);
            core.handle_assign(event, BuilderId(0), None);
        }
        events.for_each(|event| core.handle_grant(event));
        gathered.clear();
        while let Some(piece) = core.transmit(now) {
            let header = PieceHeader {
                run: 1,
                event: piece.event,
                at_ns: 0,
                sequence: piece.sequence,
                source: 0,
                fragment_bytes: 0,
                offset: 0,
                bytes: 0,
                crc: crc32c(&[]),
            };
            generator.fill(0, piece.event, 0, &mut []);
            gathered.extend_from_slice(&header.to_bytes());
        }
        black_box(&gathered);
    }))
}

fn fragments_in(config: &Config) -> f64 {
    let sources = config.manager.sources;
    let mut core = Builder::new(config.builder(0, 1));
    let generator = Generator::new(config.sizes, config.seed);
    let now = Instant::ORIGIN;
    core.handle_entered(now);
    let mut next = 0;
    let mut header = PieceHeader {
        run: 1,
        event: 0,
        at_ns: 0,
        sequence: 0,
        source: 0,
        fragment_bytes: 0,
        offset: 0,
        bytes: 0,
        crc: 0,
    };
    each_ns(EVENTS * u64::from(sources), || {
        let events = next..next + EVENTS;
        next += EVENTS;
        events
            .clone()
            .for_each(|event| core.handle_assign(now, event));
        for source in 0..sources {
            for event in events.clone() {
                (header.event, header.source, header.sequence) = (event, source, event);
                let bytes: [u8; PIECE_HEADER_BYTES] = black_box(header.to_bytes());
                // Our own header.
                let Ok(header) = PieceHeader::parse(&bytes) else {
                    continue;
                };
                black_box(generator.verify(source, event, 0, &[]));
                core.handle_fragment(
                    now,
                    Fragment {
                        run: 1,
                        event: header.event,
                        source: SourceId(header.source),
                        sequence: header.sequence,
                        bytes: 0,
                        intact: true,
                    },
                );
            }
        }
        while let Some(action) = core.poll_action() {
            black_box::<BuilderAction>(action);
        }
    })
}

fn events(config: ManagerConfig) -> f64 {
    let now = Instant::ORIGIN;
    let mut core = Manager::new(
        ManagerConfig {
            schedule: None,
            ..config
        },
        now,
    );
    // From the beginning, in this order.
    let _ = core.command(now, Command::Configure);
    let _ = core.command(now, Command::Start);
    // Where builders ask for their events.
    let builders = (0..config.builders).map(BuilderId);
    let whole = Outcome {
        expected: config.sources.into(),
        present: config.sources.into(),
    };
    let count = EVENTS.min(config.window.map_or(EVENTS, u64::from));
    let mut assigned = Vec::new();
    each_ns(count, || {
        for builder in builders.clone() {
            core.handle_request(now, builder, count as u32);
        }
        for _ in 0..count {
            // The window has room: all before are closed.
            let _ = core.trigger(now);
        }
        while let Some(action) = core.poll_action() {
            if let ManagerAction::Assign { event, builder, .. } = action {
                assigned.push((event, builder));
            }
        }
        for (event, builder) in assigned.drain(..) {
            core.handle_close(now, builder, event, whole);
        }
    })
}

/// A message without events and what each event adds: half of writing and reading it.
fn messages() -> (f64, f64) {
    const LONG: u64 = 256;
    let time = |events: u64| {
        let list: Vec<u64> = (0..events).collect();
        let mut batch = Batch::default();
        each_ns(1, || {
            batch.push(&Control::Close {
                events: list.clone(),
                outcomes: list.clone(),
            });
            // Our own message.
            let _ = black_box(Batch::parse(batch.seal()));
            batch.clear();
        })
    };
    let (short, long) = (time(1), time(LONG));
    let each = (long - short).max(0.0) / (LONG - 1) as f64;
    ((short - each).max(0.0) / 2.0, each / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_scaled_one_by_one() {
        let costs = |fragment_out, message| Costs {
            fragment_out,
            make_kib: 1.0,
            fragment_in: 1.0,
            verify_kib: 1.0,
            event: 1.0,
            message,
            message_event: 1.0,
        };
        // What was nothing tells no ratio.
        let found = costs(100.0, 7.0).scaled(&costs(30.0, 5.0), &costs(20.0, 0.0));
        assert_eq!(found, costs(150.0, 7.0));
    }

    #[test]
    fn everything_costs_something() {
        for control in ["none", "credits", "barrel"] {
            let text = format!("[flow]\ncontrol = \"{control}\"\n");
            let config = Config::parse(&text, "a.toml").expect("good");
            let costs = Costs::measure(&config).expect("cores");
            for ns in [
                costs.fragment_out,
                costs.make_kib,
                costs.fragment_in,
                costs.verify_kib,
                costs.event,
                // One of them is what the other leaves: of a busy machine nothing.
                costs.message + costs.message_event,
            ] {
                assert!(ns > 0.0 && ns.is_finite(), "{costs:?}");
            }
        }
    }
}
