//! The parameter file of the Penn interface, and the models' configurations made of it.

use barewire_formats::atm::{CELL_BYTES, PAYLOAD_BYTES};
use barewire_models::penn::{
    CacheConfig, Costs, ReassemblerConfig, SegmenterConfig, StreamingConfig,
};
use barewire_units::{ByteSize, Duration, Rate};
use serde::Deserialize;

use crate::error::SystemError;

/// The file as text, with the source of every value.
pub const TEXT: &str = include_str!("../../parameters/penn.toml");

/// Nothing takes so long that a sum of times could overflow, or is so large that it could not be
/// held.
const CYCLES_MAX: u64 = 1_000_000;
const TIME_MAX: Duration = Duration::from_ms(1000);
const CACHE_MAX: ByteSize = ByteSize::from_mib(64);

/// The file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    pub clock: Clock,
    pub segmenter: Segmenter,
    pub line: Line,
    pub bus: Bus,
    pub reassembler: Reassembler,
    pub cache: Cache,
    pub host: Host,
    pub driver: Driver,
    pub benchmark: Benchmark,
    pub present: Present,
}

/// Which machine the interface is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Machine {
    /// The paper's workstation.
    Workstation,
    /// A machine of today.
    Present,
}

impl Machine {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Workstation => "workstation",
            Self::Present => "present",
        }
    }
}

/// A machine of today.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Present {
    pub cache: Cache,
    pub host: Host,
    pub bus: Bus,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    pub cycle: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segmenter {
    pub header_cycles: u64,
    pub fifo: ByteSize,
    pub payload: ByteSize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    pub rate: Rate,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    pub words: u64,
    pub word: ByteSize,
    pub word_time: Duration,
    pub reload: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reassembler {
    pub manager_cycles: u64,
    pub cam_cycles: u64,
    pub list_cycles: u64,
    pub managers: usize,
    pub circuits: usize,
    pub datagrams: usize,
    pub buffer_cells: usize,
    pub timeout: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    pub size: ByteSize,
    pub line: ByteSize,
    pub ways: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    pub system_call: Duration,
    pub copy_per_kib: Duration,
    pub line_transfer: Duration,
    pub start: Duration,
    pub status_read: Duration,
    pub translation_word: Duration,
    pub page: ByteSize,
    pub store_per_kib: Duration,
    pub fault: Duration,
    pub coherent: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Driver {
    pub buffer: ByteSize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Benchmark {
    pub volume: ByteSize,
    pub counts: Vec<ByteSize>,
}

impl Parameters {
    /// Reads a file and checks that its values go together.
    pub fn parse(text: &str) -> Result<Self, SystemError> {
        let parameters: Self = toml::from_str(text)?;
        let present = parameters.on(Machine::Present);
        let why = present.contradiction().map(|why| format!("present: {why}"));
        match parameters.contradiction().or(why) {
            Some(why) => Err(SystemError::Contradiction(why)),
            None => Ok(parameters),
        }
    }

    /// The same interface in `machine`.
    pub fn on(&self, machine: Machine) -> Self {
        let mut parameters = self.clone();
        if machine == Machine::Present {
            parameters.cache = self.present.cache.clone();
            parameters.host = self.present.host.clone();
            parameters.bus = self.present.bus.clone();
        }
        parameters
    }

    fn contradiction(&self) -> Option<String> {
        self.too_much().or_else(|| self.does_not_fit())
    }

    fn too_much(&self) -> Option<String> {
        let cycles = [
            ("segmenter.header_cycles", self.segmenter.header_cycles),
            (
                "reassembler.manager_cycles",
                self.reassembler.manager_cycles,
            ),
            ("reassembler.cam_cycles", self.reassembler.cam_cycles),
            ("reassembler.list_cycles", self.reassembler.list_cycles),
        ];
        let times = [
            ("clock.cycle", self.clock.cycle),
            ("bus.word_time", self.bus.word_time),
            ("bus.reload", self.bus.reload),
        ];
        if let Some((key, cycles)) = cycles.iter().find(|it| it.1 > CYCLES_MAX) {
            Some(format!("{key}: {cycles}, which is more than {CYCLES_MAX}"))
        } else if self.cache.size > CACHE_MAX {
            Some(format!(
                "cache.size: {}, which is more than {CACHE_MAX}",
                self.cache.size
            ))
        } else {
            let long = times.iter().find(|it| it.1 > TIME_MAX);
            long.map(|(key, time)| format!("{key}: {time}, which is more than {TIME_MAX}"))
        }
    }

    fn does_not_fit(&self) -> Option<String> {
        let payload = self.segmenter.payload.as_bytes();
        let burst = self.streaming().burst_bytes();
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
        } else if self.cache().sets() == 0 {
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

    pub fn segmenter(&self) -> SegmenterConfig {
        SegmenterConfig {
            cycle: self.clock.cycle,
            header_cycles: self.segmenter.header_cycles,
            fifo_bytes: self.segmenter.fifo.as_bytes(),
            payload_bytes: self.segmenter.payload.as_bytes(),
            slot: self.line.rate.time_to_send(ByteSize::from(CELL_BYTES)),
        }
    }

    pub fn streaming(&self) -> StreamingConfig {
        StreamingConfig {
            words: self.bus.words,
            word_bytes: self.bus.word.as_bytes(),
            word: self.bus.word_time,
            reload: self.bus.reload,
        }
    }

    pub fn reassembler(&self) -> ReassemblerConfig {
        ReassemblerConfig {
            cycle: self.clock.cycle,
            managers: self.reassembler.managers,
            manager_cycles: self.reassembler.manager_cycles,
            cam_cycles: self.reassembler.cam_cycles,
            list_cycles: self.reassembler.list_cycles,
        }
    }

    pub fn cache(&self) -> CacheConfig {
        CacheConfig {
            size_bytes: self.cache.size.as_bytes(),
            line_bytes: self.cache.line.as_bytes(),
            ways: self.cache.ways,
        }
    }

    pub fn costs(&self) -> Costs {
        Costs {
            system_call: self.host.system_call,
            copy_per_kib: self.host.copy_per_kib,
            store_per_kib: self.host.store_per_kib,
            line: self.host.line_transfer,
            status_read: self.host.status_read,
            translation_word: self.host.translation_word,
            start: self.host.start,
            fault: self.host.fault,
            coherent: self.host.coherent,
            page_bytes: self.host.page.as_bytes(),
        }
    }
}
