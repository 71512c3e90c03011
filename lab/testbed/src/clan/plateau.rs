//! What a curve tends to: the rate of a server as its load grows, fitted over a sweep of loads.
//!
//! The source prints one number for the server, to which its curve tends with many
//! connections, and says that the server keeps it beyond its limit. So that number is compared
//! with what two of the model's curves tend to, never with one of their points:
//!
//! | curve | along x | what a client does |
//! |---|---|---|
//! | many connections | connections | asks again on each as soon as it is answered |
//! | overload | requests offered a second | asks at random, whatever was answered |
//!
//! The Queue's curve is treated alike: its highest rate is the highest of a sweep, and the size
//! of transfer for half of it is where the curve passes that half.

use barewire_models::clan::RivalConfig;
use barewire_units::Duration;

use super::many::{self, Activity, Load, Setup, WhenFull};
use super::parameters::Parameters;
use super::rivals;
use super::runs::{self, Run, Service, Streaming, Until};
use crate::error::SystemError;
use crate::replicate::replicate;

/// Client hosts.
const CLIENTS: usize = 7;
/// Connections of each of them, in turn: all beyond the knee of the curve.
const CONNECTIONS: [usize; 5] = [4, 8, 12, 20, 32];
/// Connections of each client while requests are offered at random.
const CONNECTIONS_OFFERED: usize = 4;
/// Requests offered a second, all of them more than the server can answer.
const OFFERED: [f64; 5] = [600e3, 800e3, 1.2e6, 1.8e6, 2.7e6];
/// How long a busy server is measured, and before that not.
const TIMES: Until = Until::Times(Duration::from_us(300), Duration::from_ms(2));
/// The same of a server that is offered more than it can do.
const TIME_OFFERED: Duration = Duration::from_ms(2);
/// Answers that a rival is measured over.
const RIVAL_ANSWERS: u64 = 2000;
/// Transfers through the Queue among which the highest rate is sought, bytes.
const TRANSFERS: [usize; 5] = [4 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10];
/// Transfers among which that for half of the highest rate is sought, bytes.
const HALF_TRANSFERS: [usize; 9] = [64, 80, 96, 112, 128, 144, 160, 192, 256];

/// What a curve tends to as x grows: the least squares of 1 / y = a + b / x, of which 1 / a is
/// left. It is the law of a server whose cost for each request falls with the number that it
/// finds at a time, or of one that some of its clients leave idle.
fn asymptote(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let inverse = |(x, y): &(f64, f64)| (1.0 / x, 1.0 / y);
    let mean = |values: &dyn Fn((f64, f64)) -> f64| {
        points.iter().map(inverse).map(values).sum::<f64>() / count
    };
    let (u, v) = (mean(&|it| it.0), mean(&|it| it.1));
    let slope = mean(&|it| (it.0 - u) * (it.1 - v)) / mean(&|it| (it.0 - u) * (it.0 - u));
    1.0 / (v - slope * u)
}

/// Where a rising curve passes `level`, along straight lines between its points.
fn crossing(points: &[(f64, f64)], level: f64) -> f64 {
    let passes = |pair: &&[(f64, f64)]| pair[0].1 <= level && level < pair[1].1;
    points.windows(2).find(passes).map_or(f64::NAN, |pair| {
        let ((x, y), (x_next, y_next)) = (pair[0], pair[1]);
        x + (x_next - x) * (level - y) / (y_next - y)
    })
}

/// One hash of several runs'.
pub fn hash_of(runs: &[Run]) -> u64 {
    runs.iter()
        .fold(0, |hash: u64, run| hash.rotate_left(7) ^ run.hash)
}

/// Whether the switches have ports for the server and its clients: with fewer clients the rows
/// would be those of another experiment.
///
/// # Errors
///
/// They have not.
pub fn check(parameters: &Parameters) -> Result<(), SystemError> {
    let hosts = parameters.hosts_max();
    if hosts > CLIENTS {
        return Ok(());
    }
    Err(SystemError::Contradiction(format!(
        "switch.ports: two joined switches of {} have ports for {hosts} hosts; the published server has {CLIENTS} clients",
        parameters.switch.ports
    )))
}

fn asymptote_of(xs: impl Iterator<Item = f64>, runs: &[Run]) -> Run {
    let points: Vec<_> = xs.zip(runs.iter().map(|run| run.value)).collect();
    Run {
        value: asymptote(&points),
        hash: hash_of(runs),
    }
}

