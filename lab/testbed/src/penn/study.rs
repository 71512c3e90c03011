//! The three policies for streaming from the user's pages, and the two buffers beside
//! them, for a program that fills each block before it writes it.
//!
//! The program has two blocks. After each write it fills one of them: the one that may
//! still stream, with the frequency that is varied, or the other. Under *block* it cannot
//! meet a block that streams; under *trust* it spoils it; under *fault-on-write* it waits.

use barewire_models::penn::Path;
use barewire_units::Rng;

use super::parameters::Parameters;
use super::program::{Fills, Program};
use super::{rate_mbps, world};
use crate::{Finding, Study, SystemError, replicate};

/// The study as the laboratory knows it.
pub(super) const ZERO_COPY: Study = Study {
    name: "zero-copy",
    question: "streaming from the user's pages: what do the three policies give, as a function of how \
        often the program writes to a block that may still stream?",
    run: |parameters, seed| {
        let points = policies(parameters, seed, &FREQUENCIES_PER_CENT)?;
        Ok(points.iter().flat_map(PolicyPoint::findings).collect())
    },
};
/// How often the program of the study meets its block, per cent.
const FREQUENCIES_PER_CENT: [u64; 7] = [0, 10, 25, 50, 75, 90, 100];

/// One point of the study.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicyPoint {
    /// The driver.
    pub path: Path,
    /// How often the program fills the block that it has just written, per cent.
    pub same_per_cent: u64,
    /// What the program wrote, Mbit/s, the filling included.
    pub rate_mbps: f64,
    /// Stores that waited for the end of a transfer, of 100 writes.
    pub faults_per_cent: f64,
    /// Blocks that were spoilt while they streamed, of 100 writes.
    pub torn_per_cent: f64,
}

impl PolicyPoint {
    fn findings(&self) -> [Finding; 3] {
        let table = match self.path {
            Path::Copied => "two buffers",
            Path::Block => "block",
            Path::Trust => "trust",
            Path::FaultOnWrite => "fault-on-write",
        };
        let finding = |quantity, unit, value| Finding {
            table,
            row: format!("{} % of the fills", self.same_per_cent),
            quantity,
            unit,
            value,
        };
        [
            finding("rate", "Mbit/s", self.rate_mbps),
            finding("waits", "of 100 writes", self.faults_per_cent),
            finding("spoilt blocks", "of 100 writes", self.torn_per_cent),
        ]
    }
}

/// Runs each driver at each frequency, in blocks of a buffer's size.
///
/// # Errors
///
/// Parameters that cannot be used.
pub fn policies(
    parameters: &str,
    seed: u64,
    same_per_cent: &[u64],
) -> Result<Vec<PolicyPoint>, SystemError> {
    const PATHS: [Path; 4] = [Path::Copied, Path::Block, Path::Trust, Path::FaultOnWrite];
    let parameters = Parameters::parse(parameters)?;
    let root = Rng::from_seed(seed);
    let point = |index: usize| {
        let same = index / PATHS.len();
        // The same draws for each driver.
        let rng = root.fork_nth("fills", same as u64);
        point(
            &parameters,
            PATHS[index % PATHS.len()],
            same_per_cent[same],
            rng,
        )
    };
    Ok(replicate(same_per_cent.len() * PATHS.len(), point))
}

fn point(parameters: &Parameters, path: Path, same_per_cent: u64, rng: Rng) -> PolicyPoint {
    let bytes = parameters.driver.buffer.as_bytes();
    let writes = parameters.benchmark.volume.as_bytes().div_ceil(bytes);
    let fills = Fills { rng, same_per_cent };
    let run = world::run(parameters, path, Program::new(bytes, writes, Some(fills)));
    let per_cent = |count: u64| count as f64 * 100.0 / writes as f64;
    PolicyPoint {
        path,
        same_per_cent,
        rate_mbps: rate_mbps(parameters, &run),
        faults_per_cent: per_cent(run.driver.faults),
        torn_per_cent: per_cent(run.driver.torn),
    }
}
