//! Rival programs, if they are installed: `ucx_perftest` over shared memory and
//! `fi_pingpong` with libfabric's shm provider. They bring their own two processes and
//! their own clock; here they are started on the same two processors, between the same
//! two probes. Their set-up connection goes over 127.0.0.1, their data through memory.

use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use barewire_sys::process::{SpawnOpts, spawn_with};

use crate::args::{BenchArgs, TestChoice};
use crate::case::{Case, Habits, Test, Transport, Variant, Waiting, Work};
use crate::environment::Environment;
use crate::error::{Error, Result, What};
use crate::placement::Placement;
use crate::plan::Plan;
use crate::results::{Books, CaseBook, Row};
use crate::runner;
use crate::session::{Sample, Session};

/// No run of a rival takes so long.
const LONGEST: Duration = Duration::from_secs(15);

/// The first of the ports that the rivals use for their set-up.
const FIRST_PORT: u16 = 23_170;

/// One way of running a rival.
struct Rival {
    program: &'static str,
    package: &'static str,
    /// Says which version it is.
    version: (&'static str, &'static [&'static str]),
    transport: &'static str,
    variant: &'static str,
    test: Test,
    sizes: Range<usize>,
    environment: Option<(&'static str, &'static str)>,
    arguments: fn(size: usize, turns: u64, port: u16) -> Vec<String>,
    /// Its output to nanoseconds per operation.
    parse: fn(&str) -> Option<f64>,
}

/// UCX over POSIX shared memory, and where it says `cma`, with its one copy of large messages by the kernel.
const POSIX: &str = "posix,self";
const CMA: &str = "posix,cma,self";

/// A test of UCX's.
const fn ucx_rival(
    variant: &'static str,
    test: Test,
    transports: &'static str,
    arguments: fn(usize, u64, u16) -> Vec<String>,
) -> Rival {
    Rival {
        program: "ucx_perftest",
        package: "ucx-utils",
        version: ("ucx_info", &["-v"]),
        transport: "ucx",
        variant,
        test,
        sizes: 0..usize::MAX,
        environment: Some(("UCX_TLS", transports)),
        arguments,
        parse: match test {
            Test::Stream => |output| ucx_field(output, 7).map(|per_second| 1e9 / per_second),
            _ => |output| ucx_field(output, 1).map(|us| us * 2000.0),
        },
    }
}

/// Sizes from which on UCX may leave the copies to the kernel.
const CMA_SIZES: Range<usize> = 4096..usize::MAX;

const RIVALS: [Rival; 8] = [
    ucx_rival("put-lat", Test::Rtt, POSIX, |size, turns, _| {
        ucx("-t put_lat -d memory -x posix", size, turns)
    }),
    ucx_rival("tag-lat", Test::Rtt, POSIX, |size, turns, _| {
        ucx("-t tag_lat", size, turns)
    }),
    Rival {
        sizes: CMA_SIZES,
        ..ucx_rival("tag-lat-cma", Test::Rtt, CMA, |size, turns, _| {
            ucx("-t tag_lat", size, turns)
        })
    },
    ucx_rival("am-lat", Test::Rtt, POSIX, |size, turns, _| {
        ucx("-t ucp_am_lat", size, turns)
    }),
    ucx_rival("put-bw", Test::Stream, POSIX, |size, turns, _| {
        ucx("-t put_bw -d memory -x posix", size, turns)
    }),
    ucx_rival("tag-bw", Test::Stream, POSIX, |size, turns, _| {
        ucx("-t tag_bw", size, turns)
    }),
    Rival {
        sizes: CMA_SIZES,
        ..ucx_rival("tag-bw-cma", Test::Stream, CMA, |size, turns, _| {
            ucx("-t tag_bw", size, turns)
        })
    },
    Rival {
        program: "fi_pingpong",
        package: "libfabric-bin",
        version: ("fi_info", &["--version"]),
        transport: "libfabric-shm",
        variant: "pingpong",
        test: Test::Rtt,
        sizes: 0..usize::MAX,
        environment: None,
        arguments: |size, turns, port| {
            let port_flag = if port == 0 { "-P" } else { "-B" };
            words(&format!("-p shm -e rdm -I {turns} -S {size} {port_flag}"))
        },
        parse: |output| fabric_field(output).map(|us| us * 2000.0),
    },
];

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn ucx(test: &str, size: usize, turns: u64) -> Vec<String> {
    words(&format!("{test} -s {size} -n {turns} -f -v -p"))
}

/// A number in the last line of comma-separated values.
fn ucx_field(output: &str, index: usize) -> Option<f64> {
    let line = output.lines().rev().find(|line| {
        line.starts_with(|c: char| c.is_ascii_digit()) && line.split(',').count() >= 8
    })?;
    let value: f64 = line.split(',').nth(index)?.trim().parse().ok()?;
    (value > 0.0).then_some(value)
}

/// The microseconds of one transfer: the last column but one.
fn fabric_field(output: &str) -> Option<f64> {
    let line = output
        .lines()
        .rev()
        .find(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()))?;
    let columns: Vec<&str> = line.split_whitespace().collect();
    let value: f64 = columns.get(columns.len().checked_sub(2)?)?.parse().ok()?;
    (value > 0.0).then_some(value)
}

/// The numbers of the channels that are open beside a rival start here.
const FIRST_CHANNEL: usize = 1_000_000;

/// The cases of the limit and of barewire of a size, with books for the samples taken
/// between runs of a rival: without them there might be nothing to compare in its own band.
struct Beside<'a>(Books<'a>);

