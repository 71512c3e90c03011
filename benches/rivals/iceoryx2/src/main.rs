//! iceoryx2's part in `barewire bench --rivals`: one end of a ping-pong (`rtt`) or of a
//! one-way stream (`stream`) over publish-subscribe services, both ends busy polling.
//!
//! `iceoryx2 client|server rtt|stream message|in-place SIZE TURNS NAME`; `NAME` keeps the
//! files of a run apart from those of others. The client prints `ns-per-operation X`.
//! `iceoryx2 --version` prints the version of the library.
//!
//! A message is written into a loaned sample, as our sender copies its message into shared
//! memory. The receiver copies it out (`message`), or reads its last byte where it lies
//! (`in-place`). Services are set up as in iceoryx2's own benchmark: no history, one publisher
//! and one subscriber, a single-threaded service, and for round trips a buffer of one sample.
#![forbid(unsafe_code)]

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::sample_mut_uninit::SampleMutUninit;
use iceoryx2::service::port_factory::publish_subscribe::PortFactory as Channel;
use iceoryx2_bb_elementary::package_version::PackageVersion;

type Outcome<T> = Result<T, Box<dyn Error>>;
type Loan = SampleMutUninit<ipc::Service, [std::mem::MaybeUninit<u8>], ()>;

/// What the last byte of every message is: whoever receives another one has a fault.
const LAST: u8 = 0x5A;

/// Samples that wait in a stream before its sender has to.
const STREAM_SAMPLES: usize = 64;

/// Neither end waits longer for the other one to come or to go.
const PEER: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Message,
    InPlace,
}

/// The arguments.
struct Task {
    is_client: bool,
    is_stream: bool,
    way: Way,
    size: usize,
    turns: usize,
    name: String,
}

impl Task {
    fn parse(arguments: &[String]) -> Option<Task> {
        let [role, test, way, size, turns, name] = arguments else {
            return None;
        };
        let one_of = |text: &str, yes: &str, no: &str| {
            (text == yes)
                .then_some(true)
                .or((text == no).then_some(false))
        };
        Some(Task {
            is_client: one_of(role, "client", "server")?,
            is_stream: one_of(test, "stream", "rtt")?,
            way: match one_of(way, "message", "in-place")? {
                true => Way::Message,
                false => Way::InPlace,
            },
            size: size.parse().ok().filter(|&size| size > 0)?,
            turns: turns.parse().ok().filter(|&turns| turns > 0)?,
            name: name.clone(),
        })
    }

    fn warm_up(&self) -> usize {
        self.turns / 10 + 1
    }
}

/// The ports of one end.
struct End {
    publisher: Publisher<ipc::Service, [u8], ()>,
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    way: Way,
    /// Is sent, again and again.
    message: Vec<u8>,
    /// Messages are copied to here.
    received: Vec<u8>,
}

impl End {
    #[inline(always)]
    fn loan(&self) -> Outcome<Loan> {
        Ok(self.publisher.loan_slice_uninit(self.message.len())?)
    }

    #[inline(always)]
    fn send(&self, loan: Loan) -> Outcome<()> {
        loan.write_from_slice(black_box(&self.message)).send()?;
        Ok(())
    }

    /// Polls until the next message is here, and takes it.
    #[inline(always)]
    fn receive(&mut self) -> Outcome<()> {
        let sample = loop {
            if let Some(sample) = self.subscriber.receive()? {
                break sample;
            }
        };
        let payload = sample.payload();
        match self.way {
            Way::Message => self.received.copy_from_slice(payload),
            Way::InPlace => *last(&mut self.received) = payload[payload.len() - 1],
        }
        black_box(&mut self.received);
        if *last(&mut self.received) != LAST {
            return Err("a message is not what was sent".into());
        }
        Ok(())
    }
}

fn last(bytes: &mut [u8]) -> &mut u8 {
    let index = bytes.len() - 1;
    &mut bytes[index]
}

/// A service for one direction.
fn channel(
    node: &Node<ipc::Service>,
    name: &str,
    is_stream: bool,
) -> Outcome<Channel<ipc::Service, [u8], ()>> {
    let builder = node
        .service_builder(&name.try_into()?)
        .publish_subscribe::<[u8]>()
        .max_publishers(1)
        .max_subscribers(1)
        .history_size(0);
    // What overflows is lost, which a stream may not be.
    let builder = match is_stream {
        true => builder
            .subscriber_max_buffer_size(STREAM_SAMPLES)
            .enable_safe_overflow(false),
        false => builder
            .subscriber_max_buffer_size(1)
            .enable_safe_overflow(true),
    };
    Ok(builder.open_or_create()?)
}

