//! The parameters: `parameters/cbn.toml`, and what the models are made of.

use barewire_classic::msdl::BodySize;
use barewire_models::cbn::{Costs, DriverCosts, Line, StationCosts, TcpConfig, TcpCosts};
use barewire_models::parameters;
use barewire_units::{ByteSize, Duration, Rate};

use crate::error::SystemError;
use crate::refuse::{self, Limits, at_least, within};

/// The time-out may be longer: it is not added to others.
const LIMITS: Limits = Limits {
    longest: Duration::from_s(1),
    but: &["tcp.time_out"],
    ..Limits::NONE
};
/// Shortest period of a timer.
const SHORTEST_TICK: Duration = Duration::from_ms(1);
/// Shortest time that a block may take a program.
const SHORTEST_BLOCK: Duration = Duration::from_ns(100);

parameters! {
    pub(crate) struct Parameters {
        pub ring: Ring,
        pub station: StationCosts,
        pub driver: DriverCosts,
        pub future: Future,
        pub tcp: TcpCosts,
        pub runs: Runs,
    }
}

parameters! {
    pub(crate) struct Ring {
        pub rotation: Duration,
        pub fibre_km: Duration,
        pub line_rate: Rate,
    }
}

parameters! {
    pub(crate) struct Future {
        pub line_rate: Rate,
        pub engine_cell: Duration,
        pub cell_work: Duration,
        pub long_body: ByteSize,
        pub hand_over: Duration,
    }
}

parameters! {
    pub(crate) struct Runs {
        pub blocks: usize,
        pub loaders: u16,
        pub load_time: Duration,
    }
}

impl Parameters {
    pub(crate) fn parse(text: &str) -> Result<Self, SystemError> {
        refuse::parse(text, Self::check)
    }

    fn check(&self) -> Result<(), SystemError> {
        LIMITS.check("", self)?;
        let rotation = self.ring.rotation;
        let long = self.long_line().map_err(SystemError::Contradiction)?;
        for line in [self.line(), long, self.fast_line()] {
            let frames = line.frames(rotation);
            if frames == 0 || u16::try_from(frames).is_err() {
                let frame = line.frame_time();
                return Err(SystemError::Contradiction(format!(
                    "a ring of {rotation} holds {frames} frames of {frame}, not 1 to 65535"
                )));
            }
        }
        // The first block is not measured.
        at_least("runs.blocks", self.runs.blocks, 2)?;
        at_least("runs.loaders", self.runs.loaders, 1)?;
        // The memory's own cycle is included.
        let accesses = 1000..=1_000_000;
        let access = self.station.access_milli_cycles;
        within("station.access_milli_cycles", access, accesses)?;
        at_least("tcp.tick", self.tcp.tick, SHORTEST_TICK)?;
        let driver = &self.driver;
        let block = driver.send_before + driver.transmit_cell + driver.send_after;
        // A program could send without end in no time.
        let key = "send_before, transmit_cell and send_after together";
        at_least(key, block, SHORTEST_BLOCK)
    }

    pub(crate) fn line(&self) -> Line {
        Line::new(self.ring.line_rate, BodySize::BACKBONE)
    }

    /// The line with the longer cells of the forecast.
    pub(crate) fn long_line(&self) -> Result<Line, String> {
        let size = self.future.long_body;
        let body = size.as_usize().and_then(BodySize::new);
        let body = body.ok_or_else(|| format!("no cell has a body of {size}"))?;
        Ok(Line::new(self.ring.line_rate, body))
    }

    /// The line of the design's rate.
    pub(crate) fn fast_line(&self) -> Line {
        Line::new(self.future.line_rate, BodySize::BACKBONE)
    }

    pub(crate) fn costs(&self) -> Costs {
        Costs {
            driver: self.driver,
            station: self.station,
        }
    }

    /// A connection that carries `bytes`.
    pub(crate) fn tcp(&self, bytes: u64, segment_bytes: u64, window_bytes: u64) -> TcpConfig {
        TcpConfig {
            bytes,
            segment_bytes,
            window_bytes,
            ack_delay: Duration::ZERO,
            costs: self.tcp,
        }
    }
}
