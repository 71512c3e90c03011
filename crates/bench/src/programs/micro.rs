//! Figures of two small programs of our own, which use the sockets of the standard library.

use barewire_report::number::{bytes, ratio};

use super::bare::{self, Limit};
use super::figure::{Figure, Mode, Sample, Side, Target, Unit};
use super::launcher::{Launcher, REPORT_VARIABLE};
use super::load::Watch;
use super::messages::Work;
use super::pair::{Both, Pair, Start};
use crate::error::Result;
use crate::measure::stats::{median, rounded};
use crate::placement::Placement;

/// How a scenario is to be measured.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Rounds of one sample of each kind.
    pub rounds: u32,
    /// Length of a sample.
    pub ms: u64,
    /// Fewer sizes.
    pub quick: bool,
    /// Where programs that spin run.
    pub placement: Placement,
    /// Connections that rest.
    pub connections: u32,
}

impl How {
    /// The order of a round: no mode always comes first.
    pub fn modes(round: u32) -> [Mode; 2] {
        match round % 2 {
            0 => [Mode::Plain, Mode::Preloaded],
            _ => [Mode::Preloaded, Mode::Plain],
        }
    }

    fn ping_pong(&self, size: usize, polling: bool) -> Work {
        Work::PingPong {
            size,
            polling,
            yields: self.placement == Placement::OneProcessor,
            ms: self.ms,
        }
    }

    /// How many operations make up a sample, of which a millisecond has about so many. Not more connections
    /// than that: the kernel keeps the ports of closed ones for a minute, and has few.
    fn count(&self, in_a_ms: u64) -> u32 {
        u32::try_from(self.ms * in_a_ms)
            .unwrap_or(u32::MAX)
            .clamp(50, 500)
    }

    /// Where programs that spin run. All others run where the system puts them: one that may
    /// use a single processor only does not look before it sleeps.
    fn cpus(&self) -> (Option<usize>, Option<usize>) {
        match self.placement {
            Placement::Pinned(client, server) => (Some(client), Some(server)),
            Placement::Free | Placement::OneProcessor => (None, None),
        }
    }
}

/// The two pairs of programs whose samples alternate.
struct Pairs {
    plain: Pair,
    other: Pair,
}

impl Pairs {
    /// `client`: the mode of the second pair's client; its server is always preloaded.
    fn start(
        launcher: &Launcher,
        cpus: (Option<usize>, Option<usize>),
        client: Mode,
        settings: &[(&str, &str)],
    ) -> Result<Pairs> {
        let start = |mode, cpu| Start {
            mode,
            cpu,
            settings,
        };
        let plain = Mode::Plain;
        Ok(Pairs {
            plain: Pair::start(launcher, start(plain, cpus.0), start(plain, cpus.1))?,
            other: Pair::start(
                launcher,
                start(client, cpus.0),
                start(Mode::Preloaded, cpus.1),
            )?,
        })
    }

    fn of(&mut self, mode: Mode) -> &mut Pair {
        match mode {
            Mode::Plain => &mut self.plain,
            Mode::Preloaded => &mut self.other,
        }
    }

    /// Plays in both modes and enters what came out.
    fn round(
        &mut self,
        round: u32,
        work: Work,
        figure: &mut Figure,
        value: fn(&Both) -> (f64, f64),
    ) -> Result<()> {
        for mode in How::modes(round) {
            let watch = Watch::start();
            let both = self.of(mode).play(work)?;
            let cost = watch.stop(both.cpu_ns());
            let (value, operations) = value(&both);
            let sample = Sample {
                value,
                operations,
                cost,
            };
            figure.enter(mode, &sample);
        }
        Ok(())
    }

    /// Has the clients alone do a piece of work in both modes, and enters their rates.
    fn round_of_client(&mut self, round: u32, work: Work, figure: &mut Figure) -> Result<()> {
        for mode in How::modes(round) {
            let watch = Watch::start();
            let done = self.of(mode).alone(work)?;
            let operations = done.operations as f64;
            let sample = Sample {
                value: operations * 1e9 / done.elapsed_ns,
                operations,
                cost: watch.stop(done.cpu_ns),
            };
            figure.enter(mode, &sample);
        }
        Ok(())
    }

    /// Ends the programs; whether their connections were accelerated.
    fn end(self, launcher: &Launcher) -> bool {
        drop(self);
        let counted = launcher.counted();
        counted.upgraded > 0 && counted.ring_bytes > 0
    }
}

fn round_trip(both: &Both) -> (f64, f64) {
    // The processor time is that of the warm-up, too, and so must the count be.
    (both.client.median_ns, both.server.operations as f64)
}

