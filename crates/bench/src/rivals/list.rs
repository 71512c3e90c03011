//! Which programs there are, how each is used, and what its ends are.

use std::ops::Range;

use crate::case::Test;
use crate::rivals::output::{fabric_field, nanoseconds, ucx_field};

/// Where a program comes from.
#[derive(Debug)]
pub enum Program {
    /// From a package of the distribution.
    Packaged {
        name: &'static str,
        package: &'static str,
        /// Says which version it is.
        version: (&'static str, &'static [&'static str]),
    },
    /// From `benches/rivals`, built by `make rivals`.
    Built {
        name: &'static str,
        /// How to get it.
        how: &'static str,
    },
}

impl Program {
    /// Its file's name.
    pub fn name(&self) -> &'static str {
        match self {
            Program::Packaged { name, .. } | Program::Built { name, .. } => name,
        }
    }
}

/// What one run of a rival is asked to do.
#[derive(Clone, Debug)]
pub struct Run {
    /// Bytes in a message.
    pub size: usize,
    /// Operations to measure.
    pub turns: u64,
    /// Where its ends meet: for those that meet at a port of 127.0.0.1.
    pub port: u16,
    /// Where its ends meet: what all files of the run begin with, in `/dev/shm`.
    pub name: String,
    /// The processors of client and server, if each has one.
    pub cpus: Option<(usize, usize)>,
    /// The processors that neither of them uses.
    pub spare: Vec<usize>,
}

/// On which processor a process of a rival runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Client,
    Server,
    /// One that neither end uses; on both of theirs, if there are no others.
    Spare,
}

/// A process of a rival.
#[derive(Debug)]
pub struct Part {
    pub place: Place,
    pub arguments: Vec<String>,
    /// Whether it ends when the client has; else it is killed then.
    pub ends_itself: bool,
}

impl Part {
    fn new(place: Place, arguments: Vec<String>) -> Part {
        Part {
            place,
            arguments,
            ends_itself: place != Place::Spare,
        }
    }
}

/// The processes of a rival.
#[derive(Debug)]
pub struct Parts {
    /// Started first, in this order.
    pub others: Vec<Part>,
    /// Whether those have no way to say that they listen.
    pub is_silent: bool,
    /// Prints the figure.
    pub client: Part,
}

/// One way of running a rival.
pub struct Rival {
    pub program: &'static Program,
    pub transport: &'static str,
    pub variant: &'static str,
    pub test: Test,
    pub sizes: Range<usize>,
    pub environment: Option<(&'static str, &'static str)>,
    pub parts: fn(rival: &Rival, run: &Run) -> Parts,
    /// Its output to nanoseconds per operation.
    pub parse: fn(&str) -> Option<f64>,
}

const UCX: Program = Program::Packaged {
    name: "ucx_perftest",
    package: "ucx-utils",
    version: ("ucx_info", &["-v"]),
};

/// UCX over POSIX shared memory, and where it says `cma`, with its one copy of large messages by the kernel.
const POSIX: &str = "posix,self";
const CMA: &str = "posix,cma,self";

/// A test of UCX's.
const fn ucx_rival(
    variant: &'static str,
    test: Test,
    transports: &'static str,
    parts: fn(&Rival, &Run) -> Parts,
) -> Rival {
    Rival {
        program: &UCX,
        transport: "ucx",
        variant,
        test,
        sizes: 0..usize::MAX,
        environment: Some(("UCX_TLS", transports)),
        parts,
        parse: match test {
            Test::Stream => |output| ucx_field(output, 7).map(|per_second| 1e9 / per_second),
            _ => |output| ucx_field(output, 1).map(|us| us * 2000.0),
        },
    }
}

/// Sizes from which on UCX and Open MPI may leave the copies to the kernel.
const CMA_SIZES: Range<usize> = 4096..usize::MAX;

/// Sizes that Barewire receives in place, too.
const IN_PLACE_SIZES: Range<usize> = 512..usize::MAX;

const ICEORYX2: Program = Program::Built {
    name: "iceoryx2",
    how: "make rivals, with Rust 1.89 or newer",
};

