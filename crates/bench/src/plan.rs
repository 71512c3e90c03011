//! The plan of a run: the cases that the arguments ask for, the channels they need, and the
//! phases in which channels are open together.

use barewire::HostsConfig;

use crate::args::{BenchArgs, TestChoice, WaitingChoice};
use crate::case::{
    CONNECTIONS_MAX, Case, ChannelSpec, REQUEST_BYTES, SIZE_MAX, Test, Transport, Variant, Waiting,
    Work,
};
use crate::error::{Error, Result};

/// Cases whose channels are open together and whose samples are interleaved.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// The channels to open.
    pub channels: Vec<ChannelSpec>,
    /// The cases, sampled in turn.
    pub cases: Vec<Case>,
}

/// Everything that will be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// One after the other.
    pub phases: Vec<Phase>,
    /// Samples of each case.
    pub samples: u32,
    /// How long a probe takes.
    pub probe_ns: u64,
}

/// Sizes of round trips and streams.
const SIZES: [usize; 12] = [
    8, 56, 64, 128, 256, 512, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576,
];
const QUICK_RTT: [usize; 6] = [8, 56, 64, 512, 4096, 65_536];
const QUICK_STREAM: [usize; 7] = [8, 64, 128, 512, 4096, 65_536, 1_048_576];
const CONNECTIONS: [u32; 5] = [1, 10, 100, 1000, 10_000];

/// From so many connections on, only one transport's are open at a time: together they
/// would need more descriptors than a process may have.
const HEAVY: u32 = 1000;

impl Plan {
    /// The plan that the arguments ask for.
    pub fn new(args: &BenchArgs) -> Result<Plan> {
        let options = &args.options;
        check_habits(args)?;
        let duration_ns = options.duration_ms.unwrap_or(30) * 1_000_000;
        let samples = options
            .samples
            .unwrap_or(if options.quick { 7 } else { 21 });
        let mut builder = Builder {
            args,
            duration_ns: if options.quick && options.duration_ms.is_none() {
                20_000_000
            } else {
                duration_ns
            },
            transports: options.transports().map_err(Error::Usage)?,
            light: Phase::default(),
            heavy: Vec::new(),
        };
        let test = args.test;
        if matches!(test, TestChoice::Rtt | TestChoice::All) {
            builder.rtt()?;
        }
        if matches!(test, TestChoice::Stream | TestChoice::All) {
            builder.stream()?;
        }
        if matches!(test, TestChoice::Wake | TestChoice::All) {
            builder.wake(Test::Wake, &[8]);
        }
        if matches!(test, TestChoice::Transactions | TestChoice::All) {
            builder.transactions()?;
        }
        let mut phases = vec![builder.light];
        phases.extend(builder.heavy);
        phases.retain(|phase| !phase.cases.is_empty());
        if phases.is_empty() {
            return Err(Error::Usage(
                "nothing to measure: this test has no case for these transports and variants"
                    .into(),
            ));
        }
        Ok(Plan {
            phases,
            samples: samples.max(1),
            probe_ns: (options.probe_ms.max(0.1) * 1e6) as u64,
        })
    }

    /// How many cases there are.
    pub fn cases(&self) -> usize {
        self.phases.iter().map(|phase| phase.cases.len()).sum()
    }
}

/// Refuses what the test would not do.
fn check_habits(args: &BenchArgs) -> Result<()> {
    let (options, test) = (&args.options, args.test);
    let is_many = test == TestChoice::Transactions;
    if options.think.is_some() && (is_many || test == TestChoice::Stream) {
        return Err(Error::Usage("--think is for rtt, wake and all".into()));
    }
    if options.fresh && is_many {
        return Err(Error::Usage(
            "--fresh is for rtt, stream, wake and all".into(),
        ));
    }
    Ok(())
}

struct Builder<'a> {
    args: &'a BenchArgs,
    duration_ns: u64,
    transports: Vec<Transport>,
    light: Phase,
    heavy: Vec<Phase>,
}

