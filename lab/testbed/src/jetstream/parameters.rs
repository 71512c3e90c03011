//! The parameter file of Jetstream and Afterburner, and the models' configurations.

use barewire_classic::token::{Budget, Config, Role};
use barewire_formats::jetstream::FRAME_BYTES_MAX;
use barewire_models::afterburner::{Costs, Recovery, TcpTimes};
use barewire_models::jetstream::{CardConfig, Division, SwitchConfig, fibre_delay};
use barewire_models::parameters;
use barewire_units::{ByteSize, Duration, Rate};

use crate::error::SystemError;
use crate::refuse::Limits;

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
        let parameters: Self = toml::from_str(text)?;
        LIMITS.check("", &parameters)?;
        HOST_LIMITS.check("host", &parameters.host)?;
        match parameters.contradiction() {
            Some(why) => Err(SystemError::Contradiction(why)),
            None => Ok(parameters),
        }
    }

    fn contradiction(&self) -> Option<String> {
        self.out_of_range().or_else(|| self.does_not_fit())
    }

    /// What would not even let the rest be computed.
    fn out_of_range(&self) -> Option<String> {
        let ring = &self.ring;
        if !(2..=15).contains(&ring.hosts) {
            Some(format!(
                "ring.hosts: {} hosts, but 2 to 15 can share a ring here",
                ring.hosts
            ))
        } else if ring.length_m > LENGTH_M_MAX {
            Some(format!(
                "ring.length_m: {}, but at most {LENGTH_M_MAX}",
                ring.length_m
            ))
        } else {
            None
        }
    }

    fn does_not_fit(&self) -> Option<String> {
        let ring = &self.ring;
        let budget = ring.budget();
        let benchmark = &self.benchmark;
        let segment = benchmark.segment.max(benchmark.short_segment);
        let used = budget.ring_latency.saturating_add(ring.overrun_budget);
        if ring.latency_budget < ring.latency {
            Some("ring.latency: a card is slower than latency_budget allows".into())
        } else if ring.hop().is_zero() {
            Some("ring.length_m, ring.fibre_per_metre: no fibre at all".into())
        } else if budget.overrun() > ring.overrun_budget || used >= ring.ttrt {
            Some(format!(
                "ring.ttrt: {} with {used} for T_prop and T_overrun leaves no T_synch, \
                 or the longest frame takes longer than ring.overrun_budget",
                ring.ttrt
            ))
        } else if ring.clock_ppm > 10_000 || ring.gap_words > 1_000 || ring.queue_frames == 0 {
            Some(
                "ring: at most 10000 clock_ppm and 1000 gap_words, and at least 1 of queue_frames"
                    .into(),
            )
        } else if self.tcp.initial_segments == 0 || self.tcp.tick.is_zero() {
            Some("tcp: no segment to begin with, or no time between two ticks".into())
        } else if self.switch.ports < 2 {
            Some("switch.ports: two are needed for one frame to wait for another".into())
        } else if segment > self.card.block || benchmark.short_segment.as_bytes() == 0 {
            Some(format!("card.block: no room for a segment of {segment}"))
        } else if benchmark.socket_buffer.as_bytes() < 3 * segment.as_bytes() {
            Some(format!(
                "benchmark.socket_buffer: fewer than three segments of {segment}"
            ))
        } else if self.card.blocks < 4 {
            Some("card.blocks: fewer than four in each direction".into())
        } else if self.host.unit.as_bytes() == 0 {
            Some("host.unit: nothing to copy".into())
        } else if benchmark.step.as_bytes() == 0
            || benchmark.mean_stride == 0
            || benchmark.mean_from.as_bytes() == 0
            || benchmark.mean_from > benchmark.mean_to
        {
            Some("benchmark: no message sizes to take the mean of".into())
        } else if benchmark.duration.is_zero() {
            Some("benchmark.duration: no time at all".into())
        } else {
            None
        }
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