impl<'a> Beside<'a> {
    fn open(plan: &'a Plan, test: Test, size: usize, session: &mut Session) -> Result<Self> {
        let mut books: Books<'a> = Vec::new();
        for phase in &plan.phases {
            for case in &phase.cases {
                let fits = matches!(case.transport, Transport::Limit | Transport::Barewire)
                    && (case.work.test == test && case.work.size == size)
                    && case.work.waiting == Waiting::Polling
                    && case.variant != Variant::PingPong;
                if fits {
                    let id = FIRST_CHANNEL + books.len();
                    session.open(id, &phase.channels[case.channel])?;
                    books.push((case, CaseBook::default()));
                }
            }
        }
        Ok(Beside(books))
    }

    fn take(&mut self, session: &mut Session) -> Result<()> {
        for (index, (case, book)) in self.0.iter_mut().enumerate() {
            runner::take(session, FIRST_CHANNEL + index, case, book)?;
        }
        Ok(())
    }

    /// Closes the channels and adds the samples to the other ones of the same cases.
    fn close(self, session: &mut Session, books: &mut Books<'a>) -> Result<()> {
        for (index, (case, book)) in self.0.into_iter().enumerate() {
            session.close(FIRST_CHANNEL + index)?;
            runner::merge(books, case, book);
        }
        Ok(())
    }
}

/// Runs each rival that fits the test; those that are missing are named.
pub fn measure<'a>(
    args: &BenchArgs,
    plan: &'a Plan,
    placement: Placement,
    session: &mut Session,
    books: &mut Books<'a>,
    environment: &mut Environment,
) -> Result<Vec<Row>> {
    let quick = args.options.quick;
    let sizes: Vec<usize> = if !args.options.size.is_empty() {
        args.options.size.clone()
    } else if quick {
        vec![8, 64, 4096]
    } else {
        vec![8, 64, 512, 4096, 65_536]
    };
    let mut missing: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    let mut port = FIRST_PORT;
    for rival in &RIVALS {
        if !is_asked_for(rival, args.test) || missing.contains(&rival.program) {
            continue;
        }
        if !installed(rival.program) {
            missing.push(rival.program);
            environment.not_measured.push(format!(
                "{}: not installed (apt-get install {})",
                rival.program, rival.package
            ));
            continue;
        }
        let version = version_of(rival);
        if !environment.rivals.contains(&version) {
            environment.rivals.push(version);
        }
        for &size in sizes.iter().filter(|size| rival.sizes.contains(size)) {
            let mut beside = Beside::open(plan, rival.test, size, session)?;
            let mut book = CaseBook::default();
            let mut failure = None;
            for _ in 0..plan.samples {
                port += 1;
                match sample(rival, size, port, placement, session)? {
                    Ok(sample) => {
                        book.enter(&sample, |_| {});
                    }
                    Err(error) => failure = Some(error.to_string()),
                }
                beside.take(session)?;
            }
            beside.close(session, books)?;
            if let Some(why) = failure {
                let (program, variant) = (rival.program, rival.variant);
                environment
                    .not_measured
                    .push(format!("{program} {variant} {size} B: {why}"));
            }
            rows.extend(rows_of(rival, size, &book));
        }
    }
    Ok(rows)
}

fn is_asked_for(rival: &Rival, test: TestChoice) -> bool {
    match test {
        TestChoice::All => true,
        TestChoice::Rtt => rival.test == Test::Rtt,
        TestChoice::Stream => rival.test == Test::Stream,
        TestChoice::Transactions | TestChoice::Wake => false,
    }
}

/// One run of a rival between two probes; the inner error is the rival's own.
fn sample(
    rival: &Rival,
    size: usize,
    port: u16,
    placement: Placement,
    session: &mut Session,
) -> Result<Result<Sample>> {
    let doing = format!("{} {} {size} B", rival.program, rival.variant);
    let before = session.probe_alone(&doing)?;
    let ran = run_once(rival, size, port, placement);
    let after = session.probe_alone(&doing)?;
    Ok(ran.map(|per_operation_ns| Sample {
        per_operation_ns,
        probes_ns: (before, after),
        stretches_ps: None,
        cpu_percent: (100.0, 100.0),
        disturbed: false,
    }))
}