const AERON: Program = Program::Built {
    name: "aeron",
    how: "apt-get install default-jdk-headless maven && make rivals",
};

const OPENMPI: Program = Program::Built {
    name: "openmpi",
    how: "apt-get install openmpi-bin libopenmpi-dev && make rivals",
};

/// A program of `benches/rivals`.
const fn built(
    program: &'static Program,
    variant: &'static str,
    test: Test,
    sizes: Range<usize>,
    parts: fn(&Rival, &Run) -> Parts,
) -> Rival {
    Rival {
        program,
        transport: match program {
            Program::Packaged { name, .. } | Program::Built { name, .. } => name,
        },
        variant,
        test,
        sizes,
        environment: None,
        parts,
        parse: nanoseconds,
    }
}

const ALL_SIZES: Range<usize> = 0..usize::MAX;

/// All of them.
pub static RIVALS: [Rival; 20] = [
    ucx_rival("put-lat", Test::Rtt, POSIX, |_, run| {
        ucx("-t put_lat -d memory -x posix", run)
    }),
    ucx_rival("tag-lat", Test::Rtt, POSIX, |_, run| ucx("-t tag_lat", run)),
    Rival {
        sizes: CMA_SIZES,
        ..ucx_rival("tag-lat-cma", Test::Rtt, CMA, |_, run| {
            ucx("-t tag_lat", run)
        })
    },
    ucx_rival("am-lat", Test::Rtt, POSIX, |_, run| {
        ucx("-t ucp_am_lat", run)
    }),
    ucx_rival("put-bw", Test::Stream, POSIX, |_, run| {
        ucx("-t put_bw -d memory -x posix", run)
    }),
    ucx_rival("tag-bw", Test::Stream, POSIX, |_, run| {
        ucx("-t tag_bw", run)
    }),
    Rival {
        sizes: CMA_SIZES,
        ..ucx_rival("tag-bw-cma", Test::Stream, CMA, |_, run| {
            ucx("-t tag_bw", run)
        })
    },
    Rival {
        program: &Program::Packaged {
            name: "fi_pingpong",
            package: "libfabric-bin",
            version: ("fi_info", &["--version"]),
        },
        transport: "libfabric-shm",
        variant: "pingpong",
        test: Test::Rtt,
        sizes: ALL_SIZES,
        environment: None,
        parts: |_, run| fabric(run),
        parse: |output| fabric_field(output).map(|us| us * 2000.0),
    },
    built(&ICEORYX2, "message", Test::Rtt, ALL_SIZES, two_ends),
    built(&ICEORYX2, "in-place", Test::Rtt, IN_PLACE_SIZES, two_ends),
    built(&ICEORYX2, "message", Test::Stream, ALL_SIZES, two_ends),
    built(
        &ICEORYX2,
        "in-place",
        Test::Stream,
        IN_PLACE_SIZES,
        two_ends,
    ),
    built(&AERON, "message", Test::Rtt, ALL_SIZES, with_driver),
    built(&AERON, "in-place", Test::Rtt, IN_PLACE_SIZES, with_driver),
    built(&AERON, "message", Test::Stream, ALL_SIZES, with_driver),
    built(
        &AERON,
        "in-place",
        Test::Stream,
        IN_PLACE_SIZES,
        with_driver,
    ),
    built(&OPENMPI, "message", Test::Rtt, ALL_SIZES, together),
    built(&OPENMPI, "message-cma", Test::Rtt, CMA_SIZES, together),
    built(&OPENMPI, "message", Test::Stream, ALL_SIZES, together),
    built(&OPENMPI, "message-cma", Test::Stream, CMA_SIZES, together),
];

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn ucx(test: &str, run: &Run) -> Parts {
    let Run {
        size, turns, port, ..
    } = run;
    let server = words(&format!("{test} -s {size} -n {turns} -f -v -p {port}"));
    let mut client = server.clone();
    client.push("127.0.0.1".to_owned());
    meeting_at_a_port(server, client)
}

fn fabric(run: &Run) -> Parts {
    let Run {
        size, turns, port, ..
    } = run;
    let common = format!("-p shm -e rdm -I {turns} -S {size}");
    let server = words(&format!("{common} -B {port}"));
    let client = words(&format!("{common} -P {port} 127.0.0.1"));
    meeting_at_a_port(server, client)
}

