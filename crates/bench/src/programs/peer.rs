//! A process of this benchmark's own micro-benchmarks: what `barewire bench-program` does.
//!
//! It is an ordinary program: sockets of the standard library, which calls the C library's
//! functions, and nothing that knows of barewire. Commands come in on its standard input,
//! a line each, and answers go out on its standard output.

use std::io::{BufRead, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use barewire_sys::process::{cpu_time_self, raise_nofile_limit, set_parent_death_signal_kill};

use super::many;
use super::messages::{Answer, Ask, Done, Work};
use super::short;
use super::sockets::{accept, connect, wrong_result};
use crate::error::{Error, Result, What};
use crate::measure::clock::Clock;
use crate::measure::stats::Scratch;

/// No round trip takes so long.
const LONGEST: Duration = Duration::from_secs(20);

/// Serves commands until there are no more.
pub fn serve() -> Result<()> {
    set_parent_death_signal_kill().map_err(|error| Error::Transport(error.to_string()))?;
    raise_nofile_limit();
    let mut listener = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.what("reading a command")?;
        let Ok(ask) = serde_json::from_str::<Ask>(&line) else {
            return Err(Error::Usage(
                "bench-program is started by `barewire bench programs`, not by hand".into(),
            ));
        };
        let answer = done(&ask, &mut listener).unwrap_or_else(|e| Answer::Failed(e.to_string()));
        let text = serde_json::to_string(&answer)
            .map_err(|error| Error::Transport(format!("an answer: {error}")))?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}")
            .and_then(|()| out.flush())
            .what("writing an answer")?;
    }
    Ok(())
}

fn done(ask: &Ask, listener: &mut Option<TcpListener>) -> Result<Answer> {
    let (cpu, wall) = (cpu_time_self(), Instant::now());
    let mut done = match *ask {
        Ask::Listen => {
            let new = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).what("listening")?;
            let port = new.local_addr().what("listening")?.port();
            *listener = Some(new);
            return Ok(Answer::Port(port));
        }
        Ask::Serve(work) => {
            let listener = listener.take();
            let listener = listener.ok_or_else(|| Error::Transport("not listening".into()))?;
            serve_work(&listener, work)?
        }
        Ask::Play(_, Work::Connects { count }) => connects(count)?,
        Ask::Play(_, Work::Children { count, starts }) => short::make_children(count, starts)?,
        Ask::Play(port, work) => play_work(port, work)?,
    };
    if done.cpu_ns == 0.0 {
        done.cpu_ns = cpu_time_self().saturating_sub(cpu).as_nanos() as f64;
        done.wall_ns = wall.elapsed().as_nanos() as f64;
    }
    Ok(Answer::Done(done))
}

fn serve_work(listener: &TcpListener, work: Work) -> Result<Done> {
    match work {
        Work::PingPong {
            size,
            polling,
            yields,
            ..
        } => {
            let mut wire = Wire::new(accept(listener)?, polling, yields)?;
            wire.echo(size)
        }
        Work::Stream { size, ms } => receive_stream(&accept(listener)?, size, ms),
        Work::Idle { count, rounds, .. } => many::serve(listener, count, rounds),
        Work::Short {
            count,
            answer_bytes,
            forks,
        } => short::serve(listener, count, answer_bytes, forks),
        Work::Connects { .. } | Work::Children { .. } => Ok(Done::default()),
    }
}

fn play_work(port: u16, work: Work) -> Result<Done> {
    match work {
        Work::PingPong {
            size,
            polling,
            yields,
            ms,
        } => {
            let mut wire = Wire::new(connect(port)?, polling, yields)?;
            wire.ping(size, ms)
        }
        Work::Stream { size, ms } => send_stream(connect(port)?, size, ms),
        Work::Idle { count, rounds, ms } => many::play(port, count, rounds, ms),
        Work::Short {
            count,
            answer_bytes,
            ..
        } => short::play(port, count, answer_bytes),
        Work::Connects { .. } | Work::Children { .. } => Ok(Done::default()),
    }
}

// -------------------------------------------------------------------------------- ping-pong

/// A connection that carries messages whose first eight bytes count them.
struct Wire {
    stream: TcpStream,
    yields: bool,
}

impl Wire {
    fn new(stream: TcpStream, polling: bool, yields: bool) -> Result<Wire> {
        stream.set_nodelay(true).what("TCP_NODELAY")?;
        stream.set_nonblocking(polling).what("O_NONBLOCK")?;
        Ok(Wire { stream, yields })
    }