/// Requests a second that a server tends to with the number of connections, one request under
/// way on each.
///
/// # Errors
///
/// More connections than the card has tripwires for.
pub fn many_connections(parameters: &Parameters) -> Result<Run, SystemError> {
    let runs = replicate(CONNECTIONS.len(), |index| {
        let service = Service {
            clients: CLIENTS,
            connections: CONNECTIONS[index],
            gap: Duration::ZERO,
            end: TIMES,
        };
        runs::serve(parameters, &service).map(|served| Run {
            value: served.rate,
            hash: served.hash,
        })
    });
    let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let connections = CONNECTIONS.iter().map(|each| (CLIENTS * each) as f64);
    Ok(asymptote_of(connections, &runs))
}

/// Requests a second that a server tends to as more and more are offered.
pub fn overload(parameters: &Parameters, seed: u64) -> Run {
    let runs = replicate(OFFERED.len(), |index| {
        let setup = Setup {
            clients: CLIENTS,
            endpoints: CLIENTS * CONNECTIONS_OFFERED,
            cam_entries: parameters.card.cam_entries,
            when_full: WhenFull::Refuse,
            activity: Activity::Uniform,
            load: Load::Rate(OFFERED[index]),
            time: TIME_OFFERED,
        };
        let found = many::run(parameters, &setup, seed, 0);
        Run {
            value: found.rate,
            hash: found.hash,
        }
    });
    asymptote_of(OFFERED.into_iter(), &runs)
}

/// As [`many_connections`], of a rival.
pub fn rival(host: RivalConfig) -> Run {
    let connections = CONNECTIONS.map(|each| (CLIENTS * each) as u64);
    let runs = connections.map(|count| {
        let run = rivals::in_flight(host, count, RIVAL_ANSWERS);
        Run {
            value: run.rate,
            hash: run.hash,
        }
    });
    asymptote_of(connections.iter().map(|count| *count as f64), &runs)
}

fn queue(parameters: &Parameters, transfers: &[usize]) -> (Vec<(f64, f64)>, u64) {
    let runs = replicate(transfers.len(), |index| {
        let measured = (2 * transfers[index]).max(32 << 10);
        let streaming = Streaming::new(parameters, transfers[index], measured);
        streaming.run(parameters).0
    });
    let sizes = transfers.iter().map(|size| *size as f64);
    let points = sizes.zip(runs.iter().map(|run| run.value)).collect();
    (points, hash_of(&runs))
}

/// The Queue's highest rate at any size of transfer, Mbit/s.
pub fn queue_highest(parameters: &Parameters) -> Run {
    let (points, hash) = queue(parameters, &TRANSFERS);
    let value = points.iter().map(|point| point.1).fold(0.0, f64::max);
    Run { value, hash }
}

/// The size of transfer for half of the Queue's highest rate, bytes.
pub fn queue_half_size(parameters: &Parameters) -> Run {
    let highest = queue_highest(parameters);
    let (points, hash) = queue(parameters, &HALF_TRANSFERS);
    Run {
        value: crossing(&points, highest.value / 2.0),
        hash: highest.hash.rotate_left(7) ^ hash,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_curve_is_found_and_not_its_last_point() {
        let law = |x: f64| (x, 461e3 * x / (x + 3.0));
        let points = [28.0, 56.0, 84.0, 140.0].map(law);
        assert!(points.iter().all(|point| point.1 < 452e3));
        assert!((asymptote(&points) / 461e3 - 1.0).abs() < 1e-9);
        // One that falls to its limit.
        let falling = [28.0, 56.0, 224.0].map(|x: f64| (x, 1.0 / (2e-6 - 1e-6 / x)));
        assert!((asymptote(&falling) / 500e3 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_level_is_found_between_two_points_and_not_outside() {
        let points = [(64.0, 300.0), (128.0, 440.0), (256.0, 580.0)];
        assert!((crossing(&points, 440.0) - 128.0).abs() < 1e-9);
        assert!((crossing(&points, 370.0) - 96.0).abs() < 1e-9);
        assert!(crossing(&points, 600.0).is_nan() && crossing(&points, 200.0).is_nan());
    }

    /// Otherwise the highest of the sweep would be no more than where the sweep ends.
    #[test]
    fn the_queue_s_curve_is_flat_where_its_sweep_ends() {
        let parameters = Parameters::parse(super::super::parameters::TEXT).expect("good");
        let (points, _) = queue(&parameters, &TRANSFERS);
        let [.., before, last] = points[..] else {
            panic!("a sweep")
        };
        assert!((last.1 / before.1 - 1.0).abs() < 0.003, "{points:?}");
    }
}