/// Polls, with a pause, until something holds.
fn until(mut holds: impl FnMut() -> bool) -> Outcome<()> {
    let begin = Instant::now();
    while !holds() {
        if begin.elapsed() > PEER {
            return Err("the other end is missing".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn rtt(end: &mut End, task: &Task) -> Outcome<Option<f64>> {
    let all = task.warm_up() + task.turns;
    // As iceoryx2's own benchmark does: the next sample is loaned while one is under way.
    let mut loan = end.loan()?;
    if !task.is_client {
        for _ in 0..all {
            end.receive()?;
            end.send(loan)?;
            loan = end.loan()?;
        }
        return Ok(None);
    }
    let mut times_ns = Vec::with_capacity(all);
    let mut before = Instant::now();
    for _ in 0..all {
        end.send(loan)?;
        // Here the message is under way, so that looking at the clock costs nothing.
        let now = Instant::now();
        times_ns.push((now - before).as_nanos() as u64);
        before = now;
        loan = end.loan()?;
        end.receive()?;
    }
    let times_ns = &mut times_ns[task.warm_up()..];
    let middle = times_ns.len() / 2;
    Ok(Some(*times_ns.select_nth_unstable(middle).1 as f64))
}

/// The server receives and measures; then it sends one message back, and what it found out.
fn stream(end: &mut End, task: &Task) -> Outcome<Option<f64>> {
    if task.is_client {
        for _ in 0..task.warm_up() + task.turns {
            end.send(end.loan()?)?;
        }
        let answer = loop {
            if let Some(sample) = end.subscriber.receive()? {
                break u64::from_le_bytes(sample.payload().try_into()?);
            }
        };
        return Ok(Some(answer as f64 / 1000.0));
    }
    for _ in 0..task.warm_up() {
        end.receive()?;
    }
    let begin = Instant::now();
    for _ in 0..task.turns {
        end.receive()?;
    }
    let each_ps = begin.elapsed().as_nanos() * 1000 / task.turns as u128;
    let loan = end.publisher.loan_slice_uninit(8)?;
    loan.write_from_slice(&(each_ps as u64).to_le_bytes())
        .send()?;
    Ok(None)
}

/// One message each way. Before its subscriber has received something, a publisher discards
/// what finds the buffer full, even where nothing may overflow.
fn greet(end: &mut End, task: &Task) -> Outcome<()> {
    if task.is_client {
        end.send(end.loan()?)?;
        return end.receive();
    }
    end.receive()?;
    end.send(end.loan()?)
}

fn run(task: &Task) -> Outcome<Option<f64>> {
    set_log_level(LogLevel::Error);
    let mut config = Config::default();
    config.global.prefix = task.name.as_str().try_into()?;
    // Beside its shared memory, so that one look finds all that a killed end left behind.
    let root = format!("/dev/shm/{}files", task.name);
    config.global.set_root_path(&root.as_str().try_into()?);
    let node = NodeBuilder::new()
        .config(&config)
        .create::<ipc::Service>()?;
    let there = channel(&node, "there", task.is_stream)?;
    let back = channel(&node, "back", task.is_stream)?;
    let (out, into) = match task.is_client {
        true => (&there, &back),
        false => (&back, &there),
    };
    let mut message = vec![0; task.size];
    *last(&mut message) = LAST;
    let mut end = End {
        publisher: out
            .publisher_builder()
            .initial_max_slice_len(task.size.max(8))
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()?,
        subscriber: into.subscriber_builder().create()?,
        way: task.way,
        received: vec![0; task.size],
        message,
    };
    until(|| {
        out.dynamic_config().number_of_subscribers() == 1
            && into.dynamic_config().number_of_publishers() == 1
    })?;
    greet(&mut end, task)?;
    let figure = match task.is_stream {
        true => stream(&mut end, task)?,
        false => rtt(&mut end, task)?,
    };
    // What the client has not taken yet must not go with its publisher.
    if !task.is_client {
        until(|| out.dynamic_config().number_of_subscribers() == 0)?;
    }
    Ok(figure)
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--version"] {
        println!("iceoryx2 {}", PackageVersion::get());
        return Ok(());
    }
    let task = Task::parse(&arguments)
        .ok_or("arguments: client|server rtt|stream message|in-place SIZE TURNS NAME")?;
    if let Some(ns) = run(&task)? {
        println!("ns-per-operation {ns}");
    }
    Ok(())
}