fn rate(both: &Both) -> (f64, f64) {
    let rate = both.server.bytes as f64 * 1e9 / both.server.elapsed_ns;
    (rate, 0.0)
}

fn client_rate(both: &Both) -> (f64, f64) {
    let operations = both.client.operations as f64;
    (operations * 1e9 / both.client.elapsed_ns, operations)
}

const SIZE: usize = 64;

/// Round trips of two programs that poll: reads that do not wait.
pub fn polling(launcher: &Launcher, how: How) -> Result<Vec<Figure>> {
    let name = "64 B to and fro, polling";
    let mut figure =
        Figure::new("ping-pong", name, Unit::Nanoseconds).with_target(Target::OfBare(3.0));
    figure.bare_is = "one line to and fro".into();
    let mut pairs = Pairs::start(launcher, how.cpus(), Mode::Preloaded, &[])?;
    let work = how.ping_pong(SIZE, true);
    for round in 0..how.rounds {
        let limits = [Limit::PingPong, Limit::Exchange(SIZE)];
        let found = bare::measure(how.placement, &limits, how.ms.min(50))?;
        figure.bare.values.push(rounded(found[0]));
        figure.exchange.values.push(rounded(found[1]));
        pairs.round(round, work, &mut figure, round_trip)?;
    }
    figure.is_upgraded = Some(pairs.end(launcher));
    figure.notes.extend(beside_published(&figure));
    Ok(vec![figure])
}

/// SocksDirect's published round trip, and the bare ping-pong that it is set beside.
const PUBLISHED_NS: f64 = 488.0;
const PUBLISHED_BARE_NS: f64 = 100.0;

fn beside_published(figure: &Figure) -> Option<String> {
    let times = figure.of_bare()?;
    let as_if_ns = times * PUBLISHED_BARE_NS;
    let is = if as_if_ns < PUBLISHED_NS {
        "below"
    } else {
        "above"
    };
    Some(format!(
        "{as_if_ns:.0} ns where the bare ping-pong takes {PUBLISHED_BARE_NS} ns: {is} \
         SocksDirect's published {PUBLISHED_NS} ns"
    ))
}

/// Round trips of two programs that sleep in their reads, where the system puts them.
pub fn blocking(launcher: &Launcher, how: How) -> Result<Vec<Figure>> {
    let mut pairs = Pairs::start(launcher, (None, None), Mode::Preloaded, &[])?;
    let mut figures = Vec::new();
    for (size, least) in [(SIZE, 10.0), (64 << 10, 1.0), (1 << 20, 1.0)] {
        let name = format!("{} to and fro, blocking", bytes(size as u64));
        let mut figure =
            Figure::new("blocking", name, Unit::Nanoseconds).with_target(Target::Gain(least));
        let work = how.ping_pong(size, false);
        for round in 0..how.rounds {
            pairs.round(round, work, &mut figure, round_trip)?;
        }
        figures.push(figure);
    }
    let is_upgraded = pairs.end(launcher);
    for figure in &mut figures {
        figure.is_upgraded = Some(is_upgraded);
    }
    Ok(figures)
}

/// One stream, for sizes of what is written at once.
pub fn stream(launcher: &Launcher, how: How) -> Result<Vec<Figure>> {
    let sizes: &[usize] = if how.quick {
        &[64, 4096, 128 << 10, 1 << 20]
    } else {
        &[
            64,
            256,
            1024,
            4096,
            16 << 10,
            64 << 10,
            128 << 10,
            256 << 10,
            1 << 20,
        ]
    };
    let mut pairs = Pairs::start(launcher, (None, None), Mode::Preloaded, &[])?;
    let mut figures: Vec<Figure> = sizes
        .iter()
        .map(|&size| {
            let name = format!("one stream, {} at once", bytes(size as u64));
            let mut figure = Figure::new("stream", name, Unit::BytesPerSecond);
            figure.bare_is = "a ring of the bare machine".into();
            figure.with_target(Target::Gain(1.0))
        })
        .collect();
    let limits: Vec<Limit> = sizes.iter().map(|&size| Limit::Ring(size)).collect();
    for round in 0..how.rounds {
        let found = bare::measure(how.placement, &limits, 20)?;
        for ((figure, &size), bare) in figures.iter_mut().zip(sizes).zip(found) {
            figure.bare.values.push(rounded(bare));
            let work = Work::Stream { size, ms: how.ms };
            pairs.round(round, work, figure, rate)?;
        }
    }
    let is_upgraded = pairs.end(launcher);
    for figure in &mut figures {
        figure.is_upgraded = Some(is_upgraded);
    }
    Ok(figures)
}