    fn send(&mut self, mut message: &[u8]) -> Result<()> {
        let mut spin = BoundedPoll::new(self.yields);
        while !message.is_empty() {
            match self.stream.write(message) {
                Ok(sent) => message = &message[sent..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => spin.turn()?,
                Err(error) => return Err(error).what("sending"),
            }
        }
        Ok(())
    }

    /// Fills the buffer; `false` at the end of the stream, which must be between messages.
    fn receive(&mut self, message: &mut [u8]) -> Result<bool> {
        let mut spin = BoundedPoll::new(self.yields);
        let mut got = 0;
        while got < message.len() {
            match self.stream.read(&mut message[got..]) {
                Ok(0) if got == 0 => return Ok(false),
                Ok(0) => return Err(wrong_result("the stream ends within a message")),
                Ok(bytes) => got += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => spin.turn()?,
                Err(error) => return Err(error).what("receiving"),
            }
        }
        Ok(true)
    }

    fn echo(&mut self, size: usize) -> Result<Done> {
        let mut message = vec![0_u8; size];
        let mut count = 0_u64;
        while self.receive(&mut message)? {
            if number(&message) != count {
                return Err(wrong_result("a message came out of order"));
            }
            count += 1;
            self.send(&message)?;
        }
        Ok(Done {
            operations: count,
            bytes: count * size as u64,
            ..Done::default()
        })
    }

    fn ping(&mut self, size: usize, ms: u64) -> Result<Done> {
        let clock = Clock::calibrate();
        let mut scratch = Scratch::default();
        let histogram = scratch.start();
        let mut message: Vec<u8> = (0..size).map(|at| at as u8).collect();
        let mut reply = vec![0_u8; size];
        // Long enough for the two ends to find each other.
        let warm_up = clock.of_nanoseconds(ms * 250_000);
        let duration = clock.of_nanoseconds(ms * 1_000_000);
        let (mut count, mut operations) = (0_u64, 0_u64);
        let start = Clock::cycles();
        let mut before = start;
        let mut begin = None;
        let elapsed = loop {
            message[..8].copy_from_slice(&count.to_ne_bytes());
            self.send(&message)?;
            if !self.receive(&mut reply)? || reply != message {
                return Err(wrong_result("another message came back"));
            }
            count += 1;
            let now = Clock::cycles();
            match begin {
                None if now.wrapping_sub(start) >= warm_up && count >= 100 => begin = Some(now),
                None => {}
                Some(begin) => {
                    histogram.saturating_record(now.wrapping_sub(before));
                    operations += 1;
                    if now.wrapping_sub(begin) >= duration {
                        break now.wrapping_sub(begin);
                    }
                }
            }
            before = now;
        };
        let median = scratch.median_cycles(clock.granularity());
        Ok(Done {
            operations,
            bytes: count * size as u64,
            elapsed_ns: clock.nanoseconds(elapsed),
            median_ns: clock.fractional_nanoseconds(median),
            ..Done::default()
        })
    }
}

fn number(message: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&message[..8]);
    u64::from_ne_bytes(bytes)
}

/// Looks again and again, but not for ever.
struct BoundedPoll {
    turns: u32,
    yields: bool,
    since: Option<Instant>,
}

impl BoundedPoll {
    #[inline]
    const fn new(yields: bool) -> BoundedPoll {
        BoundedPoll {
            turns: 0,
            yields,
            since: None,
        }
    }

    #[inline]
    fn turn(&mut self) -> Result<()> {
        self.turns = self.turns.wrapping_add(1);
        if self.yields && self.turns & 0xF == 0 {
            std::thread::yield_now();
        }
        if self.turns & 0xFFFF == 0 {
            let since = *self.since.get_or_insert_with(Instant::now);
            if since.elapsed() > LONGEST {
                return Err(Error::Stuck("the other program", LONGEST.as_secs()));
            }
        }
        Ok(())
    }
}

// ----------------------------------------------------------------------------------- stream

/// The stream repeats itself after so many bytes, a prime: a byte lost or doubled shows.
const PERIOD_BYTES: usize = 4093;

/// Fewer bytes could all come with the receiver's first read.
const STREAM_BYTES_MIN: u64 = 4 << 20;

/// The byte at a position of the stream, for one period and `more` bytes.
fn pattern(more: usize) -> Vec<u8> {
    let byte = |at: usize| {
        ((at % PERIOD_BYTES) as u32)
            .wrapping_mul(0x9E37_79B1)
            .to_be_bytes()[0]
    };
    (0..PERIOD_BYTES + more).map(byte).collect()
}

fn send_stream(mut stream: TcpStream, size: usize, ms: u64) -> Result<Done> {
    let pattern = pattern(size);
    let clock = Clock::calibrate();
    let duration = clock.of_nanoseconds(ms * 1_250_000);
    let start = Clock::cycles();
    let mut sent = 0_u64;
    while Clock::cycles().wrapping_sub(start) < duration || sent < STREAM_BYTES_MIN {
        for _ in 0..8 {
            let from = (sent % PERIOD_BYTES as u64) as usize;
            stream
                .write_all(&pattern[from..from + size])
                .what("sending")?;
            sent += size as u64;
        }
    }
    stream
        .shutdown(std::net::Shutdown::Write)
        .what("shutting down")?;
    let mut total = [0; 8];
    stream
        .read_exact(&mut total)
        .what("waiting for the count")?;
    if u64::from_ne_bytes(total) != sent {
        return Err(wrong_result("bytes are missing at the end of the stream"));
    }
    Ok(Done {
        bytes: sent,
        ..Done::default()
    })
}