fn rows_of(rival: &Rival, size: usize, book: &CaseBook) -> Vec<Row> {
    let case = Case {
        work: Work {
            test: rival.test,
            size,
            connections: 1,
            outstanding: 1,
            waiting: Waiting::Polling,
            duration_ns: 0,
            habits: Habits::default(),
        },
        channel: 0,
        transport: Transport::Limit,
        variant: Variant::Plain,
    };
    let mut rows = book.rows(&case);
    for row in &mut rows {
        rival.transport.clone_into(&mut row.transport);
        rival.variant.clone_into(&mut row.variant);
        // They spin, but nobody measured it.
        row.cpu_client_percent = None;
        row.cpu_server_percent = None;
    }
    rows
}

fn installed(program: &str) -> bool {
    let outcome = Command::new(program)
        .arg("-h")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    !matches!(outcome, Err(error) if error.kind() == ErrorKind::NotFound)
}

/// Its name and version.
fn version_of(rival: &Rival) -> String {
    let (program, arguments) = rival.version;
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = text.ok().and_then(|text| version_in(&text));
    format!(
        "{} {}",
        rival.transport,
        version.as_deref().unwrap_or("of unknown version")
    )
}

/// The first word that is numbers with dots between them.
fn version_in(text: &str) -> Option<String> {
    let is_version =
        |word: &&str| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok());
    text.split_whitespace().find(is_version).map(str::to_owned)
}

/// Starts the rival's server and client on our two processors; nanoseconds per operation.
fn run_once(rival: &Rival, size: usize, port: u16, placement: Placement) -> Result<f64> {
    let turns = (200_000 / (size as u64 / 256).max(1)).max(2000);
    let (client_cpu, server_cpu) = match placement {
        Placement::Pinned(client, server) => (Some(client), Some(server)),
        _ => (None, None),
    };
    let mut arguments = (rival.arguments)(size, turns, port);
    arguments.push(port.to_string());
    let mut server = start(rival, &arguments, server_cpu)?;
    // It has no way to say that it listens.
    std::thread::sleep(Duration::from_millis(300));
    let mut arguments = (rival.arguments)(size, turns, 0);
    arguments.push(port.to_string());
    arguments.push("127.0.0.1".to_owned());
    let outcome = start(rival, &arguments, client_cpu).and_then(finish);
    // The children that we started, by their own handles.
    let _ = server.kill();
    let _ = server.wait();
    let output = outcome?;
    (rival.parse)(&output)
        .ok_or_else(|| Error::Transport("its output was not understood".to_owned()))
}

fn start(rival: &Rival, arguments: &[String], cpu: Option<usize>) -> Result<Child> {
    let mut command = Command::new(rival.program);
    command
        .args(arguments)
        .envs(rival.environment)
        .env("UCX_LOG_LEVEL", "error")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let options = SpawnOpts {
        pdeathsig: true,
        pin: cpu,
        ..SpawnOpts::default()
    };
    spawn_with(&mut command, options).what(&format!("starting {}", rival.program))
}

fn finish(mut child: Child) -> Result<String> {
    let started = Instant::now();
    let status = loop {
        match child.try_wait().what("waiting for the program")? {
            Some(status) => break status,
            None if started.elapsed() > LONGEST => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Error::Stuck("the program", LONGEST.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let mut output = String::new();
    if let Some(mut pipe) = child.stdout.take() {
        // What is not text is no result either.
        let _ = pipe.read_to_string(&mut output);
    }
    if status.success() {
        Ok(output)
    } else {
        Err(Error::Transport(format!("it failed ({status})")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found() {
        assert_eq!(
            version_in("# Version 1.13.1\n# Git").as_deref(),
            Some("1.13.1")
        );
        assert_eq!(version_in("fi_info: 1.17.0\n").as_deref(), Some("1.17.0"));
        assert_eq!(version_in("no . version 1..2"), None);
    }

    #[test]
    fn outputs_are_understood() {
        let ucx = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,\
                   overall_mr\n200000,0.050,0.055,0.055,139.31,139.31,18259127,18259127\n";
        assert_eq!(ucx_field(ucx, 1), Some(0.05));
        assert_eq!((RIVALS[0].parse)(ucx), Some(100.0));
        assert_eq!(ucx_field(ucx, 7), Some(18_259_127.0));
        assert_eq!(ucx_field("nothing", 1), None);
        let fabric = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   \
                      Mxfers/sec\n64      20k     =20k     2.4m        0.03s     73.54       \
                      0.87       1.15\n";
        assert_eq!(fabric_field(fabric), Some(0.87));
        assert_eq!(fabric_field(""), None);
    }

    #[test]
    fn a_missing_program_is_noticed() {
        assert!(!installed("no-such-program-anywhere"));
    }
}