fn meeting_at_a_port(server: Vec<String>, client: Vec<String>) -> Parts {
    Parts {
        others: vec![Part::new(Place::Server, server)],
        is_silent: true,
        client: Part::new(Place::Client, client),
    }
}

/// The arguments of a program of `benches/rivals`.
fn arguments(rival: &Rival, role: &str, run: &Run) -> Vec<String> {
    let (test, way) = (rival.test.name(), rival.variant);
    let Run {
        size, turns, name, ..
    } = run;
    words(&format!("{role} {test} {way} {size} {turns} {name}"))
}

fn two_ends(rival: &Rival, run: &Run) -> Parts {
    Parts {
        others: vec![Part::new(Place::Server, arguments(rival, "server", run))],
        is_silent: false,
        client: Part::new(Place::Client, arguments(rival, "client", run)),
    }
}

/// A third process serves both ends, if it can on processors of its own.
fn with_driver(rival: &Rival, run: &Run) -> Parts {
    let (name, spare) = (&run.name, run.spare.len());
    let driver = words(&format!("driver {name} {spare}"));
    let mut parts = two_ends(rival, run);
    parts.others.insert(0, Part::new(Place::Spare, driver));
    parts
}

/// One command starts both ends, which go to their processors themselves.
fn together(rival: &Rival, run: &Run) -> Parts {
    let cpu = |cpu: Option<usize>| cpu.map_or_else(|| "-1".to_owned(), |cpu| cpu.to_string());
    let mut both = arguments(rival, "both", run);
    both.push(cpu(run.cpus.map(|(client, _)| client)));
    both.push(cpu(run.cpus.map(|(_, server)| server)));
    Parts {
        others: Vec::new(),
        is_silent: false,
        client: Part::new(Place::Client, both),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        Run {
            size: 64,
            turns: 1000,
            port: 7,
            name: "run-".to_owned(),
            cpus: Some((2, 5)),
            spare: vec![0, 1],
        }
    }

    /// The arguments of all processes of the first rival of a transport.
    fn of(transport: &str, run: &Run) -> Vec<String> {
        let rival = RIVALS.iter().find(|rival| rival.transport == transport);
        let rival = rival.unwrap();
        let parts = (rival.parts)(rival, run);
        let all = parts.others.iter().chain([&parts.client]);
        all.map(|part| part.arguments.join(" ")).collect()
    }

    #[test]
    fn each_process_gets_its_arguments() {
        let ucx = "-t put_lat -d memory -x posix -s 64 -n 1000 -f -v -p 7";
        assert_eq!(of("ucx", &run()), [ucx, &format!("{ucx} 127.0.0.1")]);
        assert_eq!(
            of("libfabric-shm", &run()),
            [
                "-p shm -e rdm -I 1000 -S 64 -B 7",
                "-p shm -e rdm -I 1000 -S 64 -P 7 127.0.0.1"
            ]
        );
        assert_eq!(
            of("aeron", &run()),
            [
                "driver run- 2",
                "server rtt message 64 1000 run-",
                "client rtt message 64 1000 run-"
            ]
        );
        assert_eq!(of("iceoryx2", &run())[..], of("aeron", &run())[1..]);
        let both = "both rtt message 64 1000 run-";
        assert_eq!(of("openmpi", &run()), [format!("{both} 2 5")]);
        let anywhere = Run {
            cpus: None,
            ..run()
        };
        assert_eq!(of("openmpi", &anywhere), [format!("{both} -1 -1")]);
    }

    #[test]
    fn outputs_become_nanoseconds() {
        let ucx = "200000,0.050,0.055,0.055,139.31,139.31,18259127,20000000\n";
        assert_eq!((RIVALS[0].parse)(ucx), Some(100.0));
        assert_eq!((RIVALS[4].parse)(ucx), Some(50.0));
        let built = RIVALS.last().unwrap();
        assert_eq!((built.parse)("ns-per-operation 12.5\n"), Some(12.5));
    }
}
