//! The parameter file of Jetstream and Afterburner, and the models' configurations.

use barewire_classic::token::{Budget, Config, Role};
use barewire_formats::jetstream::FRAME_BYTES_MAX;
use barewire_models::afterburner::{Costs, Recovery, TcpTimes};
use barewire_models::jetstream::{CardConfig, Division, SwitchConfig, fibre_delay};
use barewire_models::parameters;
use barewire_units::{ByteSize, Duration, Rate};

use crate::error::SystemError;
use crate::refuse::{self, BYTE, Limits, MOMENT, at_least, up_to_time, within, wrong};

/// The file as text, with the source of every value.
pub const TEXT: &str = include_str!("../../parameters/jetstream.toml");

/// Longest ring, metres.
pub const LENGTH_M_MAX: u64 = 200_000;
/// On a slower line the time of a frame could go beyond all that can be counted.
const LIMITS: Limits = Limits {
    slowest: Rate::from_mbps(1),
    ..Limits::NONE
};
/// There are hundreds of units in a segment.
const HOST_LIMITS: Limits = Limits {
    longest: Duration::from_ms(10),
    ..Limits::NONE
};

parameters! {
    /// The file.
    pub struct Parameters {
        pub ring: Ring,
        pub switch: Switch,
        pub card: Card,
        pub host: Costs,
        pub benchmark: Benchmark,
        pub tcp: TcpTimes,
        pub atm: Atm,
    }
}

parameters! {
    pub struct Ring {
        pub rate: Rate,
        pub hosts: usize,
        pub length_m: u64,
        pub fibre_per_metre: Duration,
        pub latency_budget: Duration,
        pub latency: Duration,
        pub ttrt: Duration,
        pub overrun_budget: Duration,
        pub response: Duration,
        pub clock_ppm: u32,
        pub queue_frames: usize,
        pub gap_words: usize,
    }
}

parameters! {
    pub struct Switch {
        pub ports: usize,
        pub channel: Rate,
        pub nominal: Rate,
        pub buffer: ByteSize,
    }
}

parameters! {
    pub struct Card {
        pub blocks: u16,
        pub block: ByteSize,
        pub link: Rate,
        pub headers: ByteSize,
    }
}

parameters! {
    pub struct Benchmark {
        pub segment: ByteSize,
        pub short_segment: ByteSize,
        pub socket_buffer: ByteSize,
        pub step: ByteSize,
        pub mean_from: ByteSize,
        pub mean_to: ByteSize,
        pub mean_stride: usize,
        pub duration: Duration,
    }
}

parameters! {
    pub struct Atm {
        pub length_m: u64,
        pub latency: Duration,
    }
}

impl Ring {
    /// Stations, the master included.
    pub fn stations(&self) -> usize {
        self.hosts + 1
    }

    /// Fibre from one station to the next.
    pub fn hop(&self) -> Duration {
        fibre_delay(self.fibre_per_metre, self.length_m) / self.stations() as u64
    }

    /// The plan of the ring with the latency that the paper reckons for a station.
    pub fn budget(&self) -> Budget {
        Budget {
            ttrt: self.ttrt,
            rate: self.rate,
            ring_latency: (self.hop() + self.latency_budget) * self.stations() as u64,
            frame_bytes_max: FRAME_BYTES_MAX,
        }
    }

    /// All stations, each with `synchronous`, on a ring with this plan.
    pub fn cards(&self, budget: Budget, synchronous: Duration) -> Vec<CardConfig> {
        let card = |index| {
            let role = if index == 0 { Role::Master } else { Role::Host };
            let station = Config {
                budget,
                synchronous,
                response: self.response,
                link_timeout: budget.ring_latency * 5,
                numbering_timeout: budget.ring_latency * 5,
                ..Config::jetstream(role)
            };
            CardConfig {
                station,
                latency: self.latency_budget,
                clocks: None,
                gap_words: 0,
            }
        };
        (0..self.stations()).map(card).collect()
    }
}

impl Parameters {
    /// Reads a file and checks that its values go together.
    pub fn parse(text: &str) -> Result<Self, SystemError> {
        refuse::parse(text, Self::check)
    }

    fn check(&self) -> Result<(), SystemError> {
        LIMITS.check("", self)?;
        HOST_LIMITS.check("host", &self.host)?;
        self.check_ring()?;
        at_least("tcp.initial_segments", self.tcp.initial_segments, 1)?;
        at_least("tcp.tick", self.tcp.tick, MOMENT)?;
        // One frame has to wait for another.
        at_least("switch.ports", self.switch.ports, 2)?;
        let benchmark = &self.benchmark;
        let segment = benchmark.segment.max(benchmark.short_segment);
        at_least("card.block", self.card.block, segment)?;
        at_least("benchmark.short_segment", benchmark.short_segment, BYTE)?;
        let three = ByteSize::from_bytes(3 * segment.as_bytes());
        at_least("benchmark.socket_buffer", benchmark.socket_buffer, three)?;
        at_least("card.blocks", self.card.blocks, 4)?;
        at_least("host.unit", self.host.unit, BYTE)?;
        at_least("benchmark.step", benchmark.step, BYTE)?;
        at_least("benchmark.mean_stride", benchmark.mean_stride, 1)?;
        within(
            "benchmark.mean_from",
            benchmark.mean_from,
            BYTE..=benchmark.mean_to,
        )?;
        at_least("benchmark.duration", benchmark.duration, MOMENT)
    }

    fn check_ring(&self) -> Result<(), SystemError> {
        let ring = &self.ring;
        within("ring.hosts", ring.hosts, 2..=15)?;
        within("ring.length_m", ring.length_m, 0..=LENGTH_M_MAX)?;
        within(
            "ring.latency",
            ring.latency,
            up_to_time(ring.latency_budget),
        )?;
        at_least("ring.length_m: fibre between hosts", ring.hop(), MOMENT)?;
        let budget = ring.budget();
        at_least("ring.overrun_budget", ring.overrun_budget, budget.overrun())?;
        let used = budget.ring_latency.saturating_add(ring.overrun_budget);
        if used >= ring.ttrt {
            let expected = format!("more than {used}, which T_prop and T_overrun take");
            return Err(wrong("ring.ttrt", ring.ttrt, expected));
        }
        within("ring.clock_ppm", ring.clock_ppm, 0..=10_000)?;
        within("ring.gap_words", ring.gap_words, 0..=1_000)?;
        at_least("ring.queue_frames", ring.queue_frames, 1)
    }

    pub fn switch(&self, division: Division, channel: Rate) -> SwitchConfig {
        SwitchConfig {
            ports: self.switch.ports,
            channel,
            division,
            suspend: false,
            cut_through: false,
        }
    }

    /// What a TCP does about loss whose slow timer began with `phase`.
    pub fn recovery(&self, phase: Duration) -> Recovery {
        Recovery {
            times: self.tcp,
            phase,
        }
    }
}