impl Builder<'_> {
    fn wants(&self, transport: Transport) -> bool {
        self.transports.contains(&transport)
    }

    fn wants_variant(&self, variant: Variant) -> bool {
        let wanted = &self.args.options.variant;
        wanted.is_empty() || wanted.iter().any(|name| name == variant.name())
    }

    fn sizes(&self, quick: &[usize], longest: usize) -> Result<Vec<usize>> {
        let options = &self.args.options;
        let sizes = if !options.size.is_empty() {
            options.size.clone()
        } else if options.quick {
            quick.to_vec()
        } else {
            SIZES.to_vec()
        };
        match sizes.iter().find(|&&size| size < 8 || size > longest) {
            Some(bad) => Err(Error::Usage(format!(
                "--size {bad}: sizes are from 8 to {longest} bytes"
            ))),
            None => Ok(sizes),
        }
    }

    fn waitings(&self) -> &'static [Waiting] {
        match self.args.options.waiting {
            WaitingChoice::Polling => &[Waiting::Polling],
            WaitingChoice::Blocking => &[Waiting::Blocking],
            WaitingChoice::Both => &[Waiting::Polling, Waiting::Blocking],
        }
    }

    fn work(&self, test: Test, size: usize, waiting: Waiting) -> Work {
        Work {
            test,
            size,
            connections: 1,
            outstanding: 1,
            waiting,
            duration_ns: self.duration_ns,
            habits: self.args.options.habits(),
        }
    }

    /// Adds a case over one connection; `laid_out` where its memory depends on the size.
    fn one(&mut self, transport: Transport, variant: Variant, laid_out: bool, work: Work) {
        let asked_for = transport == Transport::Limit || self.wants_variant(variant);
        if !self.wants(transport) || !asked_for {
            return;
        }
        let own = transport.is_own();
        let spec = ChannelSpec {
            transport,
            variant,
            size: if laid_out { work.size } else { 0 },
            many: None,
            ring_bytes: if own {
                ring_bytes(transport, variant, &work)
            } else {
                0
            },
            waiting: waiting_of(transport, &work),
        };
        add(&mut self.light, spec, work);
    }

    fn rtt(&mut self) -> Result<()> {
        let sizes = self.sizes(&QUICK_RTT, SIZE_MAX)?;
        for &waiting in self.waitings() {
            if waiting == Waiting::Blocking {
                self.wake(Test::Rtt, &sizes);
                continue;
            }
            let first = self.work(Test::Rtt, sizes[0].min(8), waiting);
            self.one(Transport::Limit, Variant::PingPong, false, first);
            for &size in &sizes {
                let work = self.work(Test::Rtt, size, waiting);
                self.one(Transport::Limit, Variant::Exchange, true, work);
                if size >= 1024 {
                    self.one(Transport::Limit, Variant::ExchangeNt, true, work);
                }
                if size >= KERNEL_COPY_BYTES_MIN {
                    self.one(Transport::Limit, Variant::KernelCopy, false, work);
                }
                if size >= 16_384 {
                    self.one(Transport::Limit, Variant::Ring64k, true, work);
                }
                self.own(Variant::Message, work);
                if size >= IN_PLACE_BYTES_MIN {
                    self.one(Transport::Barewire, Variant::InPlace, false, work);
                }
                if size <= 4096 {
                    self.one(Transport::Barewire, Variant::EventQueue, false, work);
                }
                if size <= 64 {
                    self.one(Transport::Barewire, Variant::Tripwire, false, work);
                }
                self.kernel(work);
            }
        }
        Ok(())
    }

    /// Round trips with both ends asleep.
    fn wake(&mut self, test: Test, sizes: &[usize]) {
        for &size in sizes {
            let work = self.work(test, size, Waiting::Blocking);
            self.one(Transport::Limit, Variant::Eventfd, false, work);
            self.one(Transport::Limit, Variant::Futex, false, work);
            self.own(Variant::Message, work);
            self.kernel(work);
        }
    }

    /// Within this host, and between hosts.
    fn own(&mut self, variant: Variant, work: Work) {
        self.one(Transport::Barewire, variant, false, work);
        self.one(Transport::Hosts, variant, false, work);
    }

    fn kernel(&mut self, work: Work) {
        for transport in [Transport::Tcp, Transport::Unix, Transport::Pipe] {
            self.one(transport, Variant::Plain, false, work);
        }
    }

    fn stream(&mut self) -> Result<()> {
        for size in self.sizes(&QUICK_STREAM, SIZE_MAX)? {
            let work = self.work(Test::Stream, size, Waiting::Polling);
            if size <= 1024 {
                self.one(Transport::Limit, Variant::Ring10k, true, work);
            }
            self.one(Transport::Limit, Variant::Ring64k, true, work);
            if size >= 4096 {
                self.one(Transport::Limit, Variant::Ring64kNt, true, work);
                self.one(Transport::Limit, Variant::Ring1m, true, work);
            }
            if size >= LONG_BYTES {
                self.one(Transport::Limit, Variant::Ring4m, true, work);
            }
            self.own(Variant::Message, work);
            if size >= IN_PLACE_BYTES_MIN {
                self.one(Transport::Barewire, Variant::InPlace, false, work);
            }
            if size <= 1024 {
                self.own(Variant::Batch, work);
            }
            self.own(Variant::Stream, work);
            self.one(Transport::Barewire, Variant::Stream8k, false, work);
            self.kernel(work);
        }
        let sleeps = self.waitings().contains(&Waiting::Blocking);
        if sleeps && self.wants(Transport::Hosts) {
            self.sleeping_stream()?;
        }
        Ok(())
    }

    /// Between hosts, with both ends asleep while nothing can be done.
    fn sleeping_stream(&mut self) -> Result<()> {
        for size in self.sizes(&QUICK_STREAM, SIZE_MAX)? {
            let work = self.work(Test::Stream, size, Waiting::Blocking);
            self.one(Transport::Hosts, Variant::Message, false, work);
            if size <= 1024 {
                self.one(Transport::Hosts, Variant::Batch, false, work);
            }
            self.one(Transport::Hosts, Variant::Stream, false, work);
            self.one(Transport::Tcp, Variant::Plain, false, work);
        }
        Ok(())
    }

    fn transactions(&mut self) -> Result<()> {
        let options = &self.args.options;
        let counts = if options.connections.is_empty() {
            CONNECTIONS.to_vec()
        } else {
            options.connections.clone()
        };
        if let Some(bad) = counts.iter().find(|&&n| n == 0 || n > CONNECTIONS_MAX) {
            return Err(Error::Usage(format!(
                "--connections {bad}: from 1 to {CONNECTIONS_MAX}"
            )));
        }
        let given = options.outstanding;
        // Pipes are no server's transport: only on request.
        let pipes = !options.transport.is_empty();
        for &waiting in self.waitings() {
            for &connections in &counts {
                let mut work = self.work(Test::Transactions, REQUEST_BYTES, waiting);
                work.connections = connections;
                work.outstanding = given.unwrap_or(outstanding(connections));
                // Every connection must be served several times in a sample.
                work.duration_ns *= u64::from((connections / 1000).clamp(1, 8));
                self.many(work, pipes);
            }
        }
        Ok(())
    }

    fn many(&mut self, work: Work, pipes: bool) {
        let heavy = work.connections >= HEAVY;
        let limit = (self.wants(Transport::Limit) && work.waiting == Waiting::Polling)
            .then_some((Transport::Limit, Variant::Ring64k));
        if let (Some(limit), false) = (limit, heavy) {
            add(&mut self.light, many_spec(limit, &work), work);
        }
        for (transport, variant) in [
            (Transport::Barewire, Variant::Message),
            (Transport::Hosts, Variant::Message),
            (Transport::Tcp, Variant::Plain),
            (Transport::Unix, Variant::Plain),
            (Transport::Pipe, Variant::Plain),
        ] {
            if !self.wants(transport) || (transport == Transport::Pipe && !pipes) {
                continue;
            }
            if !heavy {
                add(
                    &mut self.light,
                    many_spec((transport, variant), &work),
                    work,
                );
                continue;
            }
            let mut phase = Phase::default();
            if let Some(limit) = limit {
                add(&mut phase, many_spec(limit, &work), work);
            }
            add(&mut phase, many_spec((transport, variant), &work), work);
            self.heavy.push(phase);
        }
        if heavy && self.transports == [Transport::Limit] {
            if let Some(limit) = limit {
                add(&mut self.light, many_spec(limit, &work), work);
            }
        }
    }
}