fn receive_stream(mut stream: &TcpStream, size: usize, ms: u64) -> Result<Done> {
    let mut buffer = vec![0_u8; size.max(128 << 10)];
    let pattern = pattern(8);
    let clock = Clock::calibrate();
    let warm_up = clock.of_nanoseconds(ms * 250_000);
    let mut total = 0_u64;
    // When, and how many bytes had come by then.
    let (mut first, mut begin) = (None, None);
    loop {
        let got = stream.read(&mut buffer).what("receiving")?;
        let now = Clock::cycles();
        if got == 0 {
            stream
                .write_all(&total.to_ne_bytes())
                .what("sending the count")?;
            // A reader that others kept from running may have missed the warm-up's end.
            let begin = begin.filter(|&(_, before)| before < total).or(first);
            let (begin, before) = begin.ok_or_else(|| wrong_result("an empty stream"))?;
            return Ok(Done {
                bytes: total - before,
                elapsed_ns: clock.nanoseconds(now.wrapping_sub(begin)),
                ..Done::default()
            });
        }
        // All of it would take as long as a copy: the ends of what each read brought.
        for at in [0, got.saturating_sub(8)] {
            let place = ((total + at as u64) % PERIOD_BYTES as u64) as usize;
            let len = got.min(8);
            if buffer[at..at + len] != pattern[place..place + len] {
                return Err(wrong_result(
                    "bytes of the stream are not those that were sent",
                ));
            }
        }
        total += got as u64;
        let (start, _) = *first.get_or_insert((now, total));
        if begin.is_none() && now.wrapping_sub(start) >= warm_up {
            begin = Some((now, total));
        }
    }
}

// ------------------------------------------------------------------------------ connections

fn connects(count: u32) -> Result<Done> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).what("listening")?;
    let port = listener.local_addr().what("listening")?.port();
    let begin = Instant::now();
    for _ in 0..count {
        let near = connect(port)?;
        let far = accept(&listener)?;
        drop(near);
        drop(far);
    }
    Ok(Done {
        operations: count.into(),
        elapsed_ns: begin.elapsed().as_nanos() as f64,
        ..Done::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(work: Work) -> (Done, Done) {
        let mut listener = None;
        let Ok(Answer::Port(port)) = done(&Ask::Listen, &mut listener) else {
            panic!("no port");
        };
        let server = std::thread::spawn(move || done(&Ask::Serve(work), &mut listener));
        let near = done(&Ask::Play(port, work), &mut None).unwrap();
        match (near, server.join().unwrap().unwrap()) {
            (Answer::Done(near), Answer::Done(far)) => (near, far),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_go_both_ways() {
        for polling in [false, true] {
            let (near, far) = both(Work::PingPong {
                size: 64,
                polling,
                yields: true,
                ms: 10,
            });
            assert!(near.operations > 0 && near.median_ns > 0.0, "{near:?}");
            assert_eq!(near.bytes, far.bytes);
        }
    }

    #[test]
    fn a_stream_is_counted_and_compared() {
        for size in [64, 100_000] {
            let (near, far) = both(Work::Stream { size, ms: 20 });
            assert!(near.bytes >= far.bytes && far.bytes > 0, "{near:?} {far:?}");
            assert!(far.elapsed_ns > 0.0);
        }
        let pattern = pattern(5);
        assert_eq!(pattern[..5], pattern[PERIOD_BYTES..]);
        assert_ne!(pattern[..8], pattern[1..9]);
    }

    #[test]
    fn connections_are_made() {
        let answer = done(&Ask::Play(0, Work::Connects { count: 20 }), &mut None).unwrap();
        let Answer::Done(done) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(done.operations, 20);
    }

    #[test]
    fn short_connections_are_answered_in_full() {
        for (answer_bytes, forks) in [(64, false), (64, true), (300_000, false)] {
            let (near, far) = both(Work::Short {
                count: 20,
                answer_bytes,
                forks,
            });
            assert_eq!((near.operations, far.operations), (20, 20));
            assert_eq!(near.bytes, 20 * answer_bytes as u64);
            assert!(near.elapsed_ns > 0.0);
        }
    }

    #[test]
    fn children_end_well() {
        for starts in [false, true] {
            let work = Work::Children { count: 3, starts };
            let answer = done(&Ask::Play(0, work), &mut None).unwrap();
            let Answer::Done(done) = answer else {
                panic!("{answer:?}");
            };
            assert_eq!(done.operations, 3);
        }
    }

    #[test]
    fn many_connections_rest() {
        let (near, far) = both(Work::Idle {
            count: 20,
            rounds: 5,
            ms: 30,
        });
        assert_eq!(near.operations, 20);
        assert!(near.memory.is_some() && far.memory.is_some());
    }
}