/// Connections made and closed, both ends in one process.
pub fn connect(launcher: &Launcher, how: How) -> Result<Vec<Figure>> {
    let name = "connect + accept + close";
    let mut figure = Figure::new("connect", name, Unit::PerSecond).with_target(Target::Gain(1.0));
    let mut pairs = Pairs::start(launcher, (None, None), Mode::Preloaded, &[])?;
    // About 40 us each.
    let work = Work::Connects {
        count: how.count(25),
    };
    for round in 0..how.rounds {
        pairs.round_of_client(round, work, &mut figure)?;
    }
    figure
        .notes
        .push("both ends in one thread; no bytes, so nothing is upgraded".into());
    Ok(vec![figure])
}

/// For programs with children: each would write a line when it ends, which takes longer than the child.
const NO_REPORTS: [(&str, &str); 1] = [(REPORT_VARIABLE, "")];

/// Connections that carry one request and one answer.
pub fn short(launcher: &Launcher, how: How) -> Result<Vec<Figure>> {
    let mut pairs = Pairs::start(launcher, (None, None), Mode::Preloaded, &NO_REPORTS)?;
    let mut figures = Vec::new();
    // So many of each there are in a millisecond, about.
    for (answer_bytes, forks, in_a_ms) in [
        (SIZE, false, 20),
        (100 << 10, false, 8),
        (300 << 10, false, 4),
        (SIZE, true, 3),
    ] {
        let by = if forks { ", by a forked child" } else { "" };
        let size = bytes(answer_bytes as u64);
        let name = format!("connect + request + answer of {size} + close{by}");
        let mut figure = Figure::new("short", name, Unit::PerSecond).with_target(Target::Gain(1.0));
        let work = Work::Short {
            count: how.count(in_a_ms),
            answer_bytes,
            forks,
        };
        for round in 0..how.rounds {
            pairs.round(round, work, &mut figure, client_rate)?;
        }
        figures.push(figure);
    }
    Ok(figures)
}

/// Children of a program: forks, and starts of another program.
pub fn children(launcher: &Launcher, how: How) -> Result<Vec<Figure>> {
    let mut pairs = Pairs::start(launcher, (None, None), Mode::Preloaded, &NO_REPORTS)?;
    let mut figures = Vec::new();
    for (name, starts) in [("fork + end", false), ("start of a program", true)] {
        let mut figure =
            Figure::new("children", name, Unit::PerSecond).with_target(Target::Gain(1.0));
        let work = Work::Children {
            count: how.count(2),
            starts,
        };
        for round in 0..how.rounds {
            pairs.round_of_client(round, work, &mut figure)?;
        }
        figures.push(figure);
    }
    Ok(figures)
}

/// So many more rounds of a stream that is to be as fast as without the library: two streams of the
/// kernel's own differ by half.
const STREAM_TIMES: u32 = 8;

/// Only the server is preloaded: nobody to meet.
pub fn alone(launcher: &Launcher, how: How) -> Result<Vec<Figure>> {
    let new = |name: &str, unit| Figure::new("alone", name, unit).with_target(Target::Gain(0.97));
    let mut figures = vec![
        new(
            "only the server preloaded: 64 B to and fro, polling",
            Unit::Nanoseconds,
        ),
        new(
            "only the server preloaded: 64 B to and fro, blocking",
            Unit::Nanoseconds,
        ),
        new(
            "only the server preloaded: one stream, 16 KiB at once",
            Unit::BytesPerSecond,
        ),
    ];
    let mut pairs = Pairs::start(launcher, how.cpus(), Mode::Plain, &[])?;
    for round in 0..how.rounds {
        pairs.round(
            round,
            how.ping_pong(SIZE, true),
            &mut figures[0],
            round_trip,
        )?;
        pairs.round(
            round,
            how.ping_pong(SIZE, false),
            &mut figures[1],
            round_trip,
        )?;
    }
    let without = stream_alone(launcher, how, &mut pairs, &mut figures[2])?;
    let is_upgraded = pairs.end(launcher);
    for figure in &mut figures {
        figure.is_upgraded = Some(is_upgraded);
        figure
            .notes
            .push("the client has no library: an accelerated connection would be a fault".into());
    }
    figures[2].notes.push(without);
    Ok(figures)
}

