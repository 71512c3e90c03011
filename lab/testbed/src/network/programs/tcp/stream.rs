//! Bytes one way over connections, each as many, until the other end has read all.

use barewire_tcp::State;
use barewire_units::{Instant, Rng};

use super::super::program::{Hands, Program, Tables};
use super::ends::{self, Ends, Look, Looks, TcpSpec};
use crate::figures::{mbps, mean, p99};
use crate::workbench::bench::{Bench, Note};

/// What a stream over TCP is made of.
#[derive(Clone, Debug)]
pub(in crate::network) struct TcpStreamSpec {
    pub tcp: TcpSpec,
    /// Bytes of each connection.
    pub volume: u64,
}

impl TcpStreamSpec {
    pub(in crate::network) fn messages(&self) -> Vec<(f64, u64)> {
        let each = self.tcp.packets(self.volume as f64);
        let all = self.tcp.count() as f64;
        each.iter()
            .map(|&(count, bytes)| (all * count, bytes))
            .collect()
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, Default)]
struct Course {
    given: u64,
    read: u64,
    /// When the last byte was read.
    last: Instant,
    whole: bool,
    failed: bool,
}

/// What the bytes are: number `n` of a stream is `n` modulo 251, so that none comes twice or
/// elsewhere unseen.
const PATTERN: usize = 251;
const CHUNK: usize = 64 * PATTERN;

pub(in crate::network::programs) struct TcpStream {
    spec: TcpStreamSpec,
    ends: Ends,
    courses: Vec<Course>,
    /// Connections that are whole, or will never be.
    ended: usize,
    pattern: Vec<u8>,
    buffer: Vec<u8>,
}

impl TcpStream {
    pub(in crate::network::programs) fn new(spec: TcpStreamSpec, rng: &Rng) -> Self {
        Self {
            ends: Ends::new(spec.tcp.clone(), rng),
            courses: vec![Course::default(); spec.tcp.count()],
            ended: 0,
            pattern: (0..CHUNK + PATTERN)
                .map(|at| (at % PATTERN) as u8)
                .collect(),
            buffer: vec![0; CHUNK],
            spec,
        }
    }

    fn serve(&mut self, end: usize, now: Instant) {
        match end % 2 {
            0 => self.give(end),
            _ => self.read(end, now),
        }
        self.ends.make_ready(end);
        self.judge(end / 2);
    }

    /// Gives the client what it takes.
    fn give(&mut self, end: usize) {
        let course = &mut self.courses[end / 2];
        let Some(tcp) = self.ends.tcp(end).filter(|tcp| tcp.state() == State::Open) else {
            return;
        };
        while course.given < self.spec.volume {
            let at = (course.given % PATTERN as u64) as usize;
            let most = (self.spec.volume - course.given).min(CHUNK as u64) as usize;
            match tcp.send(&self.pattern[at..at + most]) {
                Ok(0) | Err(_) => return,
                Ok(taken) => course.given += taken as u64,
            }
        }
        tcp.shutdown();
    }

    fn read(&mut self, end: usize, now: Instant) {
        let course = &mut self.courses[end / 2];
        let Some(tcp) = self.ends.tcp(end) else {
            return;
        };
        while let Ok(count @ 1..) = tcp.receive(&mut self.buffer) {
            let at = (course.read % PATTERN as u64) as usize;
            // Whatever the network does, TCP gives these bytes, or none.
            assert!(
                self.buffer[..count] == self.pattern[at..at + count],
                "TCP has given other bytes than it was sent"
            );
            course.read += count as u64;
            course.last = now;
        }
        if tcp.has_ended() {
            tcp.close();
        }
    }

    /// Whether the connection has ended, and how.
    fn judge(&mut self, connection: usize) {
        let course = &mut self.courses[connection];
        if course.whole || course.failed {
            return;
        }
        let has_error =
            |tcp: Option<&mut barewire_tcp::Tcp>| tcp.is_some_and(|it| it.error().is_some());
        let client = self.ends.tcp(2 * connection);
        let acknowledged = client.is_some_and(|tcp| tcp.is_end_acknowledged());
        if course.read == self.spec.volume && acknowledged {
            course.whole = true;
            self.ended += 1;
        } else if has_error(self.ends.tcp(2 * connection))
            || has_error(self.ends.tcp(2 * connection + 1))
        {
            course.failed = true;
            self.ended += 1;
        }
    }
}

impl Looks for TcpStream {
    fn ends(&mut self) -> &mut Ends {
        &mut self.ends
    }

    fn look(&mut self, look: Look, desk: &mut Hands<'_>) {
        match look {
            Look::Tick(connection) => self.ends.open(connection, desk),
            Look::End(end) => self.serve(end, desk.now()),
        }
    }
}

impl Program for TcpStream {
    fn begin(&mut self, desk: &mut Hands<'_>) {
        self.ends.begin(desk);
    }

    fn note(&mut self, host: u16, note: Note, desk: &mut Hands<'_>) {
        ends::note(self, host, note, desk);
    }

    fn lost(&mut self, message: u32, desk: &mut Hands<'_>) {
        let _lost = desk.take_packet(message);
    }

    fn is_done(&self) -> bool {
        self.ended == self.courses.len()
    }

    fn tell(&mut self, name: &str, _bench: &Bench, tables: &mut Tables) {
        let rate = |(connection, course): (usize, &Course)| {
            let begun = self.spec.tcp.begun(connection);
            mbps(course.read, course.last.saturating_duration_since(begun))
        };
        let each: Vec<f64> = self.courses.iter().enumerate().filter_map(rate).collect();
        let begun = (0..self.courses.len())
            .map(|it| self.spec.tcp.begun(it))
            .min();
        let last = self.courses.iter().map(|course| course.last).max();
        let time = last
            .unwrap_or_default()
            .saturating_duration_since(begun.unwrap_or_default());
        let read: u64 = self.courses.iter().map(|course| course.read).sum();
        let whole = self.courses.iter().filter(|course| course.whole).count();
        let counts = self.ends.counts();
        let mut times_us = self.ends.times_us();
        tables.tcp_streams.row([
            ("program", "", name.into()),
            ("connections", "", self.courses.len().into()),
            ("whole", "", whole.into()),
            ("all together", "Mbit/s", mbps(read, time).into()),
            (
                "slowest",
                "Mbit/s",
                each.iter().copied().reduce(f64::min).into(),
            ),
            ("packets", "", counts.packets_first.into()),
            ("sent again", "", counts.packets_again.into()),
            ("timeouts", "", counts.timeouts.into()),
            ("round trip, mean", "us", mean(&times_us).into()),
            ("99th percentile", "us", p99(&mut times_us).into()),
        ]);
    }
}
