//! The parameter file of the Penn interface, and the models' configurations made of it.

use barewire_formats::atm::{CELL_BYTES, PAYLOAD_BYTES};
use barewire_models::parameters;
use barewire_models::parameters::Cycles;
use barewire_models::penn::{
    CacheConfig, Costs, Processor, Reassembler, ReassemblerConfig, Segmenter, SegmenterConfig,
    StreamingConfig,
};
use barewire_units::{ByteSize, Duration, Rate};

use crate::error::SystemError;
use crate::refuse::{Limits, names};

/// The file as text, with the source of every value.
pub const TEXT: &str = include_str!("../../parameters/penn.toml");

/// The time-out may be longer: it is not added to others.
const LIMITS: Limits = Limits {
    longest: Duration::from_s(1),
    cycles: Cycles(1_000_000),
    but: &["reassembler.timeout"],
    ..Limits::NONE
};
/// A cache that a run can hold.
const CACHE_MAX: ByteSize = ByteSize::from_mib(64);

parameters! {
    /// The file.
    pub struct Parameters {
        pub clock: Clock,
        pub segmenter: SegmenterConfig,
        pub line: Line,
        pub bus: StreamingConfig,
        pub reassembler: ReassemblerConfig,
        pub cache: CacheConfig,
        pub host: Costs,
        pub driver: Driver,
        pub benchmark: Benchmark,
        pub present: Present,
    }
}

names! {
    /// Which machine the interface is in.
    pub enum Machine {
        /// The paper's workstation.
        Workstation = "workstation",
        /// A machine of today.
        Present = "present",
    }
}

parameters! {
    /// A machine of today.
    pub struct Present {
        pub cache: CacheConfig,
        pub host: Costs,
        pub bus: StreamingConfig,
    }
}

parameters! {
    pub struct Clock {
        pub cycle: Duration,
    }
}

parameters! {
    pub struct Line {
        pub rate: Rate,
    }
}

parameters! {
    pub struct Driver {
        pub buffer: ByteSize,
    }
}

parameters! {
    pub struct Benchmark {
        pub volume: ByteSize,
        pub counts: Vec<ByteSize>,
    }
}

impl Parameters {
    /// Reads a file and checks that its values go together.
    pub fn parse(text: &str) -> Result<Self, SystemError> {
        let parameters: Self = toml::from_str(text)?;
        let present = parameters.on(Machine::Present);
        LIMITS.check("", &parameters)?;
        let why = parameters
            .does_not_fit()
            .or_else(|| Some(format!("present: {}", present.does_not_fit()?)));
        match why {
            Some(why) => Err(SystemError::Contradiction(why)),
            None => Ok(parameters),
        }
    }

    /// The same interface in `machine`.
    pub fn on(&self, machine: Machine) -> Self {
        let mut parameters = self.clone();
        if machine == Machine::Present {
            parameters.cache = self.present.cache;
            parameters.host = self.present.host;
            parameters.bus = self.present.bus;
        }
        parameters
    }

    fn does_not_fit(&self) -> Option<String> {
        let payload = self.segmenter.payload.as_bytes();
        let burst = self.bus.burst_bytes();
        let fifo = self.segmenter.fifo.as_bytes();
        let page = self.host.page.as_bytes();
        let buffer = self.driver.buffer.as_bytes();
        let volume = self.benchmark.volume.as_bytes();
        let short = |count: &&ByteSize| !(1..=volume).contains(&count.as_bytes());
        if !(1..=PAYLOAD_BYTES as u64).contains(&payload) {
            Some(format!(
                "segmenter.payload: {payload} B, but a cell holds 1 to {PAYLOAD_BYTES}"
            ))
        } else if burst == 0 || self.bus.word.as_bytes() == 0 {
            Some("bus.words, bus.word: a burst of no bytes".into())
        } else if fifo < burst || fifo < payload + burst {
            Some(format!(
                "segmenter.fifo: {fifo} B have no room for a cell and a burst"
            ))
        } else if self.cache.size > CACHE_MAX {
            Some(format!(
                "cache.size: found {}, expected at most {CACHE_MAX}",
                self.cache.size
            ))
        } else if self.cache.sets() == 0 {
            Some("cache: not one set of lines".into())
        } else if page == 0 {
            Some("host.page: nothing in it".into())
        } else if buffer < 4 * burst.max(PAYLOAD_BYTES as u64) {
            Some(format!(
                "driver.buffer: {buffer} B are too few bursts and cells to measure"
            ))
        } else if self.clock.cycle.is_zero() || self.bus.word_time.is_zero() {
            Some("clock.cycle, bus.word_time: no time at all".into())
        } else {
            let count = self.benchmark.counts.iter().find(short)?;
            Some(format!(
                "benchmark.counts: {count} of a volume of {volume} B"
            ))
        }
    }

    pub fn segmenter(&self) -> Segmenter {
        let slot = self.line.rate.time_to_send(ByteSize::from(CELL_BYTES));
        Segmenter::new(self.segmenter, self.clock.cycle, slot)
    }

    pub fn reassembler(&self) -> Reassembler {
        Reassembler::new(self.reassembler, self.clock.cycle)
    }

    pub fn processor(&self) -> Processor {
        Processor::new(self.host, self.cache)
    }
}