/// The stream; and what comes out between two pairs that both are without the library.
fn stream_alone(
    launcher: &Launcher,
    how: How,
    pairs: &mut Pairs,
    figure: &mut Figure,
) -> Result<String> {
    let start = |cpu| Start {
        mode: Mode::Plain,
        cpu,
        settings: &[],
    };
    let (client, server) = how.cpus();
    let mut second = Pair::start(launcher, start(client), start(server))?;
    let mut control = Figure::new("alone", "", figure.unit);
    let work = Work::Stream {
        size: 16 << 10,
        ms: how.ms,
    };
    for round in 0..how.rounds * STREAM_TIMES {
        pairs.round(round, work, figure, rate)?;
        let first = figure.plain.values.last().copied().unwrap_or_default();
        control.plain.values.push(first);
        control
            .preloaded
            .values
            .push(rounded(rate(&second.play(work)?).0));
    }
    let (gain, low, high) = control.gain().unwrap_or_default();
    Ok(format!(
        "two pairs that both are without the library: {} x ({}..{})",
        ratio(gain),
        ratio(low),
        ratio(high)
    ))
}

/// Messages on each connection before it rests: enough to be upgraded at once.
const ROUNDS_BEFORE: u32 = 12;
/// How long they rest.
const REST_MS: u64 = 2000;

/// Many accelerated connections that rest.
pub fn idle(launcher: &Launcher, how: How) -> Result<Vec<Figure>> {
    let count = how.connections;
    let name = format!("memory of a connection that rests, both ends, of {count}");
    let mut memory = Figure::new("idle", name, Unit::Bytes);
    let name = format!(
        "processor time of {count} connections, in {} s of rest",
        REST_MS / 1000
    );
    let mut time = Figure::new("idle", name, Unit::Nanoseconds);
    time.target = Some(Target::IdleProcessors(0.001));
    // As early as can be; what they then are is the same.
    let settings = [("BAREWIRE_CALLS_BEFORE", "1")];
    let mut parts = Parts::default();
    let mut upgraded = 0;
    for round in 0..how.rounds.min(2) {
        let mut pairs = Pairs::start(launcher, (None, None), Mode::Preloaded, &settings)?;
        let work = Work::Idle {
            count,
            rounds: ROUNDS_BEFORE,
            ms: REST_MS,
        };
        for mode in How::modes(round) {
            let watch = Watch::start();
            let both = pairs.of(mode).play(work)?;
            // The rest is a part only of what the watch saw.
            let mut cost = watch.stop(both.cpu_ns());
            cost.all_ns = cost.all_ns * REST_MS as f64 * 1e6 / cost.wall_ns;
            cost.wall_ns = both.client.wall_ns;
            let sample = |value| Sample {
                value,
                operations: 0.0,
                cost,
            };
            memory.enter(mode, &sample(parts.enter(mode, &both, count)));
            time.enter(mode, &sample(both.cpu_ns()));
        }
        drop(pairs);
        upgraded = launcher.counted().upgraded;
    }
    memory.is_upgraded = Some(upgraded >= 2 * u64::from(count));
    time.is_upgraded = memory.is_upgraded;
    // These are of the whole run, not of a rest.
    memory.plain = without_processors(memory.plain);
    memory.preloaded = without_processors(memory.preloaded);
    memory
        .notes
        .push(format!("{upgraded} ends upgraded; {}", parts.note()));
    Ok(vec![memory, time])
}

fn without_processors(side: Side) -> Side {
    Side {
        processors: Vec::new(),
        ..side
    }
}

/// What each end's memory grew by, with the library.
#[derive(Default)]
struct Parts {
    client: Vec<f64>,
    server: Vec<f64>,
    shared: Vec<f64>,
}

impl Parts {
    /// Bytes for each connection, what is shared counted once.
    fn enter(&mut self, mode: Mode, both: &Both, count: u32) -> f64 {
        let each = |bytes: i128| bytes as f64 / f64::from(count);
        let grown = |done: &super::messages::Done, of: fn(&super::memory::Memory) -> u64| {
            let (before, after) = done.memory.unwrap_or_default();
            i128::from(of(&after)) - i128::from(of(&before))
        };
        if mode == Mode::Preloaded {
            self.client
                .push(each(grown(&both.client, |it| it.resident)));
            self.server
                .push(each(grown(&both.server, |it| it.resident)));
            self.shared.push(each(grown(&both.client, |it| it.shared)));
        }
        let proportional = |done| grown(done, |it| it.proportional);
        each(proportional(&both.client) + proportional(&both.server)).max(1.0)
    }

    fn note(&self) -> String {
        let kib = |values: &[f64]| median(values).unwrap_or(0.0) / 1024.0;
        format!(
            "resident {:.1} KiB each in the client and {:.1} KiB in the server, of which {:.1} KiB \
             are the same shared memory; the kernel's own socket buffers are not counted",
            kib(&self.client),
            kib(&self.server),
            kib(&self.shared)
        )
    }
}
