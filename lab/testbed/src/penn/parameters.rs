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
use crate::refuse::{self, BYTE, Each, Input as _, Limits, MOMENT, at_least, names, within};

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
        refuse::parse(text, Self::check)
    }

    fn check(&self) -> Result<(), SystemError> {
        LIMITS.check("", self)?;
        self.check_machine("")?;
        self.on(Machine::Present).check_machine("present: ")
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

    /// Whether the parts of the machine fit each other.
    fn check_machine(&self, machine: &str) -> Result<(), SystemError> {
        let key = |key: &str| format!("{machine}{key}");
        let cell = ByteSize::from(PAYLOAD_BYTES);
        within("segmenter.payload", self.segmenter.payload, BYTE..=cell)?;
        at_least(&key("bus.words"), self.bus.words, 1)?;
        at_least(&key("bus.word"), self.bus.word, BYTE)?;
        let burst = ByteSize::from_bytes(self.bus.burst_bytes());
        // Room for a cell and a burst.
        let least = ByteSize::from_bytes(self.segmenter.payload.as_bytes() + burst.as_bytes());
        at_least(&key("segmenter.fifo"), self.segmenter.fifo, least)?;
        within(&key("cache.size"), self.cache.size, BYTE..=CACHE_MAX)?;
        at_least(&key("cache: its sets"), self.cache.sets(), 1)?;
        at_least(&key("host.page"), self.host.page, BYTE)?;
        // Enough bursts and cells to measure.
        let least = ByteSize::from_bytes(4 * burst.max(cell).as_bytes());
        at_least(&key("driver.buffer"), self.driver.buffer, least)?;
        at_least("clock.cycle", self.clock.cycle, MOMENT)?;
        at_least(&key("bus.word_time"), self.bus.word_time, MOMENT)?;
        let counts = &self.benchmark.counts;
        counts.refuse("benchmark.counts", Each(BYTE..=self.benchmark.volume))
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