fn many_spec((transport, variant): (Transport, Variant), work: &Work) -> ChannelSpec {
    let own = transport.is_own();
    ChannelSpec {
        transport,
        variant,
        size: work.size,
        many: Some(work.connections),
        ring_bytes: if own {
            ring_bytes(transport, variant, work)
        } else {
            0
        },
        waiting: waiting_of(transport, work),
    }
}

/// From this size on messages are received in place as well.
const IN_PLACE_BYTES_MIN: usize = 512;

/// From this size on the kernel's one copy is measured.
const KERNEL_COPY_BYTES_MIN: usize = 4096;

/// From this size on messages go through rings of 4 MiB.
const LONG_BYTES: usize = 16 * 1024;

/// Barewire's rings: the default where messages are small and few under way, else 64 KiB, and 4 MiB where messages are
/// long; between hosts the default there, or more where messages are long. For transactions never less than both ends can
/// have under way, or both could wait for room.
fn ring_bytes(transport: Transport, variant: Variant, work: &Work) -> usize {
    const DEFAULT: usize = 4096;
    const LARGE: usize = 64 * 1024;
    const LONG: usize = 4 << 20;
    match work.test {
        _ if variant == Variant::Stream8k => 8 * 1024,
        Test::Transactions => {
            let under_way = work.outstanding as usize * 2 * REQUEST_BYTES;
            (2 * under_way).next_power_of_two().max(DEFAULT)
        }
        // Each byte passes through the rings of both ends: they should lie in the caches. Credit travels back in packets
        // of its own: there should be few.
        _ if transport == Transport::Hosts => {
            let least = HostsConfig::default().ring_bytes;
            (8 * work.size).next_power_of_two().clamp(least, LONG)
        }
        _ if work.size >= LONG_BYTES => LONG,
        Test::Stream => LARGE,
        Test::Rtt | Test::Wake if work.size <= 512 => DEFAULT,
        Test::Rtt | Test::Wake => LARGE,
    }
}

/// Barewire's way of waiting is a setting of its nodes.
fn waiting_of(transport: Transport, work: &Work) -> Waiting {
    match transport {
        Transport::Barewire | Transport::Hosts => work.waiting,
        _ => Waiting::Polling,
    }
}

/// How many requests are outstanding on each of so many connections.
fn outstanding(connections: u32) -> u32 {
    match connections {
        0..=100 => 16,
        101..=1000 => 4,
        _ => 2,
    }
}

fn add(phase: &mut Phase, spec: ChannelSpec, work: Work) {
    let (transport, variant) = (spec.transport, spec.variant);
    let known = phase.channels.iter().position(|open| *open == spec);
    let channel = known.unwrap_or_else(|| {
        phase.channels.push(spec);
        phase.channels.len() - 1
    });
    phase.cases.push(Case {
        work,
        channel,
        transport,
        variant,
    });
}
