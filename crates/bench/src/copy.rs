//! `barewire bench copy`: how fast this machine copies memory, by size.
//!
//! One thread copies from one buffer to another, as a program copies into and out of a
//! socket. Whatever copies payload, barewire and the kernel alike, is at best as fast as this.
//! KEK measured it first of all, since its hosts differed in it most.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use serde::Serialize;

use crate::error::{Error, Result, What};
use crate::measure::stats::{median, spread};

/// Of `barewire bench copy --help`, its end.
pub const AFTER: &str = "\
Examples:
  barewire bench copy                       64 B to 128 MiB
  barewire bench copy --size 4096,1048576   two sizes
  barewire bench copy --json copy.json      to keep

A buffer that is smaller than a cache stays in it from copy to copy; a larger one does not.
The plan `workbench-copy` of `barewire lab` gives the same curve for a model.";

/// The largest copy: two buffers of it must fit the memory.
const SIZE_BYTES_MAX: usize = 1 << 30;
/// Sizes if none are named: powers of 4 from a line on, and what no cache holds.
const SIZES_BYTES: [usize; 12] = [
    64,
    256,
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    64 << 20,
    128 << 20,
];
/// Bytes that a sample copies at least, so that the clock's own time does not count.
const SAMPLE_BYTES: usize = 32 << 20;
/// Copies of a sample at most.
const COPIES_MAX: usize = 200_000;

/// Measure memory copies by size
#[derive(Clone, Debug, Args)]
pub struct CopyArgs {
    /// Sizes in bytes, 1 to 1 GiB [default: 64 B to 128 MiB]
    #[arg(long, value_delimiter = ',', value_name = "BYTES")]
    size: Vec<usize>,
    /// Samples of each size
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    samples: u32,
    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What copies of a size took.
#[derive(Clone, Copy, Debug, Serialize)]
struct Point {
    size_bytes: usize,
    /// The median of all samples.
    copy_ns: f64,
    rate_mbit_s: f64,
    rate_mbit_s_least: f64,
    rate_mbit_s_most: f64,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    format: u32,
    command: &'static str,
    samples: u32,
    results: &'a [Point],
}

/// Nanoseconds of a copy of `to.len()` bytes, a value for each sample.
pub fn copy_ns(from: &[u8], to: &mut [u8], samples: usize) -> Vec<f64> {
    let size = to.len().min(from.len());
    let copies = (SAMPLE_BYTES / size.max(1)).clamp(1, COPIES_MAX);
    let mut sample = || {
        let began = Instant::now();
        for _ in 0..copies {
            to[..size].copy_from_slice(&black_box(from)[..size]);
            black_box(&mut *to);
        }
        began.elapsed().as_nanos() as f64 / copies as f64
    };
    // The first fills caches and faults pages in.
    sample();
    (0..samples).map(|_| sample()).collect()
}

fn point(from: &[u8], to: &mut [u8], samples: u32) -> Option<Point> {
    let size_bytes = to.len();
    let ns = copy_ns(from, to, samples as usize);
    let rate = |ns: f64| size_bytes as f64 * 8e3 / ns;
    let (fastest_ns, slowest_ns) = spread(&ns)?;
    let copy_ns = median(&ns)?;
    Some(Point {
        size_bytes,
        copy_ns,
        rate_mbit_s: rate(copy_ns),
        rate_mbit_s_least: rate(slowest_ns),
        rate_mbit_s_most: rate(fastest_ns),
    })
}

/// Measures and shows.
pub fn run(args: &CopyArgs) -> Result<()> {
    let sizes = match &args.size[..] {
        [] => &SIZES_BYTES[..],
        sizes => sizes,
    };
    if let Some(size) = sizes
        .iter()
        .find(|size| !(1..=SIZE_BYTES_MAX).contains(*size))
    {
        return Err(Error::Usage(format!(
            "--size {size}: expected 1 to {SIZE_BYTES_MAX} bytes"
        )));
    }
    if cfg!(debug_assertions) {
        eprintln!("barewire: this is a debug build; its figures mean little");
    }
    let largest = sizes.iter().copied().max().unwrap_or(1);
    let from = vec![0x5a_u8; largest];
    let mut to = vec![0_u8; largest];
    println!("      size, B        time, ns  rate, Mbit/s       least        most");
    let mut points = Vec::new();
    for &size in sizes {
        let Some(point) = point(&from[..size], &mut to[..size], args.samples) else {
            continue;
        };
        println!(
            "{:>13}  {:>14.1}  {:>12.0}  {:>10.0}  {:>10.0}",
            size, point.copy_ns, point.rate_mbit_s, point.rate_mbit_s_least, point.rate_mbit_s_most
        );
        points.push(point);
    }
    let Some(path) = &args.json else {
        return Ok(());
    };
    let report = Report {
        format: 1,
        command: "bench copy",
        samples: args.samples,
        results: &points,
    };
    let text = serde_json::to_string_pretty(&report).map_err(std::io::Error::from);
    let text = text.what("writing JSON")?;
    std::fs::write(path, text + "\n").what(&format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_copied_and_timed() {
        let from: Vec<u8> = (0..10_000_u32).map(|at| at as u8).collect();
        let mut to = vec![0; from.len()];
        let ns = copy_ns(&from, &mut to, 3);
        assert_eq!(to, from);
        assert!(ns.len() == 3 && ns.iter().all(|ns| *ns > 0.0), "{ns:?}");
    }

    #[test]
    fn a_point_has_its_median_between_its_ends() {
        let point = point(&[1; 4096], &mut [0; 4096], 5).expect("a point");
        assert!(point.rate_mbit_s_least <= point.rate_mbit_s);
        assert!(point.rate_mbit_s <= point.rate_mbit_s_most);
        let rate = 4096.0 * 8e3 / point.copy_ns;
        assert!((rate / point.rate_mbit_s - 1.0).abs() < 1e-9);
    }
}
